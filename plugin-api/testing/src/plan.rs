//! The plan of a scripted run, as returned by `sconce.plan/1`.

use sconce_plugin_api::Phase;
use serde_json::{Value, json};

use super::script::ScriptedRun;

/// The plan of a scripted run as JSON.
pub(super) fn of(script: &ScriptedRun) -> String {
    let schedule = &script.schedule;
    let validations = schedule.epochs.div_ceil(schedule.validate_every.max(1));
    let phases = [
        (Phase::Train, schedule.iterations, schedule.epochs),
        (Phase::Val, schedule.validation, validations),
        (Phase::Test, schedule.test, 1),
    ];
    let phases = phases.iter().filter(|(_, batches, _)| *batches > 0);
    let phases = phases.map(|(phase, batches, passes)| {
        json!({
            "phase": phase.name(),
            "samples": batches * schedule.batch_size as u64,
            "batches": batches,
            "passes": passes,
        })
    });
    let parameters = script.model.parameters.iter().map(
        |parameter| json!({"name": parameter.name.to_string(), "is_buffer": parameter.is_buffer}),
    );
    let modules = script.model.modules.iter();
    let modules = modules.map(|module| json!({"name": module.name, "kind": module.kind}));
    let own_groups = script.model.groups.iter().map(|(name, _)| name.as_str());
    let groups: Vec<&str> = std::iter::once("default").chain(own_groups).collect();
    let own_metrics = script.metrics.iter().map(|(_, name, _)| name.as_str());
    let metrics: Vec<&str> = std::iter::once("loss").chain(own_metrics).collect();
    json!({
        "epochs": schedule.epochs,
        "accumulate": schedule.accumulate,
        "phases": phases.collect::<Vec<Value>>(),
        "parameters": parameters.collect::<Vec<Value>>(),
        "modules": modules.collect::<Vec<Value>>(),
        "groups": groups,
        "classes": script.data.classes,
        "sample_shape": script.data.sample_shape,
        "views": script.data.views,
        "metrics": metrics,
    })
    .to_string()
}
