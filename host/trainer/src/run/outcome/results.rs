//! `run.json` in the output directory: how a run ended, its results, and where the time went.

use candle_core::Device;
use serde_json::{Map, Value, json};

use crate::data::DataFile;
use crate::device_facts::device_name;
use crate::run::{RunOutcome, RunReport, StopSignal};
use crate::team::Team;
use crate::version::HOST_VERSION;
use sconce_base::held_directory::HeldDirectory;

/// Writes the record of a run on `device`, whose data were read from the files `data`, atomically. `team` are the ranks of
/// the run, if it had several.
///
/// # Errors
///
/// If it can't be written.
pub fn write_results(
    directory: &HeldDirectory,
    report: &RunReport,
    device: &Device,
    data: &[DataFile],
    team: Option<&Team>,
) -> std::io::Result<()> {
    let mut record = record(report);
    record["data"] = json!(data);
    if let Some(device) = device_name(device) {
        record["device"] = Value::String(device);
    }
    if let Some(team) = team {
        let hosts: Vec<&str> = (0..team.size()).map(|rank| team.host(rank)).collect();
        record["ranks"] = json!({"hosts": hosts, "transport": team.transport_name()});
    }
    let text = format!("{record:#}\n");
    directory.write_atomically(&directory.path().join("run.json"), text.as_bytes())
}

fn record(report: &RunReport) -> Value {
    let (outcome, reason, hook) = match &report.outcome {
        RunOutcome::Completed => ("completed", None, None),
        RunOutcome::Stopped { reason, hook } => {
            // A stop by the user has no hook's name.
            let hook = (!hook.is_empty()).then(|| hook.clone());
            ("stopped", Some(reason.clone()), hook)
        }
        RunOutcome::Interrupted(StopSignal::Until) => ("paused", None, None),
        RunOutcome::Interrupted(signal) => ("interrupted", Some(signal.name().to_owned()), None),
        RunOutcome::Failed(error) => {
            let hook = error.hook().map(str::to_owned);
            ("failed", Some(error.to_string()), hook)
        }
    };
    let faults: Vec<String> = report.late_faults.iter().map(ToString::to_string).collect();
    let mut profile = Map::new();
    for (phase, times) in &report.profiles {
        profile.insert(phase.name().to_owned(), json!(times));
    }
    let mut record = json!({
        "host": HOST_VERSION,
        "outcome": outcome,
        "reason": reason,
        "hook": hook,
        "diverged": report.divergence.is_some(),
        "late_faults": faults,
        "epochs": report.epochs,
        "iterations": report.iterations,
        "updates": report.updates,
        "seconds": report.seconds,
        "checkpoints": report.checkpoints,
        "last_checkpoint": report.last_checkpoint,
        "history": report.history,
        "profile": profile,
    });
    record["times"] = report.times.to_json();
    for (key, value) in report.metrics.to_json() {
        record[key] = value;
    }
    if !report.learnt.is_empty() {
        record["learnt"] = Value::Object(report.learnt.clone());
    }
    record
}
