//! Tensors that a program has as `DLPack`'s.

use std::ffi::{c_char, c_void};

use super::message::guarded;
use super::types::{TensorC, read};

/// `DLTensor` of `DLPack`, whose layout does not change.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DlTensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    dimensions: i32,
    type_code: u8,
    type_bits: u8,
    type_lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

/// `kDLCPU` and `kDLCUDAHost`: memory that the processor reads.
const IN_MAIN_MEMORY: [i32; 2] = [1, 3];

/// Describes a tensor of `DLPack`'s as one of this interface's.
///
/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sconce_host_tensor_of_dlpack(
    tensor: *mut TensorC,
    name: *const c_char,
    from: *const DlTensor,
) -> i32 {
    guarded(|| {
        // SAFETY: guaranteed by the caller.
        let from = unsafe { from.as_ref() }.ok_or("`from` is NULL")?;
        // SAFETY: guaranteed by the caller.
        let before = unsafe { read(tensor, "tensor") }?;
        let described = from.describe(before, name)?;
        // SAFETY: guaranteed by the caller: it has as many bytes as its size says.
        unsafe { described.write(tensor) };
        Ok(0)
    })
}

impl DlTensor {
    fn describe(&self, before: TensorC, name: *const c_char) -> Result<TensorC, String> {
        if !IN_MAIN_MEMORY.contains(&self.device_type) {
            return Err(format!(
                "the tensor is on device {}:{} of DLPack's: hooks of other loops see tensors in the computer's memory alone",
                self.device_type, self.device_id
            ));
        }
        if self.type_lanes != 1 {
            return Err(format!(
                "the tensor's elements are vectors of {} lanes: hooks see single elements",
                self.type_lanes
            ));
        }
        let dimensions = u32::try_from(self.dimensions)
            .map_err(|_| format!("the tensor has {} dimensions", self.dimensions))?;
        let offset = usize::try_from(self.byte_offset).map_err(|error| error.to_string())?;
        let data = self.data.wrapping_byte_add(offset);
        let types = (self.type_code, self.type_bits);
        Ok(before.described(name, data, (self.shape, self.strides, dimensions), types))
    }
}
