//! Tensor views whose elements may be written to.

use std::slice;

use super::{Element, Tensor};
use crate::Result;
use crate::ext::TensorAbi;

/// A mutable view of a tensor in the host's memory.
///
/// It borrows the [`TaskView`](crate::TaskView) exclusively, so no other view of the tensor exists.
///
/// ```
/// # use sconce_plugin_api::{BeforeUpdate, Result};
/// /// Halves a gradient.
/// fn halve(task: &mut BeforeUpdate<'_>) -> Result<()> {
///     let mut gradient = task.gradient_mut("fc1.weight")?;
///     gradient.map::<f32>(|value| value * 0.5)
/// }
/// ```
pub struct TensorMut<'view> {
    tensor: Tensor<'view>,
}

impl TensorMut<'_> {
    /// Wraps a tensor that the host lends for `'view` to be written to. For hosts, as [`Tensor::borrowed`].
    ///
    /// # Errors
    ///
    /// If shape, strides and length are inconsistent; the elements are not accessed then.
    ///
    /// # Safety
    ///
    /// As for [`Tensor::borrowed`], and the elements may be read and written to only through this view while it exists.
    pub unsafe fn borrowed(abi: TensorAbi) -> Result<Self> {
        // SAFETY: the caller upholds the contract of `Tensor::new`.
        let tensor = unsafe { Tensor::new(abi) }?;
        Ok(TensorMut { tensor })
    }

    /// The elements as a mutable slice, without a copy.
    ///
    /// # Errors
    ///
    /// If they are of another type. Tensors lent for writing are always contiguous.
    #[track_caller]
    pub fn as_mut_slice<T: Element>(&mut self) -> Result<&mut [T]> {
        let length = self.tensor.as_slice::<T>()?.len();
        if length == 0 {
            return Ok(&mut []);
        }
        let data = self.tensor.abi().data.cast::<T>();
        // SAFETY: as in `Tensor::as_slice`, and the host lends the elements for writing.
        Ok(unsafe { slice::from_raw_parts_mut(data, length) })
    }

    /// Replaces every element `e` by `change(e)`, in place.
    ///
    /// # Errors
    ///
    /// If the elements are of another type.
    #[track_caller]
    pub fn map<T: Element>(&mut self, mut change: impl FnMut(T) -> T) -> Result<()> {
        for element in self.as_mut_slice::<T>()? {
            *element = change(*element);
        }
        Ok(())
    }

    /// A read-only view of the tensor, during which it cannot be written to.
    pub fn view(&self) -> Tensor<'_> {
        self.tensor
    }
}
