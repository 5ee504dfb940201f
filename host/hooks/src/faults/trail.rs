//! Breadcrumbs: the current call of a hook, recorded in memory backed by a file.
//!
//! The pages belong to the kernel, so the file shows the last position however the process ends,
//! even by `SIGKILL`. Signal handlers, the watchdog and the next start read the same fields.

use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use sconce_lifecycle::Position;
use sconce_plugin_api::{Phase, Point};

use crate::hook_id::HookId;

use super::fork;

/// First word of the file.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"sconce 1");

/// Maximum length in bytes of a checkpoint's path; longer ones are not recorded.
const LONGEST: usize = 2048;

/// Value of `hook` outside of calls.
const NO_HOOK: u64 = u64::MAX;

/// Whether the run is still in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum RunStage {
    /// From before the creation of the hooks until they are dropped.
    Running = 1,
    /// The run is over, successfully or not.
    Ended = 2,
}

/// Function of a plugin that is called: the number of a mount point, or one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum PluginFunction {
    /// Creation of a hook.
    New = 1001,
    /// `save_state`.
    Save = 1002,
    /// `load_state`.
    Load = 1003,
    /// Dropping of a hook.
    Drop = 1004,
}

/// Fields of the breadcrumbs. All stores but the stage's are relaxed or release: one thread writes,
/// and no reader waits.
#[repr(C)]
pub struct Trail {
    pub(super) magic: AtomicU64,
    pub(super) pid: AtomicU64,
    stage: AtomicU64,
    /// Hook being called, in the manifest's order; [`NO_HOOK`] outside of calls.
    hook: AtomicU64,
    /// Number of mount points and other entries begun so far.
    entries: AtomicU64,
    entry: AtomicU64,
    phase: AtomicU64,
    epoch: AtomicU64,
    iteration: AtomicU64,
    checkpoint_length: AtomicU64,
    checkpoint: [AtomicU8; LONGEST],
}

/// Trail of runs that are not monitored.
static NOWHERE: Trail = Trail::new();

impl fmt::Debug for Trail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trail")
            .field("at", &self.read())
            .finish_non_exhaustive()
    }
}

impl Trail {
    const fn new() -> Trail {
        Trail {
            magic: AtomicU64::new(0),
            pid: AtomicU64::new(0),
            stage: AtomicU64::new(0),
            hook: AtomicU64::new(NO_HOOK),
            entries: AtomicU64::new(0),
            entry: AtomicU64::new(0),
            phase: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            iteration: AtomicU64::new(0),
            checkpoint_length: AtomicU64::new(0),
            checkpoint: [const { AtomicU8::new(0) }; LONGEST],
        }
    }

    /// Returns a trail that is never read.
    pub fn nowhere() -> &'static Trail {
        &NOWHERE
    }

    /// Reads the fields from a file's contents.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Trail> {
        let mut words = bytes.chunks_exact(8);
        let mut word = || {
            let bytes = words.next()?.try_into().ok()?;
            Some(AtomicU64::new(u64::from_ne_bytes(bytes)))
        };
        let mut trail = Trail {
            magic: word()?,
            pid: word()?,
            stage: word()?,
            hook: word()?,
            entries: word()?,
            entry: word()?,
            phase: word()?,
            epoch: word()?,
            iteration: word()?,
            checkpoint_length: word()?,
            ..Trail::new()
        };
        let path = words.flatten();
        for (to, from) in trail.checkpoint.iter_mut().zip(path) {
            *to = AtomicU8::new(*from);
        }
        (*trail.magic.get_mut() == MAGIC).then_some(trail)
    }

    /// Records the start of a mount point's calls.
    #[inline]
    pub(crate) fn at(&self, point: Point, position: &Position) {
        self.enter_entry(u64::from(point.number()));
        self.phase
            .store(u64::from(position.phase.number()), Ordering::Relaxed);
        self.epoch.store(position.epoch, Ordering::Relaxed);
        self.iteration.store(position.iteration, Ordering::Relaxed);
    }

    #[inline]
    fn enter_entry(&self, entry: u64) {
        let entries = self.entries.load(Ordering::Relaxed);
        self.entries
            .store(entries.wrapping_add(1), Ordering::Relaxed);
        self.entry.store(entry, Ordering::Relaxed);
    }

    /// Records the start of a hook's call; it ends with the next call or with [`end`](Trail::end).
    #[inline]
    pub(crate) fn begin(&self, hook: HookId) {
        self.hook.store(hook.position() as u64, Ordering::Relaxed);
    }

    /// Records that all calls have returned.
    #[inline]
    pub(crate) fn end(&self) {
        self.hook.store(NO_HOOK, Ordering::Relaxed);
    }

    /// Calls one of a hook's other entries and records it.
    pub fn around<T>(&self, hook: HookId, entry: PluginFunction, call: impl FnOnce() -> T) -> T {
        let before = self.entry.load(Ordering::Relaxed);
        self.enter_entry(entry as u64);
        self.begin(hook);
        let result = call();
        fork::mark().check();
        self.end();
        self.entry.store(before, Ordering::Relaxed);
        result
    }

    /// Records the path of the last complete checkpoint.
    pub fn set_checkpoint(&self, path: &str) {
        let bytes = path.as_bytes();
        let length = if bytes.len() <= LONGEST {
            bytes.len()
        } else {
            0
        };
        // No path is visible in between, rather than a mixture of two.
        self.checkpoint_length.store(0, Ordering::Release);
        for (to, from) in self.checkpoint.iter().zip(bytes) {
            to.store(*from, Ordering::Relaxed);
        }
        self.checkpoint_length
            .store(length as u64, Ordering::Release);
    }

    /// Copies the last checkpoint's path to `to`; returns its length in bytes. Safe in a signal
    /// handler.
    pub(super) fn checkpoint(&self, to: &mut [u8]) -> usize {
        let length = self.checkpoint_length.load(Ordering::Acquire) as usize;
        if length > to.len() {
            return 0;
        }
        for (to, from) in to.iter_mut().zip(&self.checkpoint).take(length) {
            *to = from.load(Ordering::Relaxed);
        }
        length
    }

    pub(super) fn enter(&self, stage: RunStage) {
        self.stage.store(stage as u64, Ordering::SeqCst);
    }

    pub(super) fn is_running(&self) -> bool {
        self.stage.load(Ordering::SeqCst) == RunStage::Running as u64
    }

    /// Whether a hook is being called.
    pub(super) fn is_calling(&self) -> bool {
        self.hook.load(Ordering::Relaxed) != NO_HOOK
    }

    /// Whether the run is over.
    pub(super) fn has_ended(&self) -> bool {
        self.stage.load(Ordering::SeqCst) == RunStage::Ended as u64
    }

    /// Returns the recorded call.
    pub(super) fn read(&self) -> Crumb {
        let hook = self.hook.load(Ordering::Relaxed);
        Crumb {
            hook: (hook != NO_HOOK).then_some(HookId::at(hook as usize)),
            entries: self.entries.load(Ordering::Relaxed),
            entry: self.entry.load(Ordering::Relaxed),
            phase: self.phase.load(Ordering::Relaxed),
            epoch: self.epoch.load(Ordering::Relaxed),
            iteration: self.iteration.load(Ordering::Relaxed),
        }
    }
}

