//! `sconce.metrics/1`.

use std::ffi::c_void;

use sconce_plugin_api::Phase;
use sconce_plugin_api::abi::{ErrorAbi, Status, TextAbi};
use sconce_plugin_api::ext::{MetricAbi, MetricsTable};

use crate::bridge::entry::{refuse, shared};
use crate::bridge::witness::HookAction;

pub(super) static TABLE: MetricsTable = MetricsTable {
    count,
    at,
    get,
    publish,
};

unsafe extern "C" fn count(context: *const c_void, phase: u32) -> usize {
    // SAFETY: the context is the one that the host handed out for this call.
    let shared = unsafe { shared(context) };
    match (shared, Phase::from_number(phase)) {
        (Some(shared), Some(phase)) => shared.metrics.borrow().of(phase).len(),
        _ => 0,
    }
}

unsafe extern "C" fn at(
    context: *const c_void,
    phase: u32,
    index: usize,
    metric: *mut MetricAbi,
) -> u32 {
    // SAFETY: the context is the one that the host handed out for this call, for which the plugin
    // lends memory for one metric.
    let (shared, metric) = unsafe { (shared(context), metric.as_mut()) };
    let (Some(shared), Some(phase), Some(metric)) = (shared, Phase::from_number(phase), metric)
    else {
        return Status::INVALID.0;
    };
    match shared.read_metrics().of(phase).at(index) {
        Some((name, value)) => {
            *metric = MetricAbi {
                name: TextAbi::new(name),
                value,
            };
            Status::OK.0
        }
        None => Status::NOT_FOUND.0,
    }
}

unsafe extern "C" fn get(
    context: *const c_void,
    phase: u32,
    name: TextAbi,
    value: *mut f64,
) -> u32 {
    // SAFETY: the context is the one that the host handed out for this call, for which the name and
    // memory for one value are borrowed.
    let (shared, name, value) = unsafe { (shared(context), name.read(), value.as_mut()) };
    let (Some(shared), Some(phase), Some(name), Some(value)) =
        (shared, Phase::from_number(phase), name, value)
    else {
        return Status::INVALID.0;
    };
    match shared.read_metrics().of(phase).get(name) {
        Some(found) => {
            *value = found;
            Status::OK.0
        }
        None => Status::NOT_FOUND.0,
    }
}

unsafe extern "C" fn publish(
    context: *const c_void,
    name: TextAbi,
    value: f64,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: the context is the one that the host handed out for this call, for which name and
    // error are borrowed.
    unsafe {
        let Some(shared) = shared(context) else {
            return Status::INVALID.0;
        };
        let Some(name) = name.read() else {
            return refuse(
                error,
                Status::INVALID,
                "the metric's name is not valid UTF-8",
            );
        };
        let published = shared
            .sees(&HookAction::Metric { name, value })
            .and_then(|()| shared.publish_metric(name, value));
        match published {
            Ok(()) => Status::OK.0,
            Err(message) => refuse(error, Status::INVALID, &message),
        }
    }
}
