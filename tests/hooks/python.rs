//! `python`: hooks in Python in real runs, with real packages.
//!
//! Tests that need packages make an environment once (`sconce_tests::python_with`).

mod examples;
mod scaffold;

use sconce_tests::{Finished, Workplace, edit, python_with, tiny, workspace};
use serde_json::{Value, json};

const PLUGINS: &[&str] = &[
    "sconce-plugin-python",
    "sconce-plugin-checkpoints",
    "sconce-plugin-optimisation",
    "sconce-fixture-tensors",
];

/// The entry of a hook in `case.py`.
fn entry(config: Value) -> Value {
    let mut entry = json!({"hook": "python", "name": "case", "config": {"file": "case.py"}});
    for (key, value) in config.as_object().into_iter().flatten() {
        entry["config"][key] = value.clone();
    }
    entry
}

fn manifest(hooks: Value) -> Value {
    edit(tiny(), "/hooks", hooks)
}

/// A directory with a hook of this source.
fn place(source: &str) -> Workplace {
    let place = Workplace::new(PLUGINS);
    place.write_text("case.py", source);
    place
}

/// Runs with a variable more, and nothing that leads to another Python.
fn run_in(place: &Workplace, hooks: Value, environment: &[(&str, &str)]) -> Finished {
    place.write(&manifest(hooks));
    let mut command = place.command(&["run", "manifest.json"]);
    command.env_remove("VIRTUAL_ENV").env_remove("CONDA_PREFIX");
    command.envs(environment.iter().copied());
    Finished::from(command.output().expect("the binary can be started"))
}

#[test]
fn without_a_python_only_runs_with_such_hooks_fail_and_say_where_it_was_looked_for() {
    let place = place("import sconce\nclass A(sconce.Hook):\n    pass\n");
    let nowhere = [("PATH", "/no/where:/nor/here")];
    run_in(&place, json!([entry(json!({}))]), &nowhere).expect(
        3,
        &[
            "no Python found; looked at:",
            "/no/where/python3 (PATH)",
            "/nor/here/python3 (PATH)",
            "at hooks[0]",
        ],
    );
    run_in(&place, json!([entry(json!({"python": ".venv"}))]), &nowhere).expect(
        3,
        &[
            ".venv (`python` in the configuration)",
            "at hooks[0].config.python",
        ],
    );
    // Nothing that runs no hook needs one.
    let library = place.path("plugins/libsconce_plugin_python.so");
    let library = library.to_string_lossy();
    for arguments in [
        vec!["inspect", &library],
        vec!["plugins", "plugins"],
        vec![
            "validate",
            &library,
            "--only",
            "file.{structure,opens,names,dependencies}",
            "--hook",
            "python",
        ],
    ] {
        let finished = place.sconce_in(&arguments, &nowhere).expect(0, &[]);
        assert!(finished.stdout.contains("python"), "{}", finished.stdout);
        assert!(
            !finished.stdout.contains("libpython"),
            "{}",
            finished.stdout
        );
    }
}

#[test]
fn an_environment_is_found_by_its_variable_and_a_second_one_refused() {
    let Some(numpy) = python_with(&["numpy"]) else {
        return;
    };
    let Some(plain) = python_with(&[]) else {
        return;
    };
    let place = place(
        "import sconce, sys\nclass A(sconce.Hook):\n    def before_run(self, task):\n        print('prefix', sys.prefix)\n",
    );
    let (numpy, plain) = (numpy.to_string_lossy(), plain.to_string_lossy());
    let words = format!("case: prefix {plain}");
    run_in(
        &place,
        json!([entry(json!({}))]),
        &[("VIRTUAL_ENV", &*plain)],
    )
    .expect(0, &[&words]);
    let mut second = entry(json!({"python": &*plain}));
    second["name"] = json!("second");
    run_in(
        &place,
        json!([entry(json!({"python": &*numpy})), second]),
        &[],
    )
    .expect(
        3,
        &[
            "already runs Python from",
            "\"isolation\": \"process\"",
            "at hooks[1]",
        ],
    );
}

const CLIP: &str = "
import numpy as np
import sconce

