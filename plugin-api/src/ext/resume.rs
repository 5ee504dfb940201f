//! `sconce.resume/1`: whether the run resumes from a checkpoint that contains the hook.

use std::ffi::c_void;

use super::Extension;

/// Function table of `sconce.resume/1`. Frozen.
#[repr(C)]
#[derive(Debug)]
pub struct ResumeTable {
    /// Flags [`ResumeTable::RESUMED`] and [`ResumeTable::KNOWN`] for the hook that is being called or
    /// created. Unknown bits are ignored.
    pub flags: unsafe extern "C" fn(context: *const c_void) -> u64,
}

// SAFETY: this type is the table frozen under `ID`.
unsafe impl Extension for ResumeTable {
    const ID: &'static str = "sconce.resume/1";
}

impl ResumeTable {
    /// The extension's identifier.
    pub const ID: &'static str = <Self as Extension>::ID;

    /// Flag: the run resumes from a checkpoint.
    pub const RESUMED: u64 = 1;

    /// Flag: that checkpoint contains a record of the hook.
    pub const KNOWN: u64 = 2;

    /// Flag: the hook takes the place of another instance of it in mid-run, with that one's state.
    pub const RELOADED: u64 = 4;

    /// The flags for the hook that is being called; 0 if the host lacks the extension.
    pub(crate) fn ask(table: Option<&'static ResumeTable>, context: *const c_void) -> u64 {
        // SAFETY: the context is the one that the host provided for this call.
        table.map_or(0, |table| unsafe { (table.flags)(context) })
    }
}
