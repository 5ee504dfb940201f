//! The structures of `sconce_host.h`.

use std::ffi::{c_char, c_void};
use std::mem::{MaybeUninit, offset_of, size_of};

use sconce_hooks::bridge::{ForeignParameter, ForeignTensor};

use super::message::given;

/// `sconce_host_tensor`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TensorC {
    size: usize,
    name: *const c_char,
    data: *mut c_void,
    shape: *const i64,
    strides: *const i64,
    dimensions: u32,
    type_code: u8,
    type_bits: u8,
    is_buffer: u8,
}

/// `sconce_host_loop`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct LoopC {
    size: usize,
    pub(super) user: *mut c_void,
    pub(super) save: Option<Save>,
    pub(super) load_parameters: Option<Load>,
    pub(super) delete_checkpoint: Option<Delete>,
    pub(super) validate: Option<Validate>,
    pub(super) log: Option<LogC>,
}

/// `save` of `sconce_host_loop`.
pub(super) type Save =
    unsafe extern "C" fn(*mut c_void, *const c_char, *const u8, usize, *mut c_char, usize) -> i32;
/// `load_parameters` of `sconce_host_loop`.
pub(super) type Load =
    unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char, *mut c_char, usize) -> i32;
/// `delete_checkpoint` of `sconce_host_loop`.
pub(super) type Delete =
    unsafe extern "C" fn(*mut c_void, *const c_char, *mut c_char, usize) -> i32;
/// `validate` of `sconce_host_loop`.
pub(super) type Validate = unsafe extern "C" fn(*mut c_void, *mut c_char, usize) -> i32;
/// `log` of `sconce_host_loop`.
pub(super) type LogC = unsafe extern "C" fn(*mut c_void, i32, *const c_char, *const c_char);

/// `sconce_host_options`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct OptionsC {
    size: usize,
    pub(super) hooks: *const c_char,
    pub(super) path: *const c_char,
    pub(super) description: *const c_char,
    pub(super) directory: *const c_char,
    pub(super) parameters: *const TensorC,
    pub(super) parameter_count: usize,
    pub(super) loops: *const LoopC,
    pub(super) states: *const u8,
    pub(super) states_length: usize,
}

/// A structure that says its size first.
///
/// # Safety
///
/// It is plain data that begins with a `usize`, and all zeros are one of its values.
pub(super) unsafe trait Sized: Copy {
    /// Bytes of version 1.
    const FIRST: usize;
}

// SAFETY: plain data; null pointers and zeros are valid.
unsafe impl Sized for TensorC {
    const FIRST: usize = offset_of!(TensorC, is_buffer) + 1;
}
// SAFETY: plain data; null pointers and absent functions are valid.
unsafe impl Sized for LoopC {
    const FIRST: usize = size_of::<LoopC>();
}
// SAFETY: plain data; null pointers and zeros are valid.
unsafe impl Sized for OptionsC {
    const FIRST: usize = size_of::<OptionsC>();
}

/// Reads a structure of the size that it says; what a program does not have is zero.
///
/// # Safety
///
/// `from` must be null or lead to as many bytes as its first field says.
pub(super) unsafe fn read<T: Sized>(from: *const T, what: &str) -> Result<T, String> {
    if from.is_null() {
        return Err(format!("`{what}` is NULL"));
    }
    // SAFETY: guaranteed by the caller; the size comes first.
    let size = unsafe { from.cast::<usize>().read_unaligned() };
    if size < T::FIRST {
        return Err(format!(
            "`{what}.size` is {size}: it must be `sizeof` of the structure, at least {}",
            T::FIRST
        ));
    }
    let mut value = MaybeUninit::<T>::zeroed();
    let length = size.min(size_of::<T>());
    // SAFETY: the program has this many bytes, and so has `value`; all zeros are a value of `T`.
    unsafe {
        std::ptr::copy_nonoverlapping(from.cast::<u8>(), value.as_mut_ptr().cast(), length);
        Ok(value.assume_init())
    }
}

impl TensorC {
    /// Bytes from one tensor of a program's array to the next.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// It with another name and other elements.
    pub(super) fn described(
        self,
        name: *const c_char,
        data: *mut c_void,
        (shape, strides, dimensions): (*const i64, *const i64, u32),
        (type_code, type_bits): (u8, u8),
    ) -> TensorC {
        TensorC {
            name,
            data,
            shape,
            strides,
            dimensions,
            type_code,
            type_bits,
            ..self
        }
    }

    /// Writes it to a program's structure, which says its size first: as much as that has.
    ///
    /// # Safety
    ///
    /// `to` must lead to as many bytes as this one's size says, which has been read from there.
    pub(super) unsafe fn write(&self, to: *mut TensorC) {
        let length = self.size.min(size_of::<TensorC>());
        // SAFETY: guaranteed by the caller.
        unsafe {
            std::ptr::copy_nonoverlapping(std::ptr::from_ref(self).cast::<u8>(), to.cast(), length);
        }
    }

    /// Its name, and where it is.
    ///
    /// # Safety
    ///
    /// As the header says.
    pub(super) unsafe fn foreign<'a>(&self) -> Result<(&'a str, ForeignTensor), String> {
        let count = self.dimensions as usize;
        // SAFETY: guaranteed by the caller.
        let name = unsafe { given(self.name, "name") }?;
        let numbers = |from: *const i64| {
            if from.is_null() || count == 0 {
                return Vec::new();
            }
            // SAFETY: guaranteed by the caller: one number for each dimension.
            unsafe { std::slice::from_raw_parts(from, count) }.to_vec()
        };
        let shape = numbers(self.shape);
        if shape.len() != count {
            return Err(format!("`{name}` has {count} dimensions, and no shape"));
        }
        let strides = if self.strides.is_null() {
            contiguous(&shape)
        } else {
            numbers(self.strides)
        };
        let types = (self.type_code, self.type_bits);
        // SAFETY: guaranteed by the caller.
        let tensor = unsafe { ForeignTensor::new(self.data, &shape, &strides, types) };
        Ok((
            name,
            tensor.map_err(|problem| format!("`{name}`: {problem}"))?,
        ))
    }

    /// It as a parameter.
    ///
    /// # Safety
    ///
    /// As the header says.
    pub(super) unsafe fn parameter(&self) -> Result<ForeignParameter, String> {
        // SAFETY: guaranteed by the caller.
        let (name, tensor) = unsafe { self.foreign() }?;
        Ok(ForeignParameter {
            name: name.into(),
            tensor,
            is_buffer: self.is_buffer != 0,
        })
    }
}

/// Strides of elements that lie side by side, the last dimension's first.
fn contiguous(shape: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; shape.len()];
    for index in (1..shape.len()).rev() {
        let below: i64 = strides.get(index).copied().unwrap_or(1);
        let size = shape.get(index).copied().unwrap_or(1).max(1);
        if let Some(stride) = strides.get_mut(index - 1) {
            *stride = below.saturating_mul(size);
        }
    }
    strides
}
