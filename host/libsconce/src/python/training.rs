//! Trainings on threads of their own.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyModule, PyTuple};
use sconce::embedded::{
    Diagnostic, EmbeddedRun, Events, Interrupt, Level, StartFailure, StopSignal, Taken,
    TrainingRequest, check, render, train,
};

use super::function::function;
use super::{failure, forked, memory};

/// Size in bytes of the run's stack, as the command line has it.
const STACK: usize = 8 << 20;

/// How a run's thread ended.
type Ended = Result<Result<EmbeddedRun, StartFailure>, Box<dyn Any + Send>>;

/// A run, shared by its thread and the functions that Python has.
#[derive(Default)]
struct Run {
    events: Events,
    interrupt: Interrupt,
    ended: Mutex<Option<Ended>>,
}

pub(super) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let doc = c"Starts a run; returns functions: wait, interrupt, result.";
    let start = function(module.py(), c"start", doc, start)?;
    module.add("start", start)?;
    let doc =
        c"Checks a manifest, by the first arguments of `start`; returns the texts of warnings.";
    let check = function(module.py(), c"check", doc, check_manifest)?;
    module.add("check", check)
}

/// The run that arguments describe: manifest, its text or none, assignments, plugin directories, data; then for a training output or none,
/// checkpoint or none, whether changes are allowed, whether to overwrite.
fn request(arguments: &Bound<'_, PyTuple>) -> PyResult<TrainingRequest> {
    let at = |index| arguments.get_item(index);
    let request = TrainingRequest {
        manifest: at(0)?.extract()?,
        text: at(1)?.extract()?,
        set: at(2)?.extract()?,
        plugins: at(3)?.extract()?,
        data: memory::provided(&at(4)?)?,
        ..TrainingRequest::default()
    };
    if arguments.len() == FIRST_ARGUMENTS {
        return Ok(request);
    }
    Ok(TrainingRequest {
        output: at(5)?.extract::<Option<PathBuf>>()?,
        resume: at(6)?.extract()?,
        allow_changes: at(7)?.extract()?,
        overwrite: at(8)?.extract()?,
        ..request
    })
}

/// Number of the arguments that a check has, too.
const FIRST_ARGUMENTS: usize = 5;

fn check_manifest(arguments: &Bound<'_, PyTuple>) -> PyResult<Vec<String>> {
    let py = arguments.py();
    forked::refuse_in_copies(py)?;
    let request = request(arguments)?;
    let warnings = py.detach(|| check(request));
    let warnings = warnings.map_err(|failure| failure::of_start(py, &failure))?;
    Ok(texts(&warnings))
}

/// Diagnostics as texts, each with its notes and hints.
fn texts(diagnostics: &[Diagnostic]) -> Vec<String> {
    let each = diagnostics.iter();
    each.map(|one| render::text(std::slice::from_ref(one), false))
        .collect()
}

/// Starts a run on a thread of its own.
fn start(arguments: &Bound<'_, PyTuple>) -> PyResult<[Py<PyCFunction>; 3]> {
    let py = arguments.py();
    forked::refuse_in_copies(py)?;
    let request = request(arguments)?;
    let run = Arc::new(Run::default());
    let of_thread = Arc::clone(&run);
    let thread = thread::Builder::new()
        .name("sconce".to_owned())
        .stack_size(STACK);
    let started = thread.spawn(move || {
        let Run {
            events, interrupt, ..
        } = &*of_thread;
        let ended = catch_unwind(AssertUnwindSafe(|| train(request, interrupt, events)));
        *of_thread
            .ended
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(ended);
        of_thread.events.end();
    });
    if let Err(error) = started {
        let problem = format!("a thread for the run can't be started: {error}");
        return Err(PyRuntimeError::new_err(problem));
    }
    let (waited, interrupted, asked) = (Arc::clone(&run), Arc::clone(&run), run);
    Ok([
        function(
            py,
            c"wait",
            c"Waits for some seconds or the run's end; returns what has happened.",
            move |arguments| wait(&waited, arguments),
        )?
        .unbind(),
        function(
            py,
            c"interrupt",
            c"Asks the run to save a checkpoint and end.",
            move |_| {
                interrupted.interrupt.raise(StopSignal::Interrupt);
                Ok(())
            },
        )?
        .unbind(),
        function(
            py,
            c"result",
            c"How the run ended; once, after its end.",
            move |arguments| result(arguments.py(), &asked),
        )?
        .unbind(),
    ])
}

/// Phase, epochs finished and in all, batches of the pass finished and in all, iterations, samples, loss, learning rate, seconds
/// since the start and until the end.
type Position = (
    &'static str,
    u64,
    u64,
    u64,
    u64,
    u64,
    u64,
    Option<f64>,
    f64,
    f64,
    Option<f64>,
);

/// Messages (level, source, text), finished passes, position, whether the run has ended.
type Happened = (
    Vec<(&'static str, String, String)>,
    Vec<(Position, Vec<(String, f64)>)>,
    Option<Position>,
    bool,
);

fn wait(run: &Run, arguments: &Bound<'_, PyTuple>) -> PyResult<Happened> {
    let seconds: f64 = arguments.get_item(0)?.extract()?;
    let limit = Duration::try_from_secs_f64(seconds)
        .map_err(|_| PyValueError::new_err("a time in seconds is expected"))?;
    let taken = arguments.py().detach(|| run.events.wait(limit));
    let Taken {
        messages,
        rows,
        now,
        is_done,
    } = taken;
    let messages = messages.into_iter();
    let messages = messages.map(|message| {
        let level = match message.level {
            Level::Warn => "warning",
            Level::Info => "info",
            Level::Debug => "debug",
        };
        (level, message.source, message.text)
    });
    let rows = rows.into_iter();
    Ok((
        messages.collect(),
        rows.map(|row| (position(&row.now), row.metrics)).collect(),
        now.as_ref().map(position),
        is_done,
    ))
}

fn position(now: &sconce::run::Now) -> Position {
    (
        now.phase.name(),
        now.epoch,
        now.epochs,
        now.batch,
        now.batches,
        now.iteration,
        now.samples,
        now.loss,
        now.learning_rate,
        now.elapsed,
        now.remaining,
    )
}

/// Directory, outcome, reason, last checkpoint; the failure's text, exit code and hook; other problems.
type Outcome = (
    PathBuf,
    &'static str,
    String,
    Option<PathBuf>,
    Option<(String, u8, Option<String>)>,
    Vec<String>,
);

fn result(py: Python<'_>, run: &Run) -> PyResult<Outcome> {
    let mut ended = run.ended.lock().unwrap_or_else(PoisonError::into_inner);
    match ended.take() {
        None => Err(PyRuntimeError::new_err(
            "the run has not ended, or its result was taken",
        )),
        Some(Err(panic)) => Err(failure::of_panic(py, &*panic)),
        Some(Ok(Err(failure))) => Err(failure::of_start(py, &failure)),
        Some(Ok(Ok(run))) => Ok((
            run.directory,
            run.outcome,
            run.reason,
            run.last_checkpoint,
            run.failure
                .map(|failure| (failure.text, failure.code, failure.hook)),
            texts(&run.problems),
        )),
    }
}
