//! Checks for NaN and infinity. The first loss or gradient that is not finite ends the run before it reaches
//! a parameter, after a second pass over the batch that locates the cause.
//!
//! Only with `train.check_finite`; without it, the first such loss causes a warning. The loss is read anyway;
//! checking the gradients costs a pass over them.

use candle_core::backprop::GradStore;
use candle_core::{DType, Result, Tensor};
use sconce_lifecycle::Position;

use super::modules::watched;
use super::record::{Slot, content};
use super::surroundings::Surroundings;
use crate::bridge::BridgeState;
use crate::data::Batch;
use crate::gradients::Gradients;
use crate::nn::ops::device;
use crate::nn::ops::vectors::{Reduction, Slices, reduce_on_device};
use crate::nn::{ModuleInfo, Pass, PassPosition, Taps, ops};
use crate::run::RunError;
use crate::task::Task;

/// Looks for values that are not finite.
pub(in crate::run) struct FiniteCheck<'a, 'run> {
    pub(in crate::run) task: &'a mut dyn Task,
    pub(in crate::run) shared: &'a BridgeState<'run>,
    pub(in crate::run) position: &'a mut Position,
    /// The key of random numbers in the pass.
    pub(in crate::run) key: PassPosition,
    /// Whether a hook has given the batch's loss.
    pub(in crate::run) is_loss_given: bool,
}

impl FiniteCheck<'_, '_> {
    /// Rejects a batch's gradients if one is not finite; they may be on a device.
    pub(in crate::run) fn check_gradients(
        &mut self,
        gradients: &Gradients,
        batch: &Batch,
        is_on_device: bool,
    ) -> std::result::Result<(), RunError> {
        let found = if is_on_device {
            self.look_on_device(gradients)
        } else {
            self.look_at_each(gradients)
        };
        let (loss, bad) =
            found.map_err(|error| RunError::task("looking at gradients", self.position, error))?;
        if let Some(loss) = loss.filter(|loss| !loss.is_finite()) {
            return Err(self.explain(format!("the loss is {loss}"), batch));
        }
        // The backward pass reaches the last parameters first.
        let what = match bad.as_slice() {
            [] => return Ok(()),
            [only] => format!("the gradient of the parameter {only} is not finite"),
            [last, .., first] => format!(
                "the gradient of the parameter {first} is not finite, as are those of {} more, up to {last}",
                bad.len() - 1
            ),
        };
        Err(self.explain(what, batch))
    }

    /// The names of the parameters whose gradients are not finite.
    fn look_at_each(&self, gradients: &Gradients) -> Result<(Option<f64>, Vec<String>)> {
        let mut bad = Vec::new();
        for (index, parameter) in self.task.parameters().iter().enumerate() {
            if let Some(gradient) = gradients.at(index)
                && !ops::is_finite(gradient)?
            {
                bad.push(format!("`{}`", parameter.name()));
            }
        }
        Ok((None, bad))
    }

    /// The batch's loss, and the names of the parameters whose gradients are not finite, all fetched from a device at once.
    ///
    /// The host waits for the backward pass here, as the update must not be queued before the gradients are known to be
    /// finite: nothing can take an update back. What the device loses is the time to queue the update, not that of a fetch
    /// for each parameter.
    fn look_on_device(&mut self, gradients: &Gradients) -> Result<(Option<f64>, Vec<String>)> {
        let waiting = self.shared.device.deferred.newest_loss();
        let (names, visible): (Vec<_>, Vec<_>) = (self.task.parameters().iter().enumerate())
            .filter_map(|(index, parameter)| {
                let gradient = gradients.at(index)?.detach();
                Some((parameter.name(), (gradient, Slices::WHOLE)))
            })
            .unzip();
        let loss = waiting.as_ref().map(|loss| -> Result<Tensor> {
            let loss = loss.detach();
            loss.to_dtype(DType::F64)?.reshape(1)
        });
        let counts = reduce_on_device(&visible, Reduction::NotFinite)?;
        let values: Vec<Tensor> = loss.transpose()?.into_iter().chain(counts).collect();
        if values.is_empty() {
            return Ok((None, Vec::new()));
        }
        let fetched: Vec<f64> = device::fetch(&Tensor::cat(&values, 0)?)?.to_vec1()?;
        let mut fetched = fetched.into_iter();
        let loss = waiting.and_then(|_| fetched.next());
        let bad = (names.into_iter().zip(fetched))
            .filter(|(_, count)| *count > 0.0)
            .map(|(name, _)| format!("`{name}`"))
            .collect();
        if loss.is_some() && self.position.pass.loss_waits {
            self.position.pass.loss = loss;
            self.position.pass.loss_waits = false;
        }
        Ok((loss, bad))
    }

    /// The error for what is not finite, with the place where it arose in a second pass over the batch.
    pub(in crate::run) fn explain(&mut self, what: String, batch: &Batch) -> RunError {
        let place = match self.origin_of_bad(batch) {
            Ok(Some(place)) => format!("it began {place}"),
            Ok(None) => {
                "in a second pass over the batch every module's numbers are finite: a hook, \
                         or the scale of the loss, made it"
                    .to_owned()
            }
            Err(error) => format!("the second pass over the batch failed: {error}"),
        };
        RunError::not_finite(self.position, what, place)
    }

