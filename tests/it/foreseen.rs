//! What can be known before a run is reported before it: by `sconce check`, and by `run` in the same words.

use sconce_tests::{Workplace, edit, tiny};
use serde_json::{Value, json};

const PLUGINS: [&str; 9] = [
    "sconce-fixture-faults",
    "sconce-fixture-wrecker",
    "sconce-plugin-checkpoints",
    "sconce-plugin-console",
    "sconce-plugin-control",
    "sconce-plugin-models",
    "sconce-plugin-optimisation",
    "sconce-plugin-profiling",
    "sconce-plugin-stop-after",
];

/// The tiny run (2 epochs of 3 batches, 10 samples for validation) with parts replaced.
fn with(edits: &[(&str, Value)]) -> Value {
    let edits = edits.iter();
    edits.fold(tiny(), |manifest, (pointer, value)| {
        edit(manifest, pointer, value.clone())
    })
}

fn hook(name: &str, config: Value) -> Value {
    json!([{"hook": name, "config": config}])
}

fn hooks(name: &str, config: Value) -> Value {
    with(&[("/hooks", hook(name, config))])
}

/// `manifest` without validation data.
fn without_validation(manifest: Value) -> Value {
    edit(manifest, "/data/val", json!(0))
}

/// A manifest, and words of what is said of it.
type Case = (Value, &'static [&'static str]);

fn case(manifest: Value, words: &'static [&'static str]) -> Case {
    (manifest, words)
}

/// Manifests that no run can begin with, and words of the reason.
fn refused() -> Vec<Case> {
    let watched = |monitor: &str| json!({"monitor": monitor});
    let best = |monitor: &str| json!({"best": [{"monitor": monitor}]});
    let clip = json!({"hook": "grad-clip"});
    let best_norm = json!({"hook": "checkpoint", "config": best("train/grad_norm")});
    let no_tag = |hook: &str, config: Value| {
        case(
            hooks(hook, config),
            &["a checkpoint's tag has 1 to 128 letters", "../../x"],
        )
    };
    vec![
        no_tag("checkpoint", json!({"tag": "../../x"})),
        no_tag("checkpoint", json!({"tag": "../../x{epoch}"})),
        no_tag("checkpoint", json!({"last": "../../x"})),
        no_tag(
            "checkpoint",
            json!({"best": [{"monitor": "loss", "tag": "../../x"}]}),
        ),
        no_tag(
            "stop-on-nan",
            json!({"action": "roll-back", "roll_back": {"to": "../../x"}}),
        ),
        no_tag("on-plateau", json!({"action": "save", "tag": "../../x"})),
        case(
            hooks("checkpoint", json!({"last": "latest"})),
            &["the tag `latest`: `latest` is not a tag"],
        ),
        case(
            hooks("lr-schedule", json!({})),
            &[
                "hook `lr-schedule` failed when it was created",
                "exactly one of `schedule` and `chain`",
            ],
        ),
        case(
            with(&[("/hooks", json!([clip, best_norm]))]),
            &["say by `rule` whether", "`train/grad_norm`", "at hooks[1]"],
        ),
        case(
            hooks("freeze", json!({"parameters": ["conv*"]})),
            &["`conv*` chooses nothing; the model has `fc1.weight`"],
        ),
        case(
            hooks(
                "freeze",
                json!({"parameters": ["fc1.*"], "stages": [{"epoch": 1, "parameters": ["fc9.*"]}]}),
            ),
            &["`stages`: `fc9.*` chooses nothing"],
        ),
        case(
            hooks("grad-noise", json!({"parameters": ["w"]})),
            &["`w` chooses nothing"],
        ),
        case(
            hooks("weight-constraint", json!({"parameters": ["w"]})),
            &["`w` chooses nothing"],
        ),
        case(
            hooks("prune", json!({"parameters": ["w"]})),
            &["`w` chooses nothing"],
        ),
        case(
            hooks(
                "lr-schedule",
                json!({"schedule": {"kind": "cosine"}, "groups": ["head"]}),
            ),
            &["no parameter group `head`; there are `default`"],
        ),
        case(
            hooks("activation-stats", json!({"modules": ["conv*"]})),
            &["`conv*`, which no module is called"],
        ),
        case(
            hooks("early-stopping", watched("test/loss")),
            &[
                "`test/loss` has no value while the run is trained",
                "`val/loss`",
            ],
        ),
        case(
            hooks("checkpoint", best("test/accuracy")),
            &["`test/accuracy` has no value while"],
        ),
        case(
            without_validation(hooks("early-stopping", json!({}))),
            &[
                "`loss` never has a value",
                "there is no data",
                "watch `train/loss`",
            ],
        ),
        case(
            without_validation(hooks("checkpoint", best("accuracy"))),
            &["`accuracy` never has a value"],
        ),
        case(
            without_validation(hooks("on-plateau", json!({}))),
            &["`loss` never has a value"],
        ),
        case(
            without_validation(hooks(
                "check",
                json!({"monitor": "accuracy", "required": 0.5}),
            )),
            &["`accuracy` never has a value"],
        ),
        case(
            without_validation(hooks(
                "lr-schedule",
                json!({"schedule": {"kind": "plateau"}}),
            )),
            &["`loss` never has a value"],
        ),
        case(
            with(&[(
                "/hooks",
                json!([{"hook": "fault", "config": {"at": "new", "how": "panic"}}, {"hook": "lr-schedule"}]),
            )]),
            &[
                "hook `fault` panicked when it was created",
                "exactly one of `schedule`",
            ],
        ),
    ]
}