/// The current call, or the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Crumb {
    /// Hook being called, in the manifest's order; `None` outside of calls.
    pub(super) hook: Option<HookId>,
    pub(super) entries: u64,
    pub(super) entry: u64,
    pub(super) phase: u64,
    pub(super) epoch: u64,
    pub(super) iteration: u64,
}

impl Crumb {
    /// Whether a hook is being dropped.
    pub(super) fn is_dropping(&self) -> bool {
        self.entry == PluginFunction::Drop as u64
    }

    /// Name of the entry: a mount point's, or `new`, `save_state`, `load_state`, `drop`.
    pub(super) fn entry(&self) -> &'static str {
        match self.entry {
            number if number == PluginFunction::New as u64 => "new",
            number if number == PluginFunction::Save as u64 => "save_state",
            number if number == PluginFunction::Load as u64 => "load_state",
            number if number == PluginFunction::Drop as u64 => "drop",
            number => {
                let point = u32::try_from(number).ok().and_then(Point::from_number);
                point.map_or("an unknown point", Point::name)
            }
        }
    }

    /// Name of the phase.
    pub(super) fn phase(&self) -> &'static str {
        let phase = u32::try_from(self.phase).ok().and_then(Phase::from_number);
        phase.map_or("no phase", Phase::name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trail_says_which_call_is_under_way() {
        let trail = Trail::new();
        assert_eq!(trail.read().hook, None);
        let position = Position {
            phase: Phase::Val,
            epoch: 2,
            iteration: 7,
            ..Position::start(3)
        };
        trail.at(Point::AfterIter, &position);
        trail.begin(HookId::at(3));
        let crumb = trail.read();
        assert_eq!((crumb.hook, crumb.entries), (Some(HookId::at(3)), 1));
        assert_eq!((crumb.entry(), crumb.phase()), ("after_iter", "val"));
        assert_eq!((crumb.epoch, crumb.iteration), (2, 7));
        trail.end();
        assert_eq!(trail.read().hook, None);
        trail.around(HookId::at(1), PluginFunction::Save, || {
            assert_eq!(trail.read().entry(), "save_state");
        });
        assert_eq!(trail.read().entry(), "after_iter");
    }

    #[test]
    fn the_last_checkpoint_is_whole_or_none() {
        let trail = Trail::new();
        let mut place = [0; LONGEST];
        assert_eq!(trail.checkpoint(&mut place), 0);
        trail.set_checkpoint("out/checkpoints/best.safetensors");
        let length = trail.checkpoint(&mut place);
        assert_eq!(&place[..length], b"out/checkpoints/best.safetensors");
        trail.set_checkpoint(&"x".repeat(LONGEST + 1));
        assert_eq!(trail.checkpoint(&mut place), 0);
    }
}
