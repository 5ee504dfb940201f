//! Exit codes: part of the interface, for scripts. `docs/faults.md` says what is left behind each.

/// All went well, or a hook asked for the stop.
pub const DONE: u8 = 0;
/// The manifest, the data or the command line is wrong; nothing was trained.
pub const USAGE: u8 = 2;
/// A plugin was refused, or none has a hook of the manifest; nothing was trained.
pub const PLUGIN: u8 = 3;
/// A hook failed.
pub const HOOK: u8 = 4;
/// The process crashed, or a hook ended it: `crash.json` in the run's directory says where.
pub const CRASH: u8 = 5;
/// A hook's call took longer than its time limit: `crash.json` says which.
pub const HANG: u8 = 6;
/// The training failed, or its results or what is to be printed can't be written.
pub const TRAINING: u8 = 7;
/// `SIGHUP` ended the run, after a checkpoint; at a later one at once.
pub const HUNG_UP: u8 = 129;
/// `SIGINT` ended the run, after a checkpoint; at a later one at once.
pub const INTERRUPTED: u8 = 130;
/// `SIGTERM` ended the run, after a checkpoint; at a later one at once.
pub const TERMINATED: u8 = 143;
