//! What to do when a GPU's memory is exhausted: the batch that would fit, and other ways to need less.

use sconce_ops::device;
use sconce_plugin_api::Phase;
use serde_json::Value;

use crate::activation_memory::ActivationMemory;
use crate::device_facts::memory_size;
use crate::diagnostic::Diagnostic;
use crate::manifest::{DeviceName, Manifest};
use crate::run::RunError;
use crate::session::{self, TaskBuilder};
use crate::task::Task;

/// Fraction of a GPU's memory to plan with: the driver and cuBLAS take some, and freed memory has gaps.
const USABLE: f64 = 0.9;

/// Copies of a parameter that a run has at most: itself, its gradient, two of the optimizer.
const COPIES_OF_PARAMETERS: usize = 4;

/// What is known of a run whose device had too little memory.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OutOfMemory {
    phase: Phase,
    /// Samples of a batch in that phase.
    batch: usize,
    /// Batches of an update.
    accumulate: usize,
    /// Whether the model could recompute activations, and does so nowhere.
    may_recompute: bool,
    /// Memory of parameters, gradients and optimizer together, in bytes.
    fixed: usize,
    /// Memory of a sample's activations, in bytes, if it can be estimated.
    sample: Option<usize>,
    /// Memory of the GPU, in bytes, if the driver answers.
    total: Option<u64>,
}

impl OutOfMemory {
    /// What is known if a run ended for want of a device's memory; none if it ended for another reason.
    pub(super) fn of(
        error: &RunError,
        manifest: &Manifest,
        task: &dyn Task,
        tasks: &dyn TaskBuilder,
    ) -> Option<OutOfMemory> {
        let phase = error.out_of_memory()?;
        let parameters = task.parameters();
        let train = &manifest.train;
        let model = serde_json::to_value(&manifest.model).unwrap_or_default();
        Some(OutOfMemory {
            phase,
            batch: match phase {
                Phase::Train => train.batch_size,
                _ => train.eval_batch_size.unwrap_or(train.batch_size),
            },
            accumulate: train.accumulate,
            may_recompute: may_recompute(&model) && !recomputes(&model),
            fixed: parameters.element_count() * size_of::<f32>() * COPIES_OF_PARAMETERS,
            sample: sample_memory(manifest, tasks),
            total: device::facts(parameters.device()).map(|facts| facts.memory_total),
        })
    }

    /// Adds to an error what takes the memory, and what would take less.
    pub(super) fn explain(&self, problem: Diagnostic) -> Diagnostic {
        let mut problem = problem;
        if let (Some(sample), Some(total)) = (self.sample, self.total) {
            problem = problem.note(format!(
                "of the GPU's {}, parameters, gradients and optimizer take up to {}, and a batch of {} keeps {} of activations, by the \
                 estimate of `sconce summary`; what operations need for themselves comes on top",
                memory_size(total),
                memory_size(self.fixed as u64),
                self.batch,
                memory_size((sample * self.batch) as u64),
            ));
        }
        match (self.phase, self.batch_that_fits()) {
            (_, None) => problem.hint(
                "not even a batch of one sample is likely to fit: choose a smaller model, or a GPU with more memory",
            ),
            (Phase::Train, Some(batch)) => {
                let accumulate = self.accumulate * (self.batch / batch);
                let problem = problem.hint(format!(
                    "`\"batch_size\": {batch}, \"accumulate\": {accumulate}` under `train` needs less and makes the same updates, but for \
                     rounding and the statistics of batch norms"
                ));
                if !self.may_recompute {
                    return problem;
                }
                problem.hint(
                    "`\"recompute\": true` in the model keeps fewer activations, for one more forward pass (docs/models.md#memory)",
                )
            }
            (_, Some(batch)) => problem.hint(format!(
                "`\"eval_batch_size\": {batch}` under `train` needs less, and the results are the same"
            )),
        }
    }

