//! What to do when a GPU's memory is exhausted: the batch that would fit, and other ways to need less.

use sconce_ops::device;
use sconce_plugin_api::Phase;
use serde_json::Value;

use crate::activation_memory::ActivationMemory;
use crate::device_facts::memory_size;
use crate::diagnostic::Diagnostic;
use crate::manifest::{DeviceName, Manifest};
use crate::nn::Precision;
use crate::run::RunError;
use crate::session::{self, TaskBuilder};
use crate::task::Task;

/// Fraction of a GPU's memory to plan with: the driver and cuBLAS take some, and freed memory has gaps.
const USABLE: f64 = 0.9;

/// Copies of a parameter that a run has at most: itself, its gradient, two of the optimizer.
const COPIES_OF_PARAMETERS: usize = 4;

/// What is known of a run whose device had too little memory.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cli) struct OutOfMemory {
    phase: Phase,
    /// Samples of a batch in that phase.
    batch: usize,
    /// Batches of an update.
    accumulate: usize,
    /// Whether the model could recompute activations, and does so nowhere.
    may_recompute: bool,
    /// Memory of parameters, gradients and optimizer together, in bytes.
    fixed: usize,
    /// Memory for a sample, if it can be estimated.
    sample: Option<SampleMemory>,
    /// Memory of the GPU, in bytes, if the driver answers.
    total: Option<u64>,
}

/// What a sample adds to the memory of a training step on a GPU, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct SampleMemory {
    /// Activations kept for the backward pass.
    activations: usize,
    /// What the largest convolution needs for itself: mostly the windows of its input as columns.
    convolution: usize,
}

impl SampleMemory {
    fn total(self) -> usize {
        self.activations + self.convolution
    }
}

impl OutOfMemory {
    /// What is known if a run ended for want of a device's memory; none if it ended for another reason.
    pub(in crate::cli) fn of(
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
    pub(in crate::cli) fn explain(&self, problem: Diagnostic) -> Diagnostic {
        let mut problem = problem;
        if let (Some(sample), Some(total)) = (self.sample, self.total) {
            let of_batch = |bytes: usize| memory_size((bytes * self.batch) as u64);
            let convolution = match sample.convolution {
                0 => String::new(),
                bytes => format!(
                    ", its largest convolution needs {} while it is computed",
                    of_batch(bytes)
                ),
            };
            problem = problem.note(format!(
                "of the GPU's {}, parameters, gradients and optimizer take up to {}, and a batch of {} keeps {} of activations, by the \
                 estimate of `sconce summary`{convolution}; what other operations need for themselves comes on top",
                memory_size(total),
                memory_size(self.fixed as u64),
                self.batch,
                of_batch(sample.activations),
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
            most = most.min((free / sample.total().max(1) as f64) as usize);
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

/// Memory for a sample, found on the CPU, in `f32`.
fn sample_memory(manifest: &Manifest, tasks: &dyn TaskBuilder) -> Option<SampleMemory> {
    let on_cpu = Manifest {
        device: DeviceName::default(),
        precision: Precision::default(),
        ..manifest.clone()
    };
    let data = session::read_data(&on_cpu).ok()?;
    let mut task = session::task(tasks, &on_cpu, data).ok()?;
    let memory = ActivationMemory::measure(task.as_mut(), 1)?;
    // Elements of columns are of the products' type; activations of other operations stay in `f32`.
    let narrower = match manifest.precision {
        Precision::Bf16 => 2,
        Precision::F32 | Precision::Tf32 => 1,
    };
    Some(SampleMemory {
        activations: memory.total(),
        convolution: memory.convolution / narrower,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const GIB: usize = 1 << 30;

    fn activations(bytes: usize) -> SampleMemory {
        SampleMemory {
            activations: bytes,
            convolution: 0,
        }
    }

    fn training() -> OutOfMemory {
        OutOfMemory {
            phase: Phase::Train,
            batch: 96,
            accumulate: 2,
            may_recompute: true,
            fixed: GIB,
            sample: Some(activations(GIB / 4)),
            total: Some(10 * GIB as u64),
        }
    }

    #[test]
    fn the_batch_that_fits_divides_the_present_one() {
        assert_eq!(training().batch_that_fits(), Some(32));
        // The estimate says that all would fit, and it did not.
        let less = OutOfMemory {
            sample: Some(activations(1)),
            ..training()
        };
        assert_eq!(less.batch_that_fits(), Some(48));
        // 8 GiB are free; each sample takes a quarter, and half as much while its largest convolution is computed.
        let convolutions = OutOfMemory {
            sample: Some(SampleMemory {
                activations: GIB / 4,
                convolution: GIB / 8,
            }),
            ..training()
        };
        assert_eq!(convolutions.batch_that_fits(), Some(16));
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
        assert!(!found.notes[0].contains("convolution"));
        let found = explained(OutOfMemory {
            sample: Some(SampleMemory {
                activations: GIB / 4,
                convolution: GIB / 8,
            }),
            ..training()
        });
        assert!(found.notes[0].contains("its largest convolution needs 12.0 GiB"));
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
