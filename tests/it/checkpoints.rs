//! Checkpoints that hooks ask for, and the way back to them.

use std::fs;

use sconce_tests::{Finished, Workplace, edit, tiny};
use serde_json::{Value, json};

/// Two epochs of three batches, an update after every second and at the epoch's end, `AdamW`.
fn manifest(hooks: &Value) -> Value {
    let manifest = edit(tiny(), "/train/accumulate", json!(2));
    let optimizer = json!({"kind": "adamw", "learning_rate": 0.01});
    let manifest = edit(manifest, "/optimizer", optimizer);
    edit(manifest, "/hooks", hooks.clone())
}

fn asker(config: Value) -> Value {
    json!({"hook": "asker", "priority": "LOWEST", "config": config})
}

/// Saves the training's end as `final`.
fn save_final() -> Value {
    let end =
        json!({"at": "after_loop", "phase": "train", "what": "save_checkpoint", "text": "final"});
    asker(end)
}

fn run(hooks: &Value) -> (Workplace, Finished) {
    let place = Workplace::new(&[
        "sconce-fixture-recorder",
        "sconce-fixture-faults",
        "sconce-fixture-giver",
    ]);
    let finished = place.run(&manifest(hooks));
    (place, finished)
}

#[test]
fn a_roll_back_goes_on_with_the_same_bits_from_wherever_it_was_saved() {
    let (straight, finished) = run(&json!([save_final(), "counter"]));
    finished.expect(0, &[]);
    let expected = straight.checkpoint("final");
    assert!(expected.contains_key("optimizer/fc1.weight.exp_avg"));
    // At `after_iter` of the first batch an update is half done; at `after_epoch` its validation
    // is still to come.
    for (at, from) in [
        ("before_iter", 1),
        ("after_iter", 1),
        ("after_iter", 2),
        ("after_epoch", 0),
        ("after_cycle", 0),
        ("before_epoch", 0),
    ] {
        let save = json!({"at": at, "phase": "train", "what": "save_checkpoint", "text": "here", "after_iteration": from, "once": true});
        let back = json!({"at": "after_iter", "phase": "train", "what": "roll_back", "text": "here", "after_iteration": 5, "once": true});
        let (place, finished) = run(&json!([
            asker(save),
            asker(back),
            save_final(),
            "recorder",
            "counter"
        ]));
        finished.expect(0, &[]);
        let records = place.records("record.jsonl");
        let loads: Vec<&Value> = (records.iter())
            .filter(|call| call["point"] == "after_load_checkpoint")
            .collect();
        assert_eq!(loads.len(), 1, "{at}");
        assert!(
            loads[0]["iteration"].as_u64() < Some(5),
            "{at}: counters are back"
        );
        let end = records.last().expect("calls");
        assert_eq!(
            (&end["iteration"], &end["update"]),
            (&json!(6), &json!(4)),
            "{at}"
        );
        let found = place.checkpoint("final");
        for (name, tensor) in &expected {
            assert!(
                found.get(name) == Some(tensor),
                "{name} after a roll back to {at} {from}"
            );
        }
    }
}

#[test]
fn hook_states_extra_entries_and_metrics_come_back() {
    let save = json!({"at": "after_iter", "phase": "train", "what": "save_checkpoint", "text": "a", "after_iteration": 2, "once": true});
    let back = json!({"at": "after_iter", "phase": "train", "what": "roll_back", "text": "a", "after_iteration": 3, "once": true});
    let (place, finished) = run(&json!(["counter", asker(save), asker(back), "recorder"]));
    finished.expect(0, &[]);
    let records = place.records("record.jsonl");
    let calls: Vec<f64> = records
        .iter()
        .filter(|call| call["point"] == "after_iter" && call["phase"] == "train")
        .filter_map(|call| {
            let metrics = call["metrics"].as_array()?;
            metrics.iter().find(|metric| metric[0] == "calls")?[1].as_f64()
        })
        .collect();
    // The third iteration is rolled back and done again.
    assert_eq!(calls, [1.0, 2.0, 3.0, 3.0, 4.0, 5.0, 6.0]);
    let load = records
        .iter()
        .find(|call| call["point"] == "after_load_checkpoint")
        .expect("it was loaded");
    assert_eq!(load["detail"], "a");
    let second = records
        .iter()
        .find(|call| call["point"] == "after_iter" && call["iteration"] == 2)
        .expect("the second iteration");
    assert_eq!(load["metrics"][0], second["metrics"][0], "the loss so far");
}

