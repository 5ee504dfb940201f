//! All runs as one table, in JSON: a list of values for each column.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::collection::{Collection, Run, goal};
use crate::cli::past_runs::compare::differing;

/// The table. `metrics` and `differences` have a value for each run, in the order of `runs.path`; null where it has none.
pub(super) fn summary(collection: &Collection) -> Value {
    let runs: Vec<&Run> = collection.runs().values().collect();
    let of_all = |value: fn(&Run) -> Value| runs.iter().map(|run| value(run)).collect::<Value>();
    let sweeps = collection.sweeps().iter();
    let sweeps = sweeps.map(|(path, sweep)| json!({"path": path, "metric": sweep.metric}));
    json!({
        "version": collection.version(),
        "directory": collection.inside().path().to_string_lossy(),
        "runs": {
            "path": collection.runs().keys().collect::<Vec<_>>(),
            "name": of_all(|run| json!(run.name)),
            "state": of_all(|run| json!(run.state)),
            "reason": of_all(|run| json!(run.reason)),
            "epochs": of_all(|run| json!(run.epochs)),
            "planned": of_all(|run| json!(run.planned)),
            "seconds": of_all(|run| json!(run.seconds)),
            "begun": of_all(|run| json!(run.begun())),
        },
        "metrics": metrics(&runs),
        "differences": differences(&runs),
        "sweeps": sweeps.collect::<Value>(),
    })
}

fn metrics(runs: &[&Run]) -> Value {
    let names: BTreeSet<&String> = runs.iter().flat_map(|run| run.metrics.keys()).collect();
    let metric = |name: &String| {
        let values = || runs.iter().map(|run| run.metrics.get(name));
        let best = || values().map(|values| values?.best);
        json!({
            "name": name,
            "goal": goal(name),
            "last": values().map(|values| number(Some(values?.last))).collect::<Vec<_>>(),
            "best": best().map(|best| number(Some(best?.0))).collect::<Vec<_>>(),
            "at": best().map(|best| best?.1).collect::<Vec<_>>(),
        })
    };
    names.into_iter().map(metric).collect()
}

/// A number, or what it is instead as a text, which JSON has no number for.
fn number(value: Option<f64>) -> Option<Value> {
    value.map(|value| {
        if value.is_finite() {
            json!(value)
        } else {
            json!(value.to_string())
        }
    })
}

fn differences(runs: &[&Run]) -> Value {
    let manifests: Vec<&BTreeMap<String, Value>> = runs.iter().map(|run| &run.manifest).collect();
    let differences = differing(&manifests).into_iter();
    differences
        .map(|(path, values)| json!({"path": path, "values": values}))
        .collect()
}
