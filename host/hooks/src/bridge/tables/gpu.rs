//! `sconce.gpu/1`.

use sconce_ops::device;
use sconce_plugin_api::abi::{Status, TextAbi};
use sconce_plugin_api::ext::{Gpu, GpuFiguresAbi, GpuSpanAbi, GpuTable, Refusal};

use crate::bridge::BridgeState;

impl Gpu for BridgeState<'_> {
    fn name(&self) -> Option<&str> {
        self.device.gpu.name()
    }

    fn figures(&self) -> Option<GpuFiguresAbi> {
        let device = self.device.gpu.device()?;
        let memory = device::memory(device)?;
        Some(GpuFiguresAbi {
            used: memory.used,
            peak: memory.peak,
            reserved: memory.reserved,
            free: memory.free,
            total: memory.total,
            utilization: device::utilization(device).unwrap_or(f64::NAN),
        })
    }

    fn synchronize(&self) -> Result<(), Refusal> {
        let device = self.device.gpu.device().ok_or(Refusal::NOT_FOUND)?;
        device::synchronize(device).map_err(failed)
    }

    fn record(&self, is_on: bool) -> Result<(), Refusal> {
        self.device.gpu.device().ok_or(Refusal::NOT_FOUND)?;
        self.device.gpu.record(is_on, &self.clock).map_err(failed)
    }

    fn take(&self, spans: &mut [GpuSpanAbi]) -> usize {
        if spans.is_empty() {
            return 0;
        }
        let taken = self.device.gpu.take(spans.len());
        for (place, span) in spans.iter_mut().zip(&taken) {
            *place = GpuSpanAbi {
                name: TextAbi::new(span.name),
                begin: span.begin,
                duration: span.duration,
                stream: u32::from(span.is_copy) * GpuTable::COPIES,
            };
        }
        taken.len()
    }
}

#[expect(clippy::needless_pass_by_value, reason = "errors are mapped by it")]
fn failed(failure: impl ToString) -> Refusal {
    Refusal::new(Status::ERROR, failure.to_string())
}
