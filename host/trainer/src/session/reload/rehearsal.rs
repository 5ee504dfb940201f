//! Tries a new library with the hook's state in another process, and then opens it here.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::request::{self, ReloadAnswer, ReloadRequest};
use crate::bridge::BridgeState;
use crate::dispatch::HookSpec;
use crate::isolation::{IsolatedLibrary, crash_report_path};
use crate::manifest::SandboxRules;
use crate::manifest::schema_check::Checker;
use crate::plugin::blueprint::{HookBlueprint, HookLibrary};
use crate::plugin::catalogue;
use crate::plugin::library::Library;
use crate::plugin::new_library::NewLibrary;
use crate::run::{ReloadResult, Reloader};

/// Most time for each step of a rehearsal, if calls have no limit.
const LIMIT: Duration = Duration::from_secs(10);

/// The largest report of a crash that is kept, in bytes.
const LARGEST_REPORT: u64 = 1 << 20;

/// Opens new libraries for the hooks of a run.
pub(crate) struct RunReloader {
    /// The run's directory.
    pub(crate) directory: PathBuf,
    /// How long opening may take.
    pub(crate) load_limit: Duration,
    /// How long a call may take.
    pub(crate) call_limit: Option<Duration>,
    /// Rules of the hooks' sandboxes, by the hooks' names.
    pub(crate) sandboxes: Vec<(String, SandboxRules)>,
}

impl RunReloader {
    fn sandbox(&self, hook: &str) -> Option<SandboxRules> {
        let mut known = self.sandboxes.iter();
        let (_, rules) = known.find(|(name, _)| name == hook)?;
        Some(rules.clone())
    }

    /// Opens the new library in a process of its own.
    fn opened(&self, library: &NewLibrary, hook: &str) -> Result<IsolatedLibrary, String> {
        let limit = self.call_limit.unwrap_or(LIMIT);
        IsolatedLibrary::open(
            &library.path,
            &library.file.file,
            self.sandbox(hook),
            self.load_limit,
            Some(limit),
        )
        .map_err(|refusal| format!("the new library is refused: {}", refusal.cause))
    }

    /// Does in another process what the new instance will do in the run.
    fn rehearse(
        &self,
        library: &NewLibrary,
        old: &HookBlueprint,
        state: &[u8],
        shared: &BridgeState<'_>,
    ) -> Result<(), String> {
        let scratch = tempfile::Builder::new().prefix("sconce-reload-").tempdir();
        let scratch = scratch.map_err(|error| rehearsed("it is tried", &error))?;
        let tried = self.rehearse_in(scratch.path(), library, old, state, shared);
        tried.map_err(|reason| keep_report(scratch.path(), &self.directory, &old.name, &reason))
    }

    /// As [`rehearse`](RunReloader::rehearse), with this directory as the run's.
    fn rehearse_in(
        &self,
        scratch: &Path,
        library: &NewLibrary,
        old: &HookBlueprint,
        state: &[u8],
        shared: &BridgeState<'_>,
    ) -> Result<(), String> {
        let isolated = self.opened(library, &old.name)?;
        check_config(&isolated.description, library, &old.config)?;
        let blueprint = HookBlueprint {
            library: HookLibrary::Apart(Arc::new(isolated)),
            directory: scratch.to_owned(),
            keeps_state: false,
            ..old.clone()
        };
        let created = blueprint.create(shared);
        // What it leaves out is asked for again when it is created here.
        drop(shared.requests.take_left_out());
        let mut hook = created.map_err(|error| rehearsed("the hook is created", &error.message))?;
        hook.load_state(state)
            .map_err(|error| rehearsed("the hook's state is restored", &error.message))?;
        hook.save_state()
            .map_err(|error| rehearsed("the hook's state is saved", &error.message))?;
        hook.close()
            .map_err(|error| rehearsed("the hook is dropped", &error.message))
    }
}

