//! Every wrong manifest is told before anything is trained: what, where, and what to do.

use sconce_tests::{Finished, Workplace, edit, tiny};
use serde_json::{Value, json};

fn text(text: &str) -> Finished {
    let place = Workplace::new(&[]);
    place.write_text("manifest.json", text);
    let finished = place.sconce(&["run", "manifest.json"]);
    assert!(
        !place.path("out").exists(),
        "nothing is made before the manifest is right"
    );
    finished
}

fn value(manifest: &Value) -> Finished {
    text(&serde_json::to_string_pretty(manifest).expect("JSON"))
}

#[test]
fn a_file_that_is_no_manifest_is_reported() {
    let place = Workplace::new(&[]);
    place.sconce(&["run", "nowhere.json"]).expect(
        2,
        &[
            "can't read the manifest `nowhere.json`",
            "file: /",
            "`sconce new-run` writes a manifest",
        ],
    );
    place
        .sconce(&["run", "plugins"])
        .expect(2, &["`plugins`", "a directory"]);
    text("").expect(2, &["is empty"]);
    text(" \n ").expect(2, &["is empty"]);
    text("\u{feff}{}").expect(2, &["byte order mark"]);
    std::fs::write(place.path("latin.json"), b"{\"name\": \"\xe4\"}").expect("written");
    place
        .sconce(&["run", "latin.json"])
        .expect(2, &["not UTF-8: byte 10", "in line 1"]);
    std::fs::write(place.path("wide.json"), b"\xff\xfe{\0}\0").expect("written");
    place
        .sconce(&["run", "wide.json"])
        .expect(2, &["it is UTF-16; save it as UTF-8"]);
    let big = std::fs::File::create(place.path("big.json")).expect("a file");
    big.set_len(100 * 1024 * 1024).expect("long");
    place
        .sconce(&["run", "big.json"])
        .expect(2, &["104857600 bytes, the limit is"]);
}

#[test]
fn too_many_hooks_and_too_long_names_are_reported() {
    let many = edit(tiny(), "/hooks", json!(vec!["console"; 200_000]));
    value(&many).expect(2, &["has at most 10000 elements, found 200000", "at hooks"]);
    let mut long = edit(tiny(), "/name", json!("x".repeat(70_000)));
    value(&long).expect(
        2,
        &["the run's name has 70000 bytes, at most 200 are possible"],
    );
    // In bytes, as file systems count; without a name of its own directory the run would be called so.
    long["name"] = json!("é".repeat(101));
    long["hooks"] = json!([{"hook": "console", "name": "y".repeat(201)}]);
    value(&long).expect(
        2,
        &["202 bytes", "the name of the hook's entry has 201 bytes"],
    );
}

#[test]
#[cfg(unix)]
fn a_device_without_an_end_is_not_read() {
    let place = Workplace::new(&[]);
    for device in ["/dev/zero", "/dev/null"] {
        place
            .sconce(&["run", device])
            .expect(2, &["can't read the manifest", "neither a file nor a pipe"]);
    }
}

#[test]
fn a_key_with_a_dot_is_not_another_one() {
    let dotted = edit(tiny(), "/train.epochs", json!(1));
    let finished =
        value(&dotted).expect(2, &["unknown key `train.epochs`", "at [\"train.epochs\"]"]);
    assert_eq!(
        finished.stderr.matches("error:").count(),
        1,
        "{}",
        finished.stderr
    );
}

#[test]
fn what_would_steer_the_terminal_or_fill_it_is_shown_otherwise() {
    let odd = edit(tiny(), "/a\u{1b}[31m\n", json!(1));
    let finished = value(&odd).expect(2, &["unknown key `a\\u{1b}[31m\\n`"]);
    assert!(!finished.stderr.contains('\u{1b}'), "{}", finished.stderr);
    let long = edit(
        tiny(),
        &format!("/{}", "k".repeat(300_000)),
        json!("v".repeat(300_000)),
    );
    let finished = value(&long).expect(2, &["unknown key `kkk"]);
    assert!(
        finished.stderr.len() < 2000,
        "{} bytes",
        finished.stderr.len()
    );
    let long = edit(tiny(), "/seed", json!("v".repeat(300_000)));
    let finished = value(&long).expect(2, &["expected a whole number, found \"vvv"]);
    assert!(
        finished.stderr.len() < 2000,
        "{} bytes",
        finished.stderr.len()
    );
}

