//! Forward passes that hooks ask for, and losses that they give.

use super::At;
use super::moment::{GivesLoss, Moment, RunsForward};
use crate::Result;
use crate::error::outcome;
use crate::ext::{ForwardMode, ForwardTable, TensorAbi};
use crate::tensor::Element;

/// A forward pass of the model on the batch: with which parameters, on which views, and which module's output is wanted.
///
/// ```
/// use sconce_plugin_api::{ForwardMode, ForwardPass};
///
/// let pass = ForwardPass::of_set("teacher").view(1).module("projector").mode(ForwardMode::Training);
/// assert_eq!(pass, pass.clone());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForwardPass<'a> {
    set: &'a str,
    view: Option<u32>,
    module: &'a str,
    mode: ForwardMode,
}

impl<'a> ForwardPass<'a> {
    /// With the model's parameters as they are: on the whole batch, to the last module, as in evaluations.
    pub fn new() -> ForwardPass<'a> {
        ForwardPass::default()
    }

    /// With the values of a published set: the tensors `SET/PARAMETER`, as of a momentum teacher. Parameters and buffers that the set
    /// lacks are the model's own.
    pub fn of_set(set: &'a str) -> ForwardPass<'a> {
        ForwardPass {
            set,
            ..ForwardPass::default()
        }
    }

    /// On one view of a batch that has several, from 0.
    #[must_use]
    pub fn view(mut self, view: u32) -> Self {
        self.view = Some(view);
        self
    }

    /// The output of the module of this name.
    #[must_use]
    pub fn module(mut self, module: &'a str) -> Self {
        self.module = module;
        self
    }

    /// How batch norms and dropout compute.
    #[must_use]
    pub fn mode(mut self, mode: ForwardMode) -> Self {
        self.mode = mode;
        self
    }
}

impl<M: Moment> At<'_, M> {
    /// Runs the model on the batch without gradient, and publishes the output under `name` until the end of the batch.
    ///
    /// It is done before this returns. No hook is called meanwhile, and nothing else in the run changes: neither running statistics nor
    /// random numbers.
    ///
    /// ```
    /// # use sconce_plugin_api::prelude::*;
    /// # use sconce_plugin_api::ForwardPass;
    /// /// What a teacher, whose parameters this hook keeps as `teacher/…`, says of the batch.
    /// fn before_iter(task: &mut BeforeIter<'_>) -> Result<()> {
    ///     task.forward_pass(&ForwardPass::of_set("teacher"), "teacher_outputs")
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// If nothing of the set is published, or a tensor of it does not fit its parameter; if the model has no such module, or the batch
    /// no such view; if the loop does not run its model for hooks.
    #[track_caller]
    pub fn forward_pass(&mut self, pass: &ForwardPass<'_>, name: &str) -> Result<()>
    where
        M: RunsForward,
    {
        let passes = self.host.forward()?;
        let view = pass.view.unwrap_or(ForwardTable::WHOLE);
        outcome(passes.run(pass.set, view, pass.module, pass.mode as u32, name))
    }

    /// Gives the loss of the batch in the place of the task's: its value, and its gradient with respect to the outputs, row by row.
    ///
    /// The value is a mean over the batch's samples, as the task's losses are. In evaluations the gradient is not looked at, and may be
    /// empty. A manifest with `"loss": "given"` needs a hook that does so in each batch.
    ///
    /// ```
    /// # use sconce_plugin_api::prelude::*;
    /// /// Half the mean square of the outputs.
    /// fn after_forward(task: &mut AfterForward<'_>) -> Result<()> {
    ///     let outputs = task.outputs()?.to_vec::<f32>()?;
    ///     let count = task.batch_size().max(1) as f32;
    ///     let value = outputs.iter().map(|x| 0.5 * x * x / count).sum::<f32>();
    ///     let gradient: Vec<f32> = outputs.iter().map(|x| x / count).collect();
    ///     task.set_loss(f64::from(value), &gradient)
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// If the gradient has not as many elements as the outputs, or is not of `f32` or `f64`; if another hook has given the loss of this
    /// batch; if the hook runs on the first of several ranks alone; if the loop does not take a loss of hooks.
    #[track_caller]
    pub fn set_loss<T: Element>(&mut self, value: f64, gradient: &[T]) -> Result<()>
    where
        M: GivesLoss,
    {
        let given = self.host.given_loss()?;
        let (size, stride) = (i64::try_from(gradient.len()).unwrap_or(i64::MAX), 1_i64);
        let (type_code, type_bits) = T::DTYPE.codes();
        let tensor = TensorAbi {
            data: gradient.as_ptr().cast_mut().cast(),
            byte_length: size_of_val(gradient) as u64,
            shape: &raw const size,
            strides: &raw const stride,
            dimensions: 1,
            type_code,
            type_bits,
            ..TensorAbi::EMPTY
        };
        // SAFETY: the tensor, which the host only reads, its shape and stride are borrowed for the call.
        outcome(unsafe { given.set(value, &tensor) })
    }
}
