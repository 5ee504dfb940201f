//! The loss of a batch, as a hook gives it.

use std::cell::{Cell, RefCell};

use candle_core::{DType, Result, Tensor};
use sconce_ops::given_loss;

/// The loss of the batch in progress, if a hook has given it.
#[derive(Debug, Default)]
pub struct GivenLosses {
    /// Whether the loop takes any.
    are_taken: Cell<bool>,
    of_batch: RefCell<Option<Given>>,
}

/// A loss with its gradient.
#[derive(Debug)]
struct Given {
    value: f64,
    /// Of the outputs' shape, on the CPU; none in evaluations.
    gradient: Option<Tensor>,
    hook: String,
}

impl GivenLosses {
    /// Lets hooks give losses: the loop takes them.
    pub fn expect(&self) {
        self.are_taken.set(true);
    }

    /// Takes the loss of a batch, as one of its outputs; none if no hook has given it.
    ///
    /// # Errors
    ///
    /// One of candle's.
    pub fn take(&self, outputs: &Tensor) -> Result<Option<Tensor>> {
        let Some(given) = self.of_batch.take() else {
            return Ok(None);
        };
        let wide = match outputs.dtype() {
            DType::F64 => DType::F64,
            _ => DType::F32,
        };
        let value = Tensor::new(given.value, outputs.device())?.to_dtype(wide)?;
        let Some(gradient) = given.gradient else {
            return Ok(Some(value));
        };
        let gradient = gradient
            .to_dtype(outputs.dtype())?
            .to_device(outputs.device())?;
        given_loss(outputs, &value, &gradient).map(Some)
    }

    /// Whether a loss may be given, or why not.
    pub(in crate::bridge) fn admits(&self) -> std::result::Result<(), String> {
        if !self.are_taken.get() {
            return Err("this loop takes no losses of hooks".to_owned());
        }
        if let Some(given) = &*self.of_batch.borrow() {
            return Err(format!(
                "the hook `{}` has given the loss of this batch already",
                given.hook
            ));
        }
        Ok(())
    }

    /// Sets the loss of the batch for a hook; with its gradient, in training.
    pub(in crate::bridge) fn give(&self, value: f64, gradient: Option<Tensor>, hook: String) {
        self.of_batch.replace(Some(Given {
            value,
            gradient,
            hook,
        }));
    }

    /// Takes back what the call in progress has given.
    pub(in crate::bridge) fn take_back(&self) {
        self.of_batch.take();
    }

    /// What it is, as text: for tests.
    #[cfg(test)]
    pub(in crate::bridge) fn in_words(&self) -> String {
        format!("{:?}", self.of_batch.borrow())
    }
}

/// A gradient in the shape of the outputs.
pub(in crate::bridge) fn like_outputs(
    gradient: &Tensor,
    outputs: &Tensor,
) -> std::result::Result<Tensor, String> {
    let is_flat = gradient.dims().len() == 1;
    if !matches!(gradient.dtype(), DType::F32 | DType::F64) {
        return Err("the gradient of a loss is of `f32` or `f64`".to_owned());
    }
    if gradient.elem_count() != outputs.elem_count()
        || !(is_flat || gradient.dims() == outputs.dims())
    {
        return Err(format!(
            "the gradient of the loss has the shape {:?}, the outputs have {:?}: each output has an element of it",
            gradient.dims(),
            outputs.dims()
        ));
    }
    let shaped = gradient.reshape(outputs.shape());
    shaped.map_err(|error| error.to_string())
}
