//! `anomaly`, `visualize`, `gradient-flow`, `overfit-check`.

use std::fs;

use sconce_tests::{Finished, Workplace, edit, tiny};
use serde_json::{Value, json};

const PLUGINS: &[&str] = &[
    "sconce-plugin-debugging",
    "sconce-plugin-optimisation",
    "sconce-plugin-checkpoints",
    "sconce-fixture-faults",
    "sconce-fixture-recorder",
    "sconce-fixture-tensors",
];

fn run(manifest: Value, hooks: Value) -> (Workplace, Finished) {
    let place = Workplace::new(PLUGINS);
    let finished = place.run(&edit(manifest, "/hooks", hooks));
    (place, finished)
}

fn hook(name: &str, config: &Value) -> Value {
    json!({"hook": name, "config": config})
}

fn text(finished: &Finished) -> String {
    format!("{}{}", finished.stdout, finished.stderr)
}

fn record(place: &Workplace) -> Value {
    serde_json::from_str(&place.read("out/run.json")).expect("JSON")
}

/// Gets infinite within a few updates.
fn exploding() -> Value {
    edit(tiny(), "/optimizer/learning_rate", json!(1e30))
}

/// Multiplies the loss of every batch from the second one on.
fn scale(factor: f64) -> Value {
    let config = json!({"at": "after_loss", "phase": "train", "what": "scale_loss",
        "number": factor, "after_iteration": 1});
    hook("asker", &config)
}

/// A NumPy file of little-endian numbers.
fn npy(place: &Workplace, name: &str, dtype: &str, shape: &[usize], bytes: &[u8]) {
    let sizes: Vec<String> = shape.iter().map(|size| format!("{size},")).collect();
    let mut header = format!(
        "{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({}), }}",
        sizes.join(" ")
    );
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(bytes);
    fs::write(place.path(name), file).expect("written");
}

