//! Requests by the user or the system that a run end soon, to be resumed later.
//!
//! One request often arrives as several signals: `timeout` signals its child and then the child's whole
//! group, and a terminal's Ctrl-C reaches a wrapper that forwards it. So signals within [`PAUSE`] of another
//! are copies of it, and only a later one insists. While the checkpoint is being written, it takes one more
//! to insist: the checkpoint is the purpose of ending this way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Signals that follow another within this time are copies of it.
const PAUSE: Duration = Duration::from_secs(1);

/// A signal that asks a run to end soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum StopSignal {
    /// `SIGINT`, as Ctrl-C sends it.
    Interrupt = 1,
    /// `SIGTERM`, as batch systems send it.
    Terminate = 2,
    /// `SIGHUP`, as the system sends it when a terminal or a connection is gone.
    Hangup = 3,
    /// `SIGUSR1`, as batch systems send it some time before they end a job; `mpirun` forwards it.
    User = 4,
    /// No signal: the epoch is over that the run was to go to, as `sconce run --until` has it.
    Until = 5,
}

impl StopSignal {
    /// Name of the signal, or of the option in its place.
    pub fn name(self) -> &'static str {
        match self {
            StopSignal::Interrupt => "SIGINT",
            StopSignal::Terminate => "SIGTERM",
            StopSignal::Hangup => "SIGHUP",
            StopSignal::User => "SIGUSR1",
            StopSignal::Until => "--until",
        }
    }

    pub(in crate::run) fn from_number(number: u8) -> Option<StopSignal> {
        let all = [
            StopSignal::Interrupt,
            StopSignal::Terminate,
            StopSignal::Hangup,
            StopSignal::User,
            StopSignal::Until,
        ];
        all.into_iter().find(|signal| *signal as u8 == number)
    }
}

/// The meaning of a signal, given those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The first signal: the run should end soon.
    EndSoon,
    /// A copy of the previous signal.
    Copy,
    /// The user insists, but the checkpoint is being written: the next signal that insists takes effect.
    Wait,
    /// The user insists: the run should end immediately.
    EndNow,
}

/// A flag that the loop checks after each iteration. Another thread or a signal handler may raise it.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<InterruptState>);

#[derive(Debug)]
struct InterruptState {
    /// An [`PackedSignals`] as bits; 0 if no signal has arrived.
    asked: AtomicU64,
    is_saving: AtomicBool,
    begin: Instant,
}

impl Default for Interrupt {
    fn default() -> Self {
        Interrupt(Arc::new(InterruptState {
            asked: AtomicU64::new(0),
            is_saving: AtomicBool::new(false),
            begin: Instant::now(),
        }))
    }
}

/// The signals so far, packed into one integer. So handlers on several threads see a consistent state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PackedSignals {
    /// The first signal, which decides the exit code; 0 if none.
    signal: u8,
    /// Whether an insisting signal was deferred because of the checkpoint.
    is_put_off: bool,
    /// Time in milliseconds of the last signal that was not a copy.
    at: u64,
}

impl PackedSignals {
    fn from_bits(bits: u64) -> PackedSignals {
        PackedSignals {
            signal: (bits & 0x7f) as u8,
            is_put_off: bits & 0x80 != 0,
            at: bits >> 8,
        }
    }

    fn bits(self) -> u64 {
        self.at << 8 | u64::from(self.is_put_off) << 7 | u64::from(self.signal)
    }

    /// The meaning of a signal at this time, and the new state.
    fn hear(self, signal: StopSignal, now: Duration, is_saving: bool) -> (Meaning, PackedSignals) {
        let now = now.as_millis() as u64;
        if self.signal == 0 {
            let first = PackedSignals {
                signal: signal as u8,
                is_put_off: false,
                at: now,
            };
            return (Meaning::EndSoon, first);
        }
        if now.saturating_sub(self.at) < PAUSE.as_millis() as u64 {
            return (Meaning::Copy, self);
        }
        if is_saving && !self.is_put_off {
            let put_off = PackedSignals {
                is_put_off: true,
                at: now,
                ..self
            };
            return (Meaning::Wait, put_off);
        }
        (Meaning::EndNow, self)
    }
}

impl Interrupt {
    /// Asks the run to end soon, and returns the meaning of this signal, given those before it. Takes no
    /// lock, so it may be called by a signal handler.
    pub fn raise(&self, signal: StopSignal) -> Meaning {
        self.raise_at(signal, self.0.begin.elapsed())
    }

    fn raise_at(&self, signal: StopSignal, now: Duration) -> Meaning {
        let InterruptState {
            asked, is_saving, ..
        } = &*self.0;
        let mut known = asked.load(Ordering::SeqCst);
        loop {
            let is_saving = is_saving.load(Ordering::SeqCst);
            let (meaning, next) = PackedSignals::from_bits(known).hear(signal, now, is_saving);
            match asked.compare_exchange(known, next.bits(), Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return meaning,
                Err(newer) => known = newer,
            }
        }
    }

    /// The first signal that arrived, if any.
    pub fn signal(&self) -> Option<StopSignal> {
        let asked = PackedSignals::from_bits(self.0.asked.load(Ordering::SeqCst));
        StopSignal::from_number(asked.signal)
    }

    /// Records whether the checkpoint of an interrupted run is being written.
    pub(in crate::run) fn set_saving(&self, is_saving: bool) {
        self.0.is_saving.store(is_saving, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    #[test]
    fn the_first_signal_counts() {
        let interrupt = Interrupt::default();
        assert_eq!(interrupt.signal(), None);
        assert_eq!(interrupt.raise(StopSignal::Terminate), Meaning::EndSoon);
        interrupt.clone().raise(StopSignal::Interrupt);
        assert_eq!(interrupt.signal(), Some(StopSignal::Terminate));
        for signal in [
            StopSignal::Interrupt,
            StopSignal::Terminate,
            StopSignal::Hangup,
        ] {
            assert_eq!(StopSignal::from_number(signal as u8), Some(signal));
        }
    }

    #[test]
    fn only_a_later_signal_insists_and_a_checkpoint_under_way_takes_one_more() {
        let raise = |interrupt: &Interrupt, at| interrupt.raise_at(StopSignal::Terminate, ms(at));
        // The way `timeout` sends them: to the process, then to its group. The first may arrive at time 0.
        for first in [0, 70_000] {
            let interrupt = Interrupt::default();
            assert_eq!(raise(&interrupt, first), Meaning::EndSoon);
            for later in [0, 1, 999] {
                assert_eq!(raise(&interrupt, first + later), Meaning::Copy, "{later}");
            }
            assert_eq!(raise(&interrupt, first + 1000), Meaning::EndNow);
        }
        let interrupt = Interrupt::default();
        raise(&interrupt, 0);
        interrupt.set_saving(true);
        assert_eq!(raise(&interrupt, 500), Meaning::Copy);
        assert_eq!(raise(&interrupt, 1500), Meaning::Wait);
        assert_eq!(raise(&interrupt, 1501), Meaning::Copy, "of the one put off");
        assert_eq!(raise(&interrupt, 2500), Meaning::EndNow);
        // Once the checkpoint is written, there is nothing to lose.
        let interrupt = Interrupt::default();
        raise(&interrupt, 0);
        interrupt.set_saving(true);
        interrupt.set_saving(false);
        assert_eq!(raise(&interrupt, 1500), Meaning::EndNow);
    }
}
