//! From a manifest to a run: everything is checked before anything is created, and everything is
//! created before anything is trained.

mod advice;
mod build;
mod changes;
mod failure;
mod hooks;
mod lock;
mod mentioned;
mod output;
mod plan;
mod references;
pub(crate) mod rehearsal;
mod selection;

pub use build::{FromManifest, TaskBuilder, build_task, initial_weights, optimizer, task};
pub use changes::{changes, data_changes};
pub use failure::Failure;
pub use hooks::{FoundHooks, HookPlan, create_hooks, find_hooks, plan_hooks};
pub use output::{Output, is_in_use};
pub use references::check_references;
pub use rehearsal::rehearse;
pub use selection::Selection;

use std::path::{Path, PathBuf};

use crate::data::{self, Splits};
use crate::diagnostic::Diagnostic;
use crate::manifest::{self, Manifest, Overlay, TaskSource};
use crate::optim::Optimizer;
use crate::run::Plan;
use crate::task::Task;

/// A manifest with everything that it names, found and checked; nothing is created yet.
pub struct Checked {
    /// The manifest.
    pub manifest: Manifest,
    /// Its hooks, in its order, with opened libraries.
    pub hooks: Vec<HookPlan>,
    /// Its data, read; none where the manifest names none.
    pub data: Option<Splits>,
    /// What the user should know but need not mend.
    pub warnings: Vec<Diagnostic>,
}

/// Reads a manifest and checks all that it names: plugins, hook configurations, data.
///
/// # Errors
///
/// All problems at once, except that plugins and data are not looked at while the manifest itself
/// has problems.
pub fn check(
    file: &Path,
    overlay: &Overlay,
    plugins: &[PathBuf],
    selection: &Selection,
    tasks: TaskSource,
) -> Result<Checked, Failure> {
    let mut manifest = manifest::load(file, overlay, tasks).map_err(Failure::usage)?;
    selection.apply(&mut manifest).map_err(Failure::usage)?;
    let mut warnings = Vec::new();
    // Plugins are looked at, and tried in another process, beside the reading of the data; their code runs in
    // this one when both are done.
    let (found, data) = std::thread::scope(|scope| {
        let data = std::thread::Builder::new().spawn_scoped(scope, || read_data(&manifest));
        let found = find_hooks(&manifest, plugins);
        let data = match data {
            Ok(data) => data
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            // The system gives no thread: one after the other, then.
            Err(_) => read_data(&manifest),
        };
        (found, data)
    });
    let hooks = found.and_then(|found| plan_hooks(&manifest, found, &mut warnings));
    match (hooks, data) {
        (Ok(hooks), Ok(data)) => Ok(Checked {
            manifest,
            hooks,
            data,
            warnings,
        }),
        (hooks, data) => {
            let failures = [hooks.err(), data.err()].into_iter().flatten();
            Err(failures.fold(Failure::none(), Failure::and))
        }
    }
}

/// The data that a manifest describes, where it describes any.
///
/// # Errors
///
/// What is wrong with it.
pub fn read_data(manifest: &Manifest) -> Result<Option<Splits>, Failure> {
    let Some(config) = &manifest.data else {
        return Ok(None);
    };
    let read = data::load(config, &manifest.base, manifest.seed);
    read.map(Some).map_err(|error| {
        let text = error.to_string();
        let place = manifest.place(&mentioned::mentioned(manifest, "data", &text));
        Failure::usage(vec![Diagnostic::new(text).at(place)])
    })
}

/// What is known of a run whose parts are all there, before its hooks are created.
pub struct Foreseen {
    /// What hooks learn of it, as the JSON of a [`Plan`](sconce_plugin_api::Plan).
    pub plan: String,
    /// What the user should know but need not mend.
    pub warnings: Vec<Diagnostic>,
}

/// Checks the parts of a run against each other: the same for `sconce check` and for a run.
///
/// # Errors
///
/// Every reference that leads nowhere.
pub fn foresee(
    manifest: &Manifest,
    plan: &Plan,
    hooks: &[HookPlan],
    task: &dyn Task,
    optimizer: &dyn Optimizer,
) -> Result<Foreseen, Failure> {
    check_references(hooks, task, manifest)?;
    Ok(Foreseen {
        plan: plan::foretold(plan, hooks, task, optimizer),
        warnings: advice::advice(manifest, plan, hooks, task, optimizer),
    })
}

impl Checked {
    /// The numbers of the training.
    pub fn plan(&self) -> Plan {
        let train = &self.manifest.train;
        Plan {
            seed: self.manifest.seed,
            epochs: train.epochs,
            batch_size: train.batch_size,
            eval_batch_size: train.eval_batch_size.unwrap_or(train.batch_size),
            accumulate: train.accumulate,
            validate_every: train.validate_every,
            initial_validation: train.initial_validation,
            test: train.test,
            preparation: train.preparation(),
            check_finite: train.check_finite,
            allow_missing_gradients: train.allow_missing_gradients.clone(),
        }
    }
}
