//! Forward passes of a model that there isn't, and losses that the hook gives.

use sconce_plugin_api::Phase;
use sconce_plugin_api::abi::Status;
use sconce_plugin_api::ext::{
    Forward, ForwardMode, ForwardTable, GivenLoss, Keep, Readable, Refusal, TensorAbi, check_name,
    why_no_forward_at, why_no_loss_at, why_no_loss_on_first,
};
use sconce_plugin_api::tensor::{DType, Tensor};

use super::super::fake::{Fake, noise};
use super::super::seen::SeenLoss;
use super::super::stage::FakeRun;
use super::super::values::{FakeValue, FakeValueEntry};

impl Forward for FakeRun {
    fn run(
        &self,
        set: &str,
        view: u32,
        module: &str,
        mode: u32,
        name: &str,
    ) -> Result<(), Refusal> {
        self.uses.reads(Readable::Forward);
        if let Some(message) = why_no_forward_at(self.point()) {
            return Err(Refusal::new(Status::NOT_LEGAL_HERE, message));
        }
        check_name("a published name", name).map_err(Refusal::invalid)?;
        if ForwardMode::from_number(mode).is_none() {
            return Err(Refusal::invalid(format!("there is no mode {mode}")));
        }
        let output = outputs(self, set, view, module).map_err(Refusal::invalid)?;
        self.values.borrow_mut().set(FakeValueEntry {
            name: name.into(),
            keep: Keep::Batch,
            is_own: true,
            value: FakeValue::Tensor(output.named(name)),
        });
        Ok(())
    }
}

/// What looks random, but depends on the batch, the view, the module and the parameters of the set alone.
fn outputs(stage: &FakeRun, set: &str, view: u32, module: &str) -> Result<Fake, String> {
    let modules = stage.model.modules.borrow();
    let named = modules.iter().find(|(name, _)| name == module);
    let (module, width) = match (named, modules.last()) {
        (Some(named), _) => named,
        (None, Some(last)) if module.is_empty() => last,
        _ => return Err(format!("the model has no module `{module}`")),
    };
    let views = stage.model.views.get();
    if view != ForwardTable::WHOLE && view as usize >= views {
        return Err(format!("there is no view {view}: the batch has {views}"));
    }
    let inputs = stage.batch.borrow()[0].clone();
    let rows = inputs.map_or(0, |inputs| inputs.shape().first().copied().unwrap_or(0));
    let rows = if view == ForwardTable::WHOLE {
        rows
    } else {
        rows / views.max(1)
    };
    let of_set = sum_of(stage, set)?.to_bits();
    let place = stage.place.get();
    let number = place.map_or(0, |place| place.iteration + place.batch);
    let elements = noise(
        &format!("{module} {of_set} {view}"),
        number,
        rows.saturating_mul(*width),
    );
    let output = Fake::new("output", &[rows, *width], &elements);
    let is_last = modules.last().is_some_and(|(last, _)| last == module);
    Ok(if is_last {
        output.of_positions(stage.model.positions.get())
    } else {
        output
    })
}

/// Sum of the values that the model would have.
fn sum_of(stage: &FakeRun, set: &str) -> Result<f32, String> {
    let values = stage.values.borrow();
    let prefix = format!("{set}/");
    let mut found = Vec::new();
    for entry in values.entries.iter().flatten() {
        if let FakeValue::Tensor(tensor) = &entry.value
            && entry.name.starts_with(&prefix)
        {
            found.push(tensor.floats().iter().sum::<f32>());
        }
    }
    if set.is_empty() {
        let parameters = stage.parameters.borrow();
        let sums = parameters
            .iter()
            .map(|one| one.floats().iter().sum::<f32>());
        return Ok(sums.sum());
    }
    if found.is_empty() {
        return Err(format!("no tensor of the set `{set}` is published"));
    }
    Ok(found.iter().sum())
}

