//! A task of one's own on the host library: a student whose loss reads what a hook publishes.
//!
//! `cargo run --release -p sconce-example-distillation -- examples/distillation/run.json`
//!
//! Everything but the loss is the host's: manifest, data, model, optimizer, plugins, loop.

mod task;

use std::path::Path;
use std::process::ExitCode;

use sconce::bridge::Shared;
use sconce::diagnostic::Diagnostic;
use sconce::dispatch::Dispatcher;
use sconce::log::{Level, StderrLog};
use sconce::run::{Outcome, Report, Trainer};
use sconce::session::{self, Failure};
use sconce::task::Task;

use task::Distillation;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let Some(file) = std::env::args().nth(1) else {
        say("usage: distillation MANIFEST");
        return ExitCode::from(2);
    };
    match train(Path::new(&file)) {
        Ok(report) => {
            say(&format!("{:?}", report.outcome));
            for (phase, metrics) in &report.metrics {
                say(&format!("{phase}: {metrics:?}"));
            }
            ExitCode::from(u8::from(!matches!(report.outcome, Outcome::Completed)))
        }
        Err(failure) => {
            for diagnostic in failure.diagnostics {
                say(&diagnostic.message);
            }
            ExitCode::from(failure.code)
        }
    }
}

fn train(file: &Path) -> Result<Report, Failure> {
    let checked = session::check(file, &[], &[])?;
    let plan = checked.plan();
    let manifest = checked.manifest;
    let student = session::build_task(&manifest, checked.data)?;
    let mut task = Distillation::new(student);
    session::check_references(&checked.hooks, &task, &manifest)?;
    let mut optimizer = session::optimizer(&manifest, task.parameters())?;
    let directory = fs_err::create_dir_all(&manifest.output)
        .and_then(|()| fs_err::canonicalize(&manifest.output))
        .map_err(|error| Failure::usage(vec![Diagnostic::new(error.to_string())]))?;
    let log = StderrLog { level: Level::Info };
    let shared = Shared::new(&log);
    let hooks = session::create_hooks(checked.hooks, &manifest, &directory, &shared)?;
    let hooks = Dispatcher::new(hooks);
    let trainer = Trainer::new(&mut task, optimizer.as_mut(), hooks, &shared, plan);
    Ok(trainer.in_directory(&manifest.name, directory).run())
}

#[expect(clippy::print_stdout, reason = "a program's output")]
fn say(text: &str) {
    println!("{text}");
}
