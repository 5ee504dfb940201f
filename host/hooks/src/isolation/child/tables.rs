//! Tables of the host's extensions, as this process provides them: most functions ask the parent.

use std::ffi::c_void;
use std::{ptr, slice};

use sconce_plugin_api::abi::{ABI_EPOCH, API_VERSION, ErrorAbi, HostRoot, Status, TextAbi};
use sconce_plugin_api::ext::{
    CTable, ClaimsTable, DeviceTable, GpuTable, LogTable, MetricAbi, MetricsTable, Part, PlanTable,
    RanksTable, RequestsTable, ResumeTable, RetainTable, RunTable, ScreenTable, TaskTable,
    TensorsTable, ThreadsTable, ValuesTable, VectorsTable,
};

use super::super::message::Ask;
use super::session::{self, Answer, Session, ask, passed_on};
use super::{device, gpu, retain, tensors, values, vectors};
use crate::bridge::{C_TABLE, refuse};
use crate::version::HOST_VERSION;

/// The argument of the host's functions, of which this process needs none: an address that is not null.
pub(super) const CONTEXT: *const c_void = ptr::dangling::<u64>().cast();

/// The root that the hook receives at its creation.
pub(super) fn root() -> &'static HostRoot {
    static ROOT: Static<HostRoot> = Static(HostRoot {
        abi_epoch: ABI_EPOCH,
        version: TextAbi::new(HOST_VERSION),
        api_version: TextAbi::new(API_VERSION),
        query,
    });
    &ROOT.0
}

struct Static<T>(T);

// SAFETY: `T` is only ever `HostRoot`, which is never written to and whose pointers lead to `'static` data.
unsafe impl<T> Sync for Static<T> {}

static CLAIMS: ClaimsTable = ClaimsTable { claim };
static LOG: LogTable = LogTable { log };
static METRICS: MetricsTable = MetricsTable {
    count: metric_count,
    at: metric_at,
    get: metric_get,
    publish,
};
static PLAN: PlanTable = PlanTable { plan };
static RANKS: RanksTable = RanksTable {
    rank,
    size,
    is_repeated,
    gather,
};
static REQUESTS: RequestsTable = RequestsTable { request };
static RESUME: ResumeTable = ResumeTable { flags };
static RUN: RunTable = RunTable {
    elapsed_seconds,
    remaining_seconds,
};
static SCREEN: ScreenTable = ScreenTable { columns, status };
static TASK: TaskTable = TaskTable {
    facts,
    group_count,
    group,
};
static THREADS: ThreadsTable = ThreadsTable {
    count: threads,
    run,
};

unsafe extern "C" fn query(extension: TextAbi) -> *const c_void {
    // SAFETY: the plugin lends the text for the duration of the call.
    let Some(id) = (unsafe { extension.read() }) else {
        return ptr::null();
    };
    match id {
        CTable::ID => ptr::from_ref(&C_TABLE).cast(),
        ClaimsTable::ID => ptr::from_ref(&CLAIMS).cast(),
        DeviceTable::ID => ptr::from_ref(&device::TABLE).cast(),
        GpuTable::ID => ptr::from_ref(&gpu::TABLE).cast(),
        LogTable::ID => ptr::from_ref(&LOG).cast(),
        MetricsTable::ID => ptr::from_ref(&METRICS).cast(),
        PlanTable::ID => ptr::from_ref(&PLAN).cast(),
        RanksTable::ID => ptr::from_ref(&RANKS).cast(),
        RequestsTable::ID => ptr::from_ref(&REQUESTS).cast(),
        RetainTable::ID => ptr::from_ref(&retain::TABLE).cast(),
        ResumeTable::ID => ptr::from_ref(&RESUME).cast(),
        RunTable::ID => ptr::from_ref(&RUN).cast(),
        ScreenTable::ID => ptr::from_ref(&SCREEN).cast(),
        TaskTable::ID => ptr::from_ref(&TASK).cast(),
        TensorsTable::ID => ptr::from_ref(&tensors::TABLE).cast(),
        ThreadsTable::ID => ptr::from_ref(&THREADS).cast(),
        ValuesTable::ID => ptr::from_ref(&values::TABLE).cast(),
        VectorsTable::ID => ptr::from_ref(&vectors::TABLE).cast(),
        _ => ptr::null(),
    }
}