#[test]
fn everything_is_reported_at_once() {
    let mut manifest = tiny();
    manifest["seed"] = json!("one");
    manifest["hooks"] = json!([
        {"hook": "csv", "name": "log", "every": {"epochs": 1, "updates": 2}},
        {"hook": "csv", "name": "log", "every": {"epohcs": 1}},
        {"hook": "csv", "modules": ["a", "[b"]}
    ]);
    let finished = value(&manifest).expect(
        2,
        &[
            "expected a whole number, found \"one\"",
            "`every` must have exactly one of",
            "at hooks[0].every",
            "two hooks are called `log`",
            "did you mean `epochs`?",
            "`[b` is not a name pattern",
            "at hooks[2].modules",
        ],
    );
    assert_eq!(
        finished.stderr.matches("error:").count(),
        5,
        "{}",
        finished.stderr
    );
    let position = |words: &str| finished.stderr.find(words).expect(words);
    assert!(
        position("at hooks[0].every") < position("at hooks[1].name")
            && position("at hooks[2].modules") < position("found \"one\""),
        "in the file's order:\n{}",
        finished.stderr
    );
    let many = edit(tiny(), "/plugins", json!(vec![0; 100_000]));
    let finished = value(&many).expect(2, &["at plugins[0]", "99950 more problems"]);
    assert_eq!(finished.stderr.matches("error:").count(), 51);
}

