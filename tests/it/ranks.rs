//! Runs on several ranks, by the plugin `sockets`: the same bits on any number of them, requests and faults of one rank,
//! resuming on another number.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sconce_tests::{Finished, Workplace, edit, tiny, until};
use serde_json::{Value, json};

const PLUGINS: &[&str] = &[
    "sconce-plugin-sockets",
    "sconce-plugin-optimisation",
    "sconce-fixture-faults",
    "sconce-fixture-wrecker",
];

/// An update of eight batches, the last of an epoch of five, with a last batch of half the size.
fn manifest(model: Value, data: Value) -> Value {
    let mut manifest = tiny();
    manifest["threads"] = json!(1);
    manifest["model"] = model;
    manifest["data"] = data;
    manifest["optimizer"] = json!({"kind": "adamw", "learning_rate": 0.01});
    manifest["train"] =
        json!({"epochs": 2, "batch_size": 4, "accumulate": 8, "eval_batch_size": 6});
    manifest["distributed"] = json!({"batches": "update", "check_every": 2, "timeout": 60.0});
    manifest["hooks"] = json!([
        {"hook": "lr-schedule", "config": {"schedule": {"kind": "cosine"}}},
        {"hook": "grad-clip", "config": {"max_norm": 0.5}},
        "ema",
        save("after_loop", 0, "end"),
    ]);
    manifest
}

fn digits() -> Value {
    json!({"kind": "synthetic-digits", "train": 50, "val": 20, "test": 13, "size": 16})
}

fn mlp() -> Value {
    json!({"kind": "mlp", "hidden": [6], "dropout": 0.2})
}

fn asker(at: &str, after: u64, what: &str, more: Value) -> Value {
    let mut config =
        json!({"at": at, "phase": "train", "what": what, "after_iteration": after, "once": true});
    for (key, value) in more.as_object().expect("an object") {
        config[key] = value.clone();
    }
    json!({"hook": "asker", "priority": "LOWEST", "ranks": "all", "config": config})
}

fn save(at: &str, after: u64, tag: &str) -> Value {
    asker(at, after, "save_checkpoint", json!({"text": tag}))
}

fn with_hook(manifest: &Value, hook: Value) -> Value {
    let mut manifest = manifest.clone();
    let hooks = manifest["hooks"].as_array_mut().expect("a list");
    hooks.insert(0, hook);
    manifest
}

/// Runs on this many ranks, with more arguments.
fn run_on(place: &Workplace, size: usize, more: &[&str]) -> Finished {
    let size = size.to_string();
    let mut arguments = match size.as_str() {
        "1" => vec!["run", "manifest.json"],
        size => vec!["launch", "-n", size, "manifest.json"],
    };
    arguments.extend(more);
    place.sconce(&arguments)
}

fn ran_on(manifest: &Value, size: usize) -> Workplace {
    let place = Workplace::new(PLUGINS);
    place.write(manifest);
    run_on(&place, size, &[]).expect(0, &[]);
    place
}

/// Shape and bytes of each tensor.
type Tensors = BTreeMap<String, (Vec<usize>, Vec<u8>)>;

/// What must not depend on the number of ranks: everything trained, and the metrics of all phases.
fn results(place: &Workplace) -> (Tensors, Value) {
    let mut checkpoint = place.checkpoint("end");
    checkpoint.retain(|name, _| !name.starts_with("hooks/"));
    let record: Value = serde_json::from_str(&place.read("out/run.json")).expect("JSON");
    (checkpoint, record["metrics"].clone())
}

fn same_on(manifest: &Value, sizes: &[usize]) {
    let alone = results(&ran_on(manifest, 1));
    for &size in sizes {
        let found = results(&ran_on(manifest, size));
        assert_eq!(found.1, alone.1, "metrics on {size} ranks");
        for (name, expected) in &alone.0 {
            assert!(
                found.0.get(name) == Some(expected),
                "{name} on {size} ranks"
            );
        }
    }
}

