//! Requests that change how the training goes: frozen parameters, momenta, the batches of an update, and
//! statistics computed anew.

use std::collections::BTreeMap;

use sconce_tests::{Finished, Workplace, edit, tiny};
use serde_json::{Value, json};

type Tensors = BTreeMap<String, (Vec<usize>, Vec<u8>)>;

fn asker(config: Value) -> Value {
    json!({"hook": "asker", "priority": "HIGH", "config": config})
}

fn save(iteration: u64) -> Value {
    json!({"hook": "asker", "priority": "LOWEST", "config": {"at": "after_iter", "phase": "train",
        "what": "save_checkpoint", "after_iteration": iteration, "once": true,
        "text": iteration.to_string()}})
}

/// Two epochs of three iterations, saved after each, with momentum and weight decay.
fn manifest(askers: &[Value]) -> Value {
    let optimizer =
        json!({"kind": "sgd", "learning_rate": 0.1, "momentum": 0.9, "weight_decay": 0.1});
    let hooks: Vec<Value> = askers
        .iter()
        .cloned()
        .map(asker)
        .chain((1..=6).map(save))
        .collect();
    edit(
        edit(tiny(), "/optimizer", optimizer),
        "/hooks",
        json!(hooks),
    )
}

fn run(manifest: &Value) -> (Workplace, Finished) {
    let place = Workplace::new(&["sconce-fixture-faults", "sconce-fixture-recorder"]);
    let finished = place.run(manifest);
    (place, finished)
}

fn snapshots(askers: &[Value]) -> Vec<Tensors> {
    let (place, finished) = run(&manifest(askers));
    finished.expect(0, &[]);
    (1..=6)
        .map(|iteration: u64| place.checkpoint(&iteration.to_string()))
        .collect()
}

fn numbers(tensors: &Tensors, name: &str) -> Vec<f32> {
    let number = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().expect("four bytes"));
    tensors[name].1.chunks(4).map(number).collect()
}

#[test]
fn a_frozen_parameter_and_its_moments_stand_still_until_it_is_trained_again() {
    let at = |iteration: u64, what: &str, number: f64| {
        json!({"at": "after_iter", "phase": "train", "what": what, "text": "fc1.weight",
            "number": number, "after_iteration": iteration, "once": true})
    };
    let found = snapshots(&[at(2, "freeze", 0.0), at(4, "unfreeze", 1.0)]);
    for name in [
        "parameters/fc1.weight",
        "optimizer/fc1.weight.momentum_buffer",
        "optimizer/fc1.weight.step",
    ] {
        // The second checkpoint is saved at the point at which it was asked for.
        assert!(found[0][name] != found[1][name], "{name}");
        assert!(
            found[1][name] == found[2][name] && found[2][name] == found[3][name],
            "{name}"
        );
        assert!(found[3][name] != found[4][name], "{name}");
    }
    assert!(found[2]["parameters/fc1.bias"] != found[3]["parameters/fc1.bias"]);
}

#[test]
fn a_share_of_the_learning_rate_scales_the_steps() {
    let plain = json!({"kind": "sgd", "learning_rate": 0.125});
    let one = |askers: &[Value]| {
        let manifest = edit(manifest(askers), "/optimizer", plain.clone());
        let (place, finished) = run(&manifest);
        finished.expect(0, &[]);
        place.checkpoint("1")
    };
    let at = |what: &str, text: &str, number: f64| json!({"at": "before_run", "what": what, "text": text, "number": number});
    let start = one(&[
        at("freeze", "fc1.weight", 0.0),
        at("freeze", "fc1.bias", 0.0),
    ]);
    let whole = one(&[]);
    let half = one(&[at("unfreeze", "fc1.weight", 0.5)]);
    let name = "parameters/fc1.weight";
    let steps = |tensors: &Tensors| -> Vec<f32> {
        let pairs = numbers(tensors, name)
            .into_iter()
            .zip(numbers(&start, name));
        pairs.map(|(now, start)| now - start).collect()
    };
    let mut moved = 0;
    for (whole, half) in steps(&whole).iter().zip(steps(&half)) {
        assert!((whole / 2.0 - half).abs() < 1e-7, "{whole} {half}");
        moved += usize::from(whole.abs() > 1e-5);
    }
    assert!(moved > 10, "{moved}");
    assert!(whole["parameters/fc2.weight"] == half["parameters/fc2.weight"]);
}