#[test]
fn what_is_no_json_is_reported_with_line_column_and_excerpt() {
    for (json, words) in [
        (
            "{\n  \"seed\": 1,,\n}",
            &["manifest.json:2:13", "\"seed\": 1,,"][..],
        ),
        (
            "{\"seed\": 1,}",
            &[
                "a comma behind the last",
                "no comma behind the last element",
            ],
        ),
        ("{seed: 1}", &["a key must be a text", "double quotes"]),
        ("{\"seed\": 1", &["the file ends inside an object"]),
        ("{} {}", &["more behind the end of the document"]),
        (
            "{\"seed\": 1 # comment\n}",
            &["manifest.json:1:12", "a comment begins with `//`"],
        ),
        (
            "{\"seed\": 1 // one\n /* two\n}",
            &["manifest.json:2:2", "a comment ends with `*/`"],
        ),
        (
            "{\"seed\": 1, // one\n \"sed\": 2 /* two */ }",
            &["manifest.json:2:2", "unknown key `sed`"],
        ),
        ("{\"name\": 'digits'}", &["strings need double quotes"]),
        ("{\"test\": True}", &["expected a value", "`true`, `false`"]),
        (
            "{\"name\": \"C:\\dir\"}",
            &["invalid escape sequence", "a backslash is"],
        ),
        ("{\"name\": \"a\0b\"}", &["control character"]),
        (
            "{\"seed\": 01}",
            &["this is not a number", "numbers are written as"],
        ),
    ] {
        text(json).expect(2, words);
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    text(&deep).expect(2, &["nested more than 127 deep"]);
}

#[test]
fn unknown_keys_come_with_the_nearest_known_one_and_their_place() {
    let mut manifest = tiny();
    manifest["train"] = json!({"epohcs": 3, "epochs": 1});
    manifest["hoks"] = json!([]);
    manifest["model"]["hiden"] = json!([3]);
    let finished = value(&manifest).expect(
        2,
        &[
            "unknown key `epohcs`",
            "did you mean `epochs`?",
            "at train.epohcs",
            "unknown key `hoks`",
            "did you mean `hooks`?",
            "unknown key `hiden`",
            "did you mean `hidden`?",
            "at model.hiden",
        ],
    );
    assert_eq!(
        finished.stderr.matches("error:").count(),
        3,
        "all at once:\n{}",
        finished.stderr
    );
    assert!(
        finished.stderr.contains("\"epohcs\": 3"),
        "an excerpt:\n{}",
        finished.stderr
    );
    let hook = edit(tiny(), "/hooks", json!([{"hook": "csv", "prioritty": 3}]));
    value(&hook).expect(
        2,
        &[
            "unknown key `prioritty`",
            "did you mean `priority`?",
            "at hooks[0].prioritty",
        ],
    );
    let far = edit(tiny(), "/zzz", json!(1));
    value(&far).expect(
        2,
        &[
            "unknown key `zzz`",
            "known here: `$schema`, `adapt`, `data`",
        ],
    );
}

#[test]
fn wrong_types_and_ranges_are_reported_with_what_was_found() {
    for (pointer, wrong, words) in [
        (
            "/train/epochs",
            json!("five"),
            &["expected a whole number, found \"five\"", "at train.epochs"][..],
        ),
        (
            "/train/epochs",
            json!(-1),
            &["must be at least 0, found -1"],
        ),
        (
            "/train/epochs",
            json!(1.5),
            &["expected a whole number, found 1.5"],
        ),
        (
            "/train/epochs",
            json!(3.0),
            &["expected a whole number, found 3.0; write `3`"],
        ),
        (
            "/seed",
            json!(18_446_744_073_709_551_616.0),
            &["must be at most 18446744073709551615, found 1.8446744073709552e+19"],
        ),
        (
            "/train/batch_size",
            json!(0),
            &["must be at least 1, found 0"],
        ),
        (
            "/train/test",
            json!(1),
            &["expected true or false, found 1"],
        ),
        ("/train", json!([]), &["expected an object, found []"]),
        (
            "/seed",
            json!(null),
            &["expected a whole number, found null"],
        ),
        ("/threads", json!(0), &["must be at least 1, found 0"]),
        (
            "/plugins",
            json!("dir"),
            &["expected a list, found \"dir\""],
        ),
        (
            "/model/kind",
            json!("mpl"),
            &[
                "expected",
                "`mlp`",
                "found \"mpl\"",
                "did you mean `mlp`?",
                "at model.kind",
            ],
        ),
        (
            "/model",
            json!({"hidden": []}),
            &["the key `kind` is missing"],
        ),
        (
            "/model/hidden",
            json!([3, 0]),
            &["must be at least 1, found 0", "at model.hidden[1]"],
        ),
        (
            "/model/activation",
            json!("rellu"),
            &["expected one of `relu`", "did you mean `relu`?"],
        ),
        (
            "/data/kind",
            json!("mnist"),
            &["expected one of `idx`, `cifar`, ", "found \"mnist\""],
        ),
        ("/data/size", json!(8), &["must be at least 16, found 8"]),
        (
            "/optimizer/learning_rate",
            json!(0),
            &["must be above 0", "found 0"],
        ),
        (
            "/optimizer",
            json!({"kind": "sgd"}),
            &["the key `learning_rate` is missing", "at optimizer"],
        ),
        ("/optimizer/momentum", json!(1), &["must be below 1"]),
        (
            "/hooks",
            json!([5]),
            &[
                "expected a text or an object with `hook`, found 5",
                "at hooks[0]",
            ],
        ),
        (
            "/hooks",
            json!([{"config": {}}]),
            &["the key `hook` is missing"],
        ),
        (
            "/hooks",
            json!([{"hook": "csv", "priority": "high"}]),
            &["found \"high\"", "did you mean `HIGH`?"],
        ),
        (
            "/hooks",
            json!([{"hook": "csv", "priority": 101}]),
            &["must be at most 100, found 101"],
        ),
        (
            "/hooks",
            json!([{"hook": "csv", "on_error": "stop"}]),
            &["expected one of `fail`, `disable`, `ignore`"],
        ),
        (
            "/hooks",
            json!([{"hook": "csv", "config": []}]),
            &["expected an object, found []"],
        ),
        (
            "/hooks",
            json!([{"hook": "csv", "sha256": "abc"}]),
            &["does not have the form"],
        ),
        (
            "/hooks",
            json!([{"hook": "csv", "phases": ["training"]}]),
            &["expected one of `train`", "did you mean `train`?"],
        ),
    ] {
        value(&edit(tiny(), pointer, wrong)).expect(2, words);
    }
}

#[test]
fn missing_parts_are_reported() {
    let mut manifest = tiny();
    let parts = manifest.as_object_mut().expect("an object");
    parts.remove("model");
    parts.remove("train");
    value(&manifest).expect(
        2,
        &["the key `model` is missing", "the key `train` is missing"],
    );
    text("[]").expect(2, &["expected an object, found []"]);
}

#[test]
fn doubled_keys_and_names_are_reported() {
    let json = serde_json::to_string(&tiny()).expect("JSON");
    let doubled = json.replacen('{', "{\"seed\": 4, ", 1);
    text(&doubled).expect(
        2,
        &["the key comes twice in this object", "in line 1", "at seed"],
    );
    let hooks = json!([{"hook": "csv", "name": "log"}, {"hook": "console", "name": "log"}]);
    value(&edit(tiny(), "/hooks", hooks)).expect(
        2,
        &["two hooks are called `log`", "hooks[0] has this name too"],
    );
}

#[test]
fn a_wrong_value_on_the_command_line_is_reported_as_such() {
    let place = Workplace::new(&[]);
    place.write(&tiny());
    let set = |value: &str| place.sconce(&["run", "manifest.json", "--set", value]);
    set("train.epochs=many").expect(
        2,
        &[
            "found \"many\"",
            "--> command line:1:20",
            "--set train.epochs=many",
        ],
    );
    set("train.epoch=1").expect(2, &["unknown key `epoch`", "did you mean `epochs`?"]);
    // What was made for the value comes from the command line as well.
    set("trian.epochs.more=1").expect(2, &["unknown key `trian`", "--> command line:1:7"]);
    let nowhere = set("a.b[3]=x").expect(2, &["there is no element 3: there is no list"]);
    assert_eq!(
        nowhere.stderr.matches("error:").count(),
        1,
        "{}",
        nowhere.stderr
    );
    set("name.hook=x").expect(2, &["there is no `hook` in \""]);
    set("hooks[3].config=1").expect(2, &["`--set hooks[3].config=1`", "there is no element 3"]);
    set("nonsense").expect(2, &["it needs a path"]);
}

#[test]
fn numbers_that_the_schema_cannot_judge_are_reported_with_their_place() {
    let nesterov = json!({"kind": "sgd", "learning_rate": 0.1, "nesterov": true});
    value(&edit(tiny(), "/optimizer", nesterov))
        .expect(2, &["`nesterov` needs a `momentum`", "at optimizer"]);
}

#[test]
fn a_filter_that_says_two_things_or_nothing_is_reported() {
    for every in [
        json!({}),
        json!({"epochs": 1, "iterations": 2}),
        json!({"offset": 1}),
    ] {
        let hooks = json!([{"hook": "csv", "every": every}]);
        value(&edit(tiny(), "/hooks", hooks)).expect(
            2,
            &[
                "`every` must have exactly one of `iterations`, `updates`, `epochs`",
                "at hooks[0].every",
            ],
        );
    }
    let hooks = json!([{"hook": "csv", "every": {"epochs": 0}}]);
    value(&edit(tiny(), "/hooks", hooks)).expect(2, &["must be at least 1, found 0"]);
}

#[test]
fn usage_errors_exit_with_2_too() {
    let place = Workplace::new(&[]);
    place.sconce(&["run"]).expect(2, &["<FILE>"]);
    place
        .sconce(&["rnu", "manifest.json"])
        .expect(2, &["unrecognized subcommand 'rnu'"]);
}

/// Parts of a manifest in another form than the right one, and what the hint says of that.
#[test]
fn the_right_form_is_shown() {
    let csv = |key: &str, value: Value| {
        let mut data = json!({"kind": "csv", "file": "x.csv", "target": "y"});
        data[key] = value;
        data
    };
    for (pointer, wrong, words) in [
        (
            "/model/hidden",
            json!(64),
            &["expected a list, found 64", "write `\"hidden\": [64]`"][..],
        ),
        (
            "/data",
            csv("val", json!(0.2)),
            &["write `\"val\": {\"fraction\":0.2}`"],
        ),
        (
            "/data",
            csv("val", json!(50)),
            &["write `\"val\": {\"count\":50}`"],
        ),
        (
            "/data",
            csv("test", json!("t.csv")),
            &["write `\"test\": {\"file\":\"t.csv\"}`"],
        ),
        (
            "/weights",
            json!("w.safetensors"),
            &["write `\"weights\": {\"file\":\"w.safetensors\"}`"],
        ),
        (
            "/hooks",
            json!([{"hook": "csv", "every": 10}]),
            &[
                "write `\"every\": {",
                "{\"epochs\":10}`",
                "{\"iterations\":10}`",
                "at hooks[0].every",
            ],
        ),
        (
            "/hooks",
            json!({"hook": "csv"}),
            &["write `\"hooks\": [{\"hook\":\"csv\"}]`"],
        ),
        ("/hooks", json!("csv"), &["write `\"hooks\": [\"csv\"]`"]),
        (
            "/hooks",
            json!([{"hook": "csv", "phases": "val"}]),
            &["write `\"phases\": [\"val\"]`"],
        ),
        (
            "/plugins",
            json!("dir"),
            &["write `\"plugins\": [\"dir\"]`"],
        ),
        ("/train/epochs", json!("3"), &["write `\"epochs\": 3`"]),
        ("/train/test", json!("true"), &["write `\"test\": true`"]),
        (
            "/optimizer/learning_rate",
            json!("1e-3"),
            &["write `\"learning_rate\": 0.001`"],
        ),
        (
            "/data",
            csv("val", json!({"fraction": 20})),
            &["must be below 1, found 20", "20 % are `0.2`"],
        ),
        (
            "/optimizer",
            json!("adam"),
            &["did you mean `{\"kind\": \"adam\", \"learning_rate\": …}`?"],
        ),
    ] {
        value(&edit(tiny(), pointer, wrong)).expect(2, words);
    }
}

/// Keys at the wrong place, or under the name that another system has for them.
#[test]
fn a_key_is_sent_where_it_belongs() {
    for (pointer, wrong, words) in [
        (
            "/hooks",
            json!([{"hook": "early-stopping", "patience": 3}]),
            &[
                "unknown key `patience`",
                "belongs under `config`: `\"config\": {\"patience\": 3}`",
            ][..],
        ),
        (
            "/epochs",
            json!(3),
            &["it belongs under `train`: `\"train\": {\"epochs\": 3}`"],
        ),
        ("/num_epochs", json!(3), &["`\"train\": {\"epochs\": 3}`"]),
        (
            "/batch_size",
            json!(32),
            &["`\"train\": {\"batch_size\": 32}`"],
        ),
        (
            "/lr",
            json!(0.1),
            &["`\"optimizer\": {\"learning_rate\": 0.1}`"],
        ),
        (
            "/train/lr",
            json!(0.1),
            &["`\"optimizer\": {\"learning_rate\": 0.1}`"],
        ),
        (
            "/train/seed",
            json!(1),
            &["`seed` is a key of the manifest itself"],
        ),
        (
            "/train/gradient_accumulation_steps",
            json!(2),
            &["did you mean `accumulate`?"],
        ),
        ("/callbacks", json!([]), &["did you mean `hooks`?"]),
    ] {
        value(&edit(tiny(), pointer, wrong)).expect(2, words);
    }
    // One problem where the missing key is the unknown one, and it is the key that is pointed at.
    for (pointer, wrong, words) in [
        (
            "/data",
            json!({"kind": "csv", "path": "x.csv", "target": "y"}),
            &["unknown key `path`", "did you mean `file`?", "at data.path"][..],
        ),
        (
            "/data",
            json!({"kind": "image-folder", "dir": "x"}),
            &[
                "unknown key `dir`",
                "did you mean `directory`?",
                "at data.dir",
            ],
        ),
        (
            "/model",
            json!({"knd": "mlp"}),
            &["`kind` is missing", "called `kind`", "at model.knd"],
        ),
    ] {
        let finished = value(&edit(tiny(), pointer, wrong)).expect(2, words);
        assert_eq!(
            finished.stderr.matches("error:").count(),
            1,
            "{}",
            finished.stderr
        );
    }
}

#[test]
fn an_error_of_the_data_or_the_model_points_at_the_key() {
    let place = Workplace::new(&[]);
    place.write_text("x.csv", "a,b\n1,2\n3,4\n");
    for (data, words) in [
        (
            json!({"kind": "csv", "file": "y.csv", "target": "b"}),
            "at data.file",
        ),
        (
            json!({"kind": "csv", "file": "x.csv", "target": "label"}),
            "at data.target",
        ),
        (
            json!({"kind": "csv", "file": "x.csv", "target": "b", "ignore": ["zz"]}),
            "at data.ignore[0]",
        ),
    ] {
        place.run(&edit(tiny(), "/data", data)).expect(2, &[words]);
    }
    let gpt = edit(tiny(), "/model", json!({"kind": "gpt"}));
    place.run(&gpt).expect(
        2,
        &[
            "`gpt` is for tokens of text, the data has images of shape [1, 28, 28]",
            "`convnet`",
        ],
    );
}

#[test]
fn another_language_is_named() {
    let place = Workplace::new(&[]);
    for (name, text, words) in [
        (
            "run.yaml",
            "# a run\nseed: 1\ntrain:\n  epochs: 3\n",
            &["is YAML; a manifest is JSON", "yaml.safe_load"][..],
        ),
        (
            "run.json",
            "seed: 1\n",
            &["is YAML; a manifest is JSON", "{\"seed\": 1"],
        ),
        (
            "run.toml",
            "[train]\nepochs = 3\n",
            &["is TOML; a manifest is JSON", "tomllib"],
        ),
        ("config.json", "seed = 1\n", &["is TOML"]),
        ("wrong.yaml", "{\"seed\": 1,}", &["not valid JSON"]),
    ] {
        place.write_text(name, text);
        place.sconce(&["run", name]).expect(2, words);
    }
}
