//! Differences between a resumed run and the checkpoint it resumes from.
//!
//! A resumed run is bit-identical only if everything that determines its numbers is unchanged. The length of
//! the training, the preparation of batches, names and paths may change freely.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use serde_json::Value;

use crate::checkpoint::{Checkpoint, Facts, HookRecord};
use crate::dispatch::HookSpec;
use crate::manifest::{BatchNormStatistics, BatchesPer, Manifest, Wire};
use crate::session::HookPlan;
use crate::task::DataFacts;
use crate::version::HOST_VERSION;

/// Paths in a manifest whose values may change without a message.
const FREE: [&str; 14] = [
    "name",
    "output",
    "plugins",
    "threads",
    "limits",
    // What is compared is the device that was opened.
    "device",
    // Compared by plugin and configuration instead.
    "hooks",
    // The sums are the same everywhere.
    "distributed.gradients",
    "train.epochs",
    "train.test",
    "train.loader_threads",
    "train.prefetch",
    "train.allow_missing_gradients",
    "$schema",
];

/// Keys of a hook's entry that may change without a message. They concern the reaction to faults and to slow
/// calls, and the location of the plugin's file, which is compared by its bytes.
const FREE_OF_HOOK: [&str; 11] = [
    "name",
    "on_error",
    "time_limit",
    "isolation",
    "on_panic",
    "on_crash",
    "sandbox",
    "reload",
    "library",
    "sha256",
    "signed_by",
];

/// Describes the differences between the run that saved a checkpoint and the current one.
pub fn changes(checkpoint: &Checkpoint, manifest: &Value, hooks: &[HookPlan]) -> Vec<String> {
    let mut found = Vec::new();
    let host = &checkpoint.header.host;
    if host != HOST_VERSION {
        found.push(format!("the host was {host}, this is {HOST_VERSION}"));
    }
    compare("", &checkpoint.manifest, manifest, &FREE, &mut found);
    let specs: Vec<&HookSpec> = hooks.iter().map(|hook| &hook.spec).collect();
    compare_hooks(checkpoint, &specs, manifest, &mut found);
    found
}

/// Describes the differences in the data.
pub fn data_changes(was: &[DataFacts], is: &[DataFacts]) -> Vec<String> {
    let mut found = Vec::new();
    for before in was {
        let phase = &before.phase;
        match is.iter().find(|data| data.phase == *phase) {
            None => found.push(format!("there is no data for {phase} any more")),
            Some(now) if now != before => found.push(format!(
                "the data for {phase} had {} samples of shape {:?}, now {} of shape {:?}",
                before.samples, before.sample_shape, now.samples, now.sample_shape
            )),
            Some(_) => {}
        }
    }
    for now in is {
        if !was.iter().any(|data| data.phase == now.phase) {
            found.push(format!("there was no data for {}", now.phase));
        }
    }
    found
}

/// Compares two JSON values, the manifest's parts at `path`.
fn compare(path: &str, was: &Value, is: &Value, free: &[&str], found: &mut Vec<String>) {
    if free.contains(&path) {
        return;
    }
    if let (Value::Object(before), Value::Object(now)) = (was, is) {
        let mut keys: Vec<&String> = before.keys().chain(now.keys()).collect();
        keys.sort();
        keys.dedup();
        for key in keys {
            let path = match path {
                "" => key.clone(),
                path => format!("{path}.{key}"),
            };
            let null = &Value::Null;
            let (before, now) = (before.get(key), now.get(key));
            compare(
                &path,
                before.unwrap_or(null),
                now.unwrap_or(null),
                free,
                found,
            );
        }
        return;
    }
    let is_free = |key: &String| free.contains(&format!("{path}.{key}").as_str());
    // An object that is there on one side alone, with nothing in it that would count.
    if let (Value::Object(part), Value::Null) | (Value::Null, Value::Object(part)) = (was, is)
        && part.keys().all(is_free)
    {
        return;
    }
    if was != is {
        found.push(format!("`{path}` was {}, now {}", short(was), short(is)));
    }
}