#[test]
fn a_momentum_holds_at_once_for_all_groups_or_one() {
    let of_config = |momentum: f64| {
        let manifest = edit(manifest(&[]), "/optimizer/momentum", json!(momentum));
        let (place, finished) = run(&manifest);
        finished.expect(0, &[]);
        place.checkpoint("6")
    };
    let ask = json!({"at": "before_run", "what": "set_momentum", "number": 0.5});
    let found = snapshots(std::slice::from_ref(&ask));
    assert!(found[5]["parameters/fc1.weight"] == of_config(0.5)["parameters/fc1.weight"]);
    let all = of_config(0.9);
    assert!(found[5]["parameters/fc1.weight"] != all["parameters/fc1.weight"]);
    // Adam's first beta, and one group of two.
    let groups = json!([{"name": "head", "parameters": ["fc2.*"]}]);
    let adam = json!({"kind": "adam", "learning_rate": 0.01, "groups": groups});
    let one = |asked: Option<Value>| {
        let asked: Vec<Value> = asked.into_iter().collect();
        let (place, finished) = run(&edit(manifest(&asked), "/optimizer", adam.clone()));
        finished.expect(0, &[]);
        place.checkpoint("1")
    };
    let plain = one(None);
    let asked = one(Some(
        json!({"at": "before_run", "what": "set_momentum", "number": 0.5, "text": "head"}),
    ));
    let first =
        |tensors: &Tensors, name: &str| numbers(tensors, &format!("optimizer/{name}.exp_avg"));
    assert_eq!(first(&plain, "fc1.bias"), first(&asked, "fc1.bias"));
    for (plain, asked) in first(&plain, "fc2.bias")
        .iter()
        .zip(first(&asked, "fc2.bias"))
    {
        // (1 - beta) times the gradient.
        assert!((plain / 0.1 - asked / 0.5).abs() < 1e-6, "{plain} {asked}");
    }
}

/// Epoch, iteration, and update after each update.
fn updates(place: &Workplace) -> Vec<u64> {
    let calls = place.records("record.jsonl");
    let updates = calls.iter().filter(|call| call["point"] == "after_update");
    updates
        .filter_map(|call| call["iteration"].as_u64())
        .collect()
}

#[test]
fn the_batches_of_an_update_change_from_the_next_one_on() {
    let ask = |at: &str, iteration: u64, number: u64| {
        asker(
            json!({"at": at, "phase": "train", "what": "set_accumulation", "number": number,
            "after_iteration": iteration, "once": true}),
        )
    };
    let found = |hooks: Vec<Value>| {
        let hooks: Vec<Value> = hooks.into_iter().chain([json!("recorder")]).collect();
        let manifest = edit(
            edit(tiny(), "/data/train", json!(64)),
            "/hooks",
            json!(hooks),
        );
        let (place, finished) = run(&manifest);
        finished.expect(0, &[]);
        updates(&place)
    };
    // Iterations count what is finished: the update comes before its last batch counts.
    assert_eq!(found(vec![]), (0..16).collect::<Vec<u64>>());
    assert_eq!(
        found(vec![
            ask("before_epoch", 0, 3),
            ask("after_iter", 4, 2),
            ask("before_epoch", 8, 8)
        ]),
        // Three, three (the second begun as such), two; then one of eight.
        [2, 5, 7, 15]
    );
    // An update asked for in its midst ends as it was begun.
    assert_eq!(
        found(vec![ask("before_epoch", 0, 8), ask("after_iter", 3, 1)])[..2],
        [7, 8]
    );
    // Accumulated by a hook or by the manifest: the same bits.
    let end = |manifest: &Value| {
        let (place, finished) = run(manifest);
        finished.expect(0, &[]);
        place.checkpoint("6")
    };
    let by_manifest = end(&edit(manifest(&[]), "/train/accumulate", json!(2)));
    let by_hook = end(&manifest(&[
        json!({"at": "before_run", "what": "set_accumulation", "number": 2}),
    ]));
    assert!(by_manifest["parameters/fc1.weight"] == by_hook["parameters/fc1.weight"]);
}

#[test]
fn checkpoints_keep_all_of_it() {
    let first = |what: &str, text: &str, number: f64| json!({"at": "before_run", "what": what, "text": text, "number": number});
    let late = |what: &str, number: f64| {
        json!({"at": "after_iter", "phase": "train", "what": what, "text": "fc1.bias", "number": number,
            "after_iteration": 2, "once": true})
    };
    let asked = [
        first("freeze", "fc1.weight", 0.0),
        first("unfreeze", "fc2.bias", 0.5),
        first("set_momentum", "", 0.5),
        first("set_accumulation", "", 2.0),
        late("freeze", 0.0),
    ];
    let (place, finished) = run(&manifest(&asked));
    finished.expect(0, &[]);
    let state: Value =
        serde_json::from_str(&place.read("out/checkpoints/3/state.json")).expect("JSON");
    assert_eq!(
        state["settings"],
        json!({"momenta": [["default", "0.5"]],
            "shares": [["fc1.weight", "0.0"], ["fc1.bias", "0.0"], ["fc2.bias", "0.5"]],
            "accumulation": {"batches": 2, "update": [2, 3]}})
    );
    let expected = place.checkpoint("6");
    // In the midst of an update, and behind one; without the hook that froze the bias.
    for from in ["1", "3"] {
        let finished = place.sconce(&["run", "manifest.json", "--resume", from]);
        finished.expect(0, &[]);
        let found = place.checkpoint("6");
        for (name, tensor) in &expected {
            assert!(found.get(name) == Some(tensor), "{name} from {from}");
        }
    }
    // A run whose hooks are as they were has nothing of it in its checkpoints.
    let (place, finished) = run(&manifest(&[]));
    finished.expect(0, &[]);
    assert!(
        !place
            .read("out/checkpoints/3/state.json")
            .contains("settings")
    );
}

