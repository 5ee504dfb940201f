//! `sconce.forward/1` and `sconce.given-loss/1`: forward passes that hooks ask for, and losses that they give.

use candle_core::Tensor;
use sconce_plugin_api::Phase;
use sconce_plugin_api::abi::Status;
use sconce_plugin_api::ext::{
    Collection, Forward, ForwardMode, ForwardTable, GivenLoss, Keep, Refusal, TensorAbi,
    check_name, why_no_forward_at, why_no_loss_at, why_no_loss_on_first,
};

use super::values::copied;
use crate::bridge::journal::Change;
use crate::bridge::model::{AskedPass, exchange, like_outputs};
use crate::bridge::names::FIXED;
use crate::bridge::shared::BridgeState;
use crate::bridge::values::ValueContent;
use crate::bridge::witness::HookAction;

impl Forward for BridgeState<'_> {
    fn run(
        &self,
        set: &str,
        view: u32,
        module: &str,
        mode: u32,
        name: &str,
    ) -> Result<(), Refusal> {
        if let Some(message) = why_no_forward_at(self.point()) {
            return Err(Refusal::new(Status::NOT_LEGAL_HERE, message));
        }
        let mode = ForwardMode::from_number(mode).ok_or_else(|| {
            let message =
                format!("this host does not know the mode {mode} of a forward pass; update it");
            Refusal::new(Status::UNSUPPORTED, message)
        })?;
        let pass = AskedPass {
            view: (view != ForwardTable::WHOLE).then_some(view),
            module: (!module.is_empty()).then_some(module),
            mode,
        };
        check_name("a published name", name)
            .and_then(|()| self.sees(&HookAction::Value { name, json: None }))
            .and_then(|()| run_forward(self, set, &pass, name))
            .map_err(Refusal::invalid)
    }
}

impl GivenLoss for BridgeState<'_> {
    unsafe fn set(&self, value: f64, gradient: &TensorAbi) -> Result<(), Refusal> {
        let not_here = |message| Err(Refusal::new(Status::NOT_LEGAL_HERE, message));
        if let Some(message) = why_no_loss_at(self.point(), self.phase()) {
            return not_here(message);
        }
        if self.is_on_first_of_several() {
            return not_here(why_no_loss_on_first(&self.hook_name()));
        }
        // SAFETY: guaranteed by the caller.
        let gradient = unsafe { copied(gradient) };
        self.sees(&HookAction::Loss { value })
            .and(gradient)
            .and_then(|gradient| give_loss(self, value, &gradient))
            .map_err(Refusal::invalid)
    }
}

/// Runs the model for the current hook with the values of a set, if one is named, and publishes the output.
fn run_forward(
    shared: &BridgeState<'_>,
    set: &str,
    pass: &AskedPass<'_>,
    name: &str,
) -> Result<(), String> {
    let Some(model) = shared.model.forward.get() else {
        return Err("this loop runs no forward passes for hooks".to_owned());
    };
    let tensors = if set.is_empty() {
        Vec::new()
    } else {
        let of_set = shared.tensors.of_set(set, &shared.values);
        of_set.map_err(|reason| format!("the set `{set}` can't be used: {reason}"))?
    };
    // The model's time is not the hook's own, for which the watchdog has limits.
    shared.trail.end();
    let output = exchange(&tensors)
        .map_err(|error| error.to_string())
        .and_then(|()| model.run(pass));
    let restored = exchange(&tensors);
    if let Some(hook) = shared.hook() {
        shared.trail.begin(hook);
    }
    restored.map_err(|error| format!("the parameters can't be restored: {error}"))?;
    let value = ValueContent::Tensor(output?);
    shared.set_value(&shared.values, name, Keep::Batch, value);
    Ok(())
}

