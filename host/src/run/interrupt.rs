//! The user's or the system's wish that a run end soon, to be gone on with later.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use super::save::{INTERRUPTED, Manner};
use super::{RunError, Trainer};
use crate::log::Level;

/// What asks a run to end soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Signal {
    /// `SIGINT`, as Ctrl-C sends it.
    Interrupt = 1,
    /// `SIGTERM`, as batch systems send it.
    Terminate = 2,
}

impl Signal {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Signal::Interrupt => "SIGINT",
            Signal::Terminate => "SIGTERM",
        }
    }
}

/// A flag that the loop looks at after each iteration, and that anyone may raise: another thread, or
/// a handler of signals.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicU8>);

impl Interrupt {
    /// Asks the run to end soon; whether somebody had asked before, whose signal counts.
    pub fn raise(&self, signal: Signal) -> bool {
        let (flag, order) = (&self.0, Ordering::SeqCst);
        flag.compare_exchange(0, signal as u8, order, order)
            .is_err()
    }

    /// What asked for it, if anything did.
    pub fn signal(&self) -> Option<Signal> {
        match self.0.load(Ordering::SeqCst) {
            1 => Some(Signal::Interrupt),
            2 => Some(Signal::Terminate),
            _ => None,
        }
    }
}

impl Trainer<'_> {
    /// A run that ends soon after `interrupt` is raised: the iteration, or the validation, under way
    /// is finished, and a checkpoint saved.
    pub fn interruptible(mut self, interrupt: &Interrupt) -> Self {
        self.interrupt = interrupt.clone();
        self
    }

    /// Whether the run is to be left here; then a checkpoint of this moment has been saved.
    pub(super) fn is_interrupted(&mut self) -> Result<bool, RunError> {
        if self.interrupted_by.is_some() {
            return Ok(true);
        }
        let Some(signal) = self.interrupt.signal() else {
            return Ok(false);
        };
        self.interrupted_by = Some(signal);
        if self.store.is_some() {
            let message = format!("{}: saving a checkpoint", signal.name());
            self.shared.log.log(Level::Info, "sconce", &message);
            self.save(INTERRUPTED, "", Manner::WHOLE)?;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_signal_counts() {
        let interrupt = Interrupt::default();
        assert_eq!(interrupt.signal(), None);
        assert!(!interrupt.raise(Signal::Terminate));
        assert!(interrupt.clone().raise(Signal::Interrupt));
        assert_eq!(interrupt.signal(), Some(Signal::Terminate));
    }
}
