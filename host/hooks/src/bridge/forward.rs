//! Forward passes of the run's model that hooks ask for, with the parameters of a published set.

use std::rc::Rc;

use candle_core::Tensor;
use sconce_ops::host_copy;
use sconce_plugin_api::ext::{ForwardMode, Keep};

use super::exposed::Exposed;
use super::shared::BridgeState;
use super::values::{PublishedValues, ValueContent};

/// Runs the model that is trained, on the batch that hooks see and with the parameters as they are.
pub trait ForwardModel {
    /// The output of a module for the batch, without the graph below it: contiguous, and nobody else's.
    ///
    /// # Errors
    ///
    /// Why it can't: the model can't be run apart, there is no such view or module, or the pass fails.
    fn run(&self, pass: &AskedPass<'_>) -> Result<Tensor, String>;
}

/// A forward pass that a hook asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskedPass<'a> {
    /// Index of the view; `None`: the whole batch.
    pub view: Option<u32>,
    /// Name of the module; `None`: the last.
    pub module: Option<&'a str>,
    /// How batch norms and dropout compute.
    pub mode: ForwardMode,
}

/// A parameter, and the published tensor of its shape and type.
pub struct SetTensor {
    /// Name of the parameter.
    pub name: String,
    /// The parameter.
    pub parameter: Tensor,
    /// The published tensor.
    pub published: Tensor,
}

/// The parameters that a published set has tensors for, with these.
///
/// # Errors
///
/// If no tensor of the set is published, or one that does not fit its parameter.
pub fn tensors_of_set<'a>(
    set: &str,
    parameters: impl IntoIterator<Item = (&'a str, &'a Tensor)>,
    values: &PublishedValues,
) -> Result<Vec<SetTensor>, String> {
    let mut pairs = Vec::new();
    let mut first = "NAME";
    for (index, (parameter, tensor)) in parameters.into_iter().enumerate() {
        if index == 0 {
            first = parameter;
        }
        let name = format!("{set}/{parameter}");
        let Some((_, published)) = values.tensor_of(&name) else {
            continue;
        };
        if published.dims() != tensor.dims() || published.dtype() != tensor.dtype() {
            return Err(format!(
                "`{name}` is {:?} of shape {:?}, the parameter {:?} of shape {:?}",
                published.dtype(),
                published.dims(),
                tensor.dtype(),
                tensor.dims()
            ));
        }
        pairs.push(SetTensor {
            name: parameter.to_owned(),
            parameter: tensor.clone(),
            published,
        });
    }
    if pairs.is_empty() {
        return Err(format!(
            "no tensor of that set is published; publish them as `{set}/{first}` and so on"
        ));
    }
    Ok(pairs)
}

/// Exchanges the parameters' values with those of a set.
///
/// # Errors
///
/// One of the device's.
pub fn exchange(tensors: &[SetTensor]) -> candle_core::Result<()> {
    for pair in tensors {
        host_copy::exchange(&pair.parameter, &pair.published)?;
    }
    Ok(())
}

impl Exposed {
    /// The parameters of a set, as [`tensors_of_set`].
    fn of_set(&self, set: &str, values: &PublishedValues) -> Result<Vec<SetTensor>, String> {
        let parameters = self.parameters.borrow();
        let named = parameters.iter().map(|(name, tensor)| (&**name, tensor));
        tensors_of_set(set, named, values)
    }
}

impl BridgeState<'_> {
    /// Sets what runs the model for hooks; must precede the first call of a hook.
    pub fn set_forward(&self, model: Rc<dyn ForwardModel>) {
        // Already set: a second call would belong to another run.
        drop(self.forward.set(model));
    }

    /// Runs the model for the current hook with the values of a set, if one is named, and publishes the output.
    pub(super) fn run_forward(
        &self,
        set: &str,
        pass: &AskedPass<'_>,
        name: &str,
    ) -> Result<(), String> {
        let Some(model) = self.forward.get() else {
            return Err("this loop runs no forward passes for hooks".to_owned());
        };
        let tensors = if set.is_empty() {
            Vec::new()
        } else {
            let of_set = self.tensors.of_set(set, &self.values);
            of_set.map_err(|reason| format!("the set `{set}` can't be used: {reason}"))?
        };
        // The model's time is not the hook's own, for which the watchdog has limits.
        self.trail.end();
        let output = exchange(&tensors)
            .map_err(|error| error.to_string())
            .and_then(|()| model.run(pass));
        let restored = exchange(&tensors);
        if let Some(hook) = self.hook() {
            self.trail.begin(hook);
        }
        restored.map_err(|error| format!("the parameters can't be restored: {error}"))?;
        let value = ValueContent::Tensor(output?);
        self.set_value(&self.values, name, Keep::Batch, value);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device};
    use sconce_parameters::Parameters;
    use sconce_parameters::init::Init;

    use super::*;
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
        let none = shared.run_forward("teacher", &pass, "theirs");
        assert!(none.is_err_and(|why| why.contains("this loop runs no forward passes")));
        shared.set_forward(Rc::new(Itself(weight.clone())));
        let unknown = shared.run_forward("teacher", &pass, "theirs");
        assert!(unknown.is_err_and(|why| why.contains("publish them as `teacher/fc.weight`")));
        let publish = |values: &[f32]| {
            let tensor = Tensor::new(values, &Device::Cpu).expect("a tensor");
            let value = ValueContent::Tensor(tensor);
            shared.set_value(&shared.values, "teacher/fc.weight", Keep::Run, value);
        };
        publish(&[2.0, 3.0]);
        assert_eq!(shared.run_forward("teacher", &pass, "theirs"), Ok(()));
        assert_eq!(shared.run_forward("", &pass, "ours"), Ok(()));
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
            shared.run_forward("teacher", &fails, "x"),
            Err("no views".to_owned())
        );
        assert_eq!(published("teacher/fc.weight"), [2.0, 3.0]);
        assert_eq!(numbers(&weight), [1.0, 1.0]);
        publish(&[2.0]);
        let misfit = shared.run_forward("teacher", &pass, "theirs");
        assert!(misfit.is_err_and(|why| why.contains("of shape [1], the parameter")));
    }
}
