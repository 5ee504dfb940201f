//! The hooks of `examples/python`, with the packages that they are about.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use sconce_tests::{Workplace, edit, python_from_registry, python_with, tiny, workspace};
use serde_json::{Value, json};

fn hook(file: &str, python: &std::path::Path, config: Value) -> Value {
    let file = workspace().join("examples/python").join(file);
    let name = file
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned());
    json!({"hook": "python", "name": name, "config": {"file": file, "python": python, "config": config}})
}

/// A run with validations in which every class occurs.
fn manifest(hooks: Value) -> Value {
    let manifest = edit(
        tiny(),
        "/data",
        json!({"kind": "synthetic-digits", "train": 64, "val": 100, "test": 10}),
    );
    edit(manifest, "/hooks", hooks)
}

#[test]
fn the_examples_work_with_the_packages_that_they_are_about() {
    let packages = ["numpy", "matplotlib", "scikit-learn", "optuna", "wandb"];
    let Some(python) = python_from_registry(&packages) else {
        return;
    };
    let place = Workplace::new(&["sconce-plugin-python"]);
    let storage = format!("sqlite:///{}", place.path("optuna.db").display());
    let mut first = manifest(json!([
        hook("wandb_offline.py", &python, json!({"every": 2})),
        hook("confusion_matrix.py", &python, json!({})),
        hook("roc_auc.py", &python, json!({})),
        hook(
            "optuna_pruning.py",
            &python,
            json!({"storage": storage, "parameters": {"learning_rate": 0.01}})
        ),
    ]));
    first["optimizer"] = json!({"kind": "adamw", "learning_rate": 0.02});
    first["train"]["epochs"] = json!(4);
    let finished = place.run(&first);
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    assert!(finished.stdout.contains("roc_auc"), "{}", finished.stdout);
    for epoch in 1..=4 {
        let picture =
            fs::read(place.path(&format!("out/confusion/epoch-{epoch}.png"))).expect("a picture");
        assert!(picture.starts_with(b"\x89PNG"), "epoch {epoch}");
    }
    let entries = fs::read_dir(place.path("out/wandb")).expect("W&B's directory");
    let run = entries
        .map(|entry| entry.expect("an entry").path())
        .find(|path| path.to_string_lossy().contains("offline-run-"))
        .expect("the run's directory");
    let files = fs::read_dir(run)
        .expect("its files")
        .map(|entry| entry.expect("an entry").path());
    let endings: Vec<_> = files
        .filter_map(|path| path.extension().map(ToOwned::to_owned))
        .collect();
    assert!(
        endings.iter().any(|ending| ending == "wandb"),
        "{endings:?}"
    );
    // Later trials of the study that are worse than the first are pruned.
    let first = fs::read(place.path("optuna.db")).expect("the study");
    assert!(first.starts_with(b"SQLite format 3"));
    let worse = json!({"storage": storage, "startup_trials": 1});
    let mut run = manifest(json!([hook("optuna_pruning.py", &python, worse)]));
    run["optimizer"]["learning_rate"] = json!(1e-12);
    run["output"] = json!("second");
    run["train"]["epochs"] = json!(6);
    let finished = place.run(&run).expect(0, &[]);
    assert!(
        finished.stdout.contains("pruned by Optuna"),
        "{}",
        finished.stdout
    );
}

#[test]
fn a_webhook_is_told_of_the_runs_end() {
    let Some(python) = python_with(&[]) else {
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!(
        "http://{}/hook",
        listener.local_addr().expect("its address")
    );
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a request");
        let mut request = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let read = stream.read(&mut buffer).expect("bytes");
            request.extend_from_slice(&buffer[..read]);
            if read == 0 || request.ends_with(b"}") {
                break;
            }
        }
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            .expect("an answer");
        String::from_utf8_lossy(&request).into_owned()
    });
    let place = Workplace::new(&["sconce-plugin-python"]);
    place
        .run(&manifest(json!([hook(
            "notify.py",
            &python,
            json!({"url": url})
        )])))
        .expect(0, &[]);
    let request = server.join().expect("the server");
    assert!(
        request.contains("Run `tiny` completed after epoch 2: loss"),
        "{request}"
    );
    // A server that isn't there doesn't fail the run.
    let nobody = json!({"url": "http://127.0.0.1:9/"});
    place
        .run(&edit(
            manifest(json!([hook("notify.py", &python, nobody)])),
            "/output",
            json!("second"),
        ))
        .expect(0, &["the webhook can't be reached"]);
}
