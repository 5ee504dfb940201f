//! Setup shared by commands that need a model's task but no hooks.

use crate::cli::ManifestArgs;
use crate::cli::show::output;
use crate::data::DataFile;
use crate::diagnostic::Diagnostic;
use crate::kernels::threads::{self, ThreadCounts};
use crate::manifest::{self, DeviceName, Manifest, TaskSource};
use crate::nn::Precision;
use crate::screen;
use crate::session::{self, ModelUse, StartFailure, TaskBuilder};
use crate::task::Task;

/// Builds the task of a manifest file on the CPU, without its hooks.
pub(in crate::cli) fn task(
    arguments: &ManifestArgs,
    tasks: &dyn TaskBuilder,
) -> Result<(Manifest, Box<dyn Task>), StartFailure> {
    let manifest = manifest::load(&arguments.file, &arguments.overlay(), tasks.source());
    let manifest = Manifest {
        device: DeviceName::default(),
        precision: Precision::default(),
        ..manifest.map_err(StartFailure::usage)?
    };
    let Built { manifest, task, .. } = build_for(manifest, tasks, ModelUse::Training)?;
    Ok((manifest, task))
}

/// A task that was built of a manifest.
pub(in crate::cli) struct Built {
    pub(in crate::cli) manifest: Manifest,
    pub(in crate::cli) task: Box<dyn Task>,
    /// Files that its data were read from.
    pub(in crate::cli) files: Vec<DataFile>,
}

/// Builds the task of a manifest, without its hooks, for given weights.
pub(in crate::cli) fn build(
    manifest: Manifest,
    tasks: &dyn TaskBuilder,
) -> Result<Built, StartFailure> {
    build_for(manifest, tasks, ModelUse::Weights)
}

fn build_for(
    manifest: Manifest,
    tasks: &dyn TaskBuilder,
    purpose: ModelUse,
) -> Result<Built, StartFailure> {
    set_threads(manifest.threads);
    let data = session::read_data(&manifest)?;
    if purpose == ModelUse::Training && tasks.source() == TaskSource::Manifest {
        session::check_memory(&manifest, data.as_ref(), purpose)?;
    }
    let of_manifest = data.as_ref().map(|data| data.files.clone());
    let task = tasks.build(&manifest, data)?;
    let mut files = of_manifest.unwrap_or_default();
    files.extend(task.files());
    Ok(Built {
        manifest,
        task,
        files,
    })
}

/// Sets the number of compute threads, with a warning if it exceeds the available processors.
pub(in crate::cli) fn set_threads(threads: Option<usize>) {
    if let Some(count) = threads {
        threads::ask(count);
    }
    let chosen = threads::threads();
    // Of several ranks, the first warns for all.
    if chosen.asked > chosen.usable && !screen::has_name() {
        output::diagnostics(&[too_many(chosen)]);
    }
    // candle's own thread pools, which read the environment when first used. They don't affect results, and
    // threads that spin for long keep others from the processors.
    let count = chosen.started().to_string();
    let variables = threads::VARIABLES.map(|name| (name, count.as_str()));
    for (name, value) in variables {
        // SAFETY: no other thread of this program runs yet, so none reads the environment
        // meanwhile: the pools start with the first tensor operation, and libraries opened so far
        // have only been asked for their description.
        unsafe { std::env::set_var(name, value) };
    }
    if std::env::var_os(threads::SPIN_LIMIT).is_none() {
        // SAFETY: no other thread of this program runs yet, for the same reasons, so none reads the
        // environment meanwhile.
        unsafe { std::env::set_var(threads::SPIN_LIMIT, SPINS) };
    }
}

/// A thirteenth of candle's default of 25,000: steps on an idle machine take just as long, and next to busy
/// processes a fifth of the time.
const SPINS: &str = "2000";

fn too_many(chosen: ThreadCounts) -> Diagnostic {
    let ThreadCounts { asked, usable } = chosen;
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

/// Returns an optimizer for a trainer that never updates.
pub(in crate::cli) fn idle() -> crate::optim::Sgd {
    crate::optim::Sgd::new(0.0)
}
