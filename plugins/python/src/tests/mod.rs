//! Hooks in Python in runs of the test kit. They use Python's standard library only.
#![expect(
    clippy::print_stdout,
    clippy::needless_pass_by_value,
    clippy::too_many_lines,
    reason = "a skipped test says so, and tables of cases read best as they are"
)]

mod wrong;

use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sconce_plugin_testing::{Failed, Request, ScriptedRun};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

/// A Python file in a directory of its own.
struct Script {
    place: TempDir,
    /// A run has one training thread: so have the tests.
    _turn: MutexGuard<'static, ()>,
}

const IMPORTS: &str = "import sconce\nfrom dataclasses import dataclass, field\nfrom typing import List, Literal, Optional\n";

static TURN: Mutex<()> = Mutex::new(());

impl Script {
    /// A file with the hook's class around this body; `None`, with a note, where there is no Python to embed. Where
    /// nothing may be skipped (`SCONCE_NO_SKIPS`), there must be one.
    fn new(body: &str) -> Option<Script> {
        if let Err(error) = sconce_python_interpreter::find(None) {
            let may_skip = std::env::var_os("SCONCE_NO_SKIPS").is_none();
            assert!(may_skip, "this test needs Python: {error}");
            println!("skipped: {error}");
            return None;
        }
        let body: String = body
            .lines()
            .map(|line| format!("\n    {line}"))
            .collect::<Vec<_>>()
            .concat();
        let text = format!("{IMPORTS}\nclass Case(sconce.Hook):\n    pass{body}\n");
        let place = tempfile::tempdir().expect("a temporary directory can be made");
        fs::write(place.path().join("case.py"), text).expect("a file can be written");
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Script { place, _turn: turn })
    }

    /// The hook's entry, with this configuration of its own.
    fn config(&self, config: Value) -> Value {
        json!({"file": self.place.path().join("case.py"), "config": config})
    }
}

fn run() -> ScriptedRun {
    ScriptedRun::new().epochs(2).iterations(3)
}

#[test]
fn methods_that_a_hook_has_are_called_and_the_others_left_out() -> std::result::Result<(), Failed> {
    let Some(script) = Script::new(
        "
def after_iter(self, task):
    if task.phase == 'train':
        task.info(f'{task.point} {task.epoch} {task.iteration} {task.batch}/{task.batches} {task.loss is None}')
def after_run(self, task, outcome):
    print(outcome.kind, end='')
",
    ) else {
        return Ok(());
    };
    let seen = run().drive::<Python>(script.config(json!({})))?;
    let messages: Vec<&str> = seen
        .messages()
        .iter()
        .map(|one| one.text.as_str())
        .collect();
    assert_eq!(messages[0], "after_iter 0 1 1/3 False");
    assert!(
        messages.contains(&"after_iter 1 6 3/3 False"),
        "{messages:?}"
    );
    assert_eq!(seen.called(Point::AfterRun), 1);
    assert_eq!(seen.called(Point::BeforeIter), 0);
    assert_eq!(seen.called(Point::ModuleForward), 0);
    Ok(())
}

#[test]
fn requests_metrics_and_values_reach_the_run() -> std::result::Result<(), Failed> {
    let Some(script) = Script::new(
        "
def before_epoch(self, task):
    task.publish('seen', {'epoch': task.epoch, 'list': [1, None]}, 'run')
def after_iter(self, task):
    task.publish_metric('double', 2 * task.iteration)
    assert task.published('seen')['list'] == [1, None] and task.published('none') is None
    assert task.metric_of('val', 'nothing') is None
    if task.iteration == 4:
        task.set_learning_rate(0.25)
        assert task.learning_rates()['default'] == 0.25
        task.stop('enough')
",
    ) else {
        return Ok(());
    };
    let seen = run().drive::<Python>(script.config(json!({})))?;
    assert!(
        seen.stop_reason()
            .is_some_and(|reason| reason.ends_with("enough"))
    );
    assert_eq!(seen.stopped_at().map(|at| at.iteration), Some(4));
    assert_eq!(seen.asked_for(Request::SetLearningRate).len(), 1);
    assert_eq!(
        seen.value("seen"),
        Some(&json!({"epoch": 1, "list": [1, null]}))
    );
    assert!(seen.metrics().iter().any(|metric| metric.name == "double"));
    Ok(())
}

