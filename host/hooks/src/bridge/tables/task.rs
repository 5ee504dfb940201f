//! `sconce.task/1`: facts about the task and the optimizer's parameter groups.

use std::ffi::c_void;

use sconce_plugin_api::abi::{Status, TextAbi};
use sconce_plugin_api::ext::TaskTable;

use crate::bridge::entry::shared;

pub(super) static TABLE: TaskTable = TaskTable {
    facts,
    group_count,
    group,
};

unsafe extern "C" fn facts(context: *const c_void, json: *mut TextAbi) -> u32 {
    // SAFETY: the context is the one that the host handed out for this call, for which the plugin
    // lends memory for one text.
    let (shared, json) = unsafe { (shared(context), json.as_mut()) };
    let (Some(shared), Some(json)) = (shared, json) else {
        return Status::INVALID.0;
    };
    // Set once, so the text never moves.
    match shared.facts.get() {
        Some(facts) => {
            *json = TextAbi::new(facts);
            Status::OK.0
        }
        None => Status::NOT_FOUND.0,
    }
}

unsafe extern "C" fn group_count(context: *const c_void) -> usize {
    // SAFETY: the context is the one that the host handed out for this call.
    let shared = unsafe { shared(context) };
    shared.map_or(0, |shared| shared.groups.borrow().iter().len())
}

unsafe extern "C" fn group(
    context: *const c_void,
    index: usize,
    name: *mut TextAbi,
    learning_rate: *mut f64,
    weight_decay: *mut f64,
) -> u32 {
    // SAFETY: the context is the one that the host handed out for this call, for which the plugin
    // lends memory for a text and two numbers.
    let (shared, name, rate, decay) = unsafe {
        let (rate, decay) = (learning_rate.as_mut(), weight_decay.as_mut());
        (shared(context), name.as_mut(), rate, decay)
    };
    let (Some(shared), Some(name), Some(rate), Some(decay)) = (shared, name, rate, decay) else {
        return Status::INVALID.0;
    };
    match shared.groups.borrow().at(index) {
        // Groups are set once, so their names never move.
        Some(group) => {
            *name = TextAbi::new(&group.name);
            *rate = group.learning_rate;
            *decay = group.weight_decay;
            Status::OK.0
        }
        None => Status::NOT_FOUND.0,
    }
}
