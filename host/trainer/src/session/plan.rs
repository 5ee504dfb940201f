//! The plan of a run, as shown to hooks when they are created (`sconce.plan/1`).

use std::collections::BTreeSet;

use sconce_lifecycle::{Ranked, rounds_of};
use sconce_plugin_api::{Phase, Plan};
use serde_json::{Value, json};

use super::HookPlan;
use crate::generate::why_no_text;
use crate::manifest::BatchesPer;
use crate::optim::Optimizer;
use crate::parameters::ParameterKind;
use crate::run::TrainingPlan;
use crate::task::Task;

/// Returns the plan of a run as JSON.
pub(super) fn expected(
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
    let published: BTreeSet<&String> = hooks.iter().flat_map(HookPlan::known_metrics).collect();
    metrics.extend(published.into_iter().cloned());
    json!({
        "epochs": plan.epochs,
        "accumulate": plan.accumulate,
        "phases": phases,
        "parameters": parameters,
        "modules": modules,
        "groups": groups,
        "classes": data.as_ref().map_or(&[][..], |data| data.class_names()),
        "sample_shape": data.as_ref().map_or(&[][..], |data| data.sample_shape()),
        "metrics": metrics,
        "views": data.as_ref().map_or(0, |data| data.views()),
        "why_no_text": why_no_text(task).unwrap_or_default(),
    })
    .to_string()
}

/// The plan as it is on each of several ranks: batches are those that one rank processes, as a pass's counters are.
pub(super) fn on_ranks(expected_plan: &str, ranks: usize, batches: BatchesPer) -> String {
    let Some(mut plan) = (serde_json::from_str::<Plan>(expected_plan).ok()).filter(|_| ranks > 1)
    else {
        return expected_plan.to_owned();
    };
    let ranks = ranks as u64;
    let update = match batches {
        BatchesPer::Rank => plan.accumulate.saturating_mul(ranks),
        BatchesPer::Update => plan.accumulate,
    };
    let update = update.max(1);
    let first = Ranked {
        rank: 0,
        size: ranks,
    };
    let training = plan
        .phases
        .iter_mut()
        .find(|phase| phase.phase == Phase::Train.name());
    if let Some(training) = training {
        training.batches = rounds_of(training.batches, update, first);
    }
    plan.accumulate = update.div_ceil(ranks);
    serde_json::to_string(&plan).unwrap_or_else(|_| expected_plan.to_owned())
}

fn phase_of(phase: Phase, plan: &TrainingPlan, task: &dyn Task) -> Option<Value> {
    let samples_in = |phase: Phase| task.data(phase).map_or(0, |data| data.len());
    let samples = task.data(phase)?.len();
    let size = match phase {
        Phase::Train => plan.batch_size,
        _ => plan.eval_batch_size,
    };
    let passes = match phase {
        Phase::Train => plan.epochs,
        Phase::Val => {
            let batches = samples_in(Phase::Train).div_ceil(plan.batch_size.max(1));
            let (batches, accumulate) = (batches as u64, plan.accumulate as u64);
            plan.validate_every
                .validations(plan.epochs, batches, accumulate)
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_plans_with_the_batches_that_it_processes() {
        let text =
            r#"{"epochs": 2, "accumulate": 6, "phases": [{"phase": "train", "batches": 22}]}"#;
        let planned = |ranks, batches| -> (u64, u64, u64) {
            let text = on_ranks(text, ranks, batches);
            let plan: Plan = serde_json::from_str(&text).unwrap_or_default();
            (plan.accumulate, plan.batches(), plan.updates())
        };
        assert_eq!(planned(1, BatchesPer::Rank), (6, 22, 8));
        // Updates of 6, 6, 6 and 4 batches: 2, 2, 2 and 1 rounds of four ranks.
        assert_eq!(planned(4, BatchesPer::Update), (2, 7, 8));
        // An update of 24 batches would be longer than the epoch: 22 batches in 6 rounds.
        assert_eq!(planned(4, BatchesPer::Rank), (6, 6, 2));
    }
}
