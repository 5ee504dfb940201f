//! Timelines of NVIDIA GPUs, by events of the driver.

use std::cell::RefCell;
use std::sync::Arc;

use candle_core::cuda_backend::cudarc::driver::{CudaEvent, CudaStream, DriverError, sys};
use candle_core::{Device, Error, Result};

use super::{DeviceSpan, MOST_SPANS};

thread_local! {
    static TIMELINE: RefCell<Option<Timeline>> = const { RefCell::new(None) };
}

struct Timeline {
    /// The stream of computations.
    computing: Arc<CudaStream>,
    /// Recorded when the timeline began.
    origin: CudaEvent,
    spans: Vec<Recorded>,
}

struct Recorded {
    name: &'static str,
    is_copy: bool,
    begin: CudaEvent,
    end: CudaEvent,
}

/// Work being queued; nothing without a timeline.
pub(crate) struct Span(Option<Queued>);

struct Queued {
    name: &'static str,
    is_copy: bool,
    begin: CudaEvent,
    stream: Arc<CudaStream>,
}

impl Drop for Span {
    fn drop(&mut self) {
        let Some(queued) = self.0.take() else {
            return;
        };
        // A span whose end can't be recorded is left out.
        let Ok(end) = recorded(&queued.stream) else {
            return;
        };
        TIMELINE.with_borrow_mut(|timeline| {
            if let Some(timeline) = timeline
                && timeline.spans.len() < MOST_SPANS
            {
                timeline.spans.push(Recorded {
                    name: queued.name,
                    is_copy: queued.is_copy,
                    begin: queued.begin,
                    end,
                });
            }
        });
    }
}

/// A new event that keeps time, recorded now.
fn recorded(stream: &CudaStream) -> std::result::Result<CudaEvent, DriverError> {
    let event = stream
        .context()
        .new_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT))?;
    event.record(stream)?;
    Ok(event)
}

pub(super) fn start(device: &Device) -> Result<bool> {
    let Device::Cuda(device) = device else {
        return Ok(false);
    };
    let computing = device.cuda_stream();
    computing.synchronize().map_err(Error::wrap)?;
    let origin = recorded(&computing).map_err(Error::wrap)?;
    TIMELINE.set(Some(Timeline {
        computing,
        origin,
        spans: Vec::new(),
    }));
    Ok(true)
}

pub(super) fn stop() {
    TIMELINE.set(None);
}

pub(super) fn span(name: &'static str) -> Span {
    let stream = TIMELINE.with_borrow(|timeline| {
        let timeline = timeline.as_ref()?;
        Some(Arc::clone(&timeline.computing))
    });
    Span(stream.and_then(|stream| queued(name, false, stream)))
}

/// Marks copies that this thread queues on `stream`.
pub(in crate::device) fn span_on(stream: &Arc<CudaStream>, name: &'static str) -> Span {
    let is_on = TIMELINE.with_borrow(Option::is_some);
    let stream = is_on.then(|| Arc::clone(stream));
    Span(stream.and_then(|stream| queued(name, true, stream)))
}

fn queued(name: &'static str, is_copy: bool, stream: Arc<CudaStream>) -> Option<Queued> {
    let begin = recorded(&stream).ok()?;
    Some(Queued {
        name,
        is_copy,
        begin,
        stream,
    })
}

pub(super) fn take() -> Result<Vec<DeviceSpan>> {
    TIMELINE.with_borrow_mut(|timeline| {
        let Some(timeline) = timeline else {
            return Ok(Vec::new());
        };
        let seconds = |from: &CudaEvent, to: &CudaEvent| {
            let milliseconds = from.elapsed_ms(to).map_err(Error::wrap)?;
            Ok::<_, Error>(f64::from(milliseconds) / 1e3)
        };
        let origin = &timeline.origin;
        let spans = std::mem::take(&mut timeline.spans).into_iter();
        spans
            .map(|span| {
                Ok(DeviceSpan {
                    name: span.name,
                    is_copy: span.is_copy,
                    begin: seconds(origin, &span.begin)?,
                    duration: seconds(&span.begin, &span.end)?,
                })
            })
            .collect()
    })
}
