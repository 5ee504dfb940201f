//! Hooks outside any run: created, asked for their states, and dropped.

use sconce_plugin_api::abi::SetupAbi;

use serde_json::Value;

use super::witness::Recorder;
use super::{configs, setup};
use crate::bridge::BridgeState;
use crate::bridge::NO_MESSAGE;
use crate::plugin::entry_error::EntryError;
use crate::plugin::instance::HookInstance;
use crate::plugin::library::Library;
use crate::random::stream;
use crate::validate::finding::{Finding, NOT_CREATED, failed, skipped};
use crate::validate::subject::Subject;

/// An environment in which hooks are created without a run. Of a plugin in Rust the host does not check the configuration
/// against the schema.
pub(in crate::validate) struct TrialEnvironment<'a> {
    library: Library,
    shared: BridgeState<'a>,
    directory: String,
    hook: String,
}

impl<'a> TrialEnvironment<'a> {
    /// In its own directory.
    pub(in crate::validate) fn new(
        subject: &Subject,
        recorder: &'a Recorder,
    ) -> Result<Self, Finding> {
        let directory = subject.place.join("alone");
        drop(std::fs::create_dir_all(&directory));
        TrialEnvironment::within(subject, recorder, &directory)
    }

    /// In the directory of this run.
    pub(in crate::validate) fn within(
        subject: &Subject,
        recorder: &'a Recorder,
        directory: &std::path::Path,
    ) -> Result<Self, Finding> {
        let shared = BridgeState::new(recorder).with_witness(recorder);
        shared.register(NAME);
        Ok(TrialEnvironment {
            library: subject.library()?,
            shared,
            directory: directory.to_string_lossy().into_owned(),
            hook: subject.hook().to_owned(),
        })
    }

    /// Creates a hook, which must not outlive the trial.
    fn instance(&self, config: &str) -> Result<HookInstance, EntryError> {
        let setup: SetupAbi = setup(NAME, &self.directory, &self.shared);
        let created = HookInstance::create(&self.library, &self.hook, config, &setup);
        self.shared.requests.take_left_out();
        created
    }

    /// Creates the hook and drops it again.
    pub(in crate::validate) fn create(&self, config: &str) -> Result<(), EntryError> {
        self.instance(config)?.close()
    }

    /// Creates the hook, calls `body` with it and drops it again.
    pub(in crate::validate) fn with<T>(
        &self,
        config: &str,
        body: impl FnOnce(&mut HookInstance) -> Result<T, Finding>,
    ) -> Result<T, Finding> {
        let created = self.instance(config);
        let mut instance = created.map_err(|error| not_created(&error))?;
        let result = body(&mut instance)?;
        let closed = instance.close();
        closed.map_err(|error| failed(format!("when it was dropped: {}", error.message)))?;
        Ok(result)
    }

    /// Calls a hook at the mount point of this number, outside any run: there are no tensors, and the payload is null.
    pub(in crate::validate) fn call(
        &self,
        hook: &mut HookInstance,
        point: u32,
    ) -> Result<(), EntryError> {
        hook.call(point, self.shared.context())
    }

    /// The problem with how the hook handles a configuration, valid or not. It is a panic, or a rejection
    /// without a message.
    pub(in crate::validate) fn problem(&self, config: &str) -> Option<String> {
        let error = self.create(config).err()?;
        let config = crate::diagnostic::shortened(config);
        if error.is_panic() {
            return Some(format!("it panics with {config}: {}", error.message));
        }
        (error.message == NO_MESSAGE).then(|| format!("no word on {config}"))
    }
}

/// Name of the hook in a trial, the same as in a run.
const NAME: &str = "subject-0";

/// The result for a hook that is not created: skipped, unless it panicked.
pub(in crate::validate) fn not_created(error: &EntryError) -> Finding {
    if error.is_panic() {
        return failed(format!(
            "it panicked when it was created: {}",
            error.message
        ));
    }
    skipped(format!("{NOT_CREATED}: {}", error.message))
}

impl Subject {
    /// The configuration used in runs. It is the user's; else the minimal one under the schema; if the hook
    /// rejects that, the first random one that it accepts.
    pub(in crate::validate) fn config(&self) -> Result<Value, Finding> {
        if let Some(given) = &self.given {
            return Ok(given.clone());
        }
        if let Some(found) = self.found.get() {
            return Ok(found.clone());
        }
        let schema = self.schema()?;
        let least = configs::least(&schema);
        let mut stream = stream(0, "validate.choice", 0, 0);
        let random = (0..200).filter_map(|_| configs::random(&schema, &mut stream));
        let recorder = Recorder::new(false, true);
        let trial = TrialEnvironment::new(self, &recorder)?;
        let mut all = [least.clone()].into_iter().chain(random);
        let found = all.find(|config| {
            let created = trial.create(&config.to_string());
            // A panic must be found by tests, not avoided.
            created.is_ok() || created.is_err_and(|error| error.is_panic())
        });
        let found = found.unwrap_or(least);
        Ok(self.found.get_or_init(|| found).clone())
    }

    /// The configuration used in runs, if it is neither given by the user nor empty.
    pub(in crate::validate) fn made_up(&self) -> Result<Option<Value>, Finding> {
        if self.given.is_some() {
            return Ok(None);
        }
        let config = self.config()?;
        let has_members = config
            .as_object()
            .is_some_and(|members| !members.is_empty());
        Ok(has_members.then_some(config))
    }
}