impl GivenLoss for FakeRun {
    unsafe fn set(&self, value: f64, gradient: &TensorAbi) -> Result<(), Refusal> {
        self.uses.reads(Readable::GivenLoss);
        let not_here = |message| Err(Refusal::new(Status::NOT_LEGAL_HERE, message));
        if let Some(message) = why_no_loss_at(self.point(), self.phase()) {
            return not_here(message);
        }
        if self.is_on_first_of_several() {
            return not_here(why_no_loss_on_first(&self.hook.name));
        }
        // SAFETY: guaranteed by the caller.
        let gradient = unsafe { Tensor::borrowed(*gradient) };
        let gradient = gradient.map_err(|error| Refusal::invalid(error.to_string()))?;
        let gradient = match gradient.dtype() {
            Some(DType::F32) => gradient.to_vec::<f32>(),
            Some(DType::F64) => {
                let wide = gradient.to_vec::<f64>();
                wide.map(|wide| wide.into_iter().map(|x| x as f32).collect())
            }
            _ => return Err(Refusal::invalid("a gradient is of `f32` or `f64`")),
        };
        let gradient = gradient.map_err(|error| Refusal::invalid(error.to_string()))?;
        let outputs = self.batch.borrow()[2].as_ref().map_or(0, Fake::len);
        if self.phase() == Phase::Train && gradient.len() != outputs {
            return Err(Refusal::invalid(format!(
                "the gradient has {} elements, the outputs have {outputs}",
                gradient.len()
            )));
        }
        if self.model.given_loss.replace(Some(value)).is_some() {
            return Err(Refusal::invalid("the loss of this batch is given already"));
        }
        if let Some(at) = self.place.get() {
            self.seen.borrow_mut().losses.push(SeenLoss {
                at,
                value,
                gradient,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_api::prelude::*;
    use sconce_plugin_api::{ForwardPass, Keep};
    use serde_json::json;

    use crate::{Failed, ScriptedRun};

    #[derive(Default, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    struct Faults {
        view: u32,
        module: String,
        short: bool,
        twice: bool,
    }

    struct Teacher(Faults);

    #[hook(name = "teacher", about = "Compares with a teacher.")]
    impl Hook for Teacher {
        type Config = Faults;

        fn new(faults: Faults, _setup: &Setup<'_>) -> Result<Self> {
            Ok(Teacher(faults))
        }

        fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
            task.publish_tensor("teacher/fc1.bias", &[4], &[0.5_f32; 4], Keep::Run)
        }

        fn before_iter(&mut self, task: &mut BeforeIter<'_>) -> Result<()> {
            let pass = ForwardPass::of_set("teacher").view(self.0.view);
            task.forward_pass(&pass.module(&self.0.module), "theirs")
        }

        fn after_forward(&mut self, task: &mut AfterForward<'_>) -> Result<()> {
            let theirs = task.tensors(sconce_plugin_api::Collection::Published);
            let theirs = theirs.named("theirs")?.to_vec::<f32>()?;
            let outputs = task.outputs()?.to_vec::<f32>()?;
            assert_eq!((theirs.len(), outputs.len()), (4, 8));
            let gradient = vec![0.5_f32; outputs.len() - usize::from(self.0.short)];
            task.set_loss(f64::from(theirs[0]), &gradient)?;
            if self.0.twice {
                task.set_loss(1.0, &gradient)?;
            }
            Ok(())
        }
    }

    fn drive(faults: serde_json::Value) -> Result<crate::Seen, String> {
        let run = ScriptedRun::new().epochs(1).iterations(2).views(2);
        let driven = run.drive::<Teacher>(faults);
        driven.map_err(|failed: Failed| failed.message)
    }

    #[test]
    fn a_hook_gives_losses_from_what_a_teacher_says() {
        let seen = drive(json!({"view": 1})).expect("a run");
        let again = drive(json!({"view": 1})).expect("a run");
        let losses: Vec<f64> = seen.losses().iter().map(|loss| loss.value).collect();
        // Two batches, and two of the validation.
        assert_eq!(losses.len(), 4);
        assert_ne!(losses[0].to_bits(), losses[1].to_bits());
        assert_eq!(seen.losses(), again.losses());
        let other = drive(json!({"view": 0})).expect("a run");
        assert_ne!(seen.losses(), other.losses());
    }

    #[test]
    fn what_a_host_refuses_the_kit_refuses() {
        for (faults, words) in [
            (json!({"view": 2}), "there is no view 2"),
            (json!({"module": "tea"}), "no module `tea`"),
            (json!({"short": true}), "has 7 elements, the outputs have 8"),
            (json!({"twice": true}), "given already"),
        ] {
            let told = drive(faults).expect_err(words);
            assert!(told.contains(words), "{told}");
        }
    }
}