/// Manifests that a run can begin with although a part of them has no effect, and the warning.
fn warned() -> Vec<Case> {
    let curve = |config: Value| hooks("lr-schedule", config);
    vec![
        case(
            with(&[("/train/batch_size", json!(64))]),
            &[
                "64 samples is larger than the training data, which has 24",
                "at train.batch_size",
            ],
        ),
        case(
            with(&[("/train/accumulate", json!(5))]),
            &["an update of 5 batches is longer than an epoch, which has 3"],
        ),
        case(
            with(&[("/train/epochs", json!(0))]),
            &["nothing is trained"],
        ),
        case(
            without_validation(with(&[
                ("/train/limit_val", json!(2)),
                ("/train/initial_validation", json!(true)),
            ])),
            &[
                "`limit_val` has no effect",
                "`initial_validation` has no effect",
            ],
        ),
        case(
            with(&[
                ("/train/overfit", json!(1)),
                ("/train/limit_train", json!(1)),
            ]),
            &["`limit_train` has no effect: `overfit` replaces it"],
        ),
        case(
            with(&[("/train/allow_missing_gradients", json!(["fc1.wieght"]))]),
            &[
                "no parameter is called `fc1.wieght`",
                "did you mean `fc1.weight`?",
            ],
        ),
        case(
            with(&[("/optimizer/learning_rate", json!(300))]),
            &[
                "a learning rate of 300 is so large",
                "at optimizer.learning_rate",
            ],
        ),
        case(
            with(&[(
                "/hooks",
                json!([{"hook": "console", "every": {"epochs": 5}}]),
            )]),
            &["waits for epochs 5, and the run has 2 epochs"],
        ),
        case(
            without_validation(with(&[(
                "/hooks",
                json!([{"hook": "console", "phases": ["val"]}]),
            )])),
            &["in the phase `val`, for which there is no data"],
        ),
        case(
            with(&[("/hooks", json!(["console", "console"]))]),
            &[
                "the hook `console` is there twice",
                "every line is printed twice",
            ],
        ),
        case(
            hooks("grad-clip", json!({"max_norm": 1.0, "max_value": 1.0})),
            &["`max_value` is not used with `\"by\": \"norm\"`"],
        ),
        case(
            curve(json!({"warm_up": {"steps": 100}, "schedule": {"kind": "cosine"}})),
            &["`warm_up` has 100 steps, the run has 6 updates"],
        ),
        case(
            curve(json!({"by": "epoch", "schedule": {"kind": "multi-step", "at": [1, 30]}})),
            &["until step 30, the run has 2 epochs"],
        ),
        case(
            curve(json!({"chain": [
                {"steps": 9, "schedule": {"kind": "constant"}}, {"schedule": {"kind": "cosine"}}
            ]})),
            &["`chain[1]` begins at step 9"],
        ),
        case(
            hooks(
                "accumulation-schedule",
                json!({"factors": {"0": 8, "5": 1}}),
            ),
            &[
                "an update of 8 batches is longer",
                "epoch 5 (counted from 0) is not reached",
            ],
        ),
        case(
            hooks("freeze", json!({"parameters": ["fc1.*"], "until_epoch": 5})),
            &["`until_epoch` is 5, the run has 2 epochs"],
        ),
        case(
            hooks("ema", json!({"begin": 100})),
            &["nothing will be averaged: `begin` is 100"],
        ),
        case(
            hooks("swa", json!({"start_epoch": 9})),
            &["nothing will be averaged"],
        ),
        case(
            hooks("precise-batchnorm", json!({})),
            &["the model has no batch norm"],
        ),
        case(
            hooks("prune", json!({"begin": 100})),
            &["`begin` is 100, the run has 6 updates"],
        ),
        case(
            hooks("grad-noise", json!({"begin": 100})),
            &["no update gets noise"],
        ),
        case(
            hooks("stop-after", json!({"iterations": 100})),
            &["`iterations` is 100, the run ends after 6"],
        ),
        case(
            hooks("trace", json!({})),
            &["nothing will be traced", "number 12, the run has 6"],
        ),
        case(
            hooks("on-plateau", json!({})),
            &["`long_term` is 50, and `loss` has 2 values"],
        ),
        case(
            hooks("early-stopping", json!({"patience": 5})),
            &["it can't stop the run: `patience` is 5"],
        ),
        case(
            hooks("checkpoint", json!({"begin_epoch": 9})),
            &["`begin_epoch` is 9, the run ends after 2"],
        ),
    ]
}

