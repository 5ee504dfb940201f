//! What messages and records say about the device that computes.

use candle_core::Device;
use sconce_ops::are_composed_on_cpu;
use sconce_ops::device::{self, DeviceFacts};

/// One line about a device that is not the CPU with its own kernels: name, driver, compute capability, memory.
pub fn describe_device(device: &Device) -> Option<String> {
    if device.is_cpu() {
        return device_name(device);
    }
    Some(match device::facts(device) {
        Some(facts) => described(&facts),
        None => "a GPU that does not answer".to_owned(),
    })
}

/// One line about a GPU.
pub fn described(facts: &DeviceFacts) -> String {
    let (major, minor) = facts.capability;
    format!(
        "{}, compute capability {major}.{minor}, driver for CUDA {}, {:.1} of {:.1} GiB free",
        facts.name,
        facts.driver_version,
        gibibytes(facts.memory_free),
        gibibytes(facts.memory_total)
    )
}

/// A number of bytes in GiB.
fn gibibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1_u32 << 30)
}

/// A number of bytes in a unit that fits.
pub fn memory_size(bytes: u64) -> String {
    match gibibytes(bytes) {
        size if size < 1.0 => format!("{:.1} MiB", size * 1024.0),
        size => format!("{size:.1} GiB"),
    }
}

/// Name of a device in records: none for the CPU, and the same for two GPUs that give the same bits.
///
/// Where the environment asks for composed operations on the CPU, whose sums have another order, it says so.
pub fn device_name(device: &Device) -> Option<String> {
    if device.is_cpu() {
        return are_composed_on_cpu().then(|| COMPOSED.to_owned());
    }
    let facts = device::facts(device);
    Some(facts.map_or_else(|| "a GPU".to_owned(), |facts| facts.name))
}

/// Name of the CPU with operations composed of candle's, as `SCONCE_OPS=composed` asks for.
const COMPOSED: &str = "the CPU (composed operations)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_is_described_in_a_line() {
        let facts = DeviceFacts {
            name: "NVIDIA H100 80GB HBM3".to_owned(),
            driver_version: "13.2".to_owned(),
            capability: (9, 0),
            memory_total: 80 << 30,
            memory_free: 79 << 30,
        };
        assert_eq!(
            described(&facts),
            "NVIDIA H100 80GB HBM3, compute capability 9.0, driver for CUDA 13.2, 79.0 of 80.0 GiB free"
        );
    }
}