#[test]
fn a_checkpoint_has_everything_and_leaves_nothing_beside_it() {
    let (place, finished) = run(&json!(["counter", save_final(), "recorder"]));
    finished.expect(0, &[]);
    let names: Vec<String> = place.checkpoint("final").into_keys().collect();
    for name in [
        "parameters/fc1.weight",
        "optimizer/fc2.bias.exp_avg_sq",
        "optimizer/fc1.weight.step",
        "extra/twice",
        "hooks/counter",
        "hooks/asker",
    ] {
        assert!(
            names.iter().any(|known| known == name),
            "{name} in {names:?}"
        );
    }
    let files = fs::read_dir(place.path("out/checkpoints")).expect("it is there");
    assert_eq!(files.count(), 2, "the checkpoint and `latest`");
    let records = place.records("record.jsonl");
    let of = |point: &str| {
        records
            .iter()
            .find(|call| call["point"] == point)
            .expect("called")
    };
    assert_eq!(of("before_save_checkpoint")["detail"], "final for asker");
    assert_eq!(of("after_save_checkpoint")["detail"], "whole: true");
    let run: Value = serde_json::from_str(&place.read("out/run.json")).expect("JSON");
    let path = run["checkpoints"][0].as_str().expect("a path");
    assert!(path.ends_with("out/checkpoints/final"), "{path}");
}

#[test]
fn a_save_that_fails_is_a_warning_and_the_run_goes_on() {
    let place = Workplace::new(&["sconce-fixture-recorder", "sconce-fixture-faults"]);
    fs::create_dir(place.path("out")).expect("a directory");
    place.write_text("out/checkpoints", "a file stands in the way");
    let finished = place.run(&manifest(&json!([save_final(), "recorder"])));
    finished.expect(0, &["the checkpoint `final` is not saved"]);
    let records = place.records("record.jsonl");
    let after = records
        .iter()
        .find(|call| call["point"] == "after_save_checkpoint");
    let detail = after.expect("called")["detail"].as_str().expect("a text");
    assert!(detail.contains("checkpoints"), "{detail}");
}

#[test]
fn a_roll_back_to_nothing_is_the_askers_fault() {
    let back = |tag: &str| json!({"at": "after_iter", "what": "roll_back", "text": tag, "once": true, "phase": "train"});
    let save = json!({"at": "before_run", "what": "save_checkpoint", "text": "start"});
    run(&json!([asker(save.clone()), asker(back("strat"))]))
        .1
        .expect(
            4,
            &[
                "hook `asker-2` failed at `after_iter`",
                "can't roll back to `strat`",
                "there are `start`",
            ],
        );
    run(&json!([asker(back("a"))]))
        .1
        .expect(4, &["no checkpoint has been saved"]);
    let mut ignored = asker(back("a"));
    ignored["on_error"] = json!("ignore");
    run(&json!([ignored]))
        .1
        .expect(0, &["can't roll back to `a`", "ignored"]);
    let tag = json!({"at": "before_run", "what": "save_checkpoint", "text": "../x"});
    run(&json!([asker(tag)]))
        .1
        .expect(4, &["a checkpoint's tag has 1 to 128 letters", "\"../x\""]);
    let tag = json!({"at": "before_run", "what": "save_checkpoint", "text": "latest"});
    run(&json!([asker(tag)]))
        .1
        .expect(4, &["`latest` is not a tag"]);
    fs::metadata("../x").expect_err("nothing is written outside");
}

#[test]
fn a_damaged_checkpoint_is_reported_and_changes_nothing() {
    // Begun by a host that was killed before the index.
    let place = Workplace::new(&["sconce-fixture-faults"]);
    fs::create_dir_all(place.path("out/checkpoints/a")).expect("a directory");
    place.write_text("out/checkpoints/a/state.json", "{}");
    let back = json!({"at": "after_iter", "what": "roll_back", "text": "a", "phase": "train"});
    place.run(&manifest(&json!([asker(back)]))).expect(
        4,
        &[
            "out/checkpoints/a` is not a whole checkpoint: `index.json` can't be read",
            "no checkpoint has been saved",
        ],
    );
}

#[test]
fn weights_are_taken_from_a_checkpoint_as_from_a_file() {
    let (place, finished) = run(&json!([save_final()]));
    finished.expect(0, &[]);
    let eval = |checkpoint: &str| {
        let arguments = ["eval", "manifest.json", "--checkpoint", checkpoint];
        place.sconce(&arguments).expect(0, &[]).stdout
    };
    let of_file = eval("out/weights.safetensors");
    assert_eq!(eval("out/checkpoints/final"), of_file);
    assert_eq!(eval("out/checkpoints/latest"), of_file);
    let parameters = "out/checkpoints/final/parameters.safetensors";
    assert_eq!(eval(parameters), of_file, "its file of weights alone");
    let again = edit(
        manifest(&json!([])),
        "/weights",
        json!({"file": "out/checkpoints/final"}),
    );
    let again = edit(again, "/train/epochs", json!(0));
    place
        .run(&edit(again, "/output", json!("other")))
        .expect(0, &[]);
    let weights = |file: &str| fs::read(place.path(file)).expect("weights");
    assert_eq!(
        weights("other/weights.safetensors"),
        weights("out/weights.safetensors")
    );
    // One bit, and nothing is taken from it.
    let mut bytes = weights(parameters);
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(place.path(parameters), bytes).expect("written");
    let arguments = [
        "eval",
        "manifest.json",
        "--checkpoint",
        "out/checkpoints/final",
    ];
    place.sconce(&arguments).expect(
        2,
        &["is not a whole checkpoint: `parameters.safetensors` has the SHA-256"],
    );
}
