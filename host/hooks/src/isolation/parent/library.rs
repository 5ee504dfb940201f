//! A plugin's library that is only opened in processes of its own.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use sconce_plugin_api::abi::{SetupAbi, Status};
use serde_json::Value;

use super::super::ending::Ending;
use super::super::message::{Order, Word};
use super::super::sandbox;
use super::super::sandbox_log::sandbox_log_is_on;
use super::entries::TABLE;
use super::environment;
use super::process::{HookProcess, ProcessSandbox};
use super::proxy::Proxy;
use super::python::Preparation;
use super::temporary::TemporaryDirectory;
use crate::plugin::blueprint::{HookFacts, LibraryApart};
use crate::plugin::entry_error::EntryError;
use crate::plugin::instance::HookInstance;
use crate::plugin::trial_fault;
use crate::plugin::{Cause, PluginRefusal};
use sconce_manifest::SandboxRules;

/// A library that is opened in processes of its own, for one hook.
#[derive(Debug)]
pub struct IsolatedLibrary {
    /// The library's path, for messages.
    path: PathBuf,
    /// The file to open.
    file: PathBuf,
    sandbox: Option<SandboxRules>,
    /// How long opening may take.
    load_limit: Duration,
    /// How long a call may take.
    call_limit: Option<Duration>,
    /// The process in which it was opened first, until a hook is created there.
    ready: Mutex<Option<HookProcess>>,
    /// The plugin's description.
    pub description: Value,
}

impl IsolatedLibrary {
    /// Opens the library for the first time. The start of the process is its trial load.
    ///
    /// # Errors
    ///
    /// If it can't be opened, or ends the process.
    pub fn open(
        path: &Path,
        file: &Path,
        sandbox: Option<SandboxRules>,
        load_limit: Duration,
        call_limit: Option<Duration>,
    ) -> Result<IsolatedLibrary, PluginRefusal> {
        let mut library = IsolatedLibrary {
            path: path.to_owned(),
            file: file.to_owned(),
            sandbox,
            load_limit,
            call_limit,
            ready: Mutex::new(None),
            description: Value::Null,
        };
        let refuse = |cause| PluginRefusal::new(path, cause);
        let (process, description) = library
            .start(None, Preparation::default())
            .map_err(refuse)?;
        library.description = serde_json::from_slice(&description)
            .map_err(|error| refuse(Cause::Describe(error.to_string())))?;
        // A sandboxed hook needs a process that may write to the run's directory.
        if library.sandbox.is_none() {
            library.ready = Mutex::new(Some(process));
        }
        Ok(library)
    }

    /// Starts a process and opens the library there; another if that is killed from outside. Returns the plugin's description
    /// too.
    fn start(
        &self,
        run_directory: Option<&Path>,
        preparation: Preparation,
    ) -> Result<(HookProcess, Vec<u8>), Cause> {
        match self.start_once(run_directory, preparation.clone()) {
            Err(Cause::Trial(fault)) if fault.is_from_outside() => {
                self.start_once(run_directory, preparation)
            }
            started => started,
        }
    }

    fn start_once(
        &self,
        run_directory: Option<&Path>,
        preparation: Preparation,
    ) -> Result<(HookProcess, Vec<u8>), Cause> {
        let sandbox = match &self.sandbox {
            None => None,
            Some(rules) => {
                let mut rules = rules.clone();
                rules.read.extend(preparation.read);
                rules.list.extend(preparation.list);
                rules.write.extend(run_directory.map(Path::to_path_buf));
                let temporary = TemporaryDirectory::new().map_err(Cause::Isolated)?;
                rules.write.push(temporary.path().to_owned());
                Some(ProcessSandbox {
                    text: sandbox::text_of(&rules).map_err(Cause::Isolated)?,
                    variables: rules.environment,
                    added: preparation.variable,
                    temporary,
                    memory: rules.memory,
                })
            }
        };
        let started = HookProcess::start(&self.file, sandbox);
        let mut process = started.map_err(|error| {
            Cause::Isolated(format!("no process can be started for it: {error}"))
        })?;
        match self.opened(&mut process) {
            Ok(Ok(description)) => Ok((process, description)),
            Ok(Err(message)) => Err(Cause::Isolated(message)),
            Err(ending) => Err(Cause::Trial(trial_fault::Fault {
                ending: match ending {
                    Ending::Signal(signal) => trial_fault::Ending::Signal(signal),
                    Ending::Exit(code) => trial_fault::Ending::Exit(code),
                    Ending::Late(limit) => trial_fault::Ending::TimeOut(limit),
                    Ending::Confused(what) => return Err(Cause::Isolated(what)),
                },
                is_at_exit: false,
                words: process.kill().join("\n"),
            })),
        }
    }

    /// Tells a process to open the library.
    fn opened(&self, process: &mut HookProcess) -> Result<Result<Vec<u8>, String>, Ending> {
        let confused = |error: postcard::Error| Ending::Confused(error.to_string());
        let begin = Instant::now();
        process.send(&postcard::to_allocvec(&Order::Open).map_err(confused)?)?;
        let mut message = Vec::new();
        process.receive(&mut message, begin, Some(self.load_limit))?;
        match postcard::from_bytes(&message).map_err(confused)? {
            Word::Return(returned) if returned.status == 0 => Ok(Ok(returned.bytes.to_vec())),
            Word::Return(returned) => Ok(Err(returned.message.to_owned())),
            Word::Ask(..) => Err(Ending::Confused(
                "it asked for something of the run before it was created".to_owned(),
            )),
        }
    }
}

impl LibraryApart for IsolatedLibrary {
    fn create(
        &self,
        kind: &str,
        config: &str,
        setup: &SetupAbi,
        facts: HookFacts,
    ) -> Result<HookInstance, EntryError> {
        let ready = match self.ready.lock() {
            Ok(mut ready) => ready.take(),
            Err(_) => None,
        };
        let process = if let Some(process) = ready {
            process
        } else {
            let failed = |message| EntryError {
                status: Status::ERROR.0,
                message,
                place: String::new(),
            };
            let preparation = match self.sandbox {
                None => Preparation::default(),
                Some(_) => Preparation::of(kind, config).map_err(failed)?,
            };
            if let Some(rules) = self.sandbox.as_ref().filter(|_| sandbox_log_is_on()) {
                environment::tell(&facts.name, &rules.environment);
            }
            let started = self.start(Some(&facts.run_directory), preparation);
            let refused = |cause| PluginRefusal::new(&self.path, cause).cause.to_string();
            started.map_err(|cause| failed(refused(cause)))?.0
        };
        let mut proxy = Box::new(Proxy::new(
            process,
            self.sandbox.is_some(),
            self.call_limit,
            facts,
        ));
        proxy.create(kind, config, setup)?;
        Ok(HookInstance::apart(proxy, &TABLE))
    }
}
