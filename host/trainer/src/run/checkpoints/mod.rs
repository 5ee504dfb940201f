//! Checkpoints: saved, resumed from, and what hooks ask of them.

pub(in crate::run) mod epoch_snapshot;
pub(in crate::run) mod queue;
pub(in crate::run) mod rank_files;
pub(in crate::run) mod references;
pub(in crate::run) mod restore;
pub(in crate::run) mod resumption;
pub(in crate::run) mod save;
pub(in crate::run) mod save_options;
pub(in crate::run) mod saved_requests;
pub(in crate::run) mod saver;
pub(in crate::run) mod state;
pub(in crate::run) mod writing;