#[test]
fn check_and_run_refuse_the_same_before_anything_is_trained() {
    let place = Workplace::new(&PLUGINS);
    for (manifest, words) in refused() {
        let run = place.run(&manifest);
        let check = place.sconce(&["check", "manifest.json"]);
        assert_eq!(check.code, run.code, "{}\n{}", check.stderr, run.stderr);
        run.expect(3, words);
        check.expect(3, words);
        assert!(!place.path("out/run.json").exists(), "nothing is trained");
    }
}

#[test]
fn a_loss_of_yes_and_no_is_refused_for_other_numbers() {
    let place = Workplace::new(&[]);
    let manifest = with(&[
        (
            "/data",
            json!({"kind": "regression", "train": 24, "val": 6}),
        ),
        ("/model", json!({"kind": "mlp", "hidden": [4]})),
        ("/loss", json!({"kind": "binary-cross-entropy"})),
        ("/metrics", json!(["mae"])),
    ]);
    place.write(&manifest);
    let words = [
        "targets from 0 (no) to 1 (yes)",
        "of the train data has",
        "at loss",
    ];
    for command in ["check", "run"] {
        let finished = place.sconce(&[command, "manifest.json"]);
        finished.expect(2, &words);
    }
}

#[test]
fn check_and_run_warn_of_the_same() {
    let place = Workplace::new(&PLUGINS);
    for (manifest, words) in warned() {
        place.write(&manifest);
        let check = place.sconce(&["check", "manifest.json"]).expect(0, words);
        assert!(check.stderr.contains("warning"), "{}", check.stderr);
        place
            .sconce(&["run", "manifest.json", "--overwrite"])
            .expect(0, words);
    }
}

#[test]
fn a_hook_whose_constructor_ends_the_process_does_not_end_the_check() {
    let place = Workplace::new(&PLUGINS);
    for (how, words) in [
        ("segv", "crashed (SIGSEGV)"),
        ("exit", "exited with 0 without"),
        ("kill", "crashed (SIGKILL)"),
    ] {
        let wrecker =
            json!({"hook": "wrecker", "name": "bad", "config": {"at": "new", "how": how}});
        place.write(&with(&[(
            "/hooks",
            json!([wrecker, {"hook": "lr-schedule"}]),
        )]));
        let check = place.sconce(&["check", "manifest.json"]);
        // The hook after it is created all the same.
        check.expect(
            3,
            &[
                "hook `bad`",
                words,
                "when it was created",
                "at hooks[0]",
                "exactly one of `schedule`",
            ],
        );
    }
    assert!(!place.path("out").exists(), "a check makes nothing");
}

#[test]
fn an_earlier_run_is_not_removed_for_one_that_cannot_begin() {
    let place = Workplace::new(&PLUGINS);
    place.run(&hooks("checkpoint", json!({}))).expect(0, &[]);
    place.write(&hooks("lr-schedule", json!({})));
    let check = place.sconce(&["check", "manifest.json"]);
    check.expect(3, &["has the checkpoints of an earlier run", "--resume"]);
    place
        .sconce(&["run", "manifest.json", "--overwrite"])
        .expect(3, &["exactly one of `schedule`"]);
    assert!(
        place.path("out/checkpoints/epoch-2").exists(),
        "it is still there"
    );
}

#[test]
fn a_metric_that_had_no_value_is_reported() {
    let place = Workplace::new(&PLUGINS);
    let never = edit(
        hooks("early-stopping", json!({})),
        "/train/validate_every",
        json!(0),
    );
    place.run(&never).expect(
        4,
        &[
            "no value unless a hook asks for a validation",
            "the metric `loss` has no value",
        ],
    );
    place
        .sconce(&["check", "manifest.json"])
        .expect(0, &["`train.validate_every` is 0"]);
    // A hook's metric, which it publishes in another phase.
    let best = json!({"hook": "checkpoint", "config": {"best": [{"monitor": "grad_norm", "rule": "less"}]}});
    let published = with(&[("/hooks", json!(["grad-clip", best]))]);
    Workplace::new(&PLUGINS).run(&published).expect(
        0,
        &[
            "no checkpoint is kept for `grad_norm`",
            "watch `train/grad_norm`",
        ],
    );
}

#[test]
fn a_run_that_diverged_says_so_in_few_digits() {
    let place = Workplace::new(&PLUGINS);
    let manifest = with(&[
        ("/optimizer/learning_rate", json!(1e6)),
        ("/train/epochs", json!(4)),
        ("/hooks", json!(["console"])),
    ]);
    let run = place.run(&manifest).expect(
        0,
        &[
            "the training has diverged",
            "it began at 2.",
            "`\"check_finite\": true`",
        ],
    );
    let longest = |text: &str| {
        let words = text.split(|c: char| !c.is_ascii_digit());
        words.map(str::len).max().unwrap_or(0)
    };
    assert!(longest(&run.stdout) < 12, "{}", run.stdout);
    let record: Value = serde_json::from_str(&place.read("out/run.json")).expect("JSON");
    assert_eq!(record["diverged"], true);
}
