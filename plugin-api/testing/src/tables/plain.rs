//! The tables for log, metrics, time, terminal, facts, plan and resume flags.

use std::ffi::c_void;

use super::super::seen::{Message, SeenMetric};
use super::{refuse, stage};
use sconce_plugin_api::Phase;
use sconce_plugin_api::abi::{ErrorAbi, Status, TextAbi};
use sconce_plugin_api::ext::{
    Level, LogTable, MetricAbi, MetricsTable, PlanTable, ResumeTable, RunTable, ScreenTable,
    TaskTable,
};

pub(super) static LOG: LogTable = LogTable { log };

pub(super) static METRICS: MetricsTable = MetricsTable {
    count,
    at,
    get,
    publish,
};

pub(super) static PLAN: PlanTable = PlanTable { plan };

pub(super) static RESUME: ResumeTable = ResumeTable { flags };

pub(super) static RUN: RunTable = RunTable {
    elapsed_seconds,
    remaining_seconds,
};

pub(super) static SCREEN: ScreenTable = ScreenTable { columns, status };

pub(super) static TASK: TaskTable = TaskTable {
    facts,
    group_count,
    group,
};

unsafe extern "C" fn log(context: *const c_void, level: u32, message: TextAbi) -> u32 {
    // SAFETY: the context is that of this call, for which the message is borrowed.
    let (stage, text) = unsafe { (stage(context), message.read()) };
    if let Some(stage) = stage {
        stage.seen.borrow_mut().messages.push(Message {
            at: stage.place.get(),
            level: Level::from_number(level),
            text: text.unwrap_or("(no valid UTF-8)").to_owned(),
        });
    }
    Status::OK.0
}

unsafe extern "C" fn count(context: *const c_void, phase: u32) -> usize {
    // SAFETY: the context is that of this call.
    let stage = unsafe { stage(context) };
    match (stage, Phase::from_number(phase)) {
        (Some(stage), Some(phase)) => stage.board.borrow().of(phase).len(),
        _ => 0,
    }
}

unsafe extern "C" fn at(
    context: *const c_void,
    phase: u32,
    index: usize,
    metric: *mut MetricAbi,
) -> u32 {
    // SAFETY: the context is that of this call, for which the hook lends room for one metric.
    let (stage, place) = unsafe { (stage(context), metric.as_mut()) };
    let (Some(stage), Some(phase), Some(place)) = (stage, Phase::from_number(phase), place) else {
        return Status::INVALID.0;
    };
    match stage.board.borrow().of(phase).get(index) {
        Some(metric) => {
            *place = MetricAbi {
                name: TextAbi::new(&metric.name),
                value: metric.value,
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
    // SAFETY: the context is that of this call, for which the name and room for one number are borrowed.
    let (stage, name, place) = unsafe { (stage(context), name.read(), value.as_mut()) };
    let (Some(stage), Some(phase), Some(name), Some(place)) =
        (stage, Phase::from_number(phase), name, place)
    else {
        return Status::INVALID.0;
    };
    match stage.board.borrow().get(phase, name) {
        Some(found) => {
            *place = found;
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
    // SAFETY: the context is that of this call, for which name and error are borrowed.
    unsafe {
        let (Some(stage), Some(name)) = (stage(context), name.read()) else {
            return Status::INVALID.0;
        };
        let published = stage.board.borrow_mut().publish(stage.phase(), name, value);
        if let Err(message) = published {
            return refuse(error, Status::INVALID, &message);
        }
        if let Some(at) = stage.place.get() {
            stage.seen.borrow_mut().metrics.push(SeenMetric {
                at,
                name: name.to_owned(),
                value,
            });
        }
        Status::OK.0
    }
}

unsafe extern "C" fn plan(context: *const c_void, json: *mut TextAbi) -> u32 {
    // SAFETY: the context is that of this call, for which the hook lends room for one text.
    let (stage, place) = unsafe { (stage(context), json.as_mut()) };
    let (Some(stage), Some(place)) = (stage, place) else {
        return Status::INVALID.0;
    };
    match stage.plan.get() {
        Some(plan) => {
            *place = TextAbi::new(plan);
            Status::OK.0
        }
        None => Status::NOT_FOUND.0,
    }
}

unsafe extern "C" fn flags(context: *const c_void) -> u64 {
    // SAFETY: the context is that of this call.
    unsafe { stage(context) }.map_or(0, |stage| stage.resume_flags.get())
}

unsafe extern "C" fn elapsed_seconds(context: *const c_void) -> f64 {
    // SAFETY: the context is that of this call.
    unsafe { stage(context) }.map_or(0.0, |stage| stage.elapsed.get())
}

unsafe extern "C" fn remaining_seconds(context: *const c_void) -> f64 {
    // SAFETY: the context is that of this call.
    unsafe { stage(context) }.map_or(-1.0, |stage| stage.remaining.get())
}

unsafe extern "C" fn columns(_context: *const c_void) -> u32 {
    0
}

unsafe extern "C" fn status(context: *const c_void, text: TextAbi) -> u32 {
    // SAFETY: the context is that of this call, for which the text is borrowed.
    if let (Some(stage), Some(text)) = unsafe { (stage(context), text.read()) } {
        stage.seen.borrow_mut().status_lines.push(text.to_owned());
    }
    Status::OK.0
}

unsafe extern "C" fn facts(context: *const c_void, json: *mut TextAbi) -> u32 {
    // SAFETY: the context is that of this call, for which the hook lends room for one text.
    let (stage, place) = unsafe { (stage(context), json.as_mut()) };
    let (Some(stage), Some(place)) = (stage, place) else {
        return Status::INVALID.0;
    };
    if stage.place.get().is_none() {
        // There is no task yet at a hook's creation.
        return Status::NOT_FOUND.0;
    }
    *place = TextAbi::new(&stage.facts.borrow());
    Status::OK.0
}

unsafe extern "C" fn group_count(context: *const c_void) -> usize {
    // SAFETY: the context is that of this call.
    unsafe { stage(context) }.map_or(0, |stage| stage.groups.borrow().len())
}

unsafe extern "C" fn group(
    context: *const c_void,
    index: usize,
    name: *mut TextAbi,
    learning_rate: *mut f64,
    weight_decay: *mut f64,
) -> u32 {
    // SAFETY: the context is that of this call, for which the hook lends room for the results.
    let (stage, name, rate, decay) = unsafe {
        let (rate, decay) = (learning_rate.as_mut(), weight_decay.as_mut());
        (stage(context), name.as_mut(), rate, decay)
    };
    let (Some(stage), Some(name), Some(rate), Some(decay)) = (stage, name, rate, decay) else {
        return Status::INVALID.0;
    };
    match stage.groups.borrow().get(index) {
        Some(group) => {
            *name = TextAbi::new(&group.name);
            *rate = group.learning_rate;
            *decay = group.weight_decay;
            Status::OK.0
        }
        None => Status::NOT_FOUND.0,
    }
}
