//! Gives the hooks of a running run new libraries: `sconce reload`, the key `r`, `"reload": "changed"`.
//!
//! **Parts.** `request` is the file by which another process asks, and the file with the answer; `watch` is the thread that
//! looks for it and for changed files, and takes new files through the gates that execute none of their code; `rehearsal`
//! tries a new library in another process, with the state of the hook in the run, and opens it here.
//!
//! **Flow.** The thread puts an order into [`Reloads`]; the run serves it at its next safe point.

mod rehearsal;
pub mod request;
mod watch;

use std::path::Path;

use super::{HookPlan, Prepared, Ready, StartFailure};
use crate::diagnostic::Diagnostic;
use crate::manifest::{Manifest, ReloadAt, ReloadPolicy, Script};
use crate::plugin::new_library::OldLibrary;
use crate::run::{ReloadService, Reloads};
use rehearsal::RunReloader;
pub use watch::ReloadWatch;
use watch::Watched;

/// Environment variable that loads every hook again, with its own library, every N iterations: for tests.
pub const EVERY: &str = "SCONCE_RELOAD_EVERY";

/// Why a run on several ranks gives no hook another library.
pub const ON_RANKS: &str = "hooks of a run on several ranks can't be given other libraries: all ranks would have to change at the same time";

/// Refuses what would have hooks loaded again, for a run on several ranks.
///
/// # Errors
///
/// What is to be taken out.
pub fn refuse_on_ranks(prepared: &Prepared) -> Result<(), StartFailure> {
    let hooks = prepared.hooks().iter();
    let changed = hooks.filter(|plan| plan.spec.reload == ReloadPolicy::Changed);
    let mut asked: Vec<String> = changed
        .map(|plan| format!("`reload` in the entry of `{}`", plan.spec.name))
        .collect();
    if prepared.manifest.reload_at != ReloadAt::default() {
        asked.push("`reload_at`".to_owned());
    }
    if every().is_some() {
        asked.push(format!("the environment variable {EVERY}"));
    }
    if asked.is_empty() {
        return Ok(());
    }
    let hint = format!("take out {}", asked.join(", "));
    let refusal = Diagnostic::new(ON_RANKS).hint(hint);
    Err(StartFailure::usage(vec![refusal]))
}

/// What a run needs so that its hooks can be given new libraries.
pub struct RunReloads {
    reloader: RunReloader,
    waiting: Reloads,
    hooks: Vec<Watched>,
    at: ReloadAt,
}

impl RunReloads {
    /// For a run in `directory`.
    pub fn of(prepared: &Prepared, directory: &Path) -> RunReloads {
        let manifest = &prepared.manifest;
        let sandboxes = manifest.hooks.iter().filter_map(|entry| {
            let sandbox = entry.sandbox()?;
            Some((entry.name.clone(), sandbox.rules()))
        });
        RunReloads {
            reloader: RunReloader {
                directory: directory.to_owned(),
                load_limit: manifest.limits.load_limit(),
                call_limit: manifest.limits.call_limit(),
                sandboxes: sandboxes.collect(),
            },
            waiting: Reloads::default(),
            hooks: prepared
                .hooks()
                .iter()
                .map(|plan| watched(plan, manifest))
                .collect(),
            at: manifest.reload_at,
        }
    }

    /// Starts to look for requests and changed files, until the result is dropped.
    ///
    /// # Errors
    ///
    /// If the system refuses to start a thread.
    pub fn watch(&self) -> std::io::Result<ReloadWatch> {
        let directory = &self.reloader.directory;
        ReloadWatch::start(directory, self.hooks.clone(), self.waiting.clone())
    }

    /// Lets the run's hooks be given new libraries.
    #[must_use]
    pub fn serve<'run>(&'run self, ready: Ready<'run>) -> Ready<'run> {
        let service = ReloadService {
            waiting: self.waiting.clone(),
            reloader: &self.reloader,
            at: self.at,
            every: every(),
        };
        ready.with(|trainer| trainer.reloading(service))
    }
}

fn watched(plan: &HookPlan, manifest: &Manifest) -> Watched {
    let spec = &plan.spec;
    let mut entries = manifest.hooks.iter();
    let entry = entries.find(|entry| entry.name == spec.name);
    Watched {
        hook: spec.name.clone(),
        library: OldLibrary {
            path: spec.library.clone(),
            plugin: spec.plugin.clone(),
            kind: spec.kind.clone(),
            signed_by: entry.and_then(|entry| entry.signed_by.clone()),
        },
        sha256: spec.sha256.clone(),
        script: Script::of(&plan.kind, &plan.config),
        policy: spec.reload,
    }
}

/// The number in [`EVERY`].
fn every() -> Option<u64> {
    let text = std::env::var(EVERY).ok()?;
    text.trim().parse().ok().filter(|every| *every > 0)
}
