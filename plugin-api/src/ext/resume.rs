//! `sconce.resume/1`: whether the run goes on from a checkpoint, and whether that knows the hook.

use std::ffi::c_void;

use super::Extension;

/// The table of `sconce.resume/1`. Frozen.
#[repr(C)]
#[derive(Debug)]
pub struct ResumeTable {
    /// [`ResumeTable::RESUMED`] and [`ResumeTable::KNOWN`], for the hook that is being called or
    /// created; unknown bits are passed over.
    pub flags: unsafe extern "C" fn(context: *const c_void) -> u64,
}

// SAFETY: this is the table of that identifier.
unsafe impl Extension for ResumeTable {
    const ID: &'static str = "sconce.resume/1";
}

impl ResumeTable {
    /// The extension's identifier.
    pub const ID: &'static str = <Self as Extension>::ID;

    /// The run goes on from a checkpoint.
    pub const RESUMED: u64 = 1;

    /// The checkpoint that the run goes on from knows the hook.
    pub const KNOWN: u64 = 2;

    /// The flags for the hook that is being called; none where the host lacks the extension.
    pub(crate) fn ask(table: Option<&'static ResumeTable>, context: *const c_void) -> u64 {
        // SAFETY: the context is the one that the host handed over for this call.
        table.map_or(0, |table| unsafe { (table.flags)(context) })
    }
}