impl Reloader for RunReloader {
    fn prepare(
        &self,
        library: &NewLibrary,
        old: &HookBlueprint,
        spec: &HookSpec,
        state: &[u8],
        shared: &BridgeState<'_>,
    ) -> Result<HookBlueprint, String> {
        self.rehearse(library, old, state, shared)?;
        if library.sha256 == spec.sha256 {
            // Its own code alone is new, which the library reads when the hook is created.
            return Ok(old.clone());
        }
        library.file.keep();
        let opened = match &old.library {
            HookLibrary::Here(_) => {
                let opened = Library::open_from(&library.path, &library.file.file);
                let opened = opened
                    .map_err(|refusal| format!("the new library is refused: {}", refusal.cause))?;
                for warning in opened.warnings() {
                    shared.warn(warning);
                }
                HookLibrary::Here(opened)
            }
            HookLibrary::Apart(_) => {
                HookLibrary::Apart(Arc::new(self.opened(library, &spec.name)?))
            }
        };
        Ok(HookBlueprint {
            library: opened,
            file: library.path.clone(),
            opened: library.file.file.clone(),
            ..old.clone()
        })
    }

    fn ask(&self) {
        let request = ReloadRequest {
            id: "by-key".to_owned(),
            hook: None,
        };
        // If it can't be written, nothing changes, as if no library had.
        drop(request::ask(&self.directory, &request));
    }

    fn answer(&self, request: &str, results: &[ReloadResult]) {
        let answer = ReloadAnswer {
            id: request.to_owned(),
            results: results.to_vec(),
        };
        request::answer(&self.directory, &answer);
    }

    fn keep(&self, sha256: &str, file: &Path) {
        let directory = self.directory.join("plugins");
        let kept = directory.join(format!("{sha256}.so"));
        let is_digest = sha256.len() == 64 && sha256.bytes().all(|digit| digit.is_ascii_hexdigit());
        if !is_digest || kept.exists() {
            return;
        }
        // For people: the run does not need them.
        let copied = std::fs::create_dir_all(&directory).and_then(|()| std::fs::copy(file, &kept));
        drop(copied);
    }

    fn keep_script(&self, sha256: &str, code: &[u8]) {
        let directory = self.directory.join("plugins");
        let kept = directory.join(format!("{sha256}.py"));
        // As in `keep`.
        let written = std::fs::create_dir_all(&directory).and_then(|()| std::fs::write(kept, code));
        drop(written);
    }
}

/// Why a new library is refused that was tried.
fn rehearsed(what: &str, error: &dyn std::fmt::Display) -> String {
    format!("the new library fails when {what}: {error}")
}

/// Copies the report of a crash from a directory that goes to the run's, as `hook-crash.NAME.reload.json`; returns the reason
/// with its new place. Another process could write into the directory: of its files, this one alone is taken.
fn keep_report(scratch: &Path, directory: &Path, hook: &str, reason: &str) -> String {
    let report = crash_report_path(scratch, hook);
    let kept = crash_report_path(directory, hook).with_extension("reload.json");
    let is_report = std::fs::symlink_metadata(&report)
        .is_ok_and(|found| found.is_file() && found.len() <= LARGEST_REPORT);
    if !is_report || std::fs::copy(&report, &kept).is_err() {
        return reason.to_owned();
    }
    let (from, to) = (report.display().to_string(), kept.display().to_string());
    reason.replace(&from, &to)
}

/// Checks the hook's configuration against the schema of the new library.
fn check_config(description: &Value, library: &NewLibrary, config: &str) -> Result<(), String> {
    let Some(schema) = catalogue::config_schema(description, &library.hook) else {
        return Ok(());
    };
    let config: Value = serde_json::from_str(config).unwrap_or_default();
    let problems = Checker::new(schema).check(&config);
    let Some(problem) = problems.first() else {
        return Ok(());
    };
    let path = match problem.path.as_str() {
        "" => String::new(),
        path => format!("`config.{path}`: "),
    };
    Err(format!(
        "the new library refuses the hook's configuration: {path}{}",
        problem.message
    ))
}
