//! `report`: one HTML file of the whole run.

use sconce_tests::{Finished, Workplace, edit, shared_data, tiny, workspace};
use serde_json::{Value, json};

const PLUGINS: &[&str] = &[
    "sconce-plugin-report",
    "sconce-plugin-checkpoints",
    "sconce-fixture-faults",
];

fn manifest(hooks: Value) -> Value {
    edit(edit(tiny(), "/train/epochs", json!(4)), "/hooks", hooks)
}

fn run(hooks: Value) -> (Workplace, Finished) {
    let place = Workplace::new(PLUGINS);
    let finished = place.run(&manifest(hooks));
    (place, finished)
}

fn report(config: Value) -> Value {
    json!({"hook": "report", "config": config})
}

fn page(place: &Workplace) -> String {
    place.read("out/report.html")
}

/// What stands between two marks.
fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    let (_, behind) = text
        .split_once(begin)
        .unwrap_or_else(|| panic!("no {begin:?}"));
    behind
        .split_once(end)
        .unwrap_or_else(|| panic!("no {end:?}"))
        .0
}

/// The names of the page's figures.
fn figures(page: &str) -> Vec<&str> {
    let parts = page.split("<figcaption>").skip(1);
    parts
        .map(|part| part.split_once("</figcaption>").expect("its end").0)
        .collect()
}

#[test]
fn the_page_shows_the_run_and_asks_the_network_for_nothing() {
    let (place, finished) =
        run(json!([report(json!({})), {"hook": "checkpoint", "config": {"keep_last": 1}}]));
    finished.expect(0, &[]);
    let page = page(&place);
    for part in [
        "<!doctype html>",
        "<title>tiny: completed</title>",
        "<h2>Results</h2>",
        "<h2>Curves</h2>",
        "<h2>Confusion</h2>",
        "<h2>Time</h2>",
        "<h2>Events</h2>",
        "<h2>Model</h2>",
        "<h2>Environment</h2>",
        "<h2>Manifest</h2>",
        "<dt>epoch</dt><dd>4 of 4</dd>",
        "<code>epoch-4</code>",
        "prefers-color-scheme: dark",
        "<tr><th scope=\"row\">seed</th><td>1</td></tr>",
        "<i>&quot;batch_size&quot;</i>: <u>8</u>",
    ] {
        assert!(page.contains(part), "no {part}");
    }
    // The one address in it is the name of SVG.
    let without = page.replace("http://www.w3.org/2000/svg", "");
    for way in ["http://", "https://", "src=", "<link", "@import", "url("] {
        assert!(!without.contains(way), "{way}");
    }
    assert!(
        !page.contains("<script"),
        "a finished page does not load itself anew"
    );
    assert_eq!(figures(&page)[..3], ["loss", "accuracy", "learning rate"]);

    // The values of the table are those of the run.
    let record: Value = serde_json::from_str(&place.read("out/run.json")).expect("JSON");
    let loss = record["metrics"]["test"]["loss"].as_f64().expect("a loss");
    let row = between(
        &page,
        "<tr><td>loss</td><td>test</td><td class=\"n\"><strong>",
        "<",
    );
    let shown: f64 = row.parse().expect("a number");
    assert!((shown - loss).abs() < 1e-5, "{shown} {loss}");
    // The matrix of the test has its six samples.
    let accuracy = record["metrics"]["test"]["accuracy"]
        .as_f64()
        .expect("an accuracy");
    let right = (accuracy * 6.0).round();
    let caption = format!("test: {right} of 6 right, {:.2} %", 100.0 * right / 6.0);
    assert!(
        figures(&page).contains(&caption.as_str()),
        "{caption}: {:?}",
        figures(&page)
    );
    assert!(!place.path("out/report.html.part").exists());
}

