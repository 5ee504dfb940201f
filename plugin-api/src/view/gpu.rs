//! The GPU that the run computes on.

use std::time::Duration;

use super::TaskView;
use crate::Result;
use crate::abi::TextAbi;
use crate::error::outcome;
use crate::ext::{GpuClient, GpuSpanAbi, GpuTable};

/// Memory and load of the GPU that a run computes on.
#[derive(Clone, Copy)]
pub struct Gpu<'task> {
    calls: GpuClient<'task>,
    /// Its name, such as `NVIDIA H100 80GB HBM3`.
    pub name: &'task str,
    /// Bytes of the run's tensors.
    pub used: u64,
    /// The most bytes that they have had.
    pub peak: u64,
    /// Bytes that the process has taken from the GPU, for tensors now and later.
    pub reserved: u64,
    /// Bytes that nobody uses, of all processes.
    pub free: u64,
    /// Bytes of the whole memory.
    pub total: u64,
    /// Fraction of the time, from 0 to 1, in which the GPU was at work lately; `None` if unknown.
    pub utilization: Option<f64>,
}

/// Work of the GPU, see [`Gpu::take_spans`].
#[derive(Clone, Debug, PartialEq)]
pub struct GpuSpan {
    /// What it was: `copy`, `forward`, `loss`, `backward`, `update`, and others.
    pub name: String,
    /// Whether it was a copy from the host, beside the computations.
    pub is_copy: bool,
    /// Begin, on the clock of [`TaskView::elapsed`].
    pub begin: Duration,
    /// From begin to end.
    pub duration: Duration,
}

impl<'task> TaskView<'task> {
    /// The GPU that the run computes on, with its figures now; `None` on the CPU. Doesn't wait for the GPU.
    pub fn gpu(&self) -> Option<Gpu<'task>> {
        let calls = self.host.gpu().ok()?;
        let (figures, name) = (calls.figures()?, calls.name()?);
        let utilization = figures.utilization;
        Some(Gpu {
            calls,
            name,
            used: figures.used,
            peak: figures.peak,
            reserved: figures.reserved,
            free: figures.free,
            total: figures.total,
            utilization: (utilization >= 0.0).then_some(utilization),
        })
    }
}

impl Gpu<'_> {
    /// Waits until the GPU has done all that was asked of it, for measurements of time; the run
    /// gets slower by each such wait.
    ///
    /// # Errors
    ///
    /// If the GPU has failed.
    #[track_caller]
    pub fn synchronize(&self) -> Result<()> {
        outcome(self.calls.synchronize())
    }

    /// Starts or ends recording when the GPU does what. Waits for the GPU when it starts.
    ///
    /// # Errors
    ///
    /// If the GPU has failed.
    #[track_caller]
    pub fn record(&self, is_on: bool) -> Result<()> {
        outcome(self.calls.record(is_on))
    }

    /// Takes what was [recorded](Gpu::record), in the order in which the work was queued. Waits for the last of it,
    /// and allocates.
    pub fn take_spans(&self) -> Vec<GpuSpan> {
        let empty = GpuSpanAbi {
            name: TextAbi::EMPTY,
            begin: 0.0,
            duration: 0.0,
            stream: 0,
        };
        let mut all = Vec::new();
        let mut spans = [empty; 64];
        loop {
            let count = self.calls.take(&mut spans);
            let taken = spans.get(..count).unwrap_or_default();
            all.extend(taken.iter().map(span));
            if count < spans.len() {
                return all;
            }
        }
    }
}

fn span(span: &GpuSpanAbi) -> GpuSpan {
    let seconds = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default();
    GpuSpan {
        // SAFETY: names live as long as the process.
        name: unsafe { span.name.read() }.unwrap_or_default().to_owned(),
        is_copy: span.stream == GpuTable::COPIES,
        begin: seconds(span.begin),
        duration: seconds(span.duration),
    }
}
