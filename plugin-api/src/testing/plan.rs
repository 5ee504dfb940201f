//! The plan of a scripted run, as returned by `sconce.plan/1`.

use super::script::ScriptedRun;
use crate::{ModuleFacts, ParameterPlan, Phase, PhasePlan, Plan};

/// The plan of a scripted run as JSON.
pub(super) fn of(script: &ScriptedRun) -> String {
    let phase = |phase: Phase, batches: u64, passes: u64| PhasePlan {
        phase: phase.name().to_owned(),
        samples: batches * script.schedule.batch_size as u64,
        batches,
        passes,
    };
    let phases = [
        phase(
            Phase::Train,
            script.schedule.iterations,
            script.schedule.epochs,
        ),
        phase(
            Phase::Val,
            script.schedule.validation,
            script
                .schedule
                .epochs
                .div_ceil(script.schedule.validate_every.max(1)),
        ),
        phase(Phase::Test, script.schedule.test, 1),
    ];
    let mut metrics = vec!["loss".to_owned()];
    metrics.extend(script.metrics.iter().map(|(_, name, _)| name.clone()));
    let groups = script.model.groups.iter().map(|(name, _)| name.clone());
    let plan = Plan {
        epochs: script.schedule.epochs,
        accumulate: script.schedule.accumulate,
        phases: phases.into_iter().filter(|plan| plan.batches > 0).collect(),
        parameters: (script.model.parameters.iter())
            .map(|parameter| ParameterPlan {
                name: parameter.name.to_string(),
                is_buffer: parameter.is_buffer,
            })
            .collect(),
        modules: (script.model.modules.iter())
            .map(|module| ModuleFacts {
                name: module.name.clone(),
                kind: module.kind.clone(),
            })
            .collect(),
        groups: std::iter::once("default".to_owned())
            .chain(groups)
            .collect(),
        classes: script.data.classes.clone(),
        sample_shape: script.data.sample_shape.clone(),
        metrics,
    };
    serde_json::to_string(&plan).unwrap_or_default()
}
