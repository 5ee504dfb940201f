//! The GPU that the run computes on.

use std::ptr;
use std::time::Duration;

use super::TaskView;
use crate::Result;
use crate::abi::{ErrorAbi, TextAbi, ViewAbi};
use crate::error::outcome;
use crate::ext::{GpuFiguresAbi, GpuSpanAbi, GpuTable, Tables};

/// Memory and load of the GPU that a run computes on.
#[derive(Clone, Copy)]
pub struct Gpu<'task> {
    abi: &'task ViewAbi,
    tables: &'task Tables,
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
        let table = self.tables.gpu?;
        let mut name = TextAbi::EMPTY;
        let mut figures = GpuFiguresAbi {
            used: 0,
            peak: 0,
            reserved: 0,
            free: 0,
            total: 0,
            utilization: f64::NAN,
        };
        // SAFETY: the context was provided with this view, and both have room for one value. The host keeps the name alive
        // until the end of the run.
        let name = unsafe {
            let status = (table.figures)(self.abi.context, &raw mut figures);
            if status != 0 || (table.name)(self.abi.context, &raw mut name) != 0 {
                return None;
            }
            name.read()
        };
        let utilization = figures.utilization;
        Some(Gpu {
            abi: self.abi,
            tables: self.tables,
            name: name.unwrap_or_default(),
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
        let table = TaskView::table(self.tables.gpu, GpuTable::ID)?;
        let mut error = ErrorAbi::new();
        // SAFETY: the context was provided with this view, and the error is borrowed for the call.
        let status = unsafe { (table.synchronize)(self.abi.context, &raw mut error) };
        outcome(status, &error)
    }

    /// Starts or ends recording when the GPU does what. Waits for the GPU when it starts.
    ///
    /// # Errors
    ///
    /// If the GPU has failed.
    #[track_caller]
    pub fn record(&self, is_on: bool) -> Result<()> {
        let table = TaskView::table(self.tables.gpu, GpuTable::ID)?;
        let mut error = ErrorAbi::new();
        // SAFETY: the context was provided with this view, and the error is borrowed for the call.
        let status = unsafe { (table.record)(self.abi.context, u32::from(is_on), &raw mut error) };
        outcome(status, &error)
    }

    /// Takes what was [recorded](Gpu::record), in the order in which the work was queued. Waits for the last of it,
    /// and allocates.
    pub fn take_spans(&self) -> Vec<GpuSpan> {
        let Some(table) = self.tables.gpu else {
            return Vec::new();
        };
        let empty = GpuSpanAbi {
            name: TextAbi::EMPTY,
            begin: 0.0,
            duration: 0.0,
            stream: 0,
        };
        let mut all = Vec::new();
        let mut spans = [empty; 64];
        loop {
            // SAFETY: the context was provided with this view, and the array has room for as many spans as it is long.
            let count = unsafe {
                (table.take)(
                    self.abi.context,
                    ptr::from_mut(&mut spans).cast(),
                    spans.len(),
                )
            };
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
