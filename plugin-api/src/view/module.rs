//! The module that `module_forward` and `module_backward` are called for.

use super::TaskView;
use super::payload::read;
use crate::Result;
use crate::abi::{ModuleAbi, ViewAbi};
use crate::ext::{Collection, Tables};
use crate::tensor::Tensor;

/// A named module of the model whose forward or backward pass has just run.
///
/// ```
/// # use sconce_plugin_api::{Module, Result};
/// /// The share of a layer's outputs that are zero.
/// fn dead(module: &Module<'_>) -> Result<f64> {
///     let output = module.output()?;
///     let zeros = output.elements::<f32>()?.filter(|&value| value == 0.0).count();
///     Ok(zeros as f64 / output.len().max(1) as f64)
/// }
/// ```
pub struct Module<'task> {
    payload: &'task ModuleAbi,
    view: TaskView<'task>,
}

impl<'task> Module<'task> {
    /// Reads the payload of a module point.
    ///
    /// # Safety
    ///
    /// The texts in `payload` must live for `'task`.
    pub(crate) unsafe fn read(
        payload: &'task ModuleAbi,
        abi: &'task ViewAbi,
        tables: &'task Tables,
    ) -> Self {
        Module {
            payload,
            view: TaskView::new(abi, tables),
        }
    }

    /// Name in the model, such as `fc1`.
    pub fn name(&self) -> &'task str {
        // SAFETY: the caller of `read` guarantees that the texts live for `'task`.
        unsafe { read(self.payload.name) }
    }

    /// Kind of layer, such as `linear` or `relu`.
    pub fn kind(&self) -> &'task str {
        // SAFETY: the caller of `read` guarantees that the texts live for `'task`.
        unsafe { read(self.payload.kind) }
    }

    /// The module's input in this forward pass.
    #[track_caller]
    pub fn input(&self) -> Result<Tensor<'_>> {
        self.view.find(Collection::Module, "input")
    }

    /// The module's output in this forward pass.
    #[track_caller]
    pub fn output(&self) -> Result<Tensor<'_>> {
        self.view.find(Collection::Module, "output")
    }

    /// Gradient of the loss with respect to the module's output; at `module_backward` only.
    #[track_caller]
    pub fn output_gradient(&self) -> Result<Tensor<'_>> {
        self.view.find(Collection::Module, "output_gradient")
    }

    /// Gradient of the loss with respect to the module's input; at `module_backward` only.
    ///
    /// # Errors
    ///
    /// If the input has no gradient, as that of an embedding.
    #[track_caller]
    pub fn input_gradient(&self) -> Result<Tensor<'_>> {
        self.view.find(Collection::Module, "input_gradient")
    }

    /// The module's parameters and buffers: those whose names begin with its name and a dot.
    pub fn parameters(&self) -> impl Iterator<Item = Tensor<'_>> {
        let name = self.name();
        self.view.parameters().filter(move |parameter| {
            let rest = parameter.name().strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with('.'))
        })
    }
}
