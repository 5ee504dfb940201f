//! `python`: hooks in Python in real runs, with real packages.
//!
//! Tests that need packages make an environment once (`sconce_tests::python_with`).

mod examples;
mod scaffold;

use std::os::unix::fs::symlink;

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

/// Tries what a sandbox allows, and what it does not.
const SANDBOXED: &str = r#"
import asyncio, concurrent.futures, ctypes, os, pathlib, random, sqlite3, ssl, sys, tempfile
import helper, package.part
import sconce

class A(sconce.Hook):
    def after_epoch(self, task):
        assert helper.X == package.part.X == 1
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            assert list(pool.map(abs, [-1, 2])) == [1, 2]
        async def one():
            return 1
        assert asyncio.run(one()) == 1
        pathlib.Path("out/mine.txt").write_text("x")
        os.rename("out/mine.txt", "out/renamed.txt")
        with tempfile.TemporaryDirectory() as scratch:
            pathlib.Path(scratch, "a").write_text("x")
        pathlib.Path(tempfile.gettempdir(), "left").write_text("x")
        for refused in [
            lambda: open(".env").read(),
            lambda: open("/etc/hostname").read(),
            lambda: open("other.txt", "w"),
            lambda: os.chmod("case.py", 0o777),
            lambda: os.setpriority(os.PRIO_PROCESS, os.getppid(), 5),
            lambda: os.kill(os.getppid(), 0),
            lambda: os.fork(),
            lambda: __import__("socket").create_connection(("127.0.0.1", 9)),
            lambda: __import__("subprocess").run(["true"]),
        ]:
            try:
                refused()
            except PermissionError:
                continue
            raise RuntimeError(f"a hole in the wall: line {refused.__code__.co_firstlineno}")
        print("it holds")
"#;

#[test]
fn a_hook_in_python_works_in_a_sandbox_and_reads_python_files_beside_it_alone() {
    let place = place(SANDBOXED);
    place.write_text("helper.py", "X = 1\n");
    std::fs::create_dir(place.path("package")).expect("a directory");
    place.write_text("package/__init__.py", "");
    place.write_text("package/part.py", "X = 1\n");
    place.write_text(".env", "SECRET=1\n");
    for rules in [json!(true), json!({"memory": "2GiB"})] {
        let mut entry = entry(json!({}));
        entry["sandbox"] = rules;
        place.write(&manifest(json!([entry])));
        std::fs::create_dir_all(place.path("temporary")).expect("a directory");
        let temporary = place.path("temporary").display().to_string();
        place
            .sconce_in(
                &["run", "manifest.json", "--overwrite"],
                &[("TMPDIR", &temporary)],
            )
            .expect(0, &["case: it holds"]);
        assert!(place.path("out/renamed.txt").exists());
        // What the hook has left among its temporary files goes with it.
        let left = std::fs::read_dir(place.path("temporary")).expect("a directory");
        assert_eq!(left.count(), 0);
    }
    // What the sandbox may be the cause of is said to be so.
    let mut entry = entry(json!({"module": "elsewhere.hook", "file": null}));
    entry["sandbox"] = json!(true);
    place.write(&manifest(json!([entry])));
    let finished = place.sconce(&["run", "manifest.json", "--overwrite"]);
    finished.expect(
        3,
        &[
            "No module named 'elsewhere'",
            "hint: it runs in a sandbox: `read`",
        ],
    );
}

