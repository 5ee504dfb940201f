//! Validation of the numbers in `state.json`. A checkpoint may come from anywhere, and its numbers become
//! loop bounds, durations and rates, so none is used unchecked.

use std::ops::RangeInclusive;

use sconce_plugin_api::Phase;
use sconce_plugin_api::ext::{check_name, check_tag};
use sconce_plugin_api::state::MOST;
use serde_json::Value;

use super::{
    AccumulatedWeight, ChangedSettings, CheckpointHeader, MOST_RECORDS, PhaseState, TrainingStage,
};
use crate::gradients::TreeNode;
use sconce_base::exact::Exact;

/// Longest run in seconds: about thirty thousand years.
const LONGEST: f64 = 1e12;

/// Allowed range of a value, and the reason for it.
struct Allowed {
    range: RangeInclusive<u64>,
    why: &'static str,
}

const COUNT: &str = "more than that no run counts";

impl CheckpointHeader {
    /// Checks all numbers against each other and against the run's manifest; the error has the JSON path,
    /// the value and the allowed range.
    pub(super) fn check(&self, manifest: &Value) -> Result<(), String> {
        check_tag(&self.tag).map_err(|reason| format!("`tag`: {reason}"))?;
        self.check_facts(manifest)?;
        self.check_progress()?;
        self.check_pass()?;
        float("seconds", self.seconds, LONGEST)?;
        for (index, (_, rate)) in self.learning_rates.iter().enumerate() {
            float(&format!("learning_rates[{index}][1]"), rate.0, f64::MAX)?;
        }
        self.settings.check(self.batches().unwrap_or(MOST))?;
        for (index, state) in self.metrics.iter().enumerate() {
            check_phase(state, &format!("metrics[{index}]"))?;
        }
        let mut nodes = self.accumulated.iter();
        if self.accumulated.len() > 2 * TreeNode::HIGHEST as usize
            || nodes.any(|&(level, index)| TreeNode::new(level, index).is_none())
        {
            return Err("`accumulated` has nodes that no update has".to_owned());
        }
        if let Some(AccumulatedWeight { weight, samples }) = self.accumulated_weight {
            float("accumulated_weight.weight", weight.0, f64::MAX)?;
            float("accumulated_weight.samples", samples.0, MOST as f64)?;
        }
        for (index, (asked, _)) in self.unserved.iter().enumerate() {
            (asked.check()).map_err(|reason| format!("`unserved[{index}]`: {reason}"))?;
        }
        if self.history.len() > 2 * MOST_RECORDS {
            let count = self.history.len();
            return Err(format!(
                "`history` has {count} records, and a run has at most {}",
                2 * MOST_RECORDS
            ));
        }
        let values = self.values.iter().map(|value| ("values", &value.name));
        let publishers = self.publishers.iter().map(|one| ("publishers", &one.name));
        for (list, name) in values.chain(publishers) {
            check_name("a name", name).map_err(|reason| format!("`{list}`: {reason}"))?;
        }
        Ok(())
    }

    /// Batches per epoch, if there is training data.
    fn batches(&self) -> Option<u64> {
        let train = Phase::Train.name();
        let data = self.facts.data.iter().find(|data| data.phase == train)?;
        Some(data.samples.div_ceil(self.facts.batch_size.max(1)) as u64)
    }

    /// Compares the facts about the run's batches with its manifest.
    fn check_facts(&self, manifest: &Value) -> Result<(), String> {
        let facts = &self.facts;
        for (name, pointer, found) in [
            ("seed", "/seed", facts.seed),
            ("batch_size", "/train/batch_size", facts.batch_size as u64),
            ("accumulate", "/train/accumulate", facts.accumulate as u64),
        ] {
            let written = manifest.pointer(pointer).and_then(Value::as_u64);
            if let Some(written) = written.filter(|written| *written != found) {
                return Err(format!(
                    "`facts.{name}` is {found}, and the checkpoint's manifest says {written}"
                ));
            }
        }
        Ok(())
    }

