//! `sconce.plan/1`: what the run will be, as far as that is known before it begins.

use std::ffi::c_void;

use super::Extension;
use crate::abi::TextAbi;

/// The table of `sconce.plan/1`. Frozen.
#[repr(C)]
#[derive(Debug)]
pub struct PlanTable {
    /// The plan as a JSON object ([`Plan`](crate::Plan)), known from a hook's creation on; the text lives
    /// to the end of the run. An error status where the host knows no plan.
    pub plan: unsafe extern "C" fn(context: *const c_void, json: *mut TextAbi) -> u32,
}

// SAFETY: this is the table of that identifier.
unsafe impl Extension for PlanTable {
    const ID: &'static str = "sconce.plan/1";
}

impl PlanTable {
    /// The extension's identifier.
    pub const ID: &'static str = <Self as Extension>::ID;

    /// The plan's text; nothing where the host lacks the extension or knows no plan.
    pub(crate) fn ask<'a>(
        table: Option<&'static PlanTable>,
        context: *const c_void,
    ) -> Option<&'a str> {
        let mut json = TextAbi::EMPTY;
        // SAFETY: the context is the one that the host handed over for this call, and `json` is a place
        // for one text, which the host keeps to the end of the run.
        unsafe {
            let status = (table?.plan)(context, &raw mut json);
            (status == 0).then(|| json.read()).flatten()
        }
    }
}
