//! Runs of several processes: started together (`launch`), checked (`team`), and a run's process among others (`together`).

#[cfg(unix)]
pub(in crate::cli) mod launch;
pub(in crate::cli) mod team;
pub(in crate::cli) mod together;