    fn check_progress(&self) -> Result<(), String> {
        let progress = &self.progress;
        let up_to = |most, why| Allowed {
            range: 0..=most,
            why,
        };
        let is_begun = progress.stage != TrainingStage::Start;
        let begun = if is_begun { MOST } else { 0 };
        let iteration = match progress.stage {
            TrainingStage::Start => up_to(0, "at the stage `start` nothing is trained"),
            _ => up_to(MOST, COUNT),
        };
        let batch = match (progress.stage, self.batches()) {
            (TrainingStage::Epoch, Some(batches)) => up_to(batches, "the batches of an epoch"),
            (TrainingStage::Epoch, None) => up_to(MOST, COUNT),
            _ => up_to(0, "the stage is not `epoch`"),
        };
        let epoch = match progress.stage {
            TrainingStage::Validation | TrainingStage::Cycle => Allowed {
                range: 1..=progress.iteration.max(1),
                why: "an epoch is finished, and each has an iteration at least",
            },
            _ => up_to(progress.iteration, "each epoch has an iteration at least"),
        };
        let done = progress.iteration;
        let number_done = progress.number.unwrap_or(done);
        let rounds = progress.rounds.unwrap_or_default();
        let batches_are = match progress.number {
            Some(_) => "each is counted in `number`",
            None => "each is an iteration",
        };
        for (name, count, allowed) in [
            ("iteration", done, iteration),
            ("epoch", progress.epoch, epoch),
            (
                "update",
                progress.update,
                up_to(done, "an update has an iteration at least"),
            ),
            ("batch", progress.batch, batch),
            ("number", number_done, up_to(begun, COUNT)),
            ("batch", progress.batch, up_to(number_done, batches_are)),
            ("rounds", rounds, up_to(done, "each is an iteration")),
            (
                "validated",
                progress.validated.unwrap_or_default(),
                up_to(
                    done,
                    "an iteration is finished before a validation after it",
                ),
            ),
            ("samples", progress.samples, up_to(begun, COUNT)),
            ("ordinal", progress.ordinal, up_to(MOST, COUNT)),
        ] {
            number(&format!("progress.{name}"), count, &allowed)?;
        }
        Ok(())
    }

    /// Checks the state of the current epoch.
    fn check_pass(&self) -> Result<(), String> {
        let Some(pass) = &self.pass else {
            return Ok(());
        };
        // Not `facts.batch_size`: the last batch may predate a change of the batch size.
        let batch = Allowed {
            range: 0..=MOST,
            why: COUNT,
        };
        number("pass.batch_size", pass.batch_size, &batch)?;
        let Some(start) = &pass.begun else {
            return Ok(());
        };
        if self.progress.stage != TrainingStage::Epoch {
            return Err("`pass.begun` is there, and the stage is not `epoch`".to_owned());
        }
        let progress = &self.progress;
        for (name, count, now) in [
            ("iteration", start.iteration, progress.iteration),
            ("update", start.update, progress.update),
            ("samples", start.samples, progress.samples),
        ] {
            let allowed = Allowed {
                range: 0..=now,
                why: "the epoch under way began before",
            };
            number(&format!("pass.begun.{name}"), count, &allowed)?;
        }
        Ok(())
    }
}

impl ChangedSettings {
    fn check(&self, batches: u64) -> Result<(), String> {
        for (index, (_, momentum)) in self.momenta.iter().enumerate() {
            float(&format!("settings.momenta[{index}][1]"), momentum.0, 1.0)?;
        }
        for (index, (_, decay)) in self.weight_decays.iter().enumerate() {
            float(
                &format!("settings.weight_decays[{index}][1]"),
                decay.0,
                f64::MAX,
            )?;
        }
        for (index, (_, share)) in self.shares.iter().enumerate() {
            float(&format!("settings.shares[{index}][1]"), share.0, f64::MAX)?;
        }
        let Some(accumulation) = &self.accumulation else {
            return Ok(());
        };
        let (begin, end) = accumulation.update;
        let path = |rest: &str| format!("settings.accumulation.{rest}");
        let within = |range, why| Allowed { range, why };
        number(
            &path("batches"),
            accumulation.batches,
            &within(1..=MOST, COUNT),
        )?;
        number(
            &path("update[1]"),
            end,
            &within(0..=batches, "the batches of an epoch"),
        )?;
        number(
            &path("update[0]"),
            begin,
            &within(0..=end, "an update begins before it ends"),
        )
    }
}