class Clip(sconce.Hook):
    def before_update(self, task):
        squares = np.concatenate([np.square(np.asarray(g), dtype=np.float64).ravel() for g in task.gradients()])
        # One after another, as the hook in Rust adds them.
        norm = float(np.sqrt(np.add.accumulate(squares)[-1]))
        task.publish_metric('grad_norm', norm)
        limit = self.config['max_norm']
        if norm > limit:
            factor = np.float32(limit / norm)
            def scale(gradient):
                elements = np.asarray(gradient)
                elements *= factor
            task.for_each_gradient(scale)
";

#[test]
fn clipping_in_python_gives_the_weights_of_clipping_in_rust() {
    let Some(python) = python_with(&["numpy"]) else {
        return;
    };
    let weights = |hook: Value| {
        let place = place(CLIP);
        let checkpoint = json!({"hook": "checkpoint", "config": {"epochs": 2, "tag": "end"}});
        place
            .run(&manifest(json!([hook, checkpoint])))
            .expect(0, &[]);
        let all = place.checkpoint("end").into_iter();
        all.filter(|(name, _)| name.starts_with("parameters/"))
            .collect::<Vec<_>>()
    };
    let config = json!({"max_norm": 0.1});
    let in_rust = weights(json!({"hook": "clip", "config": config}));
    let in_python = weights(entry(json!({"python": python, "config": config})));
    let without = weights(json!({"hook": "clip", "config": {"max_norm": 1e9}}));
    assert_eq!(in_python, in_rust);
    assert_ne!(in_python, without, "the clip clips");
    let mut isolated = entry(json!({"python": python, "config": config}));
    isolated["isolation"] = json!("process");
    assert_eq!(weights(isolated), in_rust, "in a process of its own too");
}

#[test]
fn hooks_loaded_again_and_in_processes_of_their_own_keep_their_states() {
    let (Some(python), Some(other)) = (python_with(&["numpy"]), python_with(&[])) else {
        return;
    };
    let sum = |finished: &Finished| {
        let mut lines = finished.stderr.lines();
        let last = lines.rfind(|line| line.starts_with("case: sum"));
        last.map_or_else(|| panic!("{}", finished.stderr), str::to_owned)
    };
    let run = |environment: &[(&str, &str)]| {
        let hooks = json!([entry(json!({"python": python}))]);
        let place = place(COUNTER);
        sum(&run_in(&place, hooks, environment).expect(0, &[]))
    };
    let plain = run(&[]);
    assert_eq!(run(&[("SCONCE_RELOAD_EVERY", "1")]), plain);
    assert_eq!(run(&[("SCONCE_ISOLATE", "all")]), plain);
    assert_eq!(
        run(&[("SCONCE_ISOLATE", "all"), ("SCONCE_RELOAD_EVERY", "2")]),
        plain
    );
    // A process of its own may have another environment.
    let place = place(
        "import sconce\nclass A(sconce.Hook):\n    def before_run(self, task):\n        print('here')\n",
    );
    let mut second = entry(json!({"python": other}));
    second["name"] = json!("second");
    second["isolation"] = json!("process");
    let hooks = json!([entry(json!({"python": python})), second]);
    run_in(&place, hooks, &[]).expect(0, &["case: here", "second: here"]);
}

#[test]
fn hooks_in_rust_c_python_and_a_process_of_its_own_train_together() {
    let Some(python) = python_with(&[]) else {
        return;
    };
    let place = Workplace::new(&[
        "sconce-plugin-python",
        "sconce-plugin-optimisation",
        "sconce-plugin-console",
        "sconce-plugin-csv",
    ]);
    if place
        .add_c_plugin("examples/clip-in-c/clip.c", &[])
        .is_none()
    {
        return;
    }
    let example = workspace().join("examples/every-language");
    let text = std::fs::read_to_string(example.join("run.json")).expect("the example");
    let mut manifest: Value = serde_json::from_str(&text).expect("JSON");
    // Of the example all but its data and its paths.
    for key in ["data", "model", "plugins", "output", "train"] {
        manifest[key] = tiny()[key].clone();
    }
    manifest["hooks"][2]["config"]["file"] = json!(example.join("smooth.py"));
    manifest["hooks"][2]["config"]["python"] = json!(python);
    place
        .run(&manifest)
        .expect(0, &["console: ", "before_update: "]);
    let table = place.read("out/train.csv");
    let (names, rows) = table.split_once('\n').expect("a table");
    assert!(
        names.contains("smooth_loss") && names.contains("grad_norm"),
        "{names}"
    );
    assert_eq!(rows.lines().count(), 2, "a row for each epoch");
}

