//! `sconce.resume/1`: whether the run resumes from a checkpoint that contains the hook.

use super::extension;

/// Whether the run resumes from a checkpoint that contains the hook.
#[extension("sconce.resume/1")]
pub trait Resume {
    /// Flags for the hook that is being called or created. Unknown bits are ignored.
    fn flags(&self) -> u64;
}

impl ResumeTable {
    /// Flag: the run resumes from a checkpoint.
    pub const RESUMED: u64 = 1;

    /// Flag: that checkpoint contains a record of the hook.
    pub const KNOWN: u64 = 2;

    /// Flag: the hook takes the place of another instance of it in mid-run, with that one's state.
    pub const RELOADED: u64 = 4;
}
