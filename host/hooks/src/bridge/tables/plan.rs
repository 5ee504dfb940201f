//! `sconce.plan/1`.

use std::ffi::c_void;

use sconce_plugin_api::abi::{Status, TextAbi};
use sconce_plugin_api::ext::PlanTable;

use crate::bridge::entry::shared;

pub(super) static TABLE: PlanTable = PlanTable { plan };

unsafe extern "C" fn plan(context: *const c_void, json: *mut TextAbi) -> u32 {
    // SAFETY: the context is the one that the host handed out for this call, for which the plugin
    // lends memory for one text.
    let (shared, json) = unsafe { (shared(context), json.as_mut()) };
    let (Some(shared), Some(json)) = (shared, json) else {
        return Status::INVALID.0;
    };
    // Set once, so the text never moves.
    match shared.plan.get() {
        Some(plan) => {
            *json = TextAbi::new(plan);
            Status::OK.0
        }
        None => Status::NOT_FOUND.0,
    }
}