/// A value as text, truncated if long.
fn short(value: &Value) -> String {
    const LONGEST: usize = 80;
    if value.is_null() {
        return "not there".to_owned();
    }
    let text = value.to_string();
    if text.chars().count() <= LONGEST {
        return text;
    }
    let mut head: String = text.chars().take(LONGEST).collect();
    head.push('…');
    head
}

fn compare_hooks(
    checkpoint: &Checkpoint,
    hooks: &[&HookSpec],
    manifest: &Value,
    found: &mut Vec<String>,
) {
    let before: Vec<&HookRecord> = (checkpoint.hooks.iter())
        .filter(|hook| !hook.absent)
        .collect();
    let known: HashSet<&str> = before.iter().map(|record| record.name.as_str()).collect();
    let kept: HashSet<&str> = (checkpoint.hooks.iter())
        .filter(|hook| hook.absent)
        .map(|record| record.name.as_str())
        .collect();
    let now: HashMap<&str, &HookSpec> = (hooks.iter().rev())
        .map(|hook| (hook.name.as_str(), *hook))
        .collect();
    let (entries_before, entries_now) = (entries(&checkpoint.manifest), entries(manifest));
    for record in &before {
        let name = &record.name;
        match now.get(name.as_str()) {
            None => found.push(format!(
                "the hook `{name}` ({} of the plugin {} {}) is not there any more; its state is kept",
                record.kind, record.plugin, record.version
            )),
            Some(hook) => {
                compare_plugins(record, hook, found);
                let was = entries_before.get(name.as_str()).copied();
                let is = entries_now.get(name.as_str()).copied();
                let (was, is) = (was.unwrap_or(&Value::Null), is.unwrap_or(&Value::Null));
                let mut of_entry = Vec::new();
                compare("", was, is, &FREE_OF_HOOK, &mut of_entry);
                let told = of_entry.iter().map(|told| format!("of the hook `{name}` {told}"));
                found.extend(told);
            }
        }
    }
    for hook in hooks {
        let name = hook.name.as_str();
        if kept.contains(name) {
            found.push(format!(
                "the hook `{name}` is there again, with the state that was kept"
            ));
        } else if !known.contains(name) {
            found.push(format!(
                "the hook `{name}` is new: it begins without a state"
            ));
        }
    }
    let common = |name: &str| known.contains(name) && now.contains_key(name);
    let was: Vec<&str> = before.iter().map(|record| record.name.as_str()).collect();
    let is: Vec<&str> = hooks.iter().map(|hook| hook.name.as_str()).collect();
    let in_both = |names: Vec<&str>| -> String {
        names
            .into_iter()
            .filter(|name| common(name))
            .fold(String::new(), |mut text, name| {
                // Writing to a string can't fail.
                let _ = write!(text, "{}`{name}`", if text.is_empty() { "" } else { ", " });
                text
            })
    };
    let (was, is) = (in_both(was), in_both(is));
    if was != is {
        found.push(format!("the order of the hooks was {was}; now {is}"));
    }
}

fn compare_plugins(was: &HookRecord, is: &HookSpec, found: &mut Vec<String>) {
    let name = &was.name;
    if (was.plugin.as_str(), was.kind.as_str()) != (is.plugin.as_str(), is.kind.as_str()) {
        found.push(format!(
            "the hook `{name}` was {} of the plugin {}, now {} of {}",
            was.kind, was.plugin, is.kind, is.plugin
        ));
    } else if was.version != is.version {
        found.push(format!(
            "the hook `{name}` was of {} {}, now of {}",
            was.plugin, was.version, is.version
        ));
    } else if was.sha256 != is.sha256 {
        let start = |hash: &str| hash.get(..12).unwrap_or(hash).to_owned();
        found.push(format!(
            "the hook `{name}` was of another build of {} {} (SHA-256 {}…, now {}…)",
            was.plugin,
            was.version,
            start(&was.sha256),
            start(&is.sha256)
        ));
    }
}