fn floats(values: &[f32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

/// Eight images of 2 x 2 pixels, from 0 to 31, in two classes; half of them for the validation's
/// file of the same content.
fn images(place: &Workplace) -> Value {
    let pixels: Vec<f32> = (0..32_u8).map(f32::from).collect();
    npy(place, "x.npy", "<f4", &[8, 1, 2, 2], &floats(&pixels));
    let classes: Vec<u8> = (0..8_i64)
        .flat_map(|index| (index % 2).to_le_bytes())
        .collect();
    npy(place, "y.npy", "<i8", &[8], &classes);
    let mut manifest = tiny();
    manifest["data"] = json!({"kind": "npy", "inputs": "x.npy", "targets": "y.npy",
        "classes": ["cat", "dog"], "val": {"inputs": "x.npy", "targets": "y.npy"}});
    manifest["train"] = json!({"epochs": 2, "batch_size": 4});
    manifest
}

/// The module that the host's own check blames.
fn blamed(message: &str) -> &str {
    let (_, behind) = message.split_once("of the module `").expect("a module");
    behind.split_once('`').expect("its name").0
}

#[test]
fn the_first_bad_number_is_traced_to_its_module() {
    let (_, finished) = run(exploding(), json!(["anomaly"]));
    let words = [
        "hook `anomaly` failed at `module_forward`",
        "anomaly in iteration ",
        "in the forward pass of the module `",
        "its output has ",
        "its input is finite, its parameters are finite",
    ];
    let finished = finished.expect(4, &words);
    // The host's own check goes through the batch again, by other code.
    let (_, by_host) = run(
        edit(exploding(), "/train/check_finite", json!(true)),
        json!([]),
    );
    assert_eq!(by_host.code, 7, "{}", by_host.stderr);
    assert_eq!(
        blamed(&finished.stderr),
        blamed(&by_host.stderr),
        "{}",
        by_host.stderr
    );
}

#[test]
fn bad_gradients_are_traced_to_their_module() {
    // The last layer's weights are so large that the gradient of its input overflows.
    let mut manifest = tiny();
    manifest["optimizer"]["learning_rate"] = json!(1e-30);
    manifest["model"] = json!({"kind": "sequential", "layers": [
        {"kind": "flatten"},
        {"kind": "linear", "name": "fc1", "outputs": 8},
        {"kind": "linear", "name": "fc2", "outputs": 10, "init": {"kind": "normal", "std": 1e4}}]});
    let (_, finished) = run(manifest.clone(), json!([scale(1e36), "anomaly"]));
    finished.expect(4, &[
        "anomaly in iteration 2 (epoch 0): in the backward pass of the module `fc2` (linear): the \
         gradient of its input has ",
        "that of its output is finite",
    ]);
    // What comes from the loss is bad for all.
    let (_, finished) = run(tiny(), json!([scale(1e300), "anomaly"]));
    finished.expect(4, &[
        "in the backward pass behind the module `fc2` (linear): the gradient of its output has ",
        "it was made in the loss or what else is behind it",
    ]);
    // Of the last iteration nothing but the gradients is bad, and these are not looked at.
    let last = json!({"at": "after_loss", "phase": "train", "what": "scale_loss",
        "number": 1e300, "after_iteration": 5});
    let config = json!({"backward": false});
    let hooks = json!([hook("asker", &last), hook("anomaly", &config)]);
    run(tiny(), hooks).1.expect(0, &[]);
    let (_, finished) = run(
        exploding(),
        json!([hook("anomaly", &json!({"forward": false}))]),
    );
    finished.expect(4, &["in the backward pass"]);
}

#[test]
fn bad_gradients_of_parameters_alone_are_found_too() {
    // Large inputs and a large scale: only products of both overflow.
    let place = Workplace::new(PLUGINS);
    let mut manifest = images(&place);
    let pixels: Vec<f32> = (0..32_u8).map(|pixel| f32::from(pixel) * 1e17).collect();
    npy(&place, "x.npy", "<f4", &[8, 1, 2, 2], &floats(&pixels));
    manifest["optimizer"]["learning_rate"] = json!(1e-30);
    let hooks = json!([scale(1e22), "anomaly"]);
    place.run(&edit(manifest, "/hooks", hooks)).expect(
        4,
        &[
            "anomaly in iteration 2 (epoch 0): in the backward pass of the module `fc",
            "the gradient of its parameter `fc",
            "those of its output and input are finite",
        ],
    );
}

#[test]
fn what_is_bad_outside_of_modules_is_no_modules_fault() {
    let place = Workplace::new(PLUGINS);
    let manifest = images(&place);
    // A hook that makes every number infinite, and those that are 0 none.
    let touch = |at: &str, what: &str| json!({"hook": "touch", "config": {"at": at, "what": what, "factor": 1e300}, "priority": 0});
    let hooks = json!([touch("before_iter", "inputs"), "anomaly"]);
    let finished = place.run(&edit(manifest.clone(), "/hooks", hooks));
    finished.expect(
        4,
        &[
            "anomaly in iteration 1 (epoch 0): the batch's inputs have 1",
            " infinite values, of 16, the first at [0, 0, 0, 0]",
        ],
    );
    let hooks = json!([touch("after_forward", "outputs"), "anomaly"]);
    let finished = place.run(&edit(manifest.clone(), "/hooks", hooks));
    finished.expect(4, &["after the last module: the model's outputs have "]);
    // Targets of a regression, whose squares are too large.
    npy(&place, "y.npy", "<f4", &[8], &floats(&[1e30; 8]));
    let mut manifest = edit(manifest, "/hooks", json!(["anomaly"]));
    let data = manifest["data"].as_object_mut().expect("an object");
    data.remove("classes");
    let finished = place.run(&manifest);
    finished.expect(
        4,
        &["in the loss, which is inf; outputs and targets are finite"],
    );
}

#[test]
fn an_anomaly_stops_the_run_or_is_only_told() {
    let (place, finished) = run(
        exploding(),
        json!([hook("anomaly", &json!({"action": "stop"}))]),
    );
    finished.expect(0, &[]);
    let record = record(&place);
    assert_eq!(record["outcome"], "stopped");
    assert!(
        record["reason"]
            .as_str()
            .is_some_and(|reason| reason.starts_with("anomaly in iteration 2"))
    );
    let warned = |config: Value| {
        let (_, finished) = run(exploding(), json!([hook("anomaly", &config)]));
        let text = text(&finished.expect(0, &[]));
        let lines = text.split("anomaly in iteration ").skip(1);
        lines
            .filter_map(|line| line.chars().next())
            .collect::<String>()
    };
    assert_eq!(warned(json!({"action": "warn"})), "23456");
    assert_eq!(warned(json!({"action": "warn", "warnings": 2})), "23");
    assert_eq!(warned(json!({"action": "warn", "every": 2})), "246");
    assert_eq!(warned(json!({"action": "warn", "begin": 4})), "56");
    // Infinite numbers are let through where they are no fault; what becomes of them is not.
    let (_, finished) = run(
        exploding(),
        json!([hook("anomaly", &json!({"infinite": false}))]),
    );
    let finished = finished.expect(4, &["NaN value"]);
    assert!(!finished.stderr.contains("infinite"), "{}", finished.stderr);
}

/// A picture's width, height and grey levels.
fn picture(place: &Workplace, name: &str) -> (u32, u32, Vec<u8>) {
    let file = fs::read(place.path(&format!("out/{name}"))).expect("a picture");
    let image = image::load_from_memory(&file)
        .expect("it can be read")
        .to_luma8();
    (image.width(), image.height(), image.into_raw())
}

fn pictures(place: &Workplace, directory: &str) -> Vec<String> {
    let mut files: Vec<_> = fs::read_dir(place.path(&format!("out/{directory}")))
        .expect("listed")
        .map(|file| {
            file.expect("a file")
                .file_name()
                .into_string()
                .expect("text")
        })
        .collect();
    files.sort();
    files
}

#[test]
fn inputs_are_drawn_where_they_belong() {
    let place = Workplace::new(PLUGINS);
    let config = json!({"count": 4, "columns": 2, "captions": false, "scale": 2});
    place
        .run(&edit(
            images(&place),
            "/hooks",
            json!([hook("visualize", &config)]),
        ))
        .expect(0, &[]);
    let files = [
        "train-epoch-001-iteration-000001.png",
        "train-epoch-002-iteration-000003.png",
        "val-epoch-001-iteration-000002.png",
        "val-epoch-002-iteration-000004.png",
    ];
    assert_eq!(pictures(&place, "pictures"), files);
    // The validation's first four images stand in their order, from 0 (black) to 15 (white).
    let (width, height, levels) = picture(&place, "pictures/val-epoch-001-iteration-000002.png");
    assert_eq!((width, height), (2 * (4 + 4) + 4, 2 * (4 + 4) + 4));
    let level = |x: u32, y: u32| levels[(y * width + x) as usize];
    for (index, value) in (0..16_u32).enumerate() {
        let (image, pixel) = (index as u32 / 4, index as u32 % 4);
        let left = 4 + image % 2 * 8 + pixel % 2 * 2;
        let top = 4 + image / 2 * 8 + pixel / 2 * 2;
        let expected = (f64::from(value) / 15.0 * 255.0).round() as u8;
        for (x, y) in [(left, top), (left + 1, top + 1)] {
            assert_eq!(level(x, y), expected, "pixel {pixel} of image {image}");
        }
    }
    assert_eq!(level(0, 0), 255, "what is between images is white");
}

#[test]
fn a_pictures_options_have_their_effects() {
    let place = Workplace::new(PLUGINS);
    let manifest = images(&place);
    let draw = |config: &Value| {
        drop(fs::remove_dir_all(place.path("out")));
        let hooks = json!([hook("visualize", config)]);
        place
            .run(&edit(manifest.clone(), "/hooks", hooks))
            .expect(0, &[]);
    };
    let first = "val-epoch-001-iteration-000002.png";
    let at = |directory: &str| picture(&place, &format!("{directory}/{first}"));
    // One row of all four, captions below; a batch has no more.
    draw(&json!({"columns": 8, "scale": 10, "directory": "a/b"}));
    let (width, height, levels) = at("a/b");
    assert_eq!(width, 4 * (20 + 4) + 4);
    assert!(height > 20 + 8, "there is room for captions: {height}");
    let ink = (28 * width as usize..levels.len()).any(|index| levels[index] < 100);
    assert!(ink, "something is written below the images");
    // Its own black and white for each image: the first pixel is black, the last white.
    draw(&json!({"common": false, "captions": false, "scale": 1, "columns": 4}));
    let (width, _, levels) = at("pictures");
    let level = |x: usize, y: usize| levels[y * width as usize + x];
    assert_eq!(
        [level(4, 4), level(5, 5), level(10, 4), level(11, 5)],
        [0, 255, 0, 255]
    );
    // Fixed ones; what is beyond is cut off.
    draw(&json!({"black": 2, "white": 4, "captions": false, "scale": 1, "columns": 4}));
    let (width, _, levels) = at("pictures");
    let level = |x: usize, y: usize| levels[y * width as usize + x];
    assert_eq!(
        [level(4, 4), level(5, 5), level(10, 4), level(11, 5)],
        [0, 128, 255, 255]
    );
    // Every second epoch, and every iteration.
    draw(&json!({"every_epochs": 2}));
    let all = [
        "train-epoch-002-iteration-000003.png",
        "val-epoch-002-iteration-000004.png",
    ];
    assert_eq!(pictures(&place, "pictures"), all);
    draw(&json!({"every_epochs": null, "every_iterations": 2}));
    let all = [
        "train-epoch-001-iteration-000002.png",
        "train-epoch-002-iteration-000004.png",
    ];
    assert_eq!(pictures(&place, "pictures"), all);
    // Only mistakes: classes take turns, and such a model says the same of all.
    draw(&json!({"mistakes": true, "captions": false, "columns": 1, "scale": 1}));
    let (_, height, _) = at("pictures");
    assert!(height < 4 * 6 + 4, "not all four are wrong: {height}");
}

#[test]
fn images_of_images_are_drawn_side_by_side() {
    let place = Workplace::new(PLUGINS);
    let mut manifest = images(&place);
    let pixels: Vec<f32> = (0..32_u8).map(f32::from).collect();
    npy(&place, "y.npy", "<f4", &[8, 4], &floats(&pixels));
    manifest["data"]
        .as_object_mut()
        .expect("an object")
        .remove("classes");
    let config = json!({"columns": 1, "scale": 1});
    place
        .run(&edit(
            manifest.clone(),
            "/hooks",
            json!([hook("visualize", &config)]),
        ))
        .expect(0, &[]);
    let first = "pictures/val-epoch-001-iteration-000002.png";
    let (width, height, _) = picture(&place, first);
    assert_eq!((width, height), (2 * 6 + 4, 4 * 6 + 4), "input and output");
    // Targets that are others than the inputs stand between.
    let pixels: Vec<f32> = (0..32_u8).map(|pixel| f32::from(31 - pixel)).collect();
    npy(&place, "y.npy", "<f4", &[8, 4], &floats(&pixels));
    place
        .run(&edit(
            manifest,
            "/hooks",
            json!([hook("visualize", &config)]),
        ))
        .expect(0, &[]);
    assert_eq!(picture(&place, first).0, 3 * 6 + 4);
}

#[test]
fn what_is_no_image_is_refused() {
    let mut manifest = tiny();
    manifest["data"] = json!({"kind": "two-moons", "train": 16, "val": 8, "test": 8});
    let (place, finished) = run(manifest, json!(["visualize"]));
    let told = ["inputs of shape [2] are not images", "at hooks[0]"];
    finished.expect(3, &told);
    place.sconce(&["check", "manifest.json"]).expect(3, &told);
}

/// Rows of the table, by column.
fn flow(place: &Workplace) -> Vec<Vec<String>> {
    let text = place.read("out/gradient-flow.csv");
    let header = "epoch,iteration,update,module,norm,max,weight_norm,ratio";
    assert_eq!(text.lines().next(), Some(header));
    let row = |line: &str| line.split(',').map(str::to_owned).collect();
    text.lines().skip(1).map(row).collect()
}

fn number(text: &str) -> f64 {
    text.parse().expect("a number")
}

#[test]
fn gradients_norms_are_those_that_are_clipped() {
    // `grad-clip` tells the norm of all together, which is checked against PyTorch's.
    let clip = hook("grad-clip", &json!({"max_norm": 1e9}));
    let flows = hook("gradient-flow", &json!({"every": 2, "publish": true}));
    let manifest = edit(tiny(), "/train/accumulate", json!(2));
    let (place, finished) = run(manifest, json!([flows, clip, "recorder"]));
    finished.expect(0, &[]);
    let rows = flow(&place);
    // Two batches and one: two updates an epoch.
    let looks: Vec<String> = rows.iter().map(|row| row[..4].join(" ")).collect();
    assert_eq!(looks, ["0 3 2 fc1", "0 3 2 fc2", "1 6 4 fc1", "1 6 4 fc2"]);
    for rows in rows.chunks(2) {
        let records = place.records("record.jsonl");
        let call = (records.iter())
            .find(|call| {
                call["point"] == "after_update" && call["update"] == number(&rows[0][2]) as u64
            })
            .expect("a call");
        let metrics: Vec<(String, f64)> =
            serde_json::from_value(call["metrics"].clone()).expect("pairs");
        let metric = |name: &str| {
            let found = metrics.iter().find(|(known, _)| known == name);
            found.unwrap_or_else(|| panic!("no {name}: {metrics:?}")).1
        };
        let together = rows
            .iter()
            .map(|row| number(&row[4]).powi(2))
            .sum::<f64>()
            .sqrt();
        let norm = metric("grad_norm");
        assert!(
            (together - norm).abs() <= 1e-6 * norm,
            "{together} and {norm}"
        );
        for row in rows {
            let (norm, most) = (number(&row[4]), number(&row[5]));
            assert!((metric(&format!("gradient_norm/{}", row[3])) - norm).abs() < 1e-12);
            assert!(0.0 < most && most <= norm);
            assert!((number(&row[7]) - norm / number(&row[6])).abs() < 1e-12);
        }
    }
    let chart = place.read("out/gradient-flow.svg");
    assert!(chart.starts_with("<svg") && chart.contains("fc1") && chart.contains("fc2"));
}

#[test]
fn a_flows_options_have_their_effects() {
    let flow_with = |config: Value| {
        let (place, finished) = run(tiny(), json!([hook("gradient-flow", &config)]));
        let text = text(&finished.expect(0, &[]));
        (place, text)
    };
    let (place, text) =
        flow_with(json!({"every": 1, "vanishing": 1e9, "csv": null, "chart": "a/b.svg"}));
    for module in ["fc1", "fc2"] {
        let words = format!("the gradients of `{module}` vanish: their norm is ");
        assert_eq!(text.matches(&words).count(), 1, "{text}");
    }
    assert!(!text.contains("explode"), "{text}");
    assert!(!place.path("out/gradient-flow.csv").exists());
    assert!(place.read("out/a/b.svg").starts_with("<svg"));
    let config = json!({"every": 1, "exploding": 1e-9, "modules": ["*2"], "chart": null});
    let (place, text) = flow_with(config);
    assert_eq!(
        text.matches("the gradients of `fc2` explode: ").count(),
        1,
        "{text}"
    );
    let rows = flow(&place);
    assert!(!rows.is_empty() && rows.iter().all(|row| row[3] == "fc2"));
    assert!(!place.path("out/gradient-flow.svg").exists());
    let (_, text) = flow_with(json!({"every": 1, "vanishing": null, "exploding": null}));
    assert!(
        !text.contains("vanish") && !text.contains("explode"),
        "{text}"
    );
}

#[test]
fn a_resumed_flow_has_the_bytes_of_an_uninterrupted_one() {
    let flows = hook("gradient-flow", &json!({"every": 1}));
    let (whole, finished) = run(tiny(), json!([flows]));
    finished.expect(0, &[]);
    let save = hook("checkpoint", &json!({"epochs": 1}));
    // An illegal request in the fifth iteration ends the run.
    let fail = hook(
        "asker",
        &json!({"at": "after_update", "what": "scale_loss", "after_iteration": 4}),
    );
    let place = Workplace::new(PLUGINS);
    place
        .run(&edit(tiny(), "/hooks", json!([flows, save, fail])))
        .expect(4, &[]);
    place.write(&edit(tiny(), "/hooks", json!([flows, save])));
    place
        .sconce(&["run", "manifest.json", "--resume", "--allow-changes"])
        .expect(0, &[]);
    for file in ["out/gradient-flow.csv", "out/gradient-flow.svg"] {
        assert_eq!(place.read(file), whole.read(file), "{file}");
    }
}

/// One batch, many times.
fn one_batch(epochs: u64) -> Value {
    let mut manifest = tiny();
    manifest["data"] = json!({"kind": "synthetic-digits", "train": 8, "val": 0, "test": 0});
    manifest["train"] = json!({"epochs": epochs, "batch_size": 8, "test": false});
    manifest["optimizer"] = json!({"kind": "adam", "learning_rate": 0.01});
    manifest
}

#[test]
fn a_batch_that_is_learned_by_heart_ends_the_run_well() {
    let (place, finished) = run(
        one_batch(200),
        json!([hook("overfit-check", &json!({"below": 0.2}))]),
    );
    finished.expect(0, &[]);
    let record = record(&place);
    assert_eq!(record["outcome"], "stopped");
    let reason = record["reason"].as_str().expect("a reason");
    assert!(
        reason.starts_with("one batch is learned by heart: its loss is 0.1"),
        "{reason}"
    );
    assert!(
        record["epochs"].as_u64().is_some_and(|epochs| epochs < 100),
        "{record}"
    );
}

#[test]
fn a_batch_that_is_not_says_why() {
    let check =
        |manifest: Value, config: Value| run(manifest, json!([hook("overfit-check", &config)]));
    let few = json!({"iterations": 3});
    let words = [
        "one batch can't be learned by heart: its loss has not reached 0.01 in 3 iterations",
        "all parameters have gradients, and the loss has fallen from ",
    ];
    let (_, finished) = check(one_batch(5), few.clone());
    finished.expect(4, &words);
    let still = json!({"at": "before_run", "what": "set_learning_rate", "number": 0.0});
    let hooks = json!([hook("asker", &still), hook("overfit-check", &few)]);
    let (_, finished) = run(one_batch(5), hooks);
    finished.expect(4, &["the learning rate is 0"]);
    let high = edit(one_batch(5), "/optimizer/learning_rate", json!(100.0));
    let (_, finished) = check(high, few.clone());
    finished.expect(4, &["the loss has grown from ", "may be too high"]);
    // Gradients that are all tiny to this measure.
    let (_, finished) = check(one_batch(5), json!({"iterations": 3, "tiny": 1e9}));
    finished.expect(
        4,
        &["tiny gradients beside their own size: `fc1.weight`, `fc1.bias`, `fc2.weight`"],
    );
    // A layer whose units are all dead.
    let place = Workplace::new(PLUGINS);
    let mut manifest = images(&place);
    manifest["model"] = json!({"kind": "sequential", "layers": [
        {"kind": "flatten"},
        {"kind": "linear", "name": "fc1", "outputs": 4, "init": {"kind": "constant", "value": -1.0}},
        {"kind": "relu"},
        {"kind": "linear", "name": "fc2"}]});
    manifest["train"] = json!({"epochs": 5, "batch_size": 8});
    let hooks = json!([hook("overfit-check", &few)]);
    place.run(&edit(manifest, "/hooks", hooks)).expect(4, &[
        "gradients of zero (dead units, or saturated ones): `fc1.weight`, `fc1.bias`, `fc2.weight`",
    ]);
    // No error, if that is wanted.
    let (place, finished) = check(one_batch(5), json!({"iterations": 3, "otherwise": "stop"}));
    let finished = finished.expect(0, &[]);
    assert!(text(&finished).contains("all parameters have gradients"));
    assert_eq!(
        (&record(&place)["outcome"], &record(&place)["epochs"]),
        (&json!("stopped"), &json!(3))
    );
    let (place, finished) = check(one_batch(5), json!({"iterations": 3, "otherwise": "warn"}));
    let finished = finished.expect(0, &[]);
    assert_eq!(
        text(&finished).matches("can't be learned by heart").count(),
        1
    );
    assert_eq!(record(&place)["epochs"], 5);
}

#[test]
fn a_run_that_can_not_answer_is_refused() {
    let check =
        |manifest: Value, config: Value| run(manifest, json!([hook("overfit-check", &config)]));
    let (_, finished) = check(tiny(), json!({"iterations": 6}));
    finished.expect(
        4,
        &["an epoch has 3 batches, and one batch is to be learned by heart"],
    );
    let (_, finished) = check(one_batch(5), json!({}));
    finished.expect(
        4,
        &[
            "the run has 5 iterations, fewer than the 100",
            "must be at least 100",
        ],
    );
    let config = json!({"iterations": 6, "one_batch": false, "below": 1000.0});
    let (place, finished) = check(tiny(), config);
    finished.expect(0, &[]);
    assert_eq!(record(&place)["iterations"], 1);
}

#[test]
fn a_resumed_check_remembers_the_first_part() {
    let check = hook(
        "overfit-check",
        &json!({"iterations": 4, "otherwise": "stop"}),
    );
    let (whole, finished) = run(one_batch(6), json!([check]));
    finished.expect(0, &[]);
    let save = hook("checkpoint", &json!({"epochs": 1}));
    let fail = hook(
        "asker",
        &json!({"at": "after_update", "what": "scale_loss", "after_iteration": 2}),
    );
    let place = Workplace::new(PLUGINS);
    place
        .run(&edit(one_batch(6), "/hooks", json!([check, save, fail])))
        .expect(4, &[]);
    place.write(&edit(one_batch(6), "/hooks", json!([check, save])));
    place
        .sconce(&["run", "manifest.json", "--resume", "--allow-changes"])
        .expect(0, &[]);
    assert_eq!(record(&place)["reason"], record(&whole)["reason"]);
    assert_eq!(record(&place)["iterations"], 4);
}

#[test]
fn wrong_configurations_are_refused() {
    for (name, config, words) in [
        ("anomaly", json!({"every": 0}), "every"),
        ("anomaly", json!({"action": "explode"}), "explode"),
        (
            "anomaly",
            json!({"forward": false, "backward": false}),
            "one of them must be true",
        ),
        ("visualize", json!({"count": 0}), "count"),
        (
            "visualize",
            json!({"black": 0}),
            "`black` and `white` go together",
        ),
        (
            "visualize",
            json!({"black": 1, "white": 0}),
            "`white` must be above `black`",
        ),
        (
            "visualize",
            json!({"directory": ".."}),
            "`directory` must be relative",
        ),
        ("gradient-flow", json!({"evry": 1}), "every"),
        ("gradient-flow", json!({"exploding": 0}), "exploding"),
        (
            "gradient-flow",
            json!({"modules": ["["]}),
            "`modules` has no name pattern: `[`",
        ),
        ("overfit-check", json!({"iterations": 0}), "iterations"),
        ("overfit-check", json!({"otherwise": "cry"}), "cry"),
    ] {
        let (_, finished) = run(tiny(), json!([hook(name, &config)]));
        finished.expect_refused(words);
    }
}
