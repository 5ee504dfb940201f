//! A tensor whose elements may be written to.

use std::slice;

use super::{Element, Tensor};
use crate::Result;
use crate::ext::TensorAbi;

/// A tensor of the host that may be changed in place: borrowed from the
/// [`TaskView`](crate::TaskView) alone, so that no other view of it lives meanwhile.
///
/// ```
/// # use sconce_plugin_api::{Result, TaskView};
/// /// Halves a gradient: at `after_backward` or `before_update`.
/// fn halve(task: &mut TaskView<'_>) -> Result<()> {
///     let mut gradient = task.gradient_mut("fc1.weight")?;
///     gradient.map::<f32>(|value| value * 0.5)
/// }
/// ```
pub struct TensorMut<'view> {
    tensor: Tensor<'view>,
}

impl TensorMut<'_> {
    /// A tensor that the host lends for `'view` to be written to.
    ///
    /// # Safety
    ///
    /// As for [`Tensor::new`], and nothing may read the elements meanwhile but through this view.
    pub(crate) unsafe fn new(abi: TensorAbi) -> Result<Self> {
        // SAFETY: passed on.
        let tensor = unsafe { Tensor::new(abi) }?;
        Ok(TensorMut { tensor })
    }

    /// Its elements, to be written to without a copy.
    ///
    /// # Errors
    ///
    /// Where they are of another type. The host lends only elements that stand side by side.
    #[track_caller]
    pub fn as_mut_slice<T: Element>(&mut self) -> Result<&mut [T]> {
        let length = self.tensor.as_slice::<T>()?.len();
        if length == 0 {
            return Ok(&mut []);
        }
        let data = self.tensor.abi().data.cast::<T>();
        // SAFETY: as in `Tensor::as_slice`, and the host lends the elements to be written to.
        Ok(unsafe { slice::from_raw_parts_mut(data, length) })
    }

    /// Replaces every element by what `change` makes of it.
    ///
    /// # Errors
    ///
    /// Where the elements are of another type.
    #[track_caller]
    pub fn map<T: Element>(&mut self, mut change: impl FnMut(T) -> T) -> Result<()> {
        for element in self.as_mut_slice::<T>()? {
            *element = change(*element);
        }
        Ok(())
    }

    /// The tensor to be read. While it is borrowed nothing can be written.
    pub fn view(&self) -> Tensor<'_> {
        self.tensor
    }
}