#[test]
fn a_network_with_dropout_has_the_same_bits_on_any_number_of_ranks() {
    let mut manifest = manifest(mlp(), digits());
    manifest["metrics"] = json!(["accuracy", "f1", "confusion-matrix"]);
    same_on(&manifest, &[2, 3, 4]);
}

#[test]
fn moments_in_bf16_have_the_same_bits_on_any_number_of_ranks() {
    let mut manifest = manifest(mlp(), digits());
    manifest["optimizer"]["moments"] = json!("bf16");
    same_on(&manifest, &[2]);
}

#[test]
fn convolutions_and_batch_norms_have_the_same_bits_on_any_number_of_ranks() {
    let model = json!({"kind": "resnet", "width": 4, "blocks": [1, 1]});
    same_on(&manifest(model, digits()), &[2, 3]);
}

#[test]
fn a_language_model_has_the_same_bits_on_any_number_of_ranks() {
    let model = json!({"kind": "gpt", "layers": 1, "heads": 2, "width": 8, "dropout": 0.1});
    let data = json!({"kind": "grammar", "context": 8, "train": 50, "val": 20, "test": 7});
    same_on(&manifest(model, data), &[2, 5]);
}

#[test]
fn numbers_have_the_same_metrics_on_any_number_of_ranks() {
    let data = json!({"kind": "regression", "features": 4, "train": 53, "val": 20, "test": 13});
    let mut manifest = manifest(mlp(), data);
    manifest["metrics"] = json!(["mae", "rmse", "r2"]);
    same_on(&manifest, &[3]);
}

#[test]
fn a_run_resumes_on_another_number_of_ranks_with_the_same_bits() {
    let manifest = manifest(mlp(), digits());
    let expected = results(&ran_on(&manifest, 1));
    // Stopped on four ranks after the first of each epoch's two updates, on two after the second epoch's.
    for (first, then, after) in [(4, 2, 2), (4, 1, 2), (1, 3, 5), (3, 1, 3)] {
        let place = Workplace::new(PLUGINS);
        let stop = asker("after_iter", after, "stop", json!({"text": "enough"}));
        let here = save("after_iter", after, "here");
        place.write(&with_hook(&with_hook(&manifest, stop), here));
        let stopped = run_on(&place, first, &[]).expect(0, &[]);
        assert!(stopped.stdout.contains("stopped by"), "{}", stopped.stdout);
        place.write(&manifest);
        let resume = ["--resume", "here", "--allow-changes"];
        run_on(&place, then, &resume).expect(0, &["resumes from"]);
        let found = results(&place);
        assert_eq!(found.1, expected.1, "from {first} to {then} ranks");
        assert!(found.0 == expected.0, "from {first} to {then} ranks");
    }
}

#[test]
fn another_number_of_batches_per_update_is_a_change() {
    let mut manifest = manifest(mlp(), digits());
    manifest["distributed"] = json!({"batches": "rank"});
    manifest["train"]["accumulate"] = json!(2);
    let manifest = with_hook(&manifest, save("after_iter", 2, "here"));
    let place = ran_on(&manifest, 2);
    run_on(&place, 2, &["--resume", "here"])
        .expect(0, &["2 ranks on this machine", "2 × 2 × 4 samples"]);
    run_on(&place, 3, &["--resume", "here"]).expect(
        2,
        &[
            "an update was 4 batches on 2 ranks, now 6 on 3",
            "`--allow-changes` resumes",
        ],
    );
}

