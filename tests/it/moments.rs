//! Moments of an optimizer stored as `bf16`: the same bits in any course of a run, half the bytes, and a loss like that in `f32`.

use std::fs;

use sconce_tests::{Workplace, digits, edit, tiny};
use serde_json::{Value, json};

const PLUGINS: [&str; 2] = ["sconce-fixture-faults", "sconce-plugin-optimisation"];

fn narrow(kind: &str) -> Value {
    json!({"kind": kind, "learning_rate": 0.01, "moments": "bf16"})
}

/// Two epochs, saved as `end`.
fn manifest(optimizer: Value) -> Value {
    let config =
        json!({"at": "after_loop", "phase": "train", "what": "save_checkpoint", "text": "end"});
    let manifest = edit(tiny(), "/optimizer", optimizer);
    edit(
        manifest,
        "/hooks",
        json!([{"hook": "asker", "config": config}]),
    )
}

fn ran(manifest: &Value) -> Workplace {
    let place = Workplace::new(&PLUGINS);
    place.run(manifest).expect(0, &[]);
    place
}

fn weights(place: &Workplace) -> Vec<u8> {
    fs::read(place.path("out/weights.safetensors")).expect("weights")
}

#[test]
fn a_resumed_run_has_the_same_bits_and_checkpoints_half_the_bytes() {
    for (kind, moments) in [("adamw", 2), ("lion", 1)] {
        let whole = ran(&manifest(narrow(kind)));
        let parts = Workplace::new(&PLUGINS);
        parts.write(&manifest(narrow(kind)));
        let until = ["run", "manifest.json", "--until", "1"];
        parts.sconce(&until).expect(0, &[]);
        let rest = ["run", "manifest.json", "--resume"];
        parts.sconce(&rest).expect(0, &["resumes from"]);
        assert!(weights(&whole) == weights(&parts), "{kind}");
        let (expected, found) = (whole.checkpoint("end"), parts.checkpoint("end"));
        assert!(expected == found, "{kind}");
        let stored = found
            .iter()
            .filter(|(name, _)| name.starts_with("optimizer/") && name.contains(".exp_avg"));
        let bytes: usize = stored.map(|(_, (_, bytes))| bytes.len()).sum();
        let elements = 784 * 8 + 8 + 8 * 10 + 10;
        assert_eq!(bytes, 2 * moments * elements, "{kind}");
    }
}

#[test]
fn updates_during_the_backward_pass_have_the_bits_of_those_after_it() {
    let early = manifest(narrow("adamw"));
    let mut late = early.clone();
    // It never clips, and needs all gradients at once.
    let clip = json!({"hook": "grad-clip", "config": {"max_norm": 1e9}});
    late["hooks"].as_array_mut().expect("a list").push(clip);
    assert!(weights(&ran(&early)) == weights(&ran(&late)));
    let single = manifest(json!({"kind": "adamw", "learning_rate": 0.01}));
    assert!(weights(&ran(&early)) != weights(&ran(&single)));
}

#[test]
fn another_setting_is_reported_when_a_run_resumes() {
    let place = ran(&manifest(narrow("adamw")));
    let mut other = vec!["run", "manifest.json", "--resume", "end"];
    other.extend(["--set", "optimizer.moments=f32", "--set", "train.epochs=3"]);
    let told = r#"`optimizer.moments` was "bf16", now not there"#;
    place.sconce(&other).expect(2, &[told]);
    other.push("--allow-changes");
    place.sconce(&other).expect(0, &["resumes from"]);
    let stored = &place.checkpoint("end")["optimizer/fc2.bias.exp_avg"];
    assert_eq!(stored.1.len(), 4 * 10, "in `f32` again");
}

#[test]
fn what_would_lose_its_digits_is_refused_before_the_run() {
    let centered =
        json!({"kind": "rmsprop", "learning_rate": 0.01, "centered": true, "moments": "bf16"});
    let place = Workplace::new(&PLUGINS);
    place.write(&manifest(centered));
    let told = ["`moments` can't be `bf16` with `centered`", "manifest.json"];
    place.sconce(&["check", "manifest.json"]).expect(2, &told);
}

#[test]
fn a_network_learns_as_it_does_with_moments_in_single_precision() {
    let loss = |optimizer: Value| {
        let manifest = edit(digits(), "/optimizer", optimizer);
        let place = Workplace::new(&[]);
        place
            .run(&edit(manifest, "/hooks", json!([])))
            .expect(0, &[]);
        let record: Value = serde_json::from_str(&place.read("out/run.json")).expect("JSON");
        let loss = &record["metrics"]["val"]["loss"];
        loss.as_f64()
            .unwrap_or_else(|| panic!("no loss in {}", record["metrics"]))
    };
    let single = loss(json!({"kind": "adamw", "learning_rate": 0.001}));
    let narrow = loss(json!({"kind": "adamw", "learning_rate": 0.001, "moments": "bf16"}));
    assert!((narrow / single - 1.0).abs() < 0.05, "{narrow} {single}");
}