#[test]
fn tensors_are_the_runs_own_memory() -> std::result::Result<(), Failed> {
    let Some(script) = Script::new(
        "
def before_update(self, task):
    import ctypes
    def halve(gradient):
        interface = gradient.__array_interface__
        assert interface['typestr'] == '<f4' and interface['data'][1] is False
        elements = (ctypes.c_float * 2).from_address(interface['data'][0])
        elements[:] = [one / 2 for one in elements]
        # A capsule that nobody takes.
        assert 'dltensor' in repr(gradient.__dlpack__())
    task.for_each_gradient(halve)
    (gradient,) = task.gradients()
    assert (gradient.name, gradient.dtype, gradient.shape, len(gradient)) == ('w', 'f32', (2,), 2)
    assert gradient.__array_interface__['data'][1] is True and not gradient.is_writable
    assert 'dltensor_versioned' in repr(gradient.__dlpack__(max_version=(1, 0)))
    assert gradient.__dlpack_device__() == (1, 0)
    try:
        gradient.__dlpack__()
    except BufferError as error:
        assert 'read-only' in str(error)
    else:
        raise AssertionError('a read-only tensor was handed out as writable')
",
    ) else {
        return Ok(());
    };
    let run = ScriptedRun::new()
        .epochs(1)
        .iterations(1)
        .learning_rate(1.0)
        .empty_model()
        .parameter("w", &[2], &[1.0, 1.0])
        .gradient("w", |_iteration| vec![0.5, -2.0]);
    let seen = run.drive::<Python>(script.config(json!({})))?;
    assert_eq!(seen.changes()[0].after, [0.25, -1.0]);
    assert_eq!(seen.parameter("w"), [0.75, 2.0]);
    Ok(())
}

#[test]
fn a_read_only_tensor_may_be_kept_and_a_writable_one_may_not() -> std::result::Result<(), Failed> {
    let Some(script) = Script::new(
        "
def before_update(self, task):
    self.kept = task.parameters()
    # What only a cycle keeps alive is not kept.
    cycle = [task.gradient_mut('w')]
    cycle.append(cycle)
    if self.config.get('keep'):
        self.writable = task.gradient_mut('w')
def after_iter(self, task):
    assert self.kept[0].name == 'w' and self.kept[0].__array_interface__
",
    ) else {
        return Ok(());
    };
    let run = run().empty_model().parameter("w", &[1], &[1.0]);
    let run = run.gradient("w", |_iteration| vec![0.5]);
    run.drive::<Python>(script.config(json!({})))?;
    let failed = run
        .drive::<Python>(script.config(json!({"keep": true})))
        .unwrap_err();
    let words = "keeps a writable array of `w` after `before_update`";
    assert!(
        failed.message.contains(words) && failed.message.contains(".copy()"),
        "{failed}"
    );
    Ok(())
}

#[test]
fn a_state_survives_a_resume() -> std::result::Result<(), Failed> {
    let Some(script) = Script::new(
        "
def __init__(self, config, setup):
    super().__init__(config, setup)
    self.count, self.tail = 0, b''
def after_iter(self, task):
    self.count += 1
    self.tail = self.tail[-3:] + bytes([self.count % 256])
    task.publish_metric('count', self.count)
def state_dict(self):
    return {'count': self.count, 'tail': self.tail, 'more': [1.5, None, {'a': True}]}
def load_state_dict(self, state):
    assert state['more'] == [1.5, None, {'a': True}]
    self.count, self.tail = state['count'], state['tail']
",
    ) else {
        return Ok(());
    };
    run().check_resume::<Python>(script.config(json!({})))
}

#[test]
fn a_task_is_of_no_use_after_its_call_or_on_another_thread() -> std::result::Result<(), Failed> {
    let Some(script) = Script::new(
        "
def before_run(self, task):
    import threading
    def work():
        try:
            task.epoch
        except sconce.HookError as error:
            print('refused:', error)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
def state_dict(self):
    return None
",
    ) else {
        return Ok(());
    };
    let seen = run().drive::<Python>(script.config(json!({})))?;
    let texts: Vec<&str> = seen
        .messages()
        .iter()
        .map(|one| one.text.as_str())
        .collect();
    assert!(
        texts[0].starts_with("refused: the task is only available during a call"),
        "{texts:?}"
    );
    Ok(())
}

#[test]
fn the_package_knows_all_mount_points() {
    let source = include_str!("../../sconce/_hook.py");
    let listed = source.split("POINTS = (").nth(1).expect("the list");
    let listed = listed.split(')').next().expect("its end");
    let mut listed: Vec<&str> = listed.split('"').skip(1).step_by(2).collect();
    let mut names: Vec<&str> = Point::ALL.iter().map(|point| point.name()).collect();
    listed.sort_unstable();
    names.sort_unstable();
    assert_eq!(listed, names);
}