    /// The largest batch below the present one that divides it and is likely to fit; none if not even one sample would.
    fn batch_that_fits(&self) -> Option<usize> {
        // By the estimate, but in any case less than what did not fit.
        let mut most = self.batch / 2;
        if let (Some(sample), Some(total)) = (self.sample, self.total) {
            let free = (total as f64 * USABLE - self.fixed as f64).max(0.0);
            most = most.min((free / sample.max(1) as f64) as usize);
        }
        (1..=most)
            .rev()
            .find(|batch| self.batch.is_multiple_of(*batch))
    }
}

/// Whether a model, or a block of it, has the key `recompute`.
fn may_recompute(model: &Value) -> bool {
    let kinds = ["resnet", "vit", "gpt", "sequential"];
    kinds.iter().any(|kind| model["kind"] == *kind)
}

/// Whether `recompute` is on anywhere in a model's configuration.
fn recomputes(model: &Value) -> bool {
    match model {
        Value::Object(keys) => keys.iter().any(|(key, value)| {
            key == "recompute" && *value == Value::Bool(true) || recomputes(value)
        }),
        Value::Array(values) => values.iter().any(recomputes),
        _ => false,
    }
}

/// Memory of a sample's activations, found on the CPU.
fn sample_memory(manifest: &Manifest, tasks: &dyn TaskBuilder) -> Option<usize> {
    let on_cpu = Manifest {
        device: DeviceName::default(),
        precision: crate::nn::Precision::default(),
        ..manifest.clone()
    };
    let data = session::read_data(&on_cpu).ok()?;
    let mut task = session::task(tasks, &on_cpu, data).ok()?;
    let memory = ActivationMemory::measure(task.as_mut(), 1)?;
    Some(memory.total())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const GIB: usize = 1 << 30;

    fn training() -> OutOfMemory {
        OutOfMemory {
            phase: Phase::Train,
            batch: 96,
            accumulate: 2,
            may_recompute: true,
            fixed: GIB,
            sample: Some(GIB / 4),
            total: Some(10 * GIB as u64),
        }
    }

    #[test]
    fn the_batch_that_fits_divides_the_present_one() {
        assert_eq!(training().batch_that_fits(), Some(32));
        // The estimate says that all would fit, and it did not.
        let less = OutOfMemory {
            sample: Some(1),
            ..training()
        };
        assert_eq!(less.batch_that_fits(), Some(48));
        let unknown = OutOfMemory {
            sample: None,
            batch: 7,
            ..training()
        };
        assert_eq!(unknown.batch_that_fits(), Some(1));
        let too_much = OutOfMemory {
            fixed: 20 * GIB,
            ..training()
        };
        assert_eq!(too_much.batch_that_fits(), None);
        let single = OutOfMemory {
            batch: 1,
            ..training()
        };
        assert_eq!(single.batch_that_fits(), None);
    }

    #[test]
    fn what_to_do_depends_on_phase_and_model() {
        let explained = |facts: OutOfMemory| facts.explain(Diagnostic::new("it failed"));
        let found = explained(training());
        assert!(found.hints[0].contains("`\"batch_size\": 32, \"accumulate\": 6`"));
        assert!(found.hints[1].contains("`\"recompute\": true`"));
        assert!(found.notes[0].contains("of the GPU's 10.0 GiB"));
        assert!(found.notes[0].contains("a batch of 96 keeps 24.0 GiB"));
        let found = explained(OutOfMemory {
            may_recompute: false,
            ..training()
        });
        assert_eq!(found.hints.len(), 1);
        let found = explained(OutOfMemory {
            phase: Phase::Val,
            ..training()
        });
        assert!(found.hints[0].contains("`\"eval_batch_size\": 32`"));
        let found = explained(OutOfMemory {
            batch: 1,
            ..training()
        });
        assert!(found.hints[0].contains("a smaller model"));
    }

    #[test]
    fn recomputed_blocks_are_found_anywhere_in_a_model() {
        assert!(recomputes(&json!({"kind": "gpt", "recompute": true})));
        assert!(recomputes(
            &json!({"layers": [{"relu": {}}, {"residual": {"recompute": true}}]})
        ));
        assert!(!recomputes(&json!({"kind": "gpt", "recompute": false})));
        assert!(may_recompute(&json!({"kind": "gpt"})));
        assert!(!may_recompute(&json!({"kind": "convnet"})));
    }
}
