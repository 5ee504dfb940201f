//! What a hook learns at its creation.

use std::ffi::c_void;
use std::fmt;
use std::path::Path;

use serde_json::Value;

use crate::abi::{ErrorAbi, SetupAbi, TextAbi};
use crate::ext::{Level, PlanTable, Request, ResumeTable, Tables};
use crate::{Context, Error, Plan, Point, Result};

/// What a hook learns at its creation: where it stands in the manifest, and the run's directory.
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
    tables: &'setup Tables,
}

impl<'setup> Setup<'setup> {
    pub(crate) fn new(abi: &'setup SetupAbi, tables: &'setup Tables) -> Self {
        Setup { abi, tables }
    }

    /// The unique name of the manifest entry: the key of the hook's state, times and messages.
    pub fn name(&self) -> &'setup str {
        // SAFETY: the host keeps its texts for the whole call.
        unsafe { self.abi.name.read() }.unwrap_or_default()
    }

    /// The run's output directory, absolute. It exists; hooks write what they produce below it.
    pub fn run_directory(&self) -> &'setup Path {
        // SAFETY: the host keeps its texts for the whole call.
        Path::new(unsafe { self.abi.run_directory.read() }.unwrap_or_default())
    }

    /// The run's seed. Draw random numbers from it and the counters, and the run stays repeatable.
    pub fn seed(&self) -> u64 {
        self.abi.seed
    }

    /// Whether the run goes on from a checkpoint: the hook's state, if the checkpoint has one, comes
    /// behind `before_loop(train)`. A file of the run's first part must not be emptied then
    /// ([`LogFile`](crate::LogFile) takes care of that).
    pub fn is_resumed(&self) -> bool {
        ResumeTable::ask(self.tables.resume, self.abi.context) & ResumeTable::RESUMED != 0
    }

    /// The resolved manifest. Parses it: call once.
    pub fn manifest(&self) -> Result<Value> {
        // SAFETY: the host keeps its texts for the whole call.
        let text = unsafe { self.abi.manifest.read() }.unwrap_or_default();
        serde_json::from_str(text).context("the host's manifest can't be read")
    }

    /// What the run will be: epochs, updates, which phases have data, names of parameters. Nothing where
    /// the host does not say: one before 1.2, or one outside a run. Parses a text: call once.
    ///
    /// What a hook refuses here, and what it [warns](Setup::warn) of, `sconce check` reports.
    ///
    /// # Errors
    ///
    /// Where the host's answer can't be read.
    pub fn plan(&self) -> Result<Option<Plan>> {
        PlanTable::ask(self.tables.plan, self.abi.context)
            .map(serde_json::from_str)
            .transpose()
            .context("the host's plan can't be read")
    }

    /// Whether the hook's entry in the manifest gives a key of its configuration, rather than leaving it to
    /// its default. Parses the manifest: for creation alone.
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

    /// Warns of those `keys` that the hook's entry gives although they say nothing here, because of `reason`
    /// ("with `by: norm`").
    pub fn warn_of_unused(&self, keys: &[&str], reason: impl fmt::Display) {
        for key in keys.iter().filter(|key| self.is_given(key)) {
            self.warn(format_args!("`{key}` is not used {reason}"));
        }
    }

    /// The host's name and version, as `sconce 0.1.0`.
    pub fn host_version(&self) -> &'static str {
        // SAFETY: the host's root and its texts live as long as the process.
        unsafe { self.abi.host.as_ref().and_then(|host| host.version.read()) }.unwrap_or_default()
    }

    /// Says that this hook, as it is configured, needs no calls at a mount point: it costs nothing then,
    /// as if the method were not there. Module points above all are worth it, as layers at which nobody
    /// listens can run as one. A host before 1.2 calls the hook all the same.
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
        if let Some(table) = self.tables.requests {
            let mut error = ErrorAbi::new();
            // SAFETY: the context is the one that the host handed over for this call; text and error
            // are borrowed for it.
            unsafe {
                (table.request)(
                    self.abi.context,
                    Request::LeaveOutPoint as u32,
                    f64::from(point.number()),
                    TextAbi::EMPTY,
                    &raw mut error,
                )
            };
        }
    }

    /// Claims what only one hook of a run can have, in words that follow "both want": `the parameters' place
    /// in validations`. `sconce check` and the start of a run then say that two hooks are in each other's way,
    /// rather than an error in the middle of the training. A host without `sconce.claims/1` grants everything.
    ///
    /// # Errors
    ///
    /// Where another hook has it; the message names both entries.
    pub fn claim(&self, what: &str) -> Result<()> {
        let Some(table) = self.tables.claims else {
            return Ok(());
        };
        let mut error = ErrorAbi::new();
        // SAFETY: the context is the one that the host handed over for this call; text and error are borrowed
        // for it.
        let status = unsafe { (table.claim)(self.abi.context, TextAbi::new(what), &raw mut error) };
        if status == 0 {
            return Ok(());
        }
        Err(Error::new(error.message.as_str()))
    }

    /// Says something to the user through the host, under the hook's name.
    pub fn info(&self, message: impl fmt::Display) {
        log(
            self.tables,
            self.abi.context,
            Level::Info,
            &message.to_string(),
        );
    }

    /// Warns the user.
    pub fn warn(&self, message: impl fmt::Display) {
        log(
            self.tables,
            self.abi.context,
            Level::Warn,
            &message.to_string(),
        );
    }
}

/// Logs through the host; a host without a log hears nothing.
pub(crate) fn log(tables: &Tables, context: *const c_void, level: Level, message: &str) {
    if let Some(table) = tables.log {
        // SAFETY: the context is the one that the host handed over for this call; the message is
        // borrowed for the call.
        unsafe { (table.log)(context, level as u32, TextAbi::new(message)) };
    }
}