/// Writes a text of an answer that lives as long as the run.
///
/// # Safety
///
/// `text` must be null or have room for a text.
unsafe fn kept(answer: Option<Answer>, text: *mut TextAbi) -> u32 {
    let Some(answer) = answer else {
        return Status::INVALID.0;
    };
    // SAFETY: guaranteed by the caller.
    let Some(text) = (unsafe { text.as_mut() }) else {
        return Status::INVALID.0;
    };
    if answer.status == Status::OK.0 {
        let kept = session::with(|session| session.keep_text(&answer.text));
        *text = TextAbi::new(kept.unwrap_or_default());
    }
    answer.status
}

unsafe extern "C" fn claim(_context: *const c_void, what: TextAbi, error: *mut ErrorAbi) -> u32 {
    // SAFETY: text and error are borrowed for the call.
    unsafe {
        let Some(what) = what.read() else {
            return Status::INVALID.0;
        };
        passed_on(ask(&Ask::Claim(what)).as_ref(), error)
    }
}

unsafe extern "C" fn log(_context: *const c_void, level: u32, message: TextAbi) -> u32 {
    // SAFETY: the text is borrowed for the call.
    let Some(message) = (unsafe { message.read() }) else {
        return Status::INVALID.0;
    };
    post(&Ask::Log(level, message))
}

fn post(ask: &Ask<'_>) -> u32 {
    match session::with(|session| session.post(ask)) {
        Some(()) => Status::OK.0,
        None => Status::INVALID.0,
    }
}

unsafe extern "C" fn metric_count(_context: *const c_void, phase: u32) -> usize {
    let answer = ask(&Ask::MetricCount(phase));
    answer.map_or(0, |answer| answer.count as usize)
}

unsafe extern "C" fn metric_at(
    _context: *const c_void,
    phase: u32,
    index: usize,
    metric: *mut MetricAbi,
) -> u32 {
    // SAFETY: the plugin lends memory for one metric.
    let Some(metric) = (unsafe { metric.as_mut() }) else {
        return Status::INVALID.0;
    };
    let Some(answer) = ask(&Ask::MetricAt(phase, index as u64)) else {
        return Status::INVALID.0;
    };
    if answer.status == Status::OK.0 {
        let name = session::with(|session| session.keep_text(&answer.text));
        *metric = MetricAbi {
            name: TextAbi::new(name.unwrap_or_default()),
            value: answer.number,
        };
    }
    answer.status
}

unsafe extern "C" fn metric_get(
    _context: *const c_void,
    phase: u32,
    name: TextAbi,
    value: *mut f64,
) -> u32 {
    // SAFETY: the name and memory for one value are borrowed for the call.
    let (Some(name), Some(value)) = (unsafe { (name.read(), value.as_mut()) }) else {
        return Status::INVALID.0;
    };
    let Some(answer) = ask(&Ask::MetricGet(phase, name)) else {
        return Status::INVALID.0;
    };
    if answer.status == Status::OK.0 {
        *value = answer.number;
    }
    answer.status
}

unsafe extern "C" fn publish(
    _context: *const c_void,
    name: TextAbi,
    value: f64,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: name and error are borrowed for the call.
    unsafe {
        let Some(name) = name.read() else {
            return refuse(
                error,
                Status::INVALID,
                "the metric's name is not valid UTF-8",
            );
        };
        let publish = Ask::Publish(name, value);
        // Accepted once, it is accepted again: the host need not be waited for.
        let is_known = |session: &mut Session| {
            let known = (session.phase, name);
            session.accepted.contains(&known)
        };
        if session::with(is_known) == Some(true) {
            return post(&publish);
        }
        let answer = ask(&publish);
        if answer
            .as_ref()
            .is_some_and(|answer| answer.status == Status::OK.0)
        {
            session::with(|session| {
                let known = (session.phase, session.keep_text(name));
                session.accepted.insert(known);
            });
        }
        passed_on(answer.as_ref(), error)
    }
}

unsafe extern "C" fn plan(_context: *const c_void, json: *mut TextAbi) -> u32 {
    // SAFETY: the plugin lends memory for one text.
    unsafe { kept(ask(&Ask::Plan), json) }
}

unsafe extern "C" fn rank(_context: *const c_void) -> u32 {
    session::with(|session| session.ranks.0).unwrap_or(0)
}

unsafe extern "C" fn size(_context: *const c_void) -> u32 {
    session::with(|session| session.ranks.1).unwrap_or(1)
}

unsafe extern "C" fn is_repeated(_context: *const c_void) -> u32 {
    ask(&Ask::IsRepeated).map_or(0, |answer| u32::from(answer.count != 0))
}

