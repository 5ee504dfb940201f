//! `runs`, `compare`, `env`, `schema`, completions and manual.

use std::process::Stdio;

use sconce_tests::{Workplace, edit, tiny};
use serde_json::{Value, json};

/// Two runs in `runs/`: one with another rate.
fn two_runs() -> Workplace {
    let place = Workplace::new(&["sconce-plugin-csv"]);
    place.write(&edit(tiny(), "/hooks", json!(["csv"])));
    for (name, rate) in [("slow", "0.01"), ("fast", "0.2")] {
        let output = format!("runs/{name}");
        let rate = format!("optimizer.learning_rate={rate}");
        let name = format!("name={name}");
        let arguments = ["run", "manifest.json", "--output", &output, "--set", &rate];
        place
            .sconce(&[&arguments[..], &["--set", &name]].concat())
            .expect(0, &[]);
    }
    place
}

#[test]
fn runs_are_listed_with_state_and_the_metric_of_what_they_keep() {
    let place = two_runs();
    let manifest = place.read("runs/fast/manifest.json");
    let broken_off = place.path("runs/deep/below/third");
    std::fs::create_dir_all(&broken_off).expect("made");
    std::fs::write(broken_off.join("manifest.json"), &manifest).expect("written");
    let without_tables = place.path("runs/deep/fourth");
    std::fs::create_dir_all(&without_tables).expect("made");
    std::fs::write(without_tables.join("manifest.json"), manifest).expect("written");
    let record = place.read("runs/fast/run.json");
    std::fs::write(without_tables.join("run.json"), record).expect("written");
    let finished = place.sconce(&["runs"]).expect(0, &[]);
    for words in [
        "fast",
        "slow",
        "completed",
        "broken off",
        "2/2",
        "val/accuracy 0.",
        "(epoch 2)",
    ] {
        assert!(
            finished.stdout.contains(words),
            "no {words:?} in:\n{}",
            finished.stdout
        );
    }
    let finished = place
        .sconce(&["runs", "runs", "--json", "--metric", "val/loss"])
        .expect(0, &[]);
    let runs: Value = serde_json::from_str(&finished.stdout).expect("JSON");
    let names: Vec<&Value> = runs
        .as_array()
        .expect("a list")
        .iter()
        .map(|run| &run["name"])
        .collect();
    assert_eq!(names, ["fast", "fast", "fast", "slow"]);
    let best = |run: &Value| run["best"]["value"].as_f64();
    let curve: Vec<f64> = place
        .read("runs/fast/val.csv")
        .lines()
        .skip(1)
        .filter_map(|row| row.split(',').nth(4)?.parse().ok())
        .collect();
    let least = curve.iter().copied().reduce(f64::min);
    assert_eq!(best(&runs[2]), least, "{curve:?}");
    place
        .sconce(&["runs", "nowhere"])
        .expect(2, &["there is no directory `nowhere`"]);
}

