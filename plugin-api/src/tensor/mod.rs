//! Tensors of the host: borrowed for the call, read and written in place.

mod dtype;
mod elements;
mod writable;

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::slice;

pub use dtype::{BrainHalf, DType, Element, Half};
pub use elements::Elements;
pub(crate) use elements::MOST_DIMENSIONS;
pub use writable::TensorMut;

use crate::ext::TensorAbi;
use crate::{Error, Result};

/// A tensor of the host, borrowed from the [`TaskView`](crate::TaskView).
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
    /// A tensor that the host lends for `'view`.
    ///
    /// # Errors
    ///
    /// Where what the host lends contradicts itself: then it is not touched.
    ///
    /// # Safety
    ///
    /// The pointers in `abi` must be valid for `'view`, and nothing may write to the elements
    /// meanwhile but through this view.
    pub(crate) unsafe fn new(abi: TensorAbi) -> Result<Self> {
        let tensor = Tensor {
            abi,
            view: PhantomData,
        };
        tensor.check()?;
        Ok(tensor)
    }

    /// A tensor that somebody lends for `'view`, for hosts: hooks get theirs from the
    /// [`TaskView`](crate::TaskView).
    ///
    /// # Errors
    ///
    /// Where what is lent contradicts itself: then it is not touched.
    ///
    /// # Safety
    ///
    /// The pointers in `abi` must be valid for `'view`, and nothing may write to the elements
    /// meanwhile.
    pub unsafe fn borrowed(abi: TensorAbi) -> Result<Self> {
        // SAFETY: passed on.
        unsafe { Tensor::new(abi) }
    }

    /// Its name: a parameter's, as `fc1.weight`, or `inputs`, `targets`, `outputs`.
    pub fn name(&self) -> &'view str {
        // SAFETY: the host lends the name with the tensor.
        unsafe { self.abi.name.read() }.unwrap_or_default()
    }

    /// The size of each dimension; empty for a scalar.
    pub fn shape(&self) -> &'view [i64] {
        self.numbers(self.abi.shape)
    }

    /// How far apart neighbours are in each dimension, in elements.
    pub fn strides(&self) -> &'view [i64] {
        self.numbers(self.abi.strides)
    }

    /// The type of its elements, or nothing where this version of the API doesn't know it.
    pub fn dtype(&self) -> Option<DType> {
        DType::from_codes(self.abi.type_code, self.abi.type_bits)
    }

    /// Whether it is one of the model's buffers: part of its state, but not learned from gradients,
    /// as the means of a batch norm.
    pub fn is_buffer(&self) -> bool {
        self.abi.flags & TensorAbi::BUFFER != 0
    }

    /// How many elements it has; 1 for a scalar.
    pub fn len(&self) -> usize {
        self.shape().iter().map(|&size| size as usize).product()
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether its elements stand side by side in row-major order.
    pub fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        let dimensions = self.shape().iter().zip(self.strides()).rev();
        for (&size, &stride) in dimensions {
            if size != 1 && stride != expected {
                return false;
            }
            expected *= size;
        }
        true
    }

    /// Its elements, without a copy.
    ///
    /// # Errors
    ///
    /// Where they are of another type, or do not stand side by side
    /// ([`elements`](Tensor::elements) and [`to_vec`](Tensor::to_vec) work then).
    #[track_caller]
    pub fn as_slice<T: Element>(&self) -> Result<&'view [T]> {
        self.expect_type::<T>()?;
        if !self.is_contiguous() {
            return Err(self.not_contiguous());
        }
        if self.is_empty() {
            return Ok(&[]);
        }
        // SAFETY: the type is right, the elements stand side by side, and `check` has found them
        // inside the bytes that the host lends for 'view, at an address that suits the type.
        Ok(unsafe { slice::from_raw_parts(self.abi.data.cast::<T>(), self.len()) })
    }

    /// Its elements in row-major order, whatever its strides.
    ///
    /// # Errors
    ///
    /// Where they are of another type.
    #[track_caller]
    pub fn elements<T: Element>(&self) -> Result<Elements<'view, T>> {
        self.expect_type::<T>()?;
        Ok(Elements::new(*self))
    }

    /// Its elements in row-major order, side by side: as they lie where they do so, else a copy.
    ///
    /// # Errors
    ///
    /// Where they are of another type.
    #[track_caller]
    pub fn to_contiguous<T: Element>(&self) -> Result<Cow<'view, [T]>> {
        if self.is_contiguous() {
            return self.as_slice().map(Cow::Borrowed);
        }
        self.to_vec().map(Cow::Owned)
    }

    /// A copy of its elements in row-major order.
    ///
    /// # Errors
    ///
    /// Where they are of another type.
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
        Err(Error::new(format_args!(
            "the elements of `{}` are {found}, not {}",
            self.name(),
            T::DTYPE.name()
        )))
    }

    #[track_caller]
    fn not_contiguous(&self) -> Error {
        Error::new(format_args!(
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
        // SAFETY: the host lends as many numbers as there are dimensions, for 'view.
        unsafe { slice::from_raw_parts(numbers, self.abi.dimensions as usize) }
    }

    /// Whether all elements lie inside the bytes that the host lends.
    fn check(&self) -> Result<()> {
        let wrong = |what: &str| {
            let name = self.name();
            Err(Error::new(format_args!(
                "the host's tensor `{name}` is wrong: {what}"
            )))
        };
        if self.abi.device_type != 1 {
            return wrong("it is not in this machine's main memory");
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

/// How many bytes a tensor of this shape and these strides reaches over; nothing where that
/// overflows or a number is negative.
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
