//! The loss of a batch, as a hook gives it.

use std::cell::{Cell, RefCell};

use candle_core::{DType, Result, Tensor};
use sconce_ops::given_loss;
use sconce_plugin_api::Phase;
use sconce_plugin_api::ext::Collection;

use super::journal::Change;
use super::names::FIXED;
use super::shared::BridgeState;

/// The loss of the batch in progress, if a hook has given it.
#[derive(Debug, Default)]
pub(super) struct GivenLosses {
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
    /// Takes back what the call in progress has given.
    pub(super) fn take_back(&self) {
        self.of_batch.take();
    }

    /// What it is, as text: for tests.
    #[cfg(test)]
    pub(super) fn in_words(&self) -> String {
        format!("{:?}", self.of_batch.borrow())
    }
}

impl BridgeState<'_> {
    /// Lets hooks give losses: the loop takes them.
    pub fn take_losses_of_hooks(&self) {
        self.given_losses.are_taken.set(true);
    }

    /// Takes the loss of a batch that a hook has given, as one of its outputs; none if no hook has.
    ///
    /// # Errors
    ///
    /// One of candle's.
    pub fn take_given_loss(&self, outputs: &Tensor) -> Result<Option<Tensor>> {
        let Some(given) = self.given_losses.of_batch.take() else {
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
        given_loss(outputs, &value, gradient).map(Some)
    }

    /// Sets the loss of the batch for the current hook.
    pub(super) fn give_loss(
        &self,
        value: f64,
        gradient: Tensor,
    ) -> std::result::Result<(), String> {
        let losses = &self.given_losses;
        if !losses.are_taken.get() {
            return Err("this loop takes no losses of hooks".to_owned());
        }
        if let Some(given) = &*losses.of_batch.borrow() {
            return Err(format!(
                "the hook `{}` has given the loss of this batch already",
                given.hook
            ));
        }
        let gradient = match self.phase() {
            Phase::Train => Some(self.like_outputs(gradient)?),
            _ => None,
        };
        self.journal.note(|| Change::GivenLoss);
        losses.of_batch.replace(Some(Given {
            value,
            gradient,
            hook: self.hook_name(),
        }));
        Ok(())
    }

    /// A gradient in the shape of the batch's outputs.
    fn like_outputs(&self, gradient: Tensor) -> std::result::Result<Tensor, String> {
        let position = FIXED.iter().position(|name| *name == "outputs");
        let outputs = position.and_then(|index| self.tensor(Collection::Batch, index));
        let outputs = outputs.ok_or_else(|| "the batch has no outputs".to_owned())?;
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
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Var};
    use sconce_plugin_api::Point;

    use super::*;
    use crate::log::{Level, Log};

    struct Silent;

    impl Log for Silent {
        fn log(&self, _level: Level, _source: &str, _message: &str) {}
    }

    #[test]
    fn a_loss_is_taken_once_with_its_gradient_and_by_one_hook() {
        let shared = BridgeState::new(&Silent);
        shared.register("mine");
        shared.enter(Some(Point::AfterForward), Phase::Train);
        let numbers = |shape: (usize, usize)| {
            let count = shape.0 * shape.1;
            let numbers: Vec<f32> = (0..count).map(|one| one as f32).collect();
            Tensor::from_vec(numbers, shape, &Device::Cpu).expect("numbers")
        };
        let refused = shared.give_loss(1.0, numbers((2, 3)));
        assert!(refused.is_err_and(|why| why.contains("takes no losses")));
        shared.take_losses_of_hooks();
        let outputs = Var::from_tensor(&numbers((2, 3))).expect("outputs");
        shared.tensors.set_batch(&outputs, &outputs, &[0, 1]);
        shared.tensors.set_outputs(&outputs);
        let misfit = shared.give_loss(1.0, numbers((3, 2)));
        assert!(misfit.is_err_and(|why| why.contains("[3, 2], the outputs have [2, 3]")));
        let flat = numbers((2, 3)).flatten_all().expect("numbers");
        assert_eq!(shared.give_loss(1.5, flat), Ok(()));
        let again = shared.give_loss(1.5, numbers((2, 3)));
        assert!(again.is_err_and(|why| why.contains("the hook `mine` has given")));
        let loss = shared.take_given_loss(&outputs).expect("a loss");
        let loss = loss.expect("it is given");
        assert_eq!(loss.to_scalar::<f32>().expect("a number"), 1.5);
        let gradients = loss.backward().expect("gradients");
        let found = gradients.get(&outputs).expect("it").to_vec2::<f32>();
        assert_eq!(
            found.expect("numbers"),
            numbers((2, 3)).to_vec2::<f32>().expect("numbers")
        );
        assert!(shared.take_given_loss(&outputs).expect("none").is_none());
        shared.enter(Some(Point::AfterForward), Phase::Val);
        let nothing = Tensor::zeros(0, DType::F32, &Device::Cpu).expect("nothing");
        assert_eq!(shared.give_loss(0.5, nothing), Ok(()));
        let loss = shared.take_given_loss(&outputs).expect("a loss");
        assert_eq!(loss.expect("it").to_scalar::<f32>().expect("one"), 0.5);
    }
}
