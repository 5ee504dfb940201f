//! Views of the host's tensors: borrowed for the call, read and modified in place.

mod dtype;
mod elements;
mod retained;
mod values;
mod writable;

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::slice;

pub use dtype::{BrainHalf, DType, Element, Half};
pub use elements::Elements;
pub(crate) use elements::MOST_DIMENSIONS;
pub use retained::RetainedTensor;
pub use values::Values;
pub use writable::TensorMut;

use crate::ext::TensorAbi;
use crate::{HookError, Result};

/// A read-only view of a tensor in the host's memory, borrowed from the [`TaskView`](crate::TaskView).
///
/// ```
/// # use sconce_plugin_api::{Result, TaskView};
/// fn largest_weight(task: &TaskView<'_>) -> Result<f32> {
///     let mut largest = 0.0_f32;
///     for parameter in task.parameters() {
///         for value in parameter.elements::<f32>()? {
///             largest = largest.max(value.abs());
///         }
///     }
///     Ok(largest)
/// }
/// ```
#[derive(Clone, Copy)]
pub struct Tensor<'view> {
    abi: TensorAbi,
    view: PhantomData<&'view ()>,
}

impl<'view> Tensor<'view> {
    /// Wraps a tensor that the host lends for `'view`.
    ///
    /// # Errors
    ///
    /// If shape, strides and length are inconsistent; the elements are not accessed then.
    ///
    /// # Safety
    ///
    /// The pointers in `abi` must be valid for `'view`, during which the elements may be written to only
    /// through this view.
    pub(crate) unsafe fn new(abi: TensorAbi) -> Result<Self> {
        let tensor = Tensor {
            abi,
            view: PhantomData,
        };
        tensor.check()?;
        Ok(tensor)
    }

    /// Wraps a tensor that is valid for `'view`. For hosts: hooks get theirs from the
    /// [`TaskView`](crate::TaskView).
    ///
    /// # Errors
    ///
    /// If shape, strides and length are inconsistent; the elements are not accessed then.
    ///
    /// # Safety
    ///
    /// The pointers in `abi` must be valid for `'view`, during which nothing may write to the elements.
    pub unsafe fn borrowed(abi: TensorAbi) -> Result<Self> {
        // SAFETY: the caller guarantees valid pointers and no writes for `'view`.
        unsafe { Tensor::new(abi) }
    }