/// Checks the metrics of a phase.
pub(super) fn check_phase(state: &PhaseState, path: &str) -> Result<(), String> {
    if Phase::from_number(state.phase).is_none() {
        return Err(format!(
            "`{path}.phase` is {}, which is not a phase",
            state.phase
        ));
    }
    float(&format!("{path}.samples"), state.samples.0, MOST as f64)?;
    if let Some(weights) = &state.weights {
        let path = format!("{path}.weights");
        for (name, count) in [
            ("epoch", weights.epoch),
            ("iteration", weights.iteration),
            ("update", weights.update),
        ] {
            let allowed = Allowed {
                range: 0..=MOST,
                why: COUNT,
            };
            number(&format!("{path}.{name}"), count, &allowed)?;
        }
        if let Some(set) = &weights.set {
            check_name("a set's name", set).map_err(|reason| format!("`{path}.set`: {reason}"))?;
        }
    }
    for (name, Exact(_), _) in &state.values {
        check_name("a metric's name", name)
            .map_err(|reason| format!("`{path}.values`: {reason}"))?;
    }
    Ok(())
}

fn number(path: &str, value: u64, allowed: &Allowed) -> Result<(), String> {
    if allowed.range.contains(&value) {
        return Ok(());
    }
    let (low, high) = (allowed.range.start(), allowed.range.end());
    Err(format!(
        "`{path}` is {value}, allowed is {low} to {high}: {}",
        allowed.why
    ))
}