#[test]
fn each_option_changes_the_page() {
    let with = |config: Value| {
        let (place, finished) = run(json!([report(config)]));
        finished.expect(0, &[]);
        page(&place)
    };
    let page = with(json!({"title": "A <b>bold</b> title & more"}));
    assert!(page.contains("<h1>A &lt;b&gt;bold&lt;/b&gt; title &amp; more <span"));
    let page = with(json!({"metrics": ["accuracy"]}));
    assert_eq!(figures(&page)[..2], ["accuracy", "learning rate"]);
    assert!(!page.contains("<td>loss</td>"));
    let page = with(json!({"iterations": 1}));
    assert!(figures(&page).contains(&"loss of batches"));
    let page = with(json!({"confusion": false}));
    assert!(!page.contains("<h2>Confusion</h2>"));
    let page = with(json!({"most_classes": 9}));
    assert!(!page.contains("<h2>Confusion</h2>"));
    let page = with(json!({"manifest": false}));
    assert!(!page.contains("<h2>Manifest</h2>"));
    let (linear, logarithmic) = (with(json!({})), with(json!({"logarithmic": ["loss"]})));
    let drawing =
        |page: &str| between(page, "<figcaption>loss</figcaption>", "</figure>").to_owned();
    assert_ne!(drawing(&linear), drawing(&logarithmic));
    let (place, finished) = run(json!([report(json!({"file": "pages/all.html"}))]));
    finished.expect(0, &[]);
    assert!(place.path("out/pages/all.html").is_file() && !place.path("out/report.html").exists());
}

#[test]
fn the_page_can_be_read_while_the_run_goes_on() {
    // The run is killed in its third epoch: what is there is the page of the second or, written every
    // second or third epoch, an earlier one.
    for (config, epoch, reloads) in [
        (json!({}), 2, Some("30000")),
        (json!({"every": 2, "refresh": 5}), 2, Some("5000")),
        (json!({"every": 3, "refresh": 0}), 0, None),
    ] {
        let place = Workplace::new(&[PLUGINS, &["sconce-fixture-breaker"]].concat());
        std::fs::create_dir(place.path("out")).expect("a directory");
        let order = json!({"at": "after_iter", "iteration": 8, "signal": "KILL"});
        place.write_text("out/break.json", &order.to_string());
        let finished = place.run(&manifest(json!([report(config.clone()), "breaker"])));
        assert_eq!(finished.code, -1, "{}", finished.stderr);
        let page = page(&place);
        assert!(page.contains("<title>tiny: running</title>"), "{config}");
        assert!(page.contains(&format!("<dd>{epoch} of 4</dd>")), "{config}");
        assert!(page.trim_end().ends_with("</html>"));
        match reloads {
            Some(time) => assert!(page.contains(&format!("location.reload(); }}, {time});"))),
            None => assert!(!page.contains("<script")),
        }
    }
}

#[test]
fn how_a_run_ends_is_reported() {
    let ask = json!({"hook": "asker", "config": {"at": "after_iter", "what": "stop",
        "text": "seen <enough>", "after_iteration": 4}});
    let (place, finished) = run(json!([report(json!({})), ask]));
    finished.expect(0, &[]);
    let stopped = page(&place);
    assert!(stopped.contains("<title>tiny: stopped</title>"));
    assert!(stopped.contains("<p class=\"reason\">seen &lt;enough&gt;</p>"));
    let fault =
        json!({"hook": "fault", "config": {"at": "after_update", "how": "error", "from_call": 4}});
    let (place, finished) = run(json!([report(json!({})), fault]));
    finished.expect(4, &[]);
    let failed = page(&place);
    assert!(failed.contains("<title>tiny: failed</title>"));
    assert!(failed.contains("told to fail at after_update"));
    assert!(failed.contains("<span class=\"event error\">error</span>"));
}

