//! Prepares a run from a manifest: everything is checked before anything is created, and everything is
//! created before training starts.
//!
//! **Parts**
//!
//! - `build`: the task, its initial weights, and the optimizer, and whether the model fits; `prepared`: a run assembled from them
//! - `selection`: leaves out hooks named on the command line
//! - `consistency`: checks of hooks and settings against the task; `plan`: the plan that hooks see (`sconce.plan/1`)
//! - `rehearsal`: creates the hooks in a child process, as a test
//! - `output`: the output directory, used by one run at a time
//! - `resume`: the checkpoint to resume from, and the differences between it and the run
//! - `reload`: new libraries for hooks in mid-run
//! - `device`: the device that computes
//!
//! **Flow** of `sconce run`
//!
//! - [`check`] reads the manifest and the selection, finds and tries plugins while another thread reads the
//!   data, and then opens the plugins and checks the configurations of hooks.
//! - [`Checked::prepare`] builds what is to be trained and checks it against the hooks.
//! - [`Output`] creates and locks the output directory; [`Prepared::ready`] creates the hooks in the manifest's
//!   order, and gives everything to a [`Trainer`](crate::run::Trainer).
//! - `sconce check` does not lock the directory, and replaces the last step by [`Prepared::rehearse`].
//!
//! **States**: a manifest file becomes [`Checked`], then [`Prepared`], then [`Ready`]; each step takes the one
//! before it, and reports all problems that it finds as one [`StartFailure`].

mod build;
mod consistency;
mod device;
mod output;
mod plan;
mod prepared;
pub mod rehearsal;
pub mod reload;
mod resume;
mod selection;

pub use crate::start_failure::StartFailure;
pub use build::{
    FromManifest, InitialWeights, ModelUse, TaskBuilder, build_task, check_memory, initial_weights,
    optimizer, task,
};
pub use consistency::{OpenReferences, check_references};
pub use device::{device_changes, open_device, products_change};
pub use output::{Output, is_in_use};
pub use prepared::{FirstWeights, Prepared, Ready};
pub use rehearsal::rehearse;
pub use reload::{ReloadWatch, RunReloads};
pub use resume::{DATA_LISTING, ResumePoint, bulleted, changes, data_changes, rank_changes};
pub use sconce_hooks::planning::{
    FoundHooks, HookPlan, create_hooks, find_hooks, hooks_on, plan_hooks,
};
pub use selection::Selection;

use std::path::{Path, PathBuf};

use crate::clock::Lap;
use crate::data::{self, Splits};
use crate::diagnostic::Diagnostic;
use crate::manifest::{self, Manifest, Overlay, TaskSource};
use crate::mentioned::mentioned;
#[cfg(target_os = "linux")]
use crate::plugin::{companions, signature};
use crate::run::{StartTimes, TrainingPlan};

/// A manifest with everything it refers to, found and checked; nothing has been created yet.
pub struct Checked {
    /// The manifest.
    pub manifest: Manifest,
    /// Its hooks, in the manifest's order, with opened libraries.
    pub hooks: Vec<HookPlan>,
    /// Its data, loaded; none if the manifest describes none.
    pub data: Option<Splits>,
    /// Warnings for the user.
    pub warnings: Vec<Diagnostic>,
    /// What the steps until now have taken.
    pub times: StartTimes,
}

/// Reads a manifest and checks everything it refers to: plugins, hook configurations, data.
///
/// # Errors
///
/// All problems at once, except that plugins and data are not examined while the manifest itself has
/// problems.
pub fn check(
    file: &Path,
    overlay: &Overlay,
    plugins: &[PathBuf],
    selection: &Selection,
    tasks: TaskSource,
) -> Result<Checked, StartFailure> {
    let mut times = StartTimes::default();
    let mut lap = Lap::begin();
    let mut manifest = manifest::load(file, overlay, tasks).map_err(StartFailure::usage)?;
    selection
        .apply(&mut manifest)
        .map_err(StartFailure::usage)?;
    times.manifest = lap.end();
    let mut warnings = Vec::from_iter(unsigned_by_loader());
    // Plugins are inspected, and tried in another process, while the data is being read; their code runs in
    // this process only after both are done.
    let (found, data) = std::thread::scope(|scope| {
        let data = std::thread::Builder::new().spawn_scoped(scope, || read_data(&manifest));
        let found = find_hooks(&manifest.hook_list(), plugins);
        times.plugins = lap.end();
        let data = match data {
            Ok(data) => data
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            // No thread could be started: read the data afterwards.
            Err(_) => read_data(&manifest),
        };
        (found, data)
    });
    times.data = lap.end();
    let planned = found.and_then(|found| plan_hooks(&manifest.hook_list(), found, &mut warnings));
    let hooks = planned.map_err(StartFailure::from);
    times.plugins += lap.end();
    match (hooks, data) {
        (Ok(hooks), Ok(data)) => Ok(Checked {
            manifest,
            hooks,
            data,
            warnings,
            times,
        }),
        (hooks, data) => {
            let failures = [hooks.err(), data.err()].into_iter().flatten();
            Err(failures.fold(StartFailure::none(), StartFailure::and))
        }
    }
}

/// The warning that the loader takes libraries from where no signature is looked at, though plugins must be signed.
#[cfg(target_os = "linux")]
fn unsigned_by_loader() -> Option<Diagnostic> {
    let names = companions::variables();
    if names.is_empty() || !signature::are_demanded() {
        return None;
    }
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let problem = format!(
        "{} in the environment: what the system's loader takes from there, no signature covers, though `trust.json` \
         refuses what is unsigned",
        names.join(", ")
    );
    let hint = "unset it, unless what it names is your own; processes of hooks don't get it";
    Some(Diagnostic::warning(problem).hint(hint))
}

#[cfg(not(target_os = "linux"))]
fn unsigned_by_loader() -> Option<Diagnostic> {
    None
}

/// Loads the data that a manifest describes, if any.
///
/// # Errors
///
/// If the data can't be loaded.
pub fn read_data(manifest: &Manifest) -> Result<Option<Splits>, StartFailure> {
    let Some(config) = &manifest.data else {
        return Ok(None);
    };
    let read = data::load(config, &manifest.base, manifest.seed);
    read.map(Some).map_err(|error| {
        let text = error.to_string();
        let place = manifest.place(&mentioned(&manifest.resolved(), "data", &text));
        StartFailure::data(vec![Diagnostic::new(text).at(place)])
    })
}

impl Checked {
    /// The numbers that define the training.
    pub fn plan(&self) -> TrainingPlan {
        TrainingPlan::of(&self.manifest)
    }
}