#[test]
fn what_one_rank_asks_for_happens_on_all_at_the_same_update() {
    let plain = manifest(mlp(), digits());
    let of_rank = |at: &str, what: &str, more: Value| {
        let mut more = more;
        more["rank"] = json!(2);
        with_hook(&plain, asker(at, 1, what, more))
    };
    // The update in progress is finished first.
    let stopped = ran_on(&of_rank("after_iter", "stop", json!({"text": "enough"})), 3);
    let record: Value = serde_json::from_str(&stopped.read("out/run.json")).expect("JSON");
    assert_eq!(
        (&record["outcome"], &record["updates"]),
        (&json!("stopped"), &json!(1))
    );
    assert_eq!(record["reason"], "enough");

    let saved = ran_on(
        &of_rank("after_iter", "save_checkpoint", json!({"text": "asked"})),
        3,
    );
    let asked = saved.checkpoint("asked");
    assert!(
        asked.contains_key("parameters/fc1.weight"),
        "{:?}",
        asked.keys()
    );

    // A rate set by one rank takes effect on all before the step: as if all had set it.
    let rate = json!({"number": 0.5});
    let mut hooks = of_rank("before_update", "set_learning_rate", rate.clone());
    hooks["hooks"].as_array_mut().expect("a list").remove(1);
    let by_one = results(&ran_on(&hooks, 3));
    hooks["hooks"][0]["config"]
        .as_object_mut()
        .expect("a config")
        .remove("rank");
    let by_all = results(&ran_on(&hooks, 3));
    assert!(by_one == by_all);
    let mut without = hooks.clone();
    without["hooks"].as_array_mut().expect("a list").remove(0);
    assert!(results(&ran_on(&without, 3)).0 != by_one.0);

    // After a roll back the rest of the training is repeated.
    let back = asker(
        "after_iter",
        4,
        "roll_back",
        json!({"text": "here", "rank": 2}),
    );
    let both = with_hook(&with_hook(&plain, back), save("after_iter", 3, "here"));
    let expected = results(&ran_on(&plain, 3));
    let found = results(&ran_on(&both, 3));
    assert!(found.0 == expected.0);
}

#[test]
fn an_error_on_one_rank_ends_all_with_its_code_and_a_checkpoint() {
    let fails = asker(
        "before_iter",
        3,
        "fail",
        json!({"text": "no more", "rank": 2}),
    );
    let manifest = manifest(mlp(), digits());
    let place = Workplace::new(PLUGINS);
    place.write(&with_hook(&manifest, fails));
    let finished = run_on(&place, 3, &[]);
    finished.expect(4, &["rank 2 (", "no more", "hook `asker`"]);
    // The update before is kept, and the run reaches its end from there.
    let expected = results(&ran_on(&manifest, 1));
    place.write(&manifest);
    run_on(&place, 2, &["--resume", "failed", "--allow-changes"]).expect(0, &[]);
    assert!(results(&place).0 == expected.0);
}

#[test]
fn what_counts_for_all_ranks_has_the_same_state_on_each() {
    let place = Workplace::new(&[PLUGINS, &["sconce-plugin-metrics"]].concat());
    let counts = json!({"hook": "classification", "config": {"top_k": [2], "scores": ["accuracy", "roc_auc"]}});
    // In the second epoch, after evaluations, and at the end.
    let manifest = with_hook(&manifest(mlp(), digits()), counts);
    place.write(&with_hook(&manifest, save("after_iter", 6, "amid")));
    run_on(&place, 3, &[]).expect(0, &[]);
    for tag in ["amid", "end"] {
        let hooks = place.read(&format!("out/checkpoints/{tag}/hooks.json"));
        let hooks: Vec<Value> = serde_json::from_str(&hooks).expect("JSON");
        let state = hooks.iter().find(|hook| hook["name"] == "classification");
        let state = state.expect("it has a state");
        assert_eq!(state["ranks"], Value::Null, "{tag}: {state}");
    }
}

#[test]
fn a_hook_that_is_switched_off_on_one_rank_is_off_on_all() {
    let counts = |at: &str| {
        let more = json!({"rank": 1, "counts_ranks": true, "text": "no more"});
        let mut hook = asker(at, 1, "fail", more);
        hook["on_error"] = json!("disable");
        hook
    };
    let place = Workplace::new(PLUGINS);
    let manifest = manifest(mlp(), digits());
    place.write(&with_hook(&manifest, counts("before_iter")));
    let finished = run_on(&place, 2, &[]);
    finished.expect(
        0,
        &["`asker` is off on all ranks from now on, since it has failed on rank 1 ("],
    );
    // In the call in which the others gather, they can't agree any more.
    place.write(&with_hook(&manifest, counts("after_epoch")));
    let finished = run_on(&place, 2, &["--overwrite"]);
    finished.expect(7, &["rank 1 (", "no more", "`asker` gathers here alone"]);
}