#[test]
fn a_resumed_run_goes_on_with_its_curves() {
    let hooks = |stop: bool| {
        let mut hooks = json!([report(json!({"iterations": 2})),
            {"hook": "checkpoint", "config": {"epochs": 0, "iterations": 5, "save_last": false}}]);
        if stop {
            hooks
                .as_array_mut()
                .expect("a list")
                .push(json!({"hook": "fault",
                "config": {"at": "after_update", "from_call": 7}}));
        }
        hooks
    };
    let (straight, finished) = run(hooks(false));
    finished.expect(0, &[]);
    let (place, finished) = run(hooks(true));
    finished.expect(4, &[]);
    place.write(&manifest(hooks(false)));
    let arguments = [
        "run",
        "manifest.json",
        "--resume",
        "iteration-5",
        "--allow-changes",
    ];
    place.sconce(&arguments).expect(0, &[]);
    let drawings = |place: &Workplace| {
        let page = page(place);
        let curves = between(&page, "<h2>Curves</h2>", "</section>").to_owned();
        let confusion = between(&page, "<h2>Confusion</h2>", "</section>").to_owned();
        let results = between(&page, "<h2>Results</h2>", "</section>").to_owned();
        [curves, confusion, results]
    };
    assert_eq!(drawings(&place), drawings(&straight));
    assert!(page(&place).contains("the run resumes from <code>iteration-5</code>"));
}

#[test]
fn secrets_are_not_shown() {
    let hooks = json!([report(json!({"title": "t"}))]);
    let mut manifest = manifest(hooks);
    manifest["name"] = json!("https://me:hush@example.org/run");
    let place = Workplace::new(PLUGINS);
    place.run(&manifest).expect(0, &[]);
    let page = page(&place);
    assert!(
        !page.contains("hush") && page.contains("https://example.org/run"),
        "{page}"
    );
}

#[test]
fn nonsense_is_refused() {
    for (config, words) in [
        (json!({"every": 0}), "every"),
        (json!({"most_classes": 1}), "most_classes"),
        (json!({"file": "../x.html"}), "stay below it: `../x.html`"),
        (json!({"titel": "x"}), "title"),
    ] {
        let (_, finished) = run(json!([report(config.clone())]));
        finished.expect_refused(words);
    }
}

/// `examples/mnist-hooks`: many hooks at once, on real data.
#[test]
fn the_example_with_many_hooks_ends_in_a_report() {
    if shared_data().is_none() {
        return;
    }
    let place = Workplace::new(&[
        "sconce-plugin-checkpoints",
        "sconce-plugin-console",
        "sconce-plugin-control",
        "sconce-plugin-csv",
        "sconce-plugin-debugging",
        "sconce-plugin-logging",
        "sconce-plugin-metrics",
        "sconce-plugin-models",
        "sconce-plugin-optimisation",
        "sconce-plugin-profiling",
        "sconce-plugin-report",
        "sconce-plugin-tracking",
    ]);
    let directory = workspace().join("examples/mnist-hooks");
    let text = std::fs::read_to_string(directory.join("run.json")).expect("an example");
    let mut manifest: Value = serde_json::from_str(&text).expect("JSON");
    for key in ["images", "labels"] {
        let path = manifest["data"][key].as_str().expect("a path");
        let absolute = directory.join(path).canonicalize().expect("it is there");
        manifest["data"][key] = json!(absolute);
    }
    manifest["plugins"] = json!([place.path("plugins")]);
    manifest["threads"] = json!(1);
    manifest["output"] = json!("out");
    assert!(
        manifest["hooks"]
            .as_array()
            .is_some_and(|hooks| hooks.len() >= 15)
    );
    place.run(&manifest).expect(0, &[]);
    let page = page(&place);
    assert!(page.contains("<title>mnist-hooks: completed</title>"));
    let figures = figures(&page);
    for name in ["loss", "accuracy", "loss of batches", "learning rate"] {
        assert!(figures.contains(&name), "{name}: {figures:?}");
    }
    assert!(
        figures.iter().any(|name| name.starts_with("val: ")),
        "{figures:?}"
    );
    let record: Value = serde_json::from_str(&place.read("out/run.json")).expect("JSON");
    let accuracy = record["metrics"]["val"]["accuracy"].as_f64();
    assert!(accuracy.is_some_and(|share| share > 0.9), "{record}");
    for file in [
        "val.csv",
        "weights.safetensors",
        "checkpoints/best-accuracy/state.json",
    ] {
        assert!(place.path(&format!("out/{file}")).exists(), "{file}");
    }
}
