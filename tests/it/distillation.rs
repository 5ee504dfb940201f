//! A teacher-student pair from the outside: `examples/distillation`, whose loss reads what its plugin
//! publishes.

use std::process::Command;

use sconce_tests::{Workplace, artifacts, edit, tiny};
use serde_json::{Value, json};

fn example(place: &Workplace, manifest: &Value) -> String {
    place.write(manifest);
    let program = artifacts().directory().join("distillation");
    let output = Command::new(program)
        .args(["run", "manifest.json"])
        .current_dir(place.directory())
        .output()
        .expect("the example can be started");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    stdout
}

/// The losses at `after_loss` in training.
fn losses(place: &Workplace, file: &str) -> Vec<f64> {
    let records = place.records(file).into_iter();
    records
        .filter(|call| call["point"] == "after_loss" && call["phase"] == "train")
        .filter_map(|call| call["loss"].as_f64())
        .collect()
}

#[test]
fn a_students_loss_reads_what_a_teachers_plugin_publishes() {
    let place = Workplace::new(&[
        "sconce-example-teacher",
        "sconce-fixture-recorder",
        "sconce-fixture-faults",
    ]);
    // The teacher: the student's own model and seed after its training.
    let save =
        json!({"at": "after_loop", "phase": "train", "what": "save_checkpoint", "text": "teacher"});
    let train = edit(tiny(), "/hooks", json!([{"hook": "asker", "config": save}]));
    let train = edit(
        train,
        "/optimizer",
        json!({"kind": "adamw", "learning_rate": 0.01}),
    );
    let train = edit(train, "/output", json!("teacher"));
    place.run(&train).expect(0, &[]);

    let recorder = |file: &str| json!({"hook": "recorder", "config": {"file": file}});
    let teacher = json!({"hook": "teacher", "config": {"checkpoint": "teacher/checkpoints/teacher/parameters.safetensors"}});
    let alone = edit(tiny(), "/hooks", json!([recorder("alone.jsonl")]));
    let taught = edit(tiny(), "/hooks", json!([teacher, recorder("taught.jsonl")]));
    // Without a teacher the example's loss is the plain one, to the bit.
    example(&place, &alone);
    place
        .run(&edit(tiny(), "/hooks", json!([recorder("plain.jsonl")])))
        .expect(0, &[]);
    assert_eq!(losses(&place, "alone.jsonl"), losses(&place, "plain.jsonl"));

    let printed = example(&place, &taught);
    assert!(printed.starts_with("completed"), "{printed}");
    let (alone, taught) = (
        losses(&place, "alone.jsonl"),
        losses(&place, "taught.jsonl"),
    );
    assert_eq!(alone.len(), taught.len());
    // The first batch, before anything is learned: 0.3 of the labels' loss, and 0.7 times 16 times
    // a cross entropy that is at most ln 10 apart from that of two nearly uniform distributions.
    let distance = (taught[0] - 0.3 * alone[0]) / (0.7 * 16.0);
    assert!((distance - 10.0_f64.ln()).abs() < 0.1, "{distance}");
    // What was learned is another thing, in validation too, which needs no teacher.
    let validation = |file: &str| {
        let records = place.records(file).into_iter();
        let mut ends =
            records.filter(|call| call["point"] == "after_epoch" && call["phase"] == "val");
        ends.next().expect("a validation")["metrics"].clone()
    };
    assert_ne!(validation("alone.jsonl"), validation("taught.jsonl"));
}
