//! What commands on a model have in common: its task, without hooks.

use super::{ManifestArgs, output};
use crate::diagnostic::Diagnostic;
use crate::kernels::threads::{self, Threads};
use crate::manifest::{self, Manifest};
use crate::session::{self, Failure, TaskBuilder};
use crate::task::Task;

/// The task of a manifest, without its hooks.
pub(super) fn task(
    arguments: &ManifestArgs,
    tasks: &dyn TaskBuilder,
) -> Result<(Manifest, Box<dyn Task>), Failure> {
    let manifest = manifest::load(&arguments.file, &arguments.overlay(), tasks.source());
    build(manifest.map_err(Failure::usage)?, tasks)
}

/// A manifest with its task, without its hooks.
pub(super) fn build(
    manifest: Manifest,
    tasks: &dyn TaskBuilder,
) -> Result<(Manifest, Box<dyn Task>), Failure> {
    set_threads(manifest.threads);
    let data = session::read_data(&manifest)?;
    let task = tasks.build(&manifest, data)?;
    Ok((manifest, task))
}

/// Sets how many threads compute, and warns where they are more than the processors that this process may use.
pub(super) fn set_threads(threads: Option<usize>) {
    if let Some(count) = threads {
        threads::ask(count);
    }
    let chosen = threads::threads();
    if chosen.asked > chosen.usable {
        output::diagnostics(&[too_many(chosen)]);
    }
    // candle's own pools, which read the environment at their first use. They change no bit, and threads that spin
    // for long keep others from the processors.
    let count = chosen.started().to_string();
    let variables = threads::VARIABLES.map(|name| (name, count.as_str()));
    for (name, value) in variables {
        // SAFETY: no thread of ours runs yet: the pools start with the first tensor operation,
        // and libraries opened so far have only been asked for their description.
        unsafe { std::env::set_var(name, value) };
    }
    if std::env::var_os(threads::SPIN_LIMIT).is_none() {
        // SAFETY: as above.
        unsafe { std::env::set_var(threads::SPIN_LIMIT, SPINS) };
    }
}

/// Of candle's own default, 25,000, a thirteenth: quiet steps take as long, and beside busy processes a fifth.
const SPINS: &str = "2000";

fn too_many(chosen: Threads) -> Diagnostic {
    let Threads { asked, usable } = chosen;
    let (processors, are) = match usable {
        1 => ("processor", "is"),
        _ => ("processors", "are"),
    };
    Diagnostic::warning(format!(
        "{asked} threads are asked for, but this process may use {usable} {processors}: {usable} {are} started"
    ))
    .hint(format!(
        "results are those of {asked} threads, at some cost in time; without `threads` a run takes what it may use"
    ))
}

/// An optimizer for a trainer that never steps.
pub(super) fn idle() -> crate::optim::Sgd {
    crate::optim::Sgd::new(0.0)
}