#[test]
fn arrays_outlive_their_call_only_if_they_are_read_only() {
    let Some(python) = python_with(&["numpy"]) else {
        return;
    };
    let source = |name: &str| {
        format!(
            "
import numpy as np
import sconce

class Keeper(sconce.Hook):
    kept = []
    def before_update(self, task):
        self.kept.append(np.asarray(task.{name}('fc1.weight')))
    def after_run(self, task, outcome):
        print('kept', len(self.kept), all(np.isfinite(one).all() for one in self.kept))
"
        )
    };
    let hooks = || json!([entry(json!({"python": python}))]);
    place(&source("gradient"))
        .run(&manifest(hooks()))
        .expect(0, &["case: kept 6 True"]);
    place(&source("gradient_mut"))
        .run(&manifest(hooks()))
        .expect(
            4,
            &[
                "keeps a writable array of `fc1.weight` after `before_update`",
                ".copy()",
            ],
        );
    let write = "
import numpy as np
import sconce

class Writer(sconce.Hook):
    def before_update(self, task):
        np.asarray(task.parameter('fc1.weight'))[:] = 0
";
    place(write).run(&manifest(hooks())).expect(
        4,
        &[
            "ValueError: assignment destination is read-only",
            "at case.py:7",
        ],
    );
}

#[test]
fn the_ends_of_a_hook_are_errors_of_the_hook() {
    let Some(python) = python_with(&[]) else {
        return;
    };
    for (line, words) in [
        (
            "import sys; sys.exit(0)",
            "SystemExit: the hook called sys.exit(0)",
        ),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        (
            "raise ValueError('no\\x1b[2Jgood')",
            "ValueError: no\\u{1b}[2Jgood",
        ),
    ] {
        let source = format!(
            "import sconce\nclass A(sconce.Hook):\n    def after_iter(self, task):\n        {line}\n"
        );
        let place = place(&source);
        let finished = place.run(&manifest(json!([entry(json!({"python": python}))])));
        finished.expect(
            4,
            &[
                words,
                "`after_iter` (train), epoch 0, iteration 1",
                "at case.py:4",
            ],
        );
    }
}

const COUNTER: &str = "
import atexit
import numpy as np
import sconce

atexit.register(lambda: print('at exit'))

class Counter(sconce.Hook):
    def __init__(self, config, setup):
        super().__init__(config, setup)
        self.sum = np.zeros(3)
    def after_iter(self, task):
        if task.phase == 'train':
            self.sum += [1, task.loss, task.iteration]
            task.publish_metric('sum', float(self.sum.sum()))
    def after_load_checkpoint(self, task, checkpoint):
        print('loaded', checkpoint.tag, int(self.sum[0]))
    def state_dict(self):
        return {'sum': self.sum}
    def load_state_dict(self, state):
        self.sum = state['sum']
    def after_run(self, task, outcome):
        print('sum', self.sum.tolist())
";

#[test]
fn a_resumed_run_continues_with_the_hooks_state() {
    let Some(python) = python_with(&["numpy"]) else {
        return;
    };
    let hooks = || json!([entry(json!({"python": python})), {"hook": "checkpoint", "config": {"epochs": 1, "last": "last"}}]);
    let sum = |finished: &Finished| {
        let mut lines = finished.stderr.lines();
        let last = lines.rfind(|line| line.starts_with("case: sum"));
        last.map_or_else(|| panic!("{}", finished.stderr), str::to_owned)
    };
    let whole = place(COUNTER);
    let whole = whole.run(&manifest(hooks())).expect(0, &["at exit"]);
    let resumed = place(COUNTER);
    resumed
        .run(&edit(manifest(hooks()), "/train/epochs", json!(1)))
        .expect(0, &[]);
    resumed.write(&manifest(hooks()));
    let resumed = resumed
        .sconce(&["run", "manifest.json", "--resume"])
        .expect(0, &["case: loaded epoch-1 3"]);
    assert_eq!(sum(&resumed), sum(&whole));
}
