//! The plan of a run, as shown to hooks when they are created (`sconce.plan/1`).

use std::collections::BTreeSet;

use sconce_plugin_api::Phase;
use sconce_plugin_api::lifecycle::{EpochBatches, Ranked, rounds_of};
use serde_json::{Value, json};

use super::HookPlan;
use crate::optim::Optimizer;
use crate::parameters::ParameterKind;
use crate::run::TrainingPlan;
use crate::task::Task;

/// Returns the plan of a run as JSON.
pub(super) fn foretold(
    plan: &TrainingPlan,
    hooks: &[HookPlan],
    task: &dyn Task,
    optimizer: &dyn Optimizer,
) -> String {
    let phases: Vec<Value> = (Phase::ALL.into_iter())
        .filter_map(|phase| phase_of(phase, plan, task))
        .collect();
    let parameters: Vec<Value> = (task.parameters().iter())
        .map(|parameter| {
            json!({"name": parameter.name(), "is_buffer": parameter.kind() == ParameterKind::Buffer})
        })
        .collect();
    let modules: Vec<Value> = (task.modules().iter())
        .map(|module| json!({"name": module.name, "kind": module.kind}))
        .collect();
    let groups: Vec<&str> = (optimizer.groups().iter())
        .map(|group| &*group.name)
        .collect();
    let data = task.data(Phase::Train);
    let mut metrics = vec!["loss".to_owned()];
    metrics.extend(task.metrics().iter().cloned());
    let published: BTreeSet<&String> = hooks.iter().flat_map(|hook| &hook.publishes).collect();
    metrics.extend(published.into_iter().cloned());
    json!({
        "epochs": plan.epochs,
        "accumulate": plan.accumulate,
        "phases": phases,
        "parameters": parameters,
        "modules": modules,
        "groups": groups,
        "classes": data.as_ref().map_or(&[][..], |data| data.class_names()),
        "metrics": metrics,
    })
    .to_string()
}

/// The plan for a run on several ranks: its batches are rounds, in which each rank processes one. `accumulate` is the
/// number of batches per update, of all ranks.
pub(super) fn for_ranks(
    foretold: &str,
    training: EpochBatches,
    accumulate: u64,
    ranks: u64,
) -> Option<String> {
    let mut plan: Value = serde_json::from_str(foretold).ok()?;
    plan["accumulate"] = json!(accumulate.div_ceil(ranks.max(1)));
    let first = Ranked {
        rank: 0,
        size: ranks,
    };
    let rounds = rounds_of(training.count(), accumulate, first);
    for phase in plan["phases"].as_array_mut()? {
        if phase["phase"] == Phase::Train.name() {
            phase["batches"] = json!(rounds);
        }
    }
    Some(plan.to_string())
}

fn phase_of(phase: Phase, plan: &TrainingPlan, task: &dyn Task) -> Option<Value> {
    let samples = task.data(phase)?.len();
    let size = match phase {
        Phase::Train => plan.batch_size,
        _ => plan.eval_batch_size,
    };
    let passes = match phase {
        Phase::Train => plan.epochs,
        Phase::Val => plan.validations(),
        Phase::Test => u64::from(plan.test),
        _ => 0,
    };
    Some(json!({
        "phase": phase.name(),
        "samples": samples,
        "batches": samples.div_ceil(size.max(1)),
        "passes": passes,
    }))
}