/// The entries of a manifest's hooks, by name.
fn entries(manifest: &Value) -> HashMap<&str, &Value> {
    let entries = manifest.get("hooks").and_then(Value::as_array);
    let entries = entries.into_iter().flatten();
    let named = entries.filter_map(|entry| Some((entry.get("name")?.as_str()?, entry)));
    named.collect()
}

/// How the ranks of a run differ from those of the run that saved a checkpoint, where that changes results.
pub fn rank_changes(saved: &Facts, manifest: &Manifest, size: usize) -> Vec<String> {
    let size = size as u64;
    let config = &manifest.distributed;
    let factor = match config.batches {
        BatchesPer::Rank => size,
        BatchesPer::Update => 1,
    };
    // Changes of the manifest's number are reported as such.
    let accumulate = (saved.accumulate as u64).saturating_mul(factor);
    let (ranks, batches) = match saved.ranks {
        Some(facts) => (facts.ranks, facts.accumulate),
        None => (1, saved.accumulate as u64),
    };
    let mut changes = Vec::new();
    if batches != accumulate {
        changes.push(format!(
            "an update was {batches} batches on {ranks} ranks, now {accumulate} on {size} (`\"batches\": \"update\"` in \
             `distributed` makes it the same on any number)"
        ));
    } else if ranks != size {
        let is_synchronised = config.batch_norm == BatchNormStatistics::Ranks;
        for (changes_bits, what) in [
            (is_synchronised, "batch norms are synchronised"),
            (
                config.wire == Wire::Bf16,
                "gradients are `bf16` on their way",
            ),
        ] {
            if changes_bits {
                changes.push(format!("the run had {ranks} ranks, now {size}, and {what}"));
            }
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(was: &Value, is: &Value) -> Vec<String> {
        let mut found = Vec::new();
        compare("", was, is, &FREE, &mut found);
        found
    }

    #[test]
    fn what_numbers_depend_on_is_reported_and_nothing_else() {
        let was = json!({
            "seed": 1, "name": "a", "train": {"epochs": 2, "batch_size": 8},
            "model": {"kind": "mlp", "hidden": [8]}, "optimizer": {"kind": "sgd"}
        });
        assert_eq!(told(&was, &was), [""; 0]);
        let is = json!({
            "seed": 2, "name": "b", "train": {"epochs": 4, "batch_size": 4, "prefetch": 3},
            "distributed": {"gradients": "host"},
            "model": {"kind": "mlp", "hidden": [16]}, "optimizer": {"kind": "sgd", "momentum": 0.9}
        });
        assert_eq!(
            told(&was, &is),
            [
                "`model.hidden` was [8], now [16]",
                "`optimizer.momentum` was not there, now 0.9",
                "`seed` was 1, now 2",
                "`train.batch_size` was 8, now 4",
            ]
        );
        let long = json!({"model": {"kind": "x".repeat(200)}});
        assert!(told(&json!({}), &long)[0].ends_with('…'));
    }

    #[test]
    fn data_that_is_another_is_reported() {
        let facts = |phases: &[(&str, usize)]| -> Vec<DataFacts> {
            let facts = |&(phase, samples): &(&str, usize)| DataFacts {
                phase: phase.to_owned(),
                samples,
                sample_shape: vec![2],
            };
            phases.iter().map(facts).collect()
        };
        let was = facts(&[("train", 10), ("val", 2)]);
        assert_eq!(data_changes(&was, &was), [""; 0]);
        assert_eq!(
            data_changes(&was, &facts(&[("train", 11), ("test", 1)])),
            [
                "the data for train had 10 samples of shape [2], now 11 of shape [2]",
                "there is no data for val any more",
                "there was no data for test",
            ]
        );
    }
}