/// Sets the loss of the batch for the current hook.
fn give_loss(shared: &BridgeState<'_>, value: f64, gradient: &Tensor) -> Result<(), String> {
    shared.model.given_losses.admits()?;
    let gradient = match shared.phase() {
        Phase::Train => {
            let position = FIXED.iter().position(|name| *name == "outputs");
            let outputs = position.and_then(|index| shared.tensor(Collection::Batch, index));
            let outputs = outputs.ok_or_else(|| "the batch has no outputs".to_owned())?;
            Some(like_outputs(gradient, &outputs)?)
        }
        _ => None,
    };
    (shared.model.given_losses).give(value, gradient, shared.hook_name());
    shared.journal.note(|| Change::GivenLoss);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use candle_core::{DType, Device, Var};
    use sconce_parameters::Parameters;
    use sconce_parameters::init::Init;
    use sconce_plugin_api::Point;

    use super::*;
    use crate::bridge::ForwardModel;
    use crate::log::{Level, Log};

    struct Silent;

    impl Log for Silent {
        fn log(&self, _level: Level, _source: &str, _message: &str) {}
    }

    /// Whose output is its parameter.
    struct Itself(Tensor);

    impl ForwardModel for Itself {
        fn run(&self, pass: &AskedPass<'_>) -> Result<Tensor, String> {
            match pass.view {
                Some(_) => Err("no views".to_owned()),
                None => self.0.copy().map_err(|error| error.to_string()),
            }
        }
    }

    fn numbers(tensor: &Tensor) -> Vec<f32> {
        tensor.to_vec1().expect("numbers")
    }

    #[test]
    fn a_pass_uses_the_sets_values_and_leaves_everything_as_it_was() {
        let shared = BridgeState::new(&Silent);
        shared.register("mine");
        let mut parameters = Parameters::new(1, DType::F32, &Device::Cpu);
        let made = parameters.scope("fc").parameter("weight", &[2], Init::ONES);
        let weight = made.expect("a parameter");
        shared.tensors.set_parameters(&parameters);
        let pass = AskedPass {
            view: None,
            module: None,
            mode: ForwardMode::Evaluation,
        };
        let none = run_forward(&shared, "teacher", &pass, "theirs");
        assert!(none.is_err_and(|why| why.contains("this loop runs no forward passes")));
        shared.set_forward(Rc::new(Itself(weight.clone())));
        let unknown = run_forward(&shared, "teacher", &pass, "theirs");
        assert!(unknown.is_err_and(|why| why.contains("publish them as `teacher/fc.weight`")));
        let publish = |values: &[f32]| {
            let tensor = Tensor::new(values, &Device::Cpu).expect("a tensor");
            let value = ValueContent::Tensor(tensor);
            shared.set_value(&shared.values, "teacher/fc.weight", Keep::Run, value);
        };
        publish(&[2.0, 3.0]);
        assert_eq!(run_forward(&shared, "teacher", &pass, "theirs"), Ok(()));
        assert_eq!(run_forward(&shared, "", &pass, "ours"), Ok(()));
        let published = |name: &str| {
            let (_, tensor) = shared.values.tensor_of(name).expect("it is published");
            numbers(&tensor)
        };
        assert_eq!(published("theirs"), [2.0, 3.0]);
        assert_eq!(published("ours"), [1.0, 1.0]);
        let fails = AskedPass {
            view: Some(1),
            ..pass
        };
        assert_eq!(
            run_forward(&shared, "teacher", &fails, "x"),
            Err("no views".to_owned())
        );
        assert_eq!(published("teacher/fc.weight"), [2.0, 3.0]);
        assert_eq!(numbers(&weight), [1.0, 1.0]);
        publish(&[2.0]);
        let misfit = run_forward(&shared, "teacher", &pass, "theirs");
        assert!(misfit.is_err_and(|why| why.contains("of shape [1], the parameter")));
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
        let refused = give_loss(&shared, 1.0, &numbers((2, 3)));
        assert!(refused.is_err_and(|why| why.contains("takes no losses")));
        shared.model.given_losses.expect();
        let outputs = Var::from_tensor(&numbers((2, 3))).expect("outputs");
        shared.tensors.set_batch(&outputs, &outputs, &[0, 1]);
        shared.tensors.set_outputs(&outputs);
        let misfit = give_loss(&shared, 1.0, &numbers((3, 2)));
        assert!(misfit.is_err_and(|why| why.contains("[3, 2], the outputs have [2, 3]")));
        let flat = numbers((2, 3)).flatten_all().expect("numbers");
        assert_eq!(give_loss(&shared, 1.5, &flat), Ok(()));
        let again = give_loss(&shared, 1.5, &numbers((2, 3)));
        assert!(again.is_err_and(|why| why.contains("the hook `mine` has given")));
        let loss = shared.model.given_losses.take(&outputs).expect("a loss");
        let loss = loss.expect("it is given");
        let bits = |loss: Tensor| loss.to_scalar::<f32>().expect("a number").to_bits();
        assert_eq!(bits(loss.clone()), 1.5_f32.to_bits());
        let gradients = loss.backward().expect("gradients");
        let found = gradients.get(&outputs).expect("it").to_vec2::<f32>();
        assert_eq!(
            found.expect("numbers"),
            numbers((2, 3)).to_vec2::<f32>().expect("numbers")
        );
        assert!(
            shared
                .model
                .given_losses
                .take(&outputs)
                .expect("none")
                .is_none()
        );
        shared.enter(Some(Point::AfterForward), Phase::Val);
        let nothing = Tensor::zeros(0, DType::F32, &Device::Cpu).expect("nothing");
        assert_eq!(give_loss(&shared, 0.5, &nothing), Ok(()));
        let loss = shared.model.given_losses.take(&outputs).expect("a loss");
        assert_eq!(bits(loss.expect("it")), 0.5_f32.to_bits());
    }
}
