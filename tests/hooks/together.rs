//! Many hooks at once: a run that is stopped and resumed has the bits of one that is not.

use std::collections::BTreeMap;

use sconce_tests::{Finished, Workplace, edit, python_with, tiny};
use serde_json::{Value, json};

const PLUGINS: &[&str] = &[
    "sconce-plugin-checkpoints",
    "sconce-plugin-control",
    "sconce-plugin-csv",
    "sconce-plugin-debugging",
    "sconce-plugin-metrics",
    "sconce-plugin-optimisation",
];

/// Hooks whose states depend on the run alone, not on the time that it takes.
fn manifest() -> Value {
    let hooks = json!([
        {"hook": "checkpoint", "config": {"epochs": 1}},
        {"hook": "loss-spike", "config": {"window": 4, "rtol": 0.01, "action": "warn"}},
        {"hook": "stop-on-nan", "config": {"watch": ["loss", "gradients"], "allowed": 2}},
        {"hook": "early-stopping", "config": {"patience": 9}},
        {"hook": "on-plateau", "config": {"long_term": 3, "short_term": 1, "action": "lower-rate"}},
        {"hook": "grad-clip", "config": {"max_norm": 0.5}},
        {"hook": "grad-noise", "config": {"eta": 0.01}},
        {"hook": "weight-constraint", "config": {"kind": "max-norm", "max": 1.0}},
        {"hook": "loss-scale", "config": {"mode": "dynamic"}},
        {"hook": "ema", "config": {"decay": 0.9}},
        {"hook": "gradient-flow", "config": {"every": 1}},
        "compute-stats",
        "classification",
        "anomaly",
        "csv"
    ]);
    let manifest = edit(tiny(), "/hooks", hooks);
    let manifest = edit(manifest, "/threads", json!(1));
    edit(manifest, "/train/epochs", json!(4))
}

type Tensors = BTreeMap<String, (Vec<usize>, Vec<u8>)>;

fn expect_same(expected: &Tensors, found: &Tensors) {
    let names = |all: &Tensors| all.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(found), names(expected));
    let differing: Vec<&String> = expected
        .iter()
        .filter(|(name, content)| found.get(*name) != Some(content))
        .map(|(name, _)| name)
        .collect();
    assert!(differing.is_empty(), "{differing:?}");
}

#[test]
fn a_run_with_many_hooks_goes_on_as_if_never_stopped() {
    let straight = Workplace::new(PLUGINS);
    straight.run(&manifest()).expect(0, &[]);
    let stopped = Workplace::new(PLUGINS);
    stopped.write(&manifest());
    let run = ["run", "manifest.json"];
    stopped
        .sconce(&[&run[..], &["--set", "train.epochs=2"]].concat())
        .expect(0, &[]);
    stopped
        .sconce(&[&run[..], &["--resume", "epoch-2"]].concat())
        .expect(0, &[]);
    let (expected, found) = (
        straight.checkpoint("epoch-4"),
        stopped.checkpoint("epoch-4"),
    );
    expect_same(&expected, &found);
    for file in ["train.csv", "val.csv", "gradient-flow.csv"] {
        assert_eq!(
            stopped.read(&format!("out/{file}")),
            straight.read(&format!("out/{file}")),
            "{file}"
        );
    }
}

/// As on a device: hooks see copies of tensors, and what they write goes back at the end of each mount point.
#[test]
fn a_run_with_many_hooks_has_the_same_bits_if_they_see_copies() {
    let in_place = Workplace::new(PLUGINS);
    in_place.run(&manifest()).expect(0, &[]);
    let with_copies = Workplace::new(PLUGINS);
    with_copies.write(&manifest());
    let output = with_copies
        .command(&["run", "manifest.json"])
        .env("SCONCE_HOOK_COPIES", "always")
        .output()
        .expect("the binary can be started");
    Finished::from(output).expect(0, &[]);
    expect_same(
        &in_place.checkpoint("epoch-4"),
        &with_copies.checkpoint("epoch-4"),
    );
    for file in ["train.csv", "val.csv", "gradient-flow.csv"] {
        let of = |place: &Workplace| place.read(&format!("out/{file}"));
        assert_eq!(of(&with_copies), of(&in_place), "{file}");
    }
    let bytes_of = |place: &Workplace, hook: &str| {
        let record: Value = serde_json::from_str(&place.read("out/run.json")).expect("JSON");
        let hooks = record["profile"]["train"]["hooks"].as_array().cloned();
        let mut hooks = hooks.unwrap_or_default().into_iter();
        let hook = hooks.find(|known| known["name"] == hook).expect("the hook");
        hook["copies"]["bytes"].as_u64()
    };
    // Of the hooks of a point the first one that reads a tensor causes its copy.
    for hook in ["loss-scale", "ema", "anomaly"] {
        assert_eq!(bytes_of(&in_place, hook), None, "{hook}");
        assert!(bytes_of(&with_copies, hook) > Some(0), "{hook}");
    }
    assert_eq!(
        bytes_of(&with_copies, "early-stopping"),
        None,
        "it looks at no tensor"
    );
}

const IN_PYTHON: &str = "
import numpy as np
import sconce

class Round(sconce.Hook):
    def before_iter(self, task):
        if task.phase == 'train':
            elements = np.asarray(task.inputs_mut())
            elements *= np.float32(0.5)

    def after_forward(self, task):
        if task.phase == 'train':
            elements = np.asarray(task.outputs_mut())
            elements *= np.float32(0.75)

    def after_update(self, task):
        def nearest(parameter):
            elements = np.asarray(parameter)
            elements[...] = np.round(elements * 1024) / 1024
        task.for_each_parameter(nearest)
";

/// Hooks in Rust, C and Python, in this process and in processes of their own, that read and write what a batch has.
#[test]
fn hooks_in_other_languages_and_processes_have_the_same_bits_if_they_see_copies() {
    let Some(python) = python_with(&["numpy"]) else {
        return;
    };
    let trained = |environment: &[(&str, &str)]| {
        let place = Workplace::new(&[
            "sconce-plugin-checkpoints",
            "sconce-plugin-optimisation",
            "sconce-plugin-python",
            "sconce-fixture-tensors",
        ]);
        place.add_c_plugin("tests/c/on_device.c", &[])?;
        place.write_text("round.py", IN_PYTHON);
        let config = json!({"file": "round.py", "python": python});
        let hooks = json!([
            {"hook": "checkpoint", "config": {"epochs": 2, "tag": "end"}},
            "on-device",
            {"hook": "clip", "isolation": "process", "config": {"max_norm": 0.2}},
            {"hook": "grad-noise", "config": {"eta": 0.01}},
            {"hook": "python", "config": config},
            {"hook": "decay", "config": {"rate": 0.01}},
            {"hook": "average", "isolation": "process", "config": {"decay": 0.9}},
        ]);
        place.write(&edit(tiny(), "/hooks", hooks));
        let mut command = place.command(&["run", "manifest.json"]);
        command.envs(environment.iter().copied());
        let output = command.output().expect("the binary can be started");
        Finished::from(output).expect(0, &[]);
        Some(place.checkpoint("end"))
    };
    let Some(in_place) = trained(&[]) else { return };
    let variable = ("SCONCE_HOOK_COPIES", "always");
    let with_copies = trained(&[variable]).expect("a compiler, as before");
    expect_same(&in_place, &with_copies);
}
