//! Exit codes: part of the interface, for scripts. `docs/faults.md` says what each leaves behind.

/// Success, or a hook requested the stop.
pub const DONE: u8 = 0;
/// Some rows could not be used, and were left out as requested; all others were predicted.
pub const INVALID_ROWS: u8 = 1;
/// The manifest, the data or the command line is wrong; nothing was trained.
pub const USAGE: u8 = 2;
/// A plugin was refused, or no plugin provides a hook kind named in the manifest; nothing was
/// trained.
pub const PLUGIN: u8 = 3;
/// A hook failed.
pub const HOOK: u8 = 4;
/// The process crashed, or a hook ended it; `crash.json` in the run's directory says where.
pub const CRASH: u8 = 5;
/// A hook's call exceeded its time limit; `crash.json` says which hook.
pub const HANG: u8 = 6;
/// Training failed, or its results or the command's output can't be written.
pub const TRAINING: u8 = 7;
/// `SIGHUP` ended the run after a checkpoint, or immediately on a further signal.
pub const HUNG_UP: u8 = 129;
/// `SIGINT` ended the run after a checkpoint, or immediately on a further signal.
pub const INTERRUPTED: u8 = 130;
/// `SIGUSR1` ended the run after a checkpoint, or immediately on a further signal.
pub const USER: u8 = 138;
/// `SIGTERM` ended the run after a checkpoint, or immediately on a further signal.
pub const TERMINATED: u8 = 143;