#[test]
fn ranks_that_drift_apart_are_named() {
    let shift = |after, at| {
        let more = json!({"text": "fc1.weight", "number": 1e-3, "rank": 1});
        asker(at, after, "shift_parameter", more)
    };
    let place = Workplace::new(PLUGINS);
    place.write(&with_hook(
        &manifest(mlp(), digits()),
        shift(1, "after_update"),
    ));
    let drifted = "the ranks have drifted apart: `fc1.weight` on rank 1 (";
    run_on(&place, 2, &[]).expect(7, &[drifted, "between updates 0 and 2"]);
    assert!(!place.path("out/checkpoints/failed").exists());
    // What is kept is compared, however rarely the rest is.
    let mut rarely = manifest(mlp(), digits());
    rarely["distributed"]["check_every"] = json!(0);
    for (hooks, words) in [
        (
            vec![shift(1, "after_update"), save("after_iter", 4, "late")],
            "between updates 0 and 1",
        ),
        // After the last update, and before the weights are written.
        (
            vec![shift(11, "after_iter")],
            "the ranks have drifted apart",
        ),
    ] {
        let place = Workplace::new(PLUGINS);
        rarely["hooks"] = json!(hooks);
        place.write(&rarely);
        run_on(&place, 2, &[]).expect(7, &[drifted, words]);
        for left in [
            "checkpoints/failed",
            "checkpoints/late",
            "checkpoints/latest",
            "weights.safetensors",
        ] {
            assert!(!place.path(&format!("out/{left}")).exists(), "{left}");
        }
    }
}

#[test]
fn a_killed_rank_ends_all_and_the_run_resumes() {
    let manifest = manifest(mlp(), digits());
    let expected = results(&ran_on(&manifest, 1));
    let place = Workplace::new(PLUGINS);
    // In the second update, which has a round less than the first.
    let dies = asker("before_iter", 5, "abort", json!({"rank": 1}));
    place.write(&with_hook(
        &with_hook(&manifest, dies),
        save("after_iter", 2, "here"),
    ));
    let finished = run_on(&place, 2, &[]);
    assert_ne!(finished.code, 0);
    assert!(finished.stderr.contains("rank 1 ("), "{}", finished.stderr);
    place.write(&manifest);
    run_on(&place, 2, &["--resume", "here", "--allow-changes"]).expect(0, &[]);
    assert!(results(&place).0 == expected.0);
}

#[test]
fn a_hook_that_hangs_on_one_rank_is_named_with_the_rank() {
    let mut hangs = asker("before_iter", 3, "hang", json!({"rank": 1}));
    hangs["time_limit"] = json!(0.5);
    let place = Workplace::new(PLUGINS);
    place.write(&with_hook(&manifest(mlp(), digits()), hangs));
    run_on(&place, 2, &[]).expect(6, &["rank 1 (", "hook `asker` has not come back"]);
}

#[test]
fn a_process_that_ends_after_other_ranks_have_seen_its_call_ends_the_run_whatever_the_policy() {
    let half_done = |at: &str| {
        let config = json!({"at": at, "effects": 1, "rank": 1});
        json!({
            "hook": "half-done", "isolation": "process", "on_crash": "disable", "ranks": "all", "config": config
        })
    };
    let place = Workplace::new(PLUGINS);
    place.write(&with_hook(
        &manifest(mlp(), digits()),
        half_done("after_update"),
    ));
    let words = ["rank 1 (", "crashed (SIGABRT)", "which can't be undone"];
    run_on(&place, 2, &[]).expect(4, &words);
}