#[test]
fn statistics_computed_anew_disturb_nothing_else() {
    let train = |askers: &[Value], hooks: &[Value]| {
        let model = json!({"kind": "resnet", "blocks": [1], "width": 2});
        let mut manifest = edit(manifest(askers), "/model", model);
        if let Some(all) = manifest["hooks"].as_array_mut() {
            all.extend(hooks.iter().cloned());
        }
        let (place, finished) = run(&manifest);
        finished.expect(0, &[]);
        place
    };
    let ask = |at: &str, phase: &str, number: u64| json!({"at": at, "phase": phase, "what": "renew_statistics", "number": number});
    let plain = train(&[], &[json!("recorder")]);
    let renewed = train(
        &[ask("before_loop", "val", 16), ask("after_iter", "train", 0)],
        &[json!("recorder")],
    );
    for iteration in ["1", "3", "6"] {
        let (plain, renewed) = (plain.checkpoint(iteration), renewed.checkpoint(iteration));
        let mut statistics = 0;
        for (name, tensor) in &plain {
            let is_statistic = name.ends_with("running_mean") || name.ends_with("running_var");
            assert_eq!(renewed[name] != *tensor, is_statistic, "{name} {iteration}");
            statistics += usize::from(is_statistic);
        }
        assert!(statistics > 0, "{iteration}");
    }
    let train_calls = |place: &Workplace| -> Vec<String> {
        let calls = place.records("record.jsonl");
        let calls = calls
            .iter()
            .filter(|call| call["phase"] == "train" && call["point"] == "after_loss");
        calls
            .map(|call| format!("{} {}", call["iteration"], call["loss"]))
            .collect()
    };
    assert_eq!(train_calls(&plain).len(), 6);
    assert_eq!(train_calls(&plain), train_calls(&renewed));
    // The same samples, the same numbers: whoever asks, and however often.
    let once = train(
        &[ask("after_epoch", "train", 0)],
        &[asker(
            json!({"at": "after_loop", "phase": "train", "what": "save_checkpoint", "text": "end"}),
        )],
    );
    let twice = train(
        &[
            ask("after_epoch", "train", 8),
            ask("after_cycle", "train", 0),
        ],
        &[asker(
            json!({"at": "after_loop", "phase": "train", "what": "save_checkpoint", "text": "end"}),
        )],
    );
    let parameters = |place: &Workplace| -> Vec<_> {
        let all = place.checkpoint("end").into_iter();
        all.filter(|(name, _)| name.starts_with("parameters/"))
            .collect()
    };
    assert!(parameters(&once) == parameters(&twice));
}

#[test]
fn what_can_t_be_done_is_refused_with_a_reason() {
    let rmsprop = json!({"kind": "rmsprop", "learning_rate": 0.1});
    for (config, words) in [
        (
            json!({"at": "before_run", "what": "freeze", "text": "fc1.wieght"}),
            "did you mean `fc1.weight`?",
        ),
        (
            json!({"at": "after_loss", "what": "freeze", "text": "fc1.weight"}),
            "`freeze` is not legal at `after_loss`",
        ),
        (
            json!({"at": "before_run", "what": "unfreeze", "text": "fc1.weight"}),
            "above 0, found 0",
        ),
        (
            json!({"at": "before_run", "what": "set_momentum", "number": 1.0}),
            "from 0 to below 1, found 1",
        ),
        (
            json!({"at": "before_run", "what": "set_momentum", "number": 0.5, "text": "haed"}),
            "no parameter group is called `haed`",
        ),
        (
            json!({"at": "before_run", "what": "set_accumulation", "number": 0}),
            "a whole number from 1 on, found 0",
        ),
        (
            json!({"at": "after_backward", "what": "set_accumulation", "number": 2}),
            "`set_accumulation` is not legal at `after_backward`",
        ),
        (
            json!({"at": "before_iter", "what": "renew_statistics"}),
            "`renew_statistics` is not legal at `before_iter`",
        ),
        (
            json!({"at": "after_epoch", "what": "renew_statistics"}),
            "it has no buffers",
        ),
    ] {
        let (_place, finished) = run(&manifest(&[config]));
        finished.expect(4, &[words, "`asker`"]);
    }
    let ask = json!({"at": "before_run", "what": "set_momentum", "number": 0.5});
    let (_place, finished) = run(&edit(manifest(&[ask]), "/optimizer", rmsprop));
    finished.expect(4, &["configured without a momentum"]);
}
