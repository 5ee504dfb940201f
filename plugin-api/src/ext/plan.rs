//! `sconce.plan/1`: the plan of the run, as far as it is known before the run begins.

use std::ffi::c_void;

use super::Extension;
use crate::abi::TextAbi;

/// Function table of `sconce.plan/1`. Frozen.
#[repr(C)]
#[derive(Debug)]
pub struct PlanTable {
    /// Writes the plan as a JSON object ([`Plan`](crate::Plan)); available from a hook's creation on.
    ///
    /// The text is valid until the end of the run. An error status if the host has no plan.
    pub plan: unsafe extern "C" fn(context: *const c_void, json: *mut TextAbi) -> u32,
}

// SAFETY: this type is the table frozen under `ID`.
unsafe impl Extension for PlanTable {
    const ID: &'static str = "sconce.plan/1";
}

impl PlanTable {
    /// The extension's identifier.
    pub const ID: &'static str = <Self as Extension>::ID;

    /// The plan as JSON; `None` if the host lacks the extension or has no plan.
    pub(crate) fn ask<'a>(
        table: Option<&'static PlanTable>,
        context: *const c_void,
    ) -> Option<&'a str> {
        let mut json = TextAbi::EMPTY;
        // SAFETY: the context is the one that the host provided for this call, and `json` has room for one
        // text, which the host keeps alive until the end of the run.
        unsafe {
            let status = (table?.plan)(context, &raw mut json);
            (status == 0).then(|| json.read()).flatten()
        }
    }
}