/// The start of one of two ranks, each a process of its own: how the run that `change` changes for the second one ends.
fn refusal_of(change: impl Fn(&Workplace, Command) -> Command) -> String {
    let meeting = tempfile::tempdir().expect("a directory");
    let start = |rank: usize| {
        let place = Workplace::new(PLUGINS);
        place.write(&manifest(mlp(), digits()));
        let mut command = place.command(&["run", "manifest.json"]);
        if rank == 1 {
            command = change(&place, command);
        }
        command
            .env("SCONCE_TEAM_RANK", rank.to_string())
            .env("SCONCE_TEAM_SIZE", "2")
            .env("SCONCE_TEAM_DIR", meeting.path())
            .env("SCONCE_TEAM_TOKEN", "0123456789abcdef0123456789abcdef")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        (place, command.spawn().expect("it starts"))
    };
    let [first, second] = [start(0), start(1)].map(|(place, rank)| {
        let ended = Finished::from(rank.wait_with_output().expect("it ends"));
        drop(place);
        ended
    });
    let all = format!("{}{}", first.stderr, second.stderr);
    assert_eq!((first.code, second.code), (2, 2), "{all}");
    first.stderr
}

/// A file of the same meaning and other bytes, in the place of a file that others may share.
fn other_bytes(from: &Path, to: &Path) {
    let mut bytes = std::fs::read(from).expect("read");
    bytes.push(0);
    let permissions = std::fs::metadata(from).expect("there").permissions();
    drop(std::fs::remove_file(to));
    std::fs::write(to, bytes).expect("written");
    std::fs::set_permissions(to, permissions).expect("set");
}

