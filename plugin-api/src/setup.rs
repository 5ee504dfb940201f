//! What is available to a hook at its creation.

use std::fmt;
use std::path::Path;

use serde_json::Value;

use crate::abi::{SetupAbi, Status};
use crate::error::outcome;
use crate::ext::{
    HostCalls, Level, PlanClient, Readable, Request, ResumeClient, ResumeTable, Tables,
};
use crate::{Context, HookError, Plan, Point, Result};

/// A hook's manifest entry, the run's directory and plan, as available at creation.
///
/// ```
/// use sconce_plugin_api::{Result, Setup};
///
/// fn log_file(setup: &Setup<'_>) -> std::path::PathBuf {
///     setup.run_directory().join(format!("{}.log", setup.name()))
/// }
/// ```
pub struct Setup<'setup> {
    abi: &'setup SetupAbi,
    host: HostCalls<'setup>,
}

impl<'setup> Setup<'setup> {
    pub(crate) fn new(abi: &'setup SetupAbi, tables: &'setup Tables) -> Self {
        // SAFETY: the host provides the context with the setup, for as long as that.
        let host = unsafe { HostCalls::new(tables, abi.context) };
        Setup { abi, host }
    }

    /// Unique name of the manifest entry: the key of the hook's state, timings and messages.
    pub fn name(&self) -> &'setup str {
        // SAFETY: the host keeps its text alive and unchanged for the whole call.
        unsafe { self.abi.name.read() }.unwrap_or_default()
    }

    /// Absolute path of the run's output directory. It exists; hooks write their files inside it.
    pub fn run_directory(&self) -> &'setup Path {
        // SAFETY: the host keeps its text alive and unchanged for the whole call.
        Path::new(unsafe { self.abi.run_directory.read() }.unwrap_or_default())
    }

    /// Seed of the run. Random numbers derived from it and the counters keep the run reproducible.
    pub fn seed(&self) -> u64 {
        self.abi.seed
    }

    /// Whether the run resumes from a checkpoint.
    ///
    /// If the checkpoint has a state for the hook, the state is restored after `before_loop(train)`. Files of
    /// the run's earlier part must not be truncated at creation; [`LogFile`](crate::LogFile) takes care of
    /// that.
    pub fn is_resumed(&self) -> bool {
        let flags = self.host.resume().map_or(0, ResumeClient::flags);
        flags & ResumeTable::RESUMED != 0
    }

    /// The resolved manifest. Parses it on every call: call once.
    ///
    /// # Errors
    ///
    /// If the host's manifest is not valid JSON.
    pub fn manifest(&self) -> Result<Value> {
        // SAFETY: the host keeps its text alive and unchanged for the whole call.
        let text = unsafe { self.abi.manifest.read() }.unwrap_or_default();
        serde_json::from_str(text).context("the host's manifest can't be read")
    }

    /// The run's plan: epochs, updates, phases with data, parameter names. Parses JSON: call once.
    ///
    /// `None` outside a run. A configuration refused here, and any [warning](Setup::warn), is already reported by `sconce
    /// check`.
    ///
    /// # Errors
    ///
    /// If the host's answer cannot be parsed.
    pub fn plan(&self) -> Result<Option<Plan>> {
        let plan = self.host.plan().ok().and_then(PlanClient::plan);
        plan.map(serde_json::from_str)
            .transpose()
            .context("the host's plan can't be read")
    }

    /// Whether the manifest entry sets this key of the hook's configuration, rather than using its default.
    ///
    /// Parses the manifest on every call: intended for creation only.
    pub fn is_given(&self, key: &str) -> bool {
        let Ok(manifest) = self.manifest() else {
            return false;
        };
        let entries = manifest.get("hooks").and_then(Value::as_array);
        let mut entries = entries.into_iter().flatten();
        let own =
            entries.find(|entry| entry.get("name").and_then(Value::as_str) == Some(self.name()));
        own.and_then(|entry| entry.get("config")?.get(key))
            .is_some()
    }

    /// Warns about each of `keys` that the entry sets although it has no effect, because of `reason`.
    ///
    /// The warning reads "`KEY` is not used REASON", with a reason such as "with `by: norm`".
    pub fn warn_of_unused(&self, keys: &[&str], reason: impl fmt::Display) {
        for key in keys.iter().filter(|key| self.is_given(key)) {
            self.warn(format_args!("`{key}` is not used {reason}"));
        }
    }

    /// Name and version of the host, such as `sconce 0.1.0`.
    pub fn host_version(&self) -> &'static str {
        // SAFETY: the host's root and its texts live as long as the process.
        unsafe { self.abi.host.as_ref().and_then(|host| host.version.read()) }.unwrap_or_default()
    }

    /// Opts out of a mount point, as if the hook's type did not have that method.
    ///
    /// This is most useful for the module points, since layers that no hook observes can be fused.
    ///
    /// ```
    /// # use sconce_plugin_api::{Point, Setup};
    /// fn create(looks_at_modules: bool, setup: &Setup<'_>) {
    ///     if !looks_at_modules {
    ///         setup.leave_out(Point::ModuleForward);
    ///     }
    /// }
    /// ```
    pub fn leave_out(&self, point: Point) {
        // Whoever doesn't know the request calls the hook as its type says.
        drop(self.ask(Request::LeaveOutPoint, f64::from(point.number()), ""));
    }

    /// Has the hook called at the modules of these names alone, so that all others can be fused.
    ///
    /// `modules` of the manifest entry, if it is set, is used instead. A host that doesn't know the request calls the hook at all modules.
    ///
    /// # Errors
    ///
    /// If a name is not valid.
    pub fn select_modules(&self, names: &[&str]) -> Result<()> {
        self.ask(Request::SelectModules, 0.0, &names.join(","))
    }

    /// Declares a metric that the hook publishes, or a family of metrics, as in `class/*`.
    ///
    /// It is for names that depend on the configuration; the others are in the hook's attribute, as `publishes`. A
    /// hook that declares some writes `publishes = ["*"]` there: references of other hooks to a metric that is not
    /// known before are then checked when all hooks have been created. A host that doesn't know the request accepts
    /// everything.
    ///
    /// ```
    /// # use sconce_plugin_api::{Result, Setup};
    /// fn create(quantiles: &[u8], setup: &Setup<'_>) -> Result<()> {
    ///     for quantile in quantiles {
    ///         setup.publishes(&format!("quantile_{quantile}"))?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// If the name is empty or not a valid pattern.
    pub fn publishes(&self, metric: &str) -> Result<()> {
        self.ask(Request::DeclareMetric, 0.0, metric)
    }

    /// Declares which requests the hook makes with its configuration: no others than these, by [name](Request::name).
    ///
    /// Without it they are those of the hook's metadata, all that any configuration makes it ask for. A loop other than
    /// Sconce's own may lack some, and refuses a hook that asks for them:
    ///
    /// ```
    /// # use sconce_plugin_api::{Result, Setup};
    /// fn create(restores_best: bool, setup: &Setup<'_>) -> Result<()> {
    ///     if !restores_best {
    ///         setup.asks(&["stop"])?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no request of a name, or it is one that [is not listed](Request::is_listed).
    #[track_caller]
    pub fn asks(&self, requests: &[&str]) -> Result<()> {
        let is_listed = |name: &str| Request::from_name(name).is_some_and(Request::is_listed);
        check_names("request", requests, is_listed, || {
            let listed = Request::ALL.into_iter().filter(|one| one.is_listed());
            listed.map(Request::name).collect()
        })?;
        self.ask(Request::DeclareAsks, 0.0, &requests.join(","))
    }

    /// Declares what of the loop the hook reads or changes with its configuration: no more than these, by
    /// [name](Readable::name). As [`asks`](Setup::asks).
    ///
    /// # Errors
    ///
    /// If nothing has a name.
    #[track_caller]
    pub fn reads(&self, parts: &[&str]) -> Result<()> {
        let is_known = |name: &str| Readable::from_name(name).is_some();
        check_names("part of a loop", parts, is_known, || {
            Readable::ALL.map(Readable::name).to_vec()
        })?;
        self.ask(Request::DeclareReads, 0.0, &parts.join(","))
    }

    /// Makes a request; does nothing if the host serves none, or does not know this one.
    fn ask(&self, request: Request, number: f64, text: &str) -> Result<()> {
        let Ok(requests) = self.host.requests() else {
            return Ok(());
        };
        match requests.request(request as u32, number, text) {
            Err(refusal) if refusal.status == Status::UNSUPPORTED => Ok(()),
            answer => outcome(answer),
        }
    }

    /// Claims something that only one hook of a run can have, so that conflicts are found at creation.
    ///
    /// `what` completes the message "the hooks A and B both want …", e.g. `the parameters' place in
    /// validations`. A conflict is then reported by `sconce check` and at the start of a run, rather than as
    /// an error during training. A host without `sconce.claims/1` grants every claim.
    ///
    /// # Errors
    ///
    /// If another hook has claimed it; the message names both entries.
    pub fn claim(&self, what: &str) -> Result<()> {
        match self.host.claims() {
            Ok(claims) => outcome(claims.claim(what)),
            Err(_) => Ok(()),
        }
    }

    /// Shows an informational message to the user, under the hook's name.
    pub fn info(&self, message: impl fmt::Display) {
        self.host.say(Level::Info, &message.to_string());
    }

    /// Shows a warning to the user, under the hook's name.
    pub fn warn(&self, message: impl fmt::Display) {
        self.host.say(Level::Warn, &message.to_string());
    }
}

/// Checks that each of the names is known.
#[track_caller]
fn check_names(
    what: &str,
    names: &[&str],
    is_known: impl Fn(&str) -> bool,
    all: impl Fn() -> Vec<&'static str>,
) -> Result<()> {
    match names.iter().find(|name| !is_known(name)) {
        None => Ok(()),
        Some(name) => Err(HookError::new(format_args!(
            "there is no {what} `{name}` to declare; there are: {}",
            all().join(", ")
        ))),
    }
}
