//! Fetching results from a device: each waits until the device has done everything asked of it before.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use candle_core::{Device, Result, Tensor, TensorId};

/// Copies to devices whose origin is remembered.
const REMEMBERED: usize = 8;

thread_local! {
    /// Number of this thread's calls of [`fetch`].
    static FETCHES: Cell<u64> = const { Cell::new(0) };
    /// Time that this thread has waited for devices.
    static WAITED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    /// Tensors on devices and what they were copied from, the oldest first.
    static ORIGINS: RefCell<VecDeque<(TensorId, Tensor)>> = const { RefCell::new(VecDeque::new()) };
}

/// Copies a tensor to the CPU, detached from the graph, once the device has computed it. One that is there is returned as
/// it is.
pub fn fetch(tensor: &Tensor) -> Result<Tensor> {
    FETCHES.set(FETCHES.get() + 1);
    if tensor.device().is_cpu() {
        return Ok(tensor.clone());
    }
    waiting(|| tensor.detach().to_device(&Device::Cpu))
}

/// Calls `wait`, which waits for a device, and adds its time to that [`waited`].
pub(super) fn waiting<T>(wait: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = wait();
    WAITED.set(WAITED.get() + start.elapsed());
    result
}

/// How long this thread has waited for devices to finish what they were asked for: with [`fetch`],
/// [`synchronize`](super::synchronize) and in [`transfer`](super::transfer).
pub fn waited() -> Duration {
    WAITED.get()
}

/// How often this thread has [fetched](fetch) something: a measure of how often it has waited for devices.
pub fn fetches() -> u64 {
    FETCHES.get()
}

/// Remembers what a tensor on a device was copied from, for [`copy_to_host`](super::copy_to_host), until a few others have
/// been remembered by this thread. Neither may be written to meanwhile.
pub fn remember_origin(on_device: &Tensor, origin: &Tensor) {
    ORIGINS.with_borrow_mut(|origins| {
        if origins.len() >= REMEMBERED {
            origins.pop_front();
        }
        origins.push_back((on_device.id(), origin.clone()));
    });
}

/// What a tensor on a device was copied from, if this thread remembers.
pub(super) fn origin_of(tensor: &Tensor) -> Option<Tensor> {
    ORIGINS.with_borrow(|origins| {
        let mut known = origins.iter().rev();
        let found = known.find(|(id, _)| *id == tensor.id());
        found.map(|(_, origin)| origin.clone())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_origins_are_remembered() {
        let tensor = |value: u32| Tensor::new(value, &Device::Cpu).expect("a scalar");
        let copies: Vec<Tensor> = (0..10).map(tensor).collect();
        for (value, copy) in (100..).zip(&copies) {
            remember_origin(copy, &tensor(value));
        }
        let origin = |copy: &Tensor| {
            origin_of(copy).map(|origin| origin.to_scalar::<u32>().expect("a value"))
        };
        assert_eq!(origin(&copies[9]), Some(109));
        assert_eq!(origin(&copies[2]), Some(102));
        assert_eq!(origin(&copies[1]), None);
    }
}