fn float(path: &str, value: f64, most: f64) -> Result<(), String> {
    if (0.0..=most).contains(&value) {
        return Ok(());
    }
    if most < f64::MAX {
        return Err(format!("`{path}` is {value}, allowed is 0 to {most}"));
    }
    Err(format!(
        "`{path}` is {value}, allowed is a finite number that is not negative"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Header of a run with three batches per epoch.
    fn header() -> Value {
        json!({
            "format": 1, "host": "sconce 0", "tag": "t", "run": "r", "exact": true,
            "progress": {
                "epoch": 2, "iteration": 7, "update": 7, "samples": 56, "batch": 1, "ordinal": 0,
                "stage": "epoch"
            },
            "seconds": 1.5,
            "pass": {
                "loss": "0.5", "batch_size": 8, "updates": true,
                "begun": {"iteration": 6, "update": 6, "samples": 48}
            },
            "facts": {
                "seed": 5, "batch_size": 8, "accumulate": 1,
                "data": [{"phase": "train", "samples": 24, "sample_shape": [2]}]
            },
            "learning_rates": [["default", "0.1"]],
            "settings": {
                "momenta": [["default", "0.9"]], "weight_decays": [["default", "0.01"]], "shares": [["fc.weight", "0.5"]],
                "accumulation": {"batches": 2, "update": [0, 2]}
            },
            "metrics": [{
                "phase": 0, "samples": "8.0", "sums": ["NaN"], "values": [["loss", "inf", true]]
            }],
            "values": [{"name": "v", "hook": "h", "keep": "run", "value": 1}],
            "publishers": [], "extra": []
        })
    }

    /// Checks a header after replacing the values at these pointers.
    fn check(edits: &[(&str, Value)]) -> Result<(), String> {
        let mut header = header();
        for (pointer, value) in edits {
            *header.pointer_mut(pointer).expect("a value") = value.clone();
        }
        let header: CheckpointHeader = serde_json::from_value(header).expect("a header");
        header.check(&json!({"seed": 5, "train": {"batch_size": 8, "accumulate": 1}}))
    }

    #[test]
    fn counters_that_no_run_has_are_refused_with_their_paths_and_ranges() {
        let huge = 1_u64 << 63;
        for (pointer, value, words) in [
            (
                "/progress/batch",
                json!(4),
                "`progress.batch` is 4, allowed is 0 to 3",
            ),
            ("/progress/batch", json!(huge), "`progress.batch`"),
            (
                "/progress/epoch",
                json!(8),
                "`progress.epoch` is 8, allowed is 0 to 7",
            ),
            ("/progress/epoch", json!(u64::MAX), "`progress.epoch`"),
            ("/progress/iteration", json!(huge - 1), "9007199254740992"),
            ("/progress/iteration", json!(0), "`progress.epoch` is 2"),
            (
                "/progress/update",
                json!(8),
                "`progress.update` is 8, allowed is 0 to 7",
            ),
            ("/progress/samples", json!(huge), "`progress.samples`"),
            ("/progress/ordinal", json!(huge), "`progress.ordinal`"),
            ("/progress/stage", json!("start"), "allowed is 0 to 0"),
            (
                "/progress/stage",
                json!("cycle"),
                "the stage is not `epoch`",
            ),
            (
                "/seconds",
                json!(-1.0),
                "`seconds` is -1, allowed is 0 to 1000000000000",
            ),
            ("/seconds", json!(1e300), "`seconds`"),
            (
                "/facts/batch_size",
                json!(1),
                "`facts.batch_size` is 1, and the checkpoint's",
            ),
            ("/facts/seed", json!(6), "`facts.seed`"),
            ("/facts/accumulate", json!(0), "`facts.accumulate`"),
            (
                "/facts/data/0/samples",
                json!(0),
                "`progress.batch` is 1, allowed is 0 to 0",
            ),
            (
                "/learning_rates/0/1",
                json!("NaN"),
                "`learning_rates[0][1]` is NaN",
            ),
            (
                "/settings/weight_decays/0/1",
                json!("-1.0"),
                "`settings.weight_decays[0][1]` is -1",
            ),
            (
                "/settings/momenta/0/1",
                json!("2"),
                "`settings.momenta[0][1]` is 2",
            ),
            (
                "/settings/shares/0/1",
                json!("inf"),
                "`settings.shares[0][1]` is inf",
            ),
            (
                "/settings/accumulation/batches",
                json!(0),
                "allowed is 1 to",
            ),
            (
                "/settings/accumulation/update/0",
                json!(3),
                "`settings.accumulation.update[0]`",
            ),
            (
                "/settings/accumulation/update/1",
                json!(9),
                "allowed is 0 to 3",
            ),
            ("/metrics/0/phase", json!(9), "`metrics[0].phase` is 9"),
            (
                "/metrics/0/samples",
                json!("-8"),
                "`metrics[0].samples` is -8",
            ),
            (
                "/metrics/0/values/0/0",
                json!("a\nb"),
                "`metrics[0].values`",
            ),
            ("/values/0/name", json!(""), "`values`"),
            ("/tag", json!("../../x"), "`tag`"),
            ("/tag", json!("/etc"), "`tag`"),
        ] {
            let told = check(&[(pointer, value)]).expect_err(pointer);
            assert!(told.contains(words), "{pointer}: {told}");
        }
    }

    #[test]
    fn an_epoch_that_begins_after_now_is_refused() {
        let huge = 1_u64 << 63;
        for (pointer, value, words) in [
            ("/pass/batch_size", json!(huge), "`pass.batch_size`"),
            (
                "/pass/begun/iteration",
                json!(8),
                "`pass.begun.iteration` is 8, allowed is 0 to 7",
            ),
            ("/pass/begun/update", json!(huge), "`pass.begun.update`"),
            (
                "/pass/begun/samples",
                json!(57),
                "`pass.begun.samples` is 57, allowed is 0 to 56",
            ),
        ] {
            let told = check(&[(pointer, value)]).expect_err(pointer);
            assert!(told.contains(words), "{pointer}: {told}");
        }
    }

    #[test]
    fn what_runs_save_is_accepted() {
        check(&[]).expect("as it is");
        // After the last batch, before the epoch is counted.
        let last = [
            ("/progress/batch", json!(3)),
            ("/progress/iteration", json!(9)),
        ];
        check(&last).expect("the end of an epoch");
        let stage = |stage: &str| ("/progress/stage", json!(stage));
        let whole = ("/progress/batch", json!(0));
        let between = ("/pass/begun", Value::Null);
        for name in ["validation", "cycle"] {
            check(&[stage(name), whole.clone(), between.clone()]).expect(name);
            let told = check(&[stage(name), whole.clone()]).expect_err(name);
            assert!(told.contains("`pass.begun` is there"), "{told}");
        }
        let zeros = ["epoch", "iteration", "update", "samples", "batch"];
        let zeros = zeros.map(|name| (format!("/progress/{name}"), json!(0)));
        let mut start: Vec<(&str, Value)> = vec![stage("start")];
        start.extend(
            zeros
                .iter()
                .map(|(pointer, zero)| (pointer.as_str(), zero.clone())),
        );
        start.push(("/pass", Value::Null));
        check(&start).expect("the start");
    }
}
