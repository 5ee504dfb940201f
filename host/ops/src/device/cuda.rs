//! Opens GPUs and reads their facts, through NVIDIA's driver.
#![expect(unsafe_code, reason = "calls of the driver")]

use std::ffi::c_int;

use candle_core::Device;
use candle_core::cuda_backend::cudarc::driver::{DriverError, result, sys};
use candle_core::cuda_backend::{CudaDevice, kernels};

use super::memory::keep_freed;
pub(super) use super::memory::{memory, utilization};
use super::{DeviceError, DeviceFacts, libraries};

type Attribute = sys::CUdevice_attribute;

pub(super) fn open(index: usize) -> Result<Device, DeviceError> {
    let target = Target::of_kernels();
    let count = initialize(&target)?;
    let absent = DeviceError::NoSuchDevice { index, count };
    let ordinal = match c_int::try_from(index) {
        Ok(ordinal) if index < count => ordinal,
        _ => return Err(absent),
    };
    let known = facts_of(ordinal).map_err(failed("ask for the GPU's facts"))?;
    target.check(&known)?;
    let device = CudaDevice::new_with_stream(index).map_err(|error| DeviceError::Driver {
        action: format!("open {}", known.name),
        reason: error.to_string(),
    })?;
    // SAFETY: candle works on one stream only. Who copies on another (`device::transfer`) orders the two by events of its own;
    // cudarc's would cost two events for each tensor.
    unsafe { device.disable_event_tracking() };
    // An older driver that can't is no reason not to run.
    keep_freed(ordinal).unwrap_or_default();
    Ok(Device::Cuda(device))
}

pub(super) fn list() -> Result<Vec<DeviceFacts>, DeviceError> {
    let count = initialize(&Target::of_kernels())?;
    (0..count)
        .filter_map(|index| c_int::try_from(index).ok())
        .map(|ordinal| facts_of(ordinal).map_err(failed("ask for a GPU's facts")))
        .collect()
}

pub(super) fn facts(device: &Device) -> Option<DeviceFacts> {
    let Device::Cuda(device) = device else {
        return None;
    };
    facts_of(c_int::try_from(device.cuda_stream().context().ordinal()).ok()?).ok()
}

/// Opens the libraries, starts the driver, and returns the number of GPUs.
fn initialize(target: &Target) -> Result<usize, DeviceError> {
    libraries::open(target.cuda.0)?;
    match result::init() {
        Ok(()) => {}
        Err(DriverError(sys::CUresult::CUDA_ERROR_NO_DEVICE)) => return Ok(0),
        Err(error) => return Err(failed("start the CUDA driver")(error)),
    }
    let driver = driver_version().map_err(failed("ask for the driver's version"))?;
    if driver < target.cuda {
        return Err(DeviceError::DriverTooOld {
            driver,
            needed: target.cuda,
        });
    }
    let count = result::device::get_count().map_err(failed("count the GPUs"))?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// Major CUDA version that candle was compiled for.
pub(super) fn major_version() -> u32 {
    Target::of_kernels().cuda.0
}

fn failed(action: &'static str) -> impl Fn(DriverError) -> DeviceError {
    move |error| DeviceError::Driver {
        action: action.to_owned(),
        reason: error.to_string(),
    }
}

fn facts_of(ordinal: c_int) -> Result<DeviceFacts, DriverError> {
    let device = result::device::get(ordinal)?;
    let driver = driver_version()?;
    // SAFETY: the driver gave this device, here and below.
    let attribute = |which| unsafe { result::device::get_attribute(device, which) };
    let capability = (
        attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?.unsigned_abs(),
        attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?.unsigned_abs(),
    );
    // SAFETY: as above.
    let total = unsafe { result::device::total_mem(device)? };
    Ok(DeviceFacts {
        name: result::device::get_name(device)?,
        driver_version: format!("{}.{}", driver.0, driver.1),
        capability,
        memory_total: total as u64,
        memory_free: free_memory(device)? as u64,
    })
}

/// Memory of a device that nobody uses, in bytes.
fn free_memory(device: sys::CUdevice) -> Result<usize, DriverError> {
    let before = result::ctx::get_current()?;
    // SAFETY: the context is retained while it is current, and the one before it is restored.
    unsafe {
        let context = result::primary_ctx::retain(device)?;
        result::ctx::set_current(context)?;
        let free = result::mem_get_info().map(|(free, _total)| free);
        result::ctx::set_current(before.unwrap_or(std::ptr::null_mut()))?;
        result::primary_ctx::release(device)?;
        free
    }
}

/// CUDA version that the driver supports: major and minor number.
fn driver_version() -> Result<(u32, u32), DriverError> {
    let mut version = 0;
    // SAFETY: the function writes one integer.
    unsafe { sys::cuDriverGetVersion(&raw mut version).result()? };
    let version = version.unsigned_abs();
    Ok((version / 1000, version % 1000 / 10))
}

/// What candle's kernels were compiled for, as their first lines say.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    /// CUDA version of the toolkit: major and minor number.
    cuda: (u32, u32),
    /// Compute capability.
    capability: (u32, u32),
    /// Whether they run on this capability only, and not on later ones.
    is_exact: bool,
}

