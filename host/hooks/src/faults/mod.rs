//! Faults that affect the whole process: crashes, exits and hangs caused by hooks.
//!
//! **Parts.** [`Trail`] (`trail`) records which hook is being called where: the breadcrumbs, in
//! memory backed by a `file`. `crash` holds the handlers for signals and
//! `exit`, `watchdog` the thread that notices hangs, `report` the message and `crash.json`,
//! `suspects` the hooks' names for them. `previous` reports how the last run in a directory ended,
//! `fork` ends forked copies of the process, `leaving` limits the time of the process's exit,
//! `lost_pages` keeps a page of shared memory that is gone from being a crash,
//! `expected` announces an `exit` that is not a hook's, and `terminal` restores the terminal before a report.
//!
//! **Flow.** `watch` sets everything up before hooks are created, if there are any. The dispatcher
//! updates the [`Trail`] around every call. On a crash or `exit` the handlers write `crash.json`
//! and end the process with exit code 5; on a hang the watchdog does so with 6, after trying to
//! save the parameters. If nothing could be written (`SIGKILL`), the next start in the same
//! directory reads the breadcrumbs and reports where that run was.
//!
//! **States.** A trail is at `Stage::Running` from `watch` until its `Guard` is dropped, then at
//! `Stage::Ended`. `docs/faults.md` lists how each fault is handled.

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "signals and exits")]
mod crash;
mod expected;
#[cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "memory shared with a file")
)]
mod file;
#[cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "memory that forked processes don't have")
)]
mod fork;
#[cfg_attr(unix, expect(unsafe_code, reason = "ends the process"))]
mod leaving;
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "a handler that maps memory")]
mod lost_pages;
mod previous;
#[cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "for Linux's handlers")
)]
mod report;
mod reports;
mod suspects;
#[cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "for Linux's handlers")
)]
mod terminal;
mod trail;
#[cfg_attr(target_os = "linux", expect(unsafe_code, reason = "ends the process"))]
mod watchdog;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use candle_core::Tensor;

pub use crash::CORE as CORE_VARIABLE;
pub use expected::expect_exit;
pub(crate) use fork::{Origin, mark};
pub use leaving::{end_hung, leave};
#[cfg(target_os = "linux")]
pub(crate) use lost_pages::WatchedRange;
pub use previous::warning as of_the_run_before;
#[cfg(unix)]
pub use previous::where_it_was;
pub use suspects::Suspect;
use suspects::Suspects;
pub use terminal::before_reports;
pub use trail::PluginFunction;
use trail::RunStage;
pub use trail::Trail;
use watchdog::{Parameters, Watch, Watchdog};

/// Active monitoring of a run, from before the creation of its hooks until after they are dropped.
pub struct Guard {
    trail: &'static Trail,
    file: Option<PathBuf>,
    watchdog: Option<Watchdog>,
    parameters: Parameters,
}

/// Starts monitoring a run whose hooks are called on this thread. Reports begin with `who`, if it is not empty: this
/// process's name among those that train together. What can't be set up is added to `warnings`.
pub fn watch(
    directory: &Path,
    who: &str,
    hooks: Vec<Suspect>,
    slow: Duration,
    warnings: &mut Vec<String>,
) -> Guard {
    let mut guard = Guard {
        trail: Trail::nowhere(),
        file: None,
        watchdog: None,
        parameters: Arc::default(),
    };
    // Without hooks there is none to name, and the system's own message is as good.
    if hooks.is_empty() {
        return guard;
    }
    let mut told = |what: &str, result: std::io::Result<()>| {
        if let Err(error) = result {
            warnings.push(format!("{what}: {error}"));
        }
    };
    told(
        "a forked copy of the run would not be noticed",
        fork::watch(),
    );
    match file::create(directory, &hooks) {
        Ok((trail, file)) => {
            guard.trail = trail;
            guard.file = Some(file);
        }
        Err(error) => told(
            "if a hook kills this process, the next start won't know which: no breadcrumbs",
            Err(error),
        ),
    }
    guard.trail.enter(RunStage::Running);
    let suspects = Suspects {
        hooks: hooks.clone(),
        who: match who {
            "" => String::new(),
            who => format!("{who}: "),
        },
        report_shown: directory.join("crash.json").display().to_string(),
    };
    told(
        "crashes are not reported",
        reports::install(guard.trail, suspects, directory),
    );
    let watchdog = Watchdog::start(Watch {
        trail: guard.trail,
        hooks,
        slow,
        directory: directory.to_owned(),
        parameters: Arc::clone(&guard.parameters),
    });
    match watchdog {
        Ok(watchdog) => guard.watchdog = Some(watchdog),
        Err(error) => told("hooks that hang are not noticed", Err(error)),
    }
    guard
}

impl Guard {
    /// Where the dispatcher records the hooks' calls.
    pub fn trail(&self) -> &'static Trail {
        self.trail
    }

    /// Sets the parameters to save if a hook hangs: tensors that share their memory with the
    /// task's.
    pub fn rescue(&self, parameters: Vec<(String, Tensor)>) {
        let mut kept = match self.parameters.lock() {
            Ok(kept) => kept,
            Err(poisoned) => poisoned.into_inner(),
        };
        *kept = parameters;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.watchdog.take());
        self.trail.enter(RunStage::Ended);
        if let Some(file) = self.file.take() {
            // The file carries an end mark, whether or not it can be removed.
            drop(std::fs::remove_file(file));
        }
    }
}