    /// Locates the first value that is not finite. It may arise before the model, in a module's forward pass,
    /// in the loss, or in a module's backward pass.
    fn origin_of_bad(&mut self, batch: &Batch) -> Result<Option<String>> {
        for parameter in self.task.parameters().iter() {
            if !ops::is_finite(parameter.tensor())? {
                let name = parameter.name();
                return Ok(Some(format!("in the parameter `{name}`, before the batch")));
            }
        }
        let inputs = batch.all_inputs().map(|inputs| ("inputs", inputs));
        for (name, tensor) in inputs.chain([("targets", &batch.targets)]) {
            if !ops::is_finite(tensor)? {
                return Ok(Some(format!("in the batch's {name}")));
            }
        }
        let mut watch = FiniteWatch::default();
        let around = Surroundings(self.shared);
        let pass = Pass::training().at(self.key).within(&around);
        let outputs = self.task.forward(batch, &mut pass.with_taps(&mut watch))?;
        if let Some(module) = watch.bad {
            let ModuleInfo { name, kind } = module;
            return Ok(Some(format!(
                "in the forward pass of the module `{name}` ({kind}), whose input is finite"
            )));
        }
        if !ops::is_finite(&outputs)? {
            return Ok(Some(
                "in the forward pass, outside of its modules".to_owned(),
            ));
        }
        if self.is_loss_given {
            let place =
                "in the loss that a hook gives, or behind it: the model's outputs are finite";
            return Ok(Some(place.to_owned()));
        }
        let mut pass = Pass::training().at(self.key).within(&around);
        let loss = self.task.loss(batch, &outputs, &mut pass)?;
        if !ops::is_finite(&loss)? {
            return Ok(Some(
                "in the loss: the model's outputs are finite".to_owned(),
            ));
        }
        let store = ops::backward(&loss, 1.0)?;
        self.origin_in_backward(&watch, &store)
    }

    /// Searches in the order of the backward pass. That is from the last module to the first, nested modules
    /// after the one that contains them.
    fn origin_in_backward(&self, watch: &FiniteWatch, store: &GradStore) -> Result<Option<String>> {
        let is_bad = |slot: &Slot| match content(slot) {
            Some(gradient) => ops::is_finite(&gradient).map(|is_finite| !is_finite),
            None => Ok(false),
        };
        let mut found: Option<&ModuleInfo> = None;
        for (module, of_input, of_output) in watch.slots.iter().rev() {
            let is_inside = |outer: &ModuleInfo| is_inside(&module.name, &outer.name);
            if found.is_some_and(|outer| !is_inside(outer)) {
                break;
            }
            if is_bad(of_output)? {
                let ModuleInfo { name, kind } = module;
                return Ok(Some(match found {
                    Some(outer) => backward_of(outer),
                    None => format!(
                        "in the backward pass, in what comes behind the module `{name}` ({kind})"
                    ),
                }));
            }
            if is_bad(of_input)? || self.has_bad_gradient(store, &module.name)? {
                found = Some(module);
            }
        }
        Ok(found.map(backward_of))
    }

    /// Whether a parameter of a module has a gradient that is not finite.
    fn has_bad_gradient(&self, store: &GradStore, module: &str) -> Result<bool> {
        for parameter in self.task.parameters().iter() {
            if is_inside(parameter.name(), module)
                && let Some(gradient) = store.get(parameter.tensor())
                && !ops::is_finite(gradient)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Whether `name` is nested in `module`.
fn is_inside(name: &str, module: &str) -> bool {
    let rest = name.strip_prefix(module);
    rest.is_some_and(|rest| rest.starts_with('.'))
}

fn backward_of(ModuleInfo { name, kind }: &ModuleInfo) -> String {
    format!(
        "in the backward pass of the module `{name}` ({kind}), whose output's gradient is finite"
    )
}

/// Checks the output of every module, and keeps the slots of its gradients.
#[derive(Default)]
struct FiniteWatch {
    /// The first module with a finite input and an output that is not.
    bad: Option<ModuleInfo>,
    /// The modules in the order in which they finished, with the gradients of input and output.
    slots: Vec<(ModuleInfo, Slot, Slot)>,
    /// The input gradients of modules still running.
    open: Vec<Slot>,
}

impl Taps for FiniteWatch {
    fn listens(&mut self, _module: &ModuleInfo) -> bool {
        true
    }

    fn enter(&mut self, _module: &ModuleInfo, input: &Tensor) -> Result<Option<Tensor>> {
        let (input, slot) = watched(input)?;
        self.open.push(slot);
        Ok(Some(input))
    }

    fn leave(&mut self, module: &ModuleInfo, input: &Tensor, output: Tensor) -> Result<Tensor> {
        let of_input = self.open.pop().unwrap_or_default();
        if self.bad.is_none() && !ops::is_finite(&output)? && ops::is_finite(input)? {
            self.bad = Some(module.clone());
        }
        let (output, of_output) = watched(&output)?;
        self.slots.push((module.clone(), of_input, of_output));
        Ok(output)
    }
}
