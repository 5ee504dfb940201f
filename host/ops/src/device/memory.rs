//! Memory and load of a GPU, as its driver knows them.
#![expect(
    unsafe_code,
    reason = "calls of the driver and of NVIDIA's library of figures"
)]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use candle_core::Device;
use candle_core::cuda_backend::CudaDevice;
use candle_core::cuda_backend::cudarc::driver::{DriverError, result, sys};
use libloading::Library;

use super::{DeviceMemory, libraries};

type Attribute = sys::CUmemPool_attribute;

/// Makes freed memory stay with the process. By default the driver returns it to the system whenever somebody waits for the
/// device, and takes it anew in the next step.
pub(super) fn keep_freed(ordinal: c_int) -> Result<(), DriverError> {
    let mut all = u64::MAX;
    // SAFETY: the device is one that the driver has, and the attribute is a `u64`.
    unsafe {
        let pool = pool_of(ordinal)?;
        let attribute = Attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        sys::cuMemPoolSetAttribute(pool, attribute, (&raw mut all).cast::<c_void>()).result()
    }
}

/// The pool that tensors are allocated from.
///
/// # Safety
///
/// The driver must have been started, and have this device.
unsafe fn pool_of(ordinal: c_int) -> Result<sys::CUmemoryPool, DriverError> {
    let device = result::device::get(ordinal)?;
    let mut pool = std::ptr::null_mut();
    // SAFETY: the function writes a pointer.
    unsafe { sys::cuDeviceGetDefaultMemPool(&raw mut pool, device).result()? };
    Ok(pool)
}

pub(super) fn memory(device: &Device) -> Option<DeviceMemory> {
    let Device::Cuda(device) = device else {
        return None;
    };
    let stream = device.cuda_stream();
    let context = stream.context();
    let (free, total) = context.mem_get_info().ok()?;
    let ordinal = c_int::try_from(context.ordinal()).ok()?;
    let of_pool = |attribute| {
        let mut value = 0_u64;
        // SAFETY: the device is open, and these attributes are of the type `u64`.
        unsafe {
            let pool = pool_of(ordinal).ok()?;
            let read =
                sys::cuMemPoolGetAttribute(pool, attribute, (&raw mut value).cast::<c_void>());
            read.result().ok()?;
        }
        Some(value)
    };
    let taken = (total as u64).saturating_sub(free as u64);
    Some(DeviceMemory {
        used: of_pool(Attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT).unwrap_or(taken),
        peak: of_pool(Attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH).unwrap_or(taken),
        reserved: of_pool(Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT).unwrap_or(taken),
        free: free as u64,
        total: total as u64,
    })
}

pub(super) fn utilization(device: &Device) -> Option<f64> {
    let Device::Cuda(device) = device else {
        return None;
    };
    let figures = Figures::open()?;
    figures.utilization(device)
}

/// NVIDIA's library of figures (NVML), which comes with the driver on most systems.
struct Figures {
    /// `nvmlDeviceGetHandleByUUID`.
    handle_by_uuid: unsafe extern "C" fn(uuid: *const c_char, handle: *mut *mut c_void) -> c_int,
    /// `nvmlDeviceGetUtilizationRates`.
    utilization: unsafe extern "C" fn(handle: *mut c_void, rates: *mut Rates) -> c_int,
    /// Never closed.
    _library: Library,
}

/// `nvmlUtilization_t`: percentages of the time since the last sample in which a kernel ran, or memory was accessed.
#[repr(C)]
#[derive(Default)]
struct Rates {
    gpu: c_uint,
    memory: c_uint,
}

impl Figures {
    /// Opens and starts the library, once per process; `None` if that fails.
    fn open() -> Option<&'static Figures> {
        static OPENED: OnceLock<Option<Figures>> = OnceLock::new();
        OPENED.get_or_init(Figures::load).as_ref()
    }

    fn load() -> Option<Figures> {
        let library = libraries::figures()?;
        // SAFETY: the functions have these types in NVML's header, of all its versions.
        unsafe {
            let start = library.get::<unsafe extern "C" fn() -> c_int>(b"nvmlInit_v2\0");
            if start.ok()?() != 0 {
                return None;
            }
            Some(Figures {
                handle_by_uuid: *library.get(b"nvmlDeviceGetHandleByUUID\0").ok()?,
                utilization: *library.get(b"nvmlDeviceGetUtilizationRates\0").ok()?,
                _library: library,
            })
        }
    }

    fn utilization(&self, device: &CudaDevice) -> Option<f64> {
        let uuid = device.cuda_stream().context().uuid().ok()?;
        let name = name_of(uuid.bytes.map(|byte| byte.to_ne_bytes()[0]));
        let mut handle = std::ptr::null_mut();
        let mut rates = Rates::default();
        // SAFETY: the text ends with a zero, and the functions write a handle and two numbers.
        unsafe {
            if (self.handle_by_uuid)(CStr::as_ptr(&name), &raw mut handle) != 0
                || (self.utilization)(handle, &raw mut rates) != 0
            {
                return None;
            }
        }
        Some(f64::from(rates.gpu) / 100.0)
    }
}

/// A device's name in NVML: `GPU-` and the UUID in groups of 4, 2, 2, 2 and 6 bytes.
fn name_of(uuid: [u8; 16]) -> CString {
    let mut name = "GPU".to_owned();
    for (index, byte) in uuid.iter().enumerate() {
        if matches!(index, 0 | 4 | 6 | 8 | 10) {
            name.push('-');
        }
        for digit in [byte >> 4, byte & 15] {
            name.extend(char::from_digit(u32::from(digit), 16));
        }
    }
    // It has no zero.
    CString::new(name).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_called_as_nvidia_smi_lists_it() {
        let bytes = [0x5e, 0x2b, 0x01, 0xff, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
        assert_eq!(
            name_of(bytes).to_str(),
            Ok("GPU-5e2b01ff-0001-0203-0405-060708090a0b")
        );
    }
}