#[test]
#[cfg(unix)]
fn a_run_that_goes_on_is_running() {
    let place = Workplace::new(&["sconce-plugin-csv"]);
    place.write(&edit(tiny(), "/train/epochs", json!(1_000_000)));
    let mut child = place
        .command(&["run", "manifest.json", "--output", "runs/a"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("started");
    while !place.path("runs/a/manifest.json").exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert!(
            child.try_wait().expect("waited").is_none(),
            "the run continues"
        );
    }
    let listed = place.sconce(&["runs"]);
    child.kill().expect("killed");
    child.wait().expect("waited");
    let listed = listed.expect(0, &[]);
    assert!(listed.stdout.contains("running"), "{}", listed.stdout);
    let listed = place.sconce(&["runs"]).expect(0, &[]);
    assert!(listed.stdout.contains("broken off"), "{}", listed.stdout);
}

#[test]
fn runs_are_compared() {
    let place = two_runs();
    let finished = place
        .sconce(&["compare", "runs/slow", "runs/fast"])
        .expect(0, &[]);
    for words in [
        "optimizer.learning_rate",
        "0.01",
        "0.2",
        "val/loss by epoch",
        "█",
        " *",
    ] {
        assert!(
            finished.stdout.contains(words),
            "no {words:?} in:\n{}",
            finished.stdout
        );
    }
    assert!(
        !finished.stdout.contains("train.epochs"),
        "what is the same is left out"
    );
    let finished = place
        .sconce(&["compare", "runs/slow", "runs/fast", "--json"])
        .expect(0, &[]);
    let object: Value = serde_json::from_str(&finished.stdout).expect("JSON");
    assert_eq!(
        object["differences"],
        json!({"optimizer.learning_rate": [0.01, 0.2]})
    );
    assert_eq!(object["runs"], json!(["slow", "fast"]));
    // Losses of different kinds are not compared, other metrics are.
    let manifest: Value =
        serde_json::from_str(&place.read("runs/slow/manifest.json")).expect("JSON");
    let other = edit(manifest, "/loss", json!({"kind": "mse"}));
    place.write_text("runs/slow/manifest.json", &other.to_string());
    let finished = place
        .sconce(&["compare", "runs/slow", "runs/fast"])
        .expect(0, &[]);
    for words in [
        "the losses are of different kinds (cross-entropy, mse): none is marked as the best",
        "val/loss by epoch, each by a scale of its own",
    ] {
        assert!(finished.stdout.contains(words), "{}", finished.stdout);
    }
    for line in finished.stdout.lines() {
        assert!(!(line.contains("/loss ") && line.contains('*')), "{line}");
    }
    place
        .sconce(&["compare", "runs/slow", "plugins"])
        .expect(2, &["`plugins` is not a run's directory"]);
}

#[test]
fn the_schema_has_the_hooks_that_are_found() {
    let place = Workplace::new(&["sconce-plugin-stop-after"]);
    place.write(&tiny());
    let finished = place.sconce(&["schema", "manifest.json"]).expect(0, &[]);
    let schema: Value = serde_json::from_str(&finished.stdout).expect("JSON");
    assert!(schema["$defs"]["config of stop-after"]["properties"]["epochs"].is_object());
    let finished = place
        .sconce(&["schema", "--plugins", "plugins", "--hook", "stop-after"])
        .expect(0, &[]);
    assert!(finished.stdout.contains("minutes"), "{}", finished.stdout);
    place
        .sconce(&["schema", "--plugins", "plugins", "--hook", "stop-afer"])
        .expect(3, &["did you mean `stop-after`?"]);
}

#[test]
fn a_report_of_a_fault_has_its_facts() {
    let place = Workplace::new(&["sconce-plugin-csv"]);
    let finished = place
        .sconce(&["env", "--plugins", "plugins", "--json"])
        .expect(0, &[]);
    let facts: Value = serde_json::from_str(&finished.stdout).expect("JSON");
    for fact in [
        "host",
        "plugin API",
        "allocator",
        "processor",
        "system",
        "instructions",
    ] {
        assert!(
            facts[fact].as_str().is_some_and(|text| !text.is_empty()),
            "{fact}: {facts:#}"
        );
    }
    assert_eq!(facts["plugins"][0]["name"], "sconce-plugin-csv");
    let finished = place.sconce(&["env"]).expect(0, &[]);
    assert!(finished.stdout.contains("allocator"), "{}", finished.stdout);
}

#[test]
fn plugins_are_listed_for_scripts() {
    let place = Workplace::new(&["sconce-plugin-csv"]);
    std::fs::write(place.path("plugins/cut.so"), b"\x7fELF\x02\x01\x01").expect("written");
    let finished = place
        .sconce(&["plugins", "plugins", "--json"])
        .expect(3, &[]);
    let object: Value = serde_json::from_str(&finished.stdout).expect("JSON");
    assert_eq!(object["plugins"][0]["hooks"][0]["name"], "csv");
    assert_eq!(object["refused"][0]["file"], "plugins/cut.so");
    let library = object["plugins"][0]["file"].as_str().expect("a path");
    let finished = place.sconce(&["inspect", library, "--json"]).expect(0, &[]);
    let plugin: Value = serde_json::from_str(&finished.stdout).expect("JSON");
    assert_eq!(plugin["sha256"], object["plugins"][0]["sha256"]);
}

#[test]
fn shells_and_readers_of_manuals_are_served() {
    let place = Workplace::new(&[]);
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let finished = place.sconce(&["completions", shell]).expect(0, &[]);
        assert!(finished.stdout.contains("limit-train"), "{shell}");
    }
    place.sconce(&["man", "man"]).expect(0, &[]);
    assert!(place.read("man/sconce-run.1").contains("limit"));
    assert!(place.read("man/sconce.1").contains("sconce"));
}