impl Target {
    fn of_kernels() -> Self {
        // A form of PTX that isn't known is no reason not to try.
        Self::read(kernels::AFFINE.ptx()).unwrap_or(Self {
            cuda: (13, 0),
            capability: (0, 0),
            is_exact: false,
        })
    }

    /// Reads the directives `.version` and `.target` of PTX.
    ///
    /// PTX 9 came with CUDA 13, of the same minor versions; versions of PTX 8 are in the table of releases in NVIDIA's
    /// "PTX ISA", "Release Notes".
    fn read(ptx: &str) -> Option<Self> {
        let directive = |name: &str| {
            let line = ptx.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.trim())
        };
        let (major, minor) = directive(".version")?.split_once('.')?;
        let (major, minor) = (major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?);
        let cuda = match (major, minor) {
            (8, 0..=5) => (12, minor),
            (8, 6..=8) => (12, minor + 1),
            _ => (major.checked_add(4)?, minor),
        };
        let target = directive(".target")?
            .split(',')
            .next()?
            .strip_prefix("sm_")?;
        let digits = target.trim_end_matches(|letter: char| !letter.is_ascii_digit());
        let number = digits.parse::<u32>().ok()?;
        Some(Self {
            cuda,
            capability: (number / 10, number % 10),
            is_exact: target.ends_with('a'),
        })
    }

    /// Whether the kernels run on a GPU.
    fn check(&self, known: &DeviceFacts) -> Result<(), DeviceError> {
        let name = known.name.clone();
        let (capability, compiled) = (known.capability, self.capability);
        if capability < compiled {
            return Err(DeviceError::TooOld {
                name,
                capability,
                compiled,
            });
        }
        if self.is_exact && capability != compiled {
            return Err(DeviceError::OtherCapability {
                name,
                capability,
                compiled,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(capability: (u32, u32)) -> DeviceFacts {
        DeviceFacts {
            name: "a GPU".to_owned(),
            driver_version: "13.2".to_owned(),
            capability,
            memory_total: 0,
            memory_free: 0,
        }
    }

    #[test]
    fn what_kernels_were_compiled_for_is_read_from_them() {
        let read = |version: &str, target: &str| {
            Target::read(&format!(
                "//\n\n.version {version}\n.target {target}\n.address_size 64\n"
            ))
        };
        let expected = |cuda, capability, is_exact| {
            Some(Target {
                cuda,
                capability,
                is_exact,
            })
        };
        assert_eq!(read("9.2", "sm_90a"), expected((13, 2), (9, 0), true));
        assert_eq!(read("8.5", "sm_80"), expected((12, 5), (8, 0), false));
        assert_eq!(
            read("8.8", "sm_120, debug"),
            expected((12, 9), (12, 0), false)
        );
        assert_eq!(read("nine", "sm_80"), None);
    }

    #[test]
    fn gpus_that_the_kernels_do_not_run_on_are_refused() {
        let target = |is_exact| Target {
            cuda: (13, 2),
            capability: (9, 0),
            is_exact,
        };
        assert!(target(true).check(&gpu((9, 0))).is_ok());
        assert!(target(false).check(&gpu((10, 0))).is_ok());
        let too_old = target(false).check(&gpu((8, 9))).unwrap_err();
        assert!(matches!(too_old, DeviceError::TooOld { .. }), "{too_old}");
        let other = target(true).check(&gpu((10, 0))).unwrap_err();
        assert!(
            matches!(other, DeviceError::OtherCapability { .. }),
            "{other}"
        );
    }
}