    /// Name of the tensor: a parameter's, such as `fc1.weight`, or `inputs`, `targets`, `outputs`.
    pub fn name(&self) -> &'view str {
        // SAFETY: the host lends the name together with the tensor, for `'view`.
        unsafe { self.abi.name.read() }.unwrap_or_default()
    }

    /// Size of each dimension; empty for a scalar.
    pub fn shape(&self) -> &'view [i64] {
        self.numbers(self.abi.shape)
    }

    /// Stride of each dimension, in elements.
    pub fn strides(&self) -> &'view [i64] {
        self.numbers(self.abi.strides)
    }

    /// Type of the elements; `None` if this version of the API doesn't know it.
    pub fn dtype(&self) -> Option<DType> {
        DType::from_codes(self.abi.type_code, self.abi.type_bits)
    }

    /// Whether it is a buffer of the model: state that is not learned from gradients.
    ///
    /// For example the running means of a batch norm.
    pub fn is_buffer(&self) -> bool {
        self.abi.flags & TensorAbi::BUFFER != 0
    }

    /// Number of elements; 1 for a scalar.
    pub fn len(&self) -> usize {
        self.shape().iter().map(|&size| size as usize).product()
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the elements are adjacent in memory, in row-major order.
    pub fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        let dimensions = self.shape().iter().zip(self.strides()).rev();
        for (&size, &stride) in dimensions {
            if size != 1 && stride != expected {
                return false;
            }
            // Of an empty tensor the other dimensions may have any size.
            expected = expected.saturating_mul(size);
        }
        true
    }

    /// The elements as a slice, without a copy.
    ///
    /// # Errors
    ///
    /// If they are of another type, or not contiguous ([`elements`](Tensor::elements) and
    /// [`to_vec`](Tensor::to_vec) work then).
    #[track_caller]
    pub fn as_slice<T: Element>(&self) -> Result<&'view [T]> {
        self.expect_type::<T>()?;
        if !self.is_contiguous() {
            return Err(self.not_contiguous());
        }
        if self.is_empty() {
            return Ok(&[]);
        }
        // SAFETY: the type matches, the elements are contiguous, and `check` has verified that they lie
        // within the bytes that the host lends for `'view`, at an address aligned for the type.
        Ok(unsafe { slice::from_raw_parts(self.abi.data.cast::<T>(), self.len()) })
    }

    /// Iterates over the elements in row-major order, for any strides.
    ///
    /// # Errors
    ///
    /// If they are of another type.
    #[track_caller]
    pub fn elements<T: Element>(&self) -> Result<Elements<'view, T>> {
        self.expect_type::<T>()?;
        Ok(Elements::new(*self))
    }

    /// The elements in row-major order: borrowed if contiguous, otherwise a copy.
    ///
    /// # Errors
    ///
    /// If they are of another type.
    #[track_caller]
    pub fn to_contiguous<T: Element>(&self) -> Result<Cow<'view, [T]>> {
        if self.is_contiguous() {
            return self.as_slice().map(Cow::Borrowed);
        }
        self.to_vec().map(Cow::Owned)
    }

    /// Copies the elements, in row-major order.
    ///
    /// # Errors
    ///
    /// If they are of another type.
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        Ok(self.elements::<T>()?.collect())
    }

    pub(super) fn abi(&self) -> &TensorAbi {
        &self.abi
    }

    #[track_caller]
    fn expect_type<T: Element>(&self) -> Result<()> {
        if self.dtype() == Some(T::DTYPE) {
            return Ok(());
        }
        let found = self.dtype().map_or("of an unknown type", DType::name);
        Err(HookError::new(format_args!(
            "the elements of `{}` are {found}, not {}",
            self.name(),
            T::DTYPE.name()
        )))
    }

    #[track_caller]
    fn not_contiguous(&self) -> HookError {
        HookError::new(format_args!(
            "the elements of `{}` do not stand side by side: shape {:?}, strides {:?}",
            self.name(),
            self.shape(),
            self.strides()
        ))
    }

    fn numbers(&self, numbers: *const i64) -> &'view [i64] {
        if self.abi.dimensions == 0 || numbers.is_null() {
            return &[];
        }
        // SAFETY: the host lends an array of `dimensions` integers for `'view`.
        unsafe { slice::from_raw_parts(numbers, self.abi.dimensions as usize) }
    }

    /// Checks that all elements lie within the bytes that the host lends.
    fn check(&self) -> Result<()> {
        let wrong = |what: &str| {
            let name = self.name();
            Err(HookError::new(format_args!(
                "the tensor `{name}` is wrong: {what}"
            )))
        };
        if self.abi.device_type != 1 {
            return wrong("it is not in this machine's main memory");
        }
        if self.abi.type_lanes != 1 {
            return wrong("its elements are vectors");
        }
        if self.abi.dimensions > 0 && (self.abi.shape.is_null() || self.abi.strides.is_null()) {
            return wrong("it has neither shape nor strides");
        }
        if self.abi.dimensions as usize > MOST_DIMENSIONS {
            return wrong("it has too many dimensions");
        }
        let Some(size) = self.dtype().map(DType::size) else {
            return Ok(());
        };
        let Some(bytes) = extent(self.shape(), self.strides(), size as u64) else {
            return wrong("its shape or strides overflow");
        };
        if bytes > self.abi.byte_length {
            return wrong("its elements do not lie inside it");
        }
        if bytes > 0 && (self.abi.data.is_null() || self.abi.data.addr() % size != 0) {
            return wrong("its address does not suit its type");
        }
        Ok(())
    }
}

/// Number of bytes that a tensor of this shape and these strides spans.
///
/// `None` on overflow, and for negative sizes or strides.
fn extent(shape: &[i64], strides: &[i64], size: u64) -> Option<u64> {
    let mut last: u64 = 0;
    let mut count: u64 = 1;
    for (&dimension, &stride) in shape.iter().zip(strides) {
        let (dimension, stride) = (u64::try_from(dimension).ok()?, u64::try_from(stride).ok()?);
        count = count.checked_mul(dimension)?;
        last = last.checked_add(dimension.saturating_sub(1).checked_mul(stride)?)?;
    }
    if count == 0 {
        return Some(0);
    }
    last.checked_add(1)?.checked_mul(size)
}

impl fmt::Debug for Tensor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dtype = self.dtype().map_or("unknown", DType::name);
        write!(f, "Tensor({}, {dtype}, {:?})", self.name(), self.shape())
    }
}

#[cfg(test)]
mod tests;
