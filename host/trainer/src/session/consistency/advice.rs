//! Warnings, before a run, about parts of a manifest that have no effect or an unintended one.

use std::collections::BTreeMap;

use sconce_plugin_api::Phase;

use super::given_loss::unused_loss;
use crate::diagnostic::Diagnostic;
use crate::manifest::{Manifest, Unit};
use crate::nn::ModelConfig;
use crate::optim::{Optimizer, OptimizerConfig};
use crate::run::TrainingPlan;
use crate::session::HookPlan;
use crate::task::Task;
use sconce_base::nearest::nearest;

/// All warnings of this kind.
pub(in crate::session) fn advice(
    manifest: &Manifest,
    plan: &TrainingPlan,
    hooks: &[HookPlan],
    task: &dyn Task,
    optimizer: &dyn Optimizer,
) -> Vec<Diagnostic> {
    let batches = |phase: Phase, size: usize| {
        let samples = task.data(phase).map_or(0, |data| data.len());
        samples.div_ceil(size.max(1)) as u64
    };
    let run = Run {
        manifest,
        plan,
        task,
        batches: batches(Phase::Train, plan.batch_size),
    };
    let mut found = run.sizes();
    found.extend(run.model());
    found.extend(run.phases_without_data());
    found.extend(run.names());
    found.extend(run.learning_rate(optimizer));
    found.extend(unused_loss(manifest, hooks));
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    for hook in hooks {
        if let Some(twin) = known.get(&what_it_does(hook)) {
            found.push(run.twin(hook, twin));
        } else {
            known.insert(what_it_does(hook), hook.json_path.clone());
        }
        found.extend(run.filters(hook));
    }
    found
}

/// Key by which entries with the same effect are recognised.
fn what_it_does(hook: &HookPlan) -> String {
    let spec = &hook.spec;
    format!(
        "{} {} {:?} {:?} {:?} {:?} {}",
        spec.kind, spec.sha256, spec.phases, spec.every, spec.streams, spec.modules, hook.config
    )
}

/// A run that has not started.
struct Run<'a> {
    manifest: &'a Manifest,
    plan: &'a TrainingPlan,
    task: &'a dyn Task,
    /// Number of batches in a training epoch.
    batches: u64,
}