#[test]
fn a_thread_that_does_not_end_costs_no_results() {
    let place = place(
        "import sconce, threading, time\n\
         class A(sconce.Hook):\n    def before_run(self, task):\n        threading.Thread(target=self.never).start()\n    \
         def never(self):\n        while True:\n            time.sleep(1)\n",
    );
    place.write(&manifest(json!([entry(json!({}))])));
    let finished = place.sconce(&["run", "manifest.json"]);
    finished.expect(
        0,
        &["threads have not ended 10 s after the run: `Thread-1 (never)`"],
    );
    for file in ["weights.safetensors", "run.json", "model/model.json"] {
        assert!(place.path(&format!("out/{file}")).exists(), "{file}");
    }
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
    manifest["hooks"][2]["hook"] = json!(example.join("smooth.py"));
    symlink(python, place.path(".venv")).expect("a link");
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
fn a_wrong_option_is_placed_in_the_entry_that_names_the_file() {
    let source = "
from dataclasses import dataclass
import sconce

class A(sconce.Hook):
    @dataclass
    class Config:
        low: float
        def __post_init__(self):
            if self.low > 1:
                raise ValueError(f'`low`: {self.low} is above 1')
";
    let place = place(source);
    place.write(&manifest(
        json!([{"hook": "case.py", "config": {"low": 2}}]),
    ));
    let finished = place.sconce(&["check", "manifest.json"]).expect(
        3,
        &[
            "the configuration of `case`: 2.0 is above 1",
            "at hooks[0].config.low",
        ],
    );
    let said = finished.stderr.matches("is above 1").count();
    assert_eq!(said, 1, "{}", finished.stderr);
}

const WORST: &str = "
from dataclasses import dataclass
import sconce

class Base(sconce.Hook):
    @dataclass
    class Config:
        names: tuple[str, ...] = ()

class Worst(Base):
    publishes = ['worst_f1']
    def after_epoch(self, task):
        if task.phase == 'val':
            task.publish_metric('worst_f1', 1.0 / task.epoch if task.epoch else 2.0)

class Family(Base):
    def __init__(self, config, setup):
        super().__init__(config, setup)
        self.publishes = [f'of/{name}' for name in config.names]
    def after_epoch(self, task):
        for name in self.config.names:
            task.publish_metric(f'of/{name}', 1.0)
";

/// A hook that monitors a metric.
fn watching(metric: &str) -> Value {
    json!({"hook": "checkpoint", "config": {"best": [{"monitor": metric, "rule": "greater"}]}})
}

#[test]
fn a_metric_that_a_hook_declares_can_be_monitored_from_an_entry_that_names_its_file() {
    let Some(python) = python_with(&[]) else {
        return;
    };
    let place = Workplace::new(PLUGINS);
    std::fs::create_dir_all(place.path("lab/hooks")).expect("directories");
    place.write_text("lab/hooks/f1.py", WORST);
    symlink(&python, place.path("lab/.venv")).expect("a link");
    let try_both = |hooks: Value, code: i32, words: &[&str]| {
        let mut manifest = manifest(hooks);
        manifest["plugins"] = json!(["../plugins"]);
        place.write_text("lab/run.json", &manifest.to_string());
        place.sconce(&["check", "lab/run.json"]).expect(code, words);
        place
            .sconce(&["run", "lab/run.json", "--overwrite"])
            .expect(code, words);
    };
    let worst = json!("hooks/f1.py:Worst");
    let apart = json!({"hook": worst, "isolation": "process"});
    let family =
        json!({"hook": "hooks/f1.py:Family", "name": "family", "config": {"names": ["a", "b"]}});
    for (hooks, tag) in [
        (
            json!([watching("val/worst_f1"), worst]),
            "best-val-worst_f1",
        ),
        (json!([watching("worst_f1"), apart]), "best-worst_f1"),
        (
            json!([watching("val/of/b"), family, worst]),
            "best-val-of-b",
        ),
    ] {
        try_both(hooks, 0, &[]);
        let checkpoints = place.path("lab/out/checkpoints");
        let names: Vec<_> = (std::fs::read_dir(checkpoints).expect("checkpoints"))
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        assert!(names.iter().any(|name| *name == *tag), "{names:?}");
    }
    // The table of hooks has the file's name.
    let text = place.sconce(&["check", "lab/run.json"]).stdout;
    assert!(text.contains("f1"), "{text}");

    let unknown = [
        "no metric is called `worst_f2`",
        "did you mean `worst_f1`",
        "hooks[0].config.best[0].monitor",
    ];
    try_both(json!([watching("worst_f2"), worst]), 2, &unknown);
    try_both(json!([watching("worst_f2"), apart]), 2, &unknown);
    let undeclared = json!({"hook": "hooks/f1.py:Family"});
    let words = [
        "no metric is called `zzz`",
        "`publishes = [\"zzz\"]` in its class",
    ];
    try_both(json!([watching("zzz"), undeclared]), 2, &words);
    // Without a hook that declares its metrics, before any hook is created.
    try_both(
        json!([watching("worst_f1")]),
        2,
        &["no metric is called `worst_f1`"],
    );
}

#[test]
fn what_is_wrong_with_an_entry_that_names_a_file_is_shown_where_it_is_written() {
    let Some(python) = python_with(&[]) else {
        return;
    };
    let place = Workplace::new(PLUGINS);
    place.write_text("f1.py", WORST);
    place.write_text(
        "odd.py",
        "import sconce\nclass Text(sconce.Hook):\n    publishes = 'f1'\nclass Pattern(sconce.Hook):\n    publishes = ['[']\n",
    );
    symlink(&python, place.path(".venv")).expect("a link");
    for (entry, words) in [
        (
            json!("f2.py"),
            ["there is no such file", "at hooks[0].hook"],
        ),
        (
            json!("f1.py"),
            ["choose one with `class`", "at hooks[0].hook"],
        ),
        (
            json!("f1.py:Worts"),
            ["did you mean `Worst`", "at hooks[0].hook"],
        ),
        (
            json!({"hook": "f1.py:Worst", "config": {"names": [1]}}),
            ["names", "at hooks[0].config.names[0]"],
        ),
        (
            json!({"hook": "f1.py:Worst", "config": {"file": "x"}}),
            ["file", "at hooks[0].config.file"],
        ),
        (json!("odd.py:Pattern"), ["`[`", "at hooks[0]"]),
        (
            json!("odd.py:Text"),
            ["`publishes` is a list of metrics' names", "found 'f1'"],
        ),
    ] {
        place.run(&manifest(json!([entry]))).expect(3, &words);
    }
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
