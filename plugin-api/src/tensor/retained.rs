//! Tensors whose memory outlives the call.

use std::ffi::c_void;
use std::fmt;
use std::slice;

use super::{DType, Tensor};
use crate::Result;
use crate::ext::{RetainTable, TensorAbi};

/// A host tensor whose memory stays allocated until this value is dropped, on any thread.
///
/// It is meant for runtimes that can't prove that a borrow has ended, such as Python's. Only addresses can be read from
/// it: the host goes on using the memory, so that its elements may change as soon as the call is over. A hook in Rust
/// uses [`Tensor`] and copies what it keeps.
pub struct RetainedTensor {
    abi: TensorAbi,
    name: Box<str>,
    token: *mut c_void,
    table: &'static RetainTable,
}

// SAFETY: the value only holds addresses, which stay valid until the token is released; the table allows a release on
// any thread.
unsafe impl Send for RetainedTensor {}
// SAFETY: a shared reference gives access to addresses and copies of plain numbers.
unsafe impl Sync for RetainedTensor {}

impl RetainedTensor {
    /// Takes over a tensor that the host retained.
    ///
    /// # Safety
    ///
    /// `abi` and `token` must be results of one successful call of `table.retain`, in the hook call in progress; the
    /// token is released by this value.
    pub(crate) unsafe fn new(
        abi: TensorAbi,
        token: *mut c_void,
        table: &'static RetainTable,
    ) -> Result<Self> {
        // Constructed first: its drop releases the token if the check fails.
        let mut retained = RetainedTensor {
            abi,
            name: Box::default(),
            token,
            table,
        };
        // SAFETY: the caller guarantees a tensor that the host lends at least for this call.
        let tensor = unsafe { Tensor::new(abi) }?;
        retained.name = tensor.name().into();
        Ok(retained)
    }

    /// Name of the tensor, such as `fc1.weight`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Address of the first element; null or dangling for a tensor without elements.
    ///
    /// Elements may be written only if [`is_writable`](RetainedTensor::is_writable), and only in the call that retained
    /// the tensor.
    pub fn data(&self) -> *mut c_void {
        self.abi.data
    }

    /// Number of bytes at [`data`](RetainedTensor::data), including gaps between elements.
    pub fn byte_length(&self) -> u64 {
        self.abi.byte_length
    }

    /// Size of each dimension.
    pub fn shape(&self) -> &[i64] {
        self.numbers(self.abi.shape)
    }

    /// Stride of each dimension, in elements.
    pub fn strides(&self) -> &[i64] {
        self.numbers(self.abi.strides)
    }

    /// Type of the elements; `None` if this version of the API doesn't know it.
    pub fn dtype(&self) -> Option<DType> {
        DType::from_codes(self.abi.type_code, self.abi.type_bits)
    }

    /// Whether the host allowed writing to the elements during the call.
    pub fn is_writable(&self) -> bool {
        self.abi.flags & TensorAbi::WRITABLE != 0
    }

    /// Whether this is one of the model's buffers.
    pub fn is_buffer(&self) -> bool {
        self.abi.flags & TensorAbi::BUFFER != 0
    }

    fn numbers(&self, numbers: *const i64) -> &[i64] {
        if self.abi.dimensions == 0 || numbers.is_null() {
            return &[];
        }
        // SAFETY: the host keeps an array of `dimensions` integers there until the token is released.
        unsafe { slice::from_raw_parts(numbers, self.abi.dimensions as usize) }
    }
}

impl Drop for RetainedTensor {
    fn drop(&mut self) {
        // SAFETY: the token was given to this value alone, which is dropped once; any thread may release it.
        unsafe { (self.table.release)(self.token) };
    }
}

impl fmt::Debug for RetainedTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dtype = self.dtype().map_or("unknown", DType::name);
        write!(
            f,
            "RetainedTensor({}, {dtype}, {:?})",
            self.name,
            self.shape()
        )
    }
}