impl Run<'_> {
    fn warning(&self, path: &str, text: impl Into<String>) -> Diagnostic {
        Diagnostic::warning(text).at(self.manifest.place(path))
    }

    /// What is doubtful in the model's description.
    fn model(&self) -> Vec<Diagnostic> {
        let texts = self.manifest.model.iter().flat_map(ModelConfig::warnings);
        texts
            .map(|text| self.warning("model.config", text))
            .collect()
    }

    fn updates(&self) -> u64 {
        let each = self.batches.div_ceil(self.plan.accumulate.max(1) as u64);
        self.plan.epochs.saturating_mul(each)
    }

    /// Numbers of batches, updates or epochs that exceed what is available.
    fn sizes(&self) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        let TrainingPlan {
            epochs,
            batch_size,
            accumulate,
            ..
        } = self.plan;
        let samples = self.task.data(Phase::Train).map_or(0, |data| data.len());
        if *batch_size > samples && samples > 0 {
            found.push(self.warning(
                "train.batch_size",
                format!(
                    "a batch of {batch_size} samples is larger than the training data, which has \
                     {samples}: each epoch is one batch of {samples}"
                ),
            ));
        }
        if *accumulate as u64 > self.batches && self.batches > 0 {
            found.push(self.warning(
                "train.accumulate",
                format!(
                    "an update of {accumulate} batches is longer than an epoch, which has {}: each epoch \
                     is one update",
                    self.batches
                ),
            ));
        }
        if *epochs == 0 {
            let text = "`epochs` is 0: nothing is trained";
            found.push(self.warning("train.epochs", text));
        }
        found
    }

    /// Settings of phases without data, or that another setting overrides.
    fn phases_without_data(&self) -> Vec<Diagnostic> {
        let train = &self.manifest.train;
        let has = |phase| self.task.data(phase).is_some();
        let mut found = Vec::new();
        let mut unused = |key: &str, reason: &str| {
            let text = format!("`{key}` has no effect: {reason}");
            found.push(self.warning(&format!("train.{key}"), text));
        };
        if train.initial_validation && !has(Phase::Val) {
            unused("initial_validation", "there is no validation data");
        }
        let limits = [
            ("limit_train", train.limit_train, Phase::Train),
            ("limit_val", train.limit_val, Phase::Val),
            ("limit_test", train.limit_test, Phase::Test),
        ];
        for (key, limit, phase) in limits {
            match limit {
                Some(_) if train.overfit.is_some() => unused(key, "`overfit` replaces it"),
                Some(_) if !has(phase) => {
                    unused(
                        key,
                        &format!("there is no data for the phase `{}`", phase.name()),
                    );
                }
                _ => {}
            }
        }
        found
    }

    /// Names of parameters that do not exist.
    fn names(&self) -> Vec<Diagnostic> {
        let known = || {
            self.task
                .parameters()
                .iter()
                .map(crate::parameters::Parameter::name)
        };
        let wanted = self.plan.allow_missing_gradients.iter().enumerate();
        wanted
            .filter(|(_, name)| !known().any(|known| known == name.as_str()))
            .map(|(index, name)| {
                let text = format!("no parameter is called `{name}`");
                let path = format!("train.allow_missing_gradients[{index}]");
                let warning = self.warning(&path, text);
                match nearest(name, known()) {
                    Some(near) => warning.hint(format!("did you mean `{near}`?")),
                    None => warning,
                }
            })
            .collect()
    }

    /// A learning rate so large that training will probably diverge.
    fn learning_rate(&self, optimizer: &dyn Optimizer) -> Option<Diagnostic> {
        // The steps of Adam, Lion and RMSprop are about the size of the rate, whatever the gradient.
        let (most, usual) = match self.manifest.optimizer {
            OptimizerConfig::Sgd { .. } => (10.0, "1e-3 to 1"),
            _ => (1.0, "1e-5 to 1e-2"),
        };
        let rate = optimizer.learning_rate();
        (rate >= most).then(|| {
            let text = format!(
                "a learning rate of {rate} is so large that the training will probably diverge; usual are \
                 {usual}"
            );
            self.warning("optimizer.learning_rate", text)
        })
    }

    /// An entry that repeats the one at another path.
    fn twin(&self, hook: &HookPlan, other: &str) -> Diagnostic {
        let text = format!(
            "the hook `{}` is there twice with the same configuration, as {other} and {}: everything that it \
             does is done twice",
            hook.spec.kind, hook.json_path
        );
        self.warning(&hook.json_path, text)
    }

    /// A filter that never lets a call through.
    fn filters(&self, hook: &HookPlan) -> Option<Diagnostic> {
        let spec = &hook.spec;
        if let Some(phases) = &spec.phases {
            let is_empty = |phase: &&Phase| self.task.data(**phase).is_none();
            if let Some(phase) = phases.iter().find(is_empty)
                && *phase != Phase::Predict
            {
                let text = format!(
                    "the hook `{}` is called in the phase `{}`, for which there is no data",
                    spec.name,
                    phase.name()
                );
                return Some(self.warning(&format!("{}.phases", hook.json_path), text));
            }
        }
        let every = spec.every?;
        let (unit, total) = match every.unit {
            // Validations count their own batches.
            Unit::Iterations => return None,
            Unit::Updates => ("updates", self.updates()),
            Unit::Epochs => ("epochs", self.plan.epochs),
        };
        let first = match every.offset % every.count.max(1) {
            0 => every.count,
            offset => offset,
        };
        (first > total && total > 0).then(|| {
            let text = format!(
                "the hook `{}` waits for {unit} {first}, and the run has {total} {unit}: it is never called \
                 within one",
                spec.name
            );
            self.warning(&format!("{}.every", hook.json_path), text)
        })
    }
}
