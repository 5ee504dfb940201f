//! What does not change during a run, as `sconce.task/1` gives it.

use std::path::Path;

use sconce_lifecycle::Ranked;
use sconce_plugin_api::Phase;
use serde_json::json;

use crate::nn::ModuleInfo;
use crate::task::Task;

/// The facts of a run, as JSON.
pub(in crate::run) fn facts(
    task: &dyn Task,
    modules: &[ModuleInfo],
    (name, directory): (&str, Option<&Path>),
    seed: u64,
    ranked: Ranked,
) -> String {
    let data = task.data(Phase::Train);
    let modules = modules.iter();
    let modules: Vec<_> = modules
        .map(|module| json!({"name": module.name, "kind": module.kind}))
        .collect();
    json!({
        "run": name,
        "run_directory": directory.unwrap_or(Path::new("")),
        "seed": seed,
        "rank": ranked.rank,
        "world_size": ranked.size,
        "classes": data.as_ref().map_or(&[][..], |data| data.class_names()),
        "sample_shape": data.as_ref().map_or(&[][..], |data| data.sample_shape()),
        "metrics": task.metrics(),
        "modules": modules,
        "parameter_count": task.parameters().element_count(),
    })
    .to_string()
}