#[test]
fn ranks_that_are_about_to_train_different_things_are_refused() {
    let seed = refusal_of(|_, mut command| {
        command.args(["--set", "seed=2"]);
        command
    });
    let transport = refusal_of(|place, command| {
        let files = std::fs::read_dir(place.path("plugins")).expect("a directory");
        let mut files = files.map(|entry| entry.expect("an entry").path());
        let is_transport = |path: &PathBuf| path.to_string_lossy().contains("sockets");
        let file = files.find(is_transport).expect("the transport's plugin");
        other_bytes(&file, &file);
        command
    });
    let program = refusal_of(|place, command| {
        let file = place.path("sconce");
        other_bytes(Path::new(command.get_program()), &file);
        let mut other = Command::new(file);
        other.args(command.get_args());
        other.current_dir(place.path("."));
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => other.env(name, value),
                None => other.env_remove(name),
            };
        }
        other
    });
    for (said, words) in [
        (
            seed,
            "differs from rank 0: `seed` of the manifest is 2, on the first 1",
        ),
        (
            transport,
            "differs from rank 0: the transport's plugin has SHA-256 ",
        ),
        (program, "differs from rank 0: the program has the hash b3:"),
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn validation_shared_and_whole_give_the_same() {
    let manifest = manifest(mlp(), digits());
    let shared = results(&ran_on(&manifest, 3));
    let whole = edit(manifest, "/distributed/validation", json!("whole"));
    assert_eq!(results(&ran_on(&whole, 3)).1, shared.1);
}

#[test]
fn halved_gradients_train_about_as_well() {
    let manifest = edit(
        manifest(mlp(), digits()),
        "/distributed/wire",
        json!("bf16"),
    );
    let (_, metrics) = results(&ran_on(&manifest, 2));
    let (_, alone) = results(&ran_on(&manifest, 1));
    let loss = |metrics: &Value| metrics["train"]["loss"].as_f64().expect("a loss");
    let (halved, exact) = (loss(&metrics), loss(&alone));
    assert!(
        (1e-12..0.05 * exact).contains(&(halved - exact).abs()),
        "{halved} {exact}"
    );
}

#[test]
fn nccl_on_the_cpu_is_refused_on_all_ranks() {
    let place = Workplace::new(PLUGINS);
    place.write(&edit(
        manifest(mlp(), digits()),
        "/distributed/gradients",
        json!("nccl"),
    ));
    run_on(&place, 2, &[]).expect(
        2,
        &[
            "`nccl` can't sum gradients on the GPUs: rank 0",
            "it computes on the CPU",
            "`\"gradients\": \"auto\"` sums them on the host",
        ],
    );
    // One process has nothing to sum.
    run_on(&place, 1, &[]).expect(0, &[]);
}

#[test]
fn synchronised_batch_norms_are_those_of_the_joint_batch() {
    // Two ranks with batches of 4, normalised together, are one process with batches of 8: to rounding.
    let model =
        json!({"kind": "convnet", "channels": [3], "batch_norm": true, "hidden": [], "kernel": 3});
    let mut joint = manifest(
        model,
        json!({"kind": "synthetic-digits", "train": 48, "val": 8, "test": 8, "size": 16}),
    );
    joint["hooks"] = json!([save("after_loop", 0, "end")]);
    joint["optimizer"] = json!({"kind": "sgd", "learning_rate": 0.05});
    joint["distributed"] = json!({"batches": "rank", "batch_norm": "ranks"});
    joint["train"]["accumulate"] = json!(1);
    let one = edit(joint.clone(), "/train/batch_size", json!(8));
    let expected = ran_on(&one, 1).checkpoint("end");
    let found = ran_on(&joint, 2).checkpoint("end");
    let numbers = |bytes: &[u8]| -> Vec<f32> {
        bytes
            .chunks_exact(4)
            .map(|four| f32::from_le_bytes(four.try_into().expect("four")))
            .collect()
    };
    for (name, (_, bytes)) in expected
        .iter()
        .filter(|(name, _)| name.starts_with("parameters/"))
    {
        let other = numbers(&found[name].1);
        for (expected, found) in numbers(bytes).iter().zip(other) {
            // The running variance counts its batches: n / (n - 1) is the same, as batches are joint.
            if !name.ends_with("num_batches_tracked") {
                assert!(
                    (expected - found).abs() < 1e-4,
                    "{name}: {expected} {found}"
                );
            }
        }
    }
}

#[test]
fn what_would_load_hooks_again_is_refused_on_several_ranks() {
    let place = Workplace::new(PLUGINS);
    let mut entry = save("after_iter", 4, "begun");
    entry["name"] = json!("again");
    entry["reload"] = json!("changed");
    let changed = with_hook(&manifest(mlp(), digits()), entry);
    let at = edit(manifest(mlp(), digits()), "/reload_at", json!("iteration"));
    for (manifest, words) in [
        (&changed, "`reload` in the entry of `again`"),
        (&at, "`reload_at`"),
    ] {
        place.write(manifest);
        let finished = run_on(&place, 2, &["--overwrite"]);
        finished.expect(2, &["can't be given other libraries", words]);
    }
}

#[test]
fn a_signal_to_the_launcher_ends_all_after_a_checkpoint() {
    let mut manifest = manifest(mlp(), digits());
    manifest["train"]["epochs"] = json!(100_000);
    let place = Workplace::new(PLUGINS);
    place.write(&with_hook(&manifest, save("after_iter", 4, "begun")));
    let mut command = place.command(&["launch", "-n", "2", "manifest.json"]);
    let running = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    until("it has begun", || {
        place.path("out/checkpoints/begun").exists().then_some(())
    });
    // Meanwhile, a request for other libraries is refused, and not left without an answer.
    let asked = place.sconce(&["reload", "out", "--wait"]);
    asked.expect(
        3,
        &["hooks of a run on several ranks can't be given other libraries"],
    );
    let killed = Command::new("kill")
        .args(["-USR1", &running.id().to_string()])
        .status();
    assert!(killed.is_ok_and(|status| status.success()));
    let ended = Finished::from(running.wait_with_output().expect("it ends"));
    let ended = ended.expect(138, &["SIGUSR1"]);
    assert!(ended.stdout.contains("continue with:"), "{}", ended.stdout);
    assert!(
        place
            .checkpoint("interrupted")
            .contains_key("parameters/fc1.weight")
    );
}
