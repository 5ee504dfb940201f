//! Values and tensors that hooks publish for other hooks, for the task's loss and in checkpoints.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::TaskView;
use crate::abi::{Status, TextAbi};
use crate::error::outcome;
use crate::ext::{Collection, Keep, TensorAbi};
use crate::tensor::{Element, MOST_DIMENSIONS, TensorMut};
use crate::{Context, HookError, Result};

impl TaskView<'_> {
    /// Publishes a value under a name, for later hooks at this point and all hooks at later points.
    ///
    /// Replaces an existing value or tensor of that name, including those of other hooks.
    ///
    /// ```
    /// # use sconce_plugin_api::{Keep, Result, TaskView};
    /// /// One hook, at `after_backward`.
    /// fn measure(task: &mut TaskView<'_>) -> Result<()> {
    ///     task.publish("quietest-layer", "fc2", Keep::Epoch)
    /// }
    ///
    /// /// Another one, later.
    /// fn tell(task: &TaskView<'_>) -> Result<()> {
    ///     match task.published::<String>("quietest-layer")? {
    ///         Some(name) => task.info(format_args!("the quietest layer is {name}")),
    ///         None => task.info("not measured yet"),
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// If the name is empty, longer than 256 bytes or contains control characters, or the value cannot be
    /// serialised as JSON.
    #[track_caller]
    pub fn publish<T: Serialize + ?Sized>(
        &mut self,
        name: &str,
        value: &T,
        keep: Keep,
    ) -> Result<()> {
        self.set_value(keep, name, value)
    }

    /// The value published under a name; `None` if there is none, or no longer.
    ///
    /// # Errors
    ///
    /// If it cannot be deserialised as a `T`.
    #[track_caller]
    pub fn published<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        self.get_value(Keep::Run, name)
    }

    /// Publishes a tensor under a name; the host keeps a copy.
    ///
    /// With [`Keep::Batch`] at `after_forward`, the task's loss can read it in the same batch. Gradients of
    /// computations with it do not reach this hook.
    ///
    /// ```
    /// # use sconce_plugin_api::{Keep, Result, TaskView};
    /// /// At `after_forward`: what a second model says about the batch.
    /// fn publish(task: &mut TaskView<'_>, logits: &[f32], classes: usize) -> Result<()> {
    ///     task.publish_tensor("teacher", &[logits.len() / classes, classes], logits, Keep::Batch)
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// If the shape does not match the number of elements, or the name is not valid (see
    /// [`publish`](TaskView::publish)).
    #[track_caller]
    pub fn publish_tensor<T: Element>(
        &mut self,
        name: &str,
        shape: &[usize],
        elements: &[T],
        keep: Keep,
    ) -> Result<()> {
        self.set_tensor(keep, name, shape, elements)
    }

    /// A published tensor for in-place modification. Legal at every mount point.
    ///
    /// # Errors
    ///
    /// If another hook published it, or it is kept for the batch only ([`Keep::Batch`]): the loss may have
    /// read it already.
    #[track_caller]
    pub fn published_tensor_mut(&mut self, name: &str) -> Result<TensorMut<'_>> {
        self.find_mut(Collection::Published, name)
    }

    /// Withdraws the value or tensor published under a name; does nothing if there is none.
    #[track_caller]
    pub fn retract(&mut self, name: &str) -> Result<()> {
        match self.host.values()?.remove(name) {
            Err(refusal) if refusal.status == Status::NOT_FOUND => Ok(()),
            answer => outcome(answer),
        }
    }

    #[track_caller]
    pub(super) fn set_value<T: Serialize + ?Sized>(
        &mut self,
        keep: Keep,
        name: &str,
        value: &T,
    ) -> Result<()> {
        let values = self.host.values()?;
        let json = serde_json::to_string(value).context("the value can't be written as JSON")?;
        outcome(values.set(keep as u32, name, &json))
    }

    #[track_caller]
    pub(super) fn get_value<T: DeserializeOwned>(
        &self,
        keep: Keep,
        name: &str,
    ) -> Result<Option<T>> {
        // The host keeps the text until something is published, which requires exclusive use of this view.
        let Some(text) = self.host.values()?.get(keep as u32, name) else {
            return Ok(None);
        };
        let value = serde_json::from_str(text);
        value
            .with_context(|| format!("the value `{name}` is of another type"))
            .map(Some)
    }

    #[track_caller]
    pub(super) fn set_tensor<T: Element>(
        &mut self,
        keep: Keep,
        name: &str,
        shape: &[usize],
        elements: &[T],
    ) -> Result<()> {
        let values = self.host.values()?;
        let count = shape
            .iter()
            .try_fold(1_usize, |count, &size| count.checked_mul(size));
        if count != Some(elements.len()) || shape.len() > MOST_DIMENSIONS {
            return Err(HookError::new(format_args!(
                "the tensor `{name}` has {} elements, which do not fill the shape {shape:?}",
                elements.len()
            )));
        }
        let mut sizes = [0_i64; MOST_DIMENSIONS];
        let mut strides = [0_i64; MOST_DIMENSIONS];
        let mut stride = 1;
        let places = sizes.iter_mut().zip(&mut strides).take(shape.len());
        // From the last dimension to the first: neighbours in the last dimension are adjacent in memory.
        for ((size_place, stride_place), &size) in places.rev().zip(shape.iter().rev()) {
            *size_place = i64::try_from(size).unwrap_or(i64::MAX);
            *stride_place = stride;
            stride *= *size_place;
        }
        let (type_code, type_bits) = T::DTYPE.codes();
        let tensor = TensorAbi {
            data: elements.as_ptr().cast_mut().cast(),
            byte_length: size_of_val(elements) as u64,
            shape: sizes.as_ptr(),
            strides: strides.as_ptr(),
            name: TextAbi::new(name),
            dimensions: shape.len() as u32,
            type_code,
            type_bits,
            ..TensorAbi::EMPTY
        };
        // SAFETY: the tensor, which the host only reads, its shape and strides are borrowed for the call.
        outcome(unsafe { values.set_tensor(keep as u32, name, &tensor) })
    }
}