unsafe extern "C" fn gather(
    context: *const c_void,
    own: *const u8,
    length: usize,
    all: *mut u8,
    error: *mut ErrorAbi,
) -> u32 {
    if length > 0 && (own.is_null() || all.is_null()) {
        return Status::INVALID.0;
    }
    // SAFETY: the plugin lends `length` bytes, memory for as many of each rank, and the error.
    unsafe {
        let own = match length {
            0 => &[],
            length => slice::from_raw_parts(own, length),
        };
        let answer = ask(&Ask::Gather(own));
        if let Some(answer) = answer
            .as_ref()
            .filter(|answer| answer.status == Status::OK.0)
        {
            let room = length.saturating_mul(size(context) as usize);
            if answer.bytes.len() != room {
                return refuse(error, Status::ERROR, "the host's answer has another length");
            }
            ptr::copy_nonoverlapping(answer.bytes.as_ptr(), all, room);
        }
        passed_on(answer.as_ref(), error)
    }
}

unsafe extern "C" fn request(
    _context: *const c_void,
    request: u32,
    number: f64,
    text: TextAbi,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: text and error are borrowed for the call.
    unsafe {
        let text = text.read().unwrap_or_default();
        passed_on(ask(&Ask::Request(request, number, text)).as_ref(), error)
    }
}

unsafe extern "C" fn flags(_context: *const c_void) -> u64 {
    ask(&Ask::ResumeFlags).map_or(0, |answer| answer.count)
}

unsafe extern "C" fn elapsed_seconds(_context: *const c_void) -> f64 {
    ask(&Ask::Elapsed).map_or(0.0, |answer| answer.number)
}

unsafe extern "C" fn remaining_seconds(_context: *const c_void) -> f64 {
    ask(&Ask::Remaining).map_or(-1.0, |answer| answer.number)
}

unsafe extern "C" fn columns(_context: *const c_void) -> u32 {
    ask(&Ask::Columns).map_or(0, |answer| answer.count as u32)
}

unsafe extern "C" fn status(_context: *const c_void, text: TextAbi) -> u32 {
    // SAFETY: the text is borrowed for the call.
    let Some(text) = (unsafe { text.read() }) else {
        return Status::INVALID.0;
    };
    post(&Ask::Status(text))
}

unsafe extern "C" fn facts(_context: *const c_void, json: *mut TextAbi) -> u32 {
    // SAFETY: the plugin lends memory for one text.
    unsafe { kept(ask(&Ask::Facts), json) }
}

unsafe extern "C" fn group_count(_context: *const c_void) -> usize {
    ask(&Ask::GroupCount).map_or(0, |answer| answer.count as usize)
}

unsafe extern "C" fn group(
    _context: *const c_void,
    index: usize,
    name: *mut TextAbi,
    learning_rate: *mut f64,
    weight_decay: *mut f64,
) -> u32 {
    // SAFETY: the plugin lends memory for a text and two numbers.
    unsafe {
        let (Some(learning_rate), Some(weight_decay)) =
            (learning_rate.as_mut(), weight_decay.as_mut())
        else {
            return Status::INVALID.0;
        };
        let answer = ask(&Ask::Group(index as u64));
        if let Some(answer) = answer
            .as_ref()
            .filter(|answer| answer.status == Status::OK.0)
        {
            *learning_rate = answer.number;
            *weight_decay = f64::from_bits(answer.count);
        }
        kept(answer, name)
    }
}

unsafe extern "C" fn threads(_context: *const c_void) -> u32 {
    session::with(|session| session.threads).unwrap_or(1)
}

/// The parts one after the other: the host's threads are in another process, and the training's cores are theirs.
unsafe extern "C" fn run(
    _context: *const c_void,
    parts: u32,
    part: unsafe extern "C" fn(data: *const c_void, index: u32),
    data: *const c_void,
) -> u32 {
    // SAFETY: the plugin promises that `part` may be called during this call, with `data` alive.
    let part = unsafe { Part::new(part, data) };
    for index in 0..parts {
        // SAFETY: each index below `parts` exactly once.
        unsafe { part.call(index) };
    }
    Status::OK.0
}

#[cfg(test)]
mod tests {
    use sconce_plugin_api::ext::LossTable;

    use super::*;
    use crate::bridge::EXTENSIONS;

    #[test]
    fn a_hook_in_a_process_of_its_own_has_every_extension() {
        // The host has waited for the loss before it calls the child: it is in the view.
        for id in EXTENSIONS.into_iter().filter(|id| *id != LossTable::ID) {
            // SAFETY: the text is a literal.
            let table = unsafe { query(TextAbi::new(id)) };
            assert!(!table.is_null(), "{id}");
        }
        // SAFETY: the text is a literal.
        assert!(unsafe { query(TextAbi::new("sconce.none/1")) }.is_null());
    }
}
