//! The GPU that a run computes on, as hooks see it: its name, and when it did what.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;

use candle_core::{Device, Result};

use crate::clock::Clock;
use sconce_ops::device::facts;
use sconce_ops::device::timeline::{self, DeviceSpan};

/// The GPU of a run; nothing on the CPU.
#[derive(Default)]
pub struct RunGpu {
    device: OnceCell<Device>,
    name: OnceCell<String>,
    /// The run's seconds at the start of the timeline.
    begun: Cell<f64>,
    /// Spans of which not all could be given out.
    spans: RefCell<VecDeque<DeviceSpan>>,
}

impl RunGpu {
    /// Sets the device that the run computes on; once.
    pub fn set(&self, device: &Device) {
        if !device.is_cpu() {
            // A second run over the same state has the same device.
            drop(self.device.set(device.clone()));
        }
    }

    /// The GPU, if the run computes on one.
    pub fn device(&self) -> Option<&Device> {
        self.device.get()
    }

    /// Its name.
    pub(in crate::bridge) fn name(&self) -> Option<&str> {
        let device = self.device()?;
        let name = || facts(device).map_or_else(|| "GPU".to_owned(), |facts| facts.name);
        Some(self.name.get_or_init(name))
    }

    /// Starts or ends recording when it does what.
    pub(in crate::bridge) fn record(&self, is_on: bool, clock: &Clock) -> Result<()> {
        self.spans.borrow_mut().clear();
        let Some(device) = self.device().filter(|_| is_on) else {
            timeline::stop();
            return Ok(());
        };
        timeline::start(device)?;
        self.begun.set(clock.elapsed_seconds());
        Ok(())
    }

    /// Takes up to `count` spans, which begin at seconds of the run. A device that fails has none; the run notices itself.
    pub(in crate::bridge) fn take(&self, count: usize) -> Vec<DeviceSpan> {
        let mut spans = self.spans.borrow_mut();
        if spans.is_empty() {
            let begun = self.begun.get();
            let taken = timeline::take().unwrap_or_default().into_iter();
            spans.extend(taken.map(|span| DeviceSpan {
                begin: begun + span.begin,
                ..span
            }));
        }
        let count = count.min(spans.len());
        spans.drain(..count).collect()
    }
}
