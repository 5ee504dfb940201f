//! Everything that a loop's hooks are created from, and their creation.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::Var;
use sconce_base::patterns::Patterns;
use sconce_lifecycle::Followed;
use sconce_manifest::diagnostic::Diagnostic;
use sconce_ops::kernels::threads;
use sconce_parameters::groups::{GroupRates, Groups};
use sconce_parameters::{Parameter, ParameterKind, Parameters};
use sconce_plugin_api::ext::Request;
use serde_json::json;

use super::document::HooksDocument;
use super::error::{HostError, HostResult};
use super::fit::{LoopDescription, Offers, misfits};
use super::hook_host::HookHost;
use super::loop_hooks::{KnownOfLoop, LoopHooks};
use super::plan::LoopPlan;
use super::requests::{Loop, NoRequests};
use super::states::LoopState;
use crate::bridge::{BridgeState, ForeignParameter};
use crate::dispatch::Dispatcher;
use crate::log::{Level, Log, MessageFormat, StderrLog};
use crate::planning::{RunSetup, create_hooks, find_hooks, plan_hooks};

/// Where messages go unless the loop says otherwise.
static STANDARD_ERROR: StderrLog = StderrLog {
    level: Level::Info,
    form: MessageFormat::Text,
};

/// Names of buffers among a `VarMap`'s entries: batch norms' running statistics.
const BUFFERS: [&str; 2] = ["*running_mean", "*running_var"];

/// The parameters of a loop.
enum LoopParameters {
    /// candle's.
    Candle(Vec<(String, Var)>),
    /// Those of another library.
    Foreign(Vec<ForeignParameter>),
}

impl LoopParameters {
    const NONE: LoopParameters = LoopParameters::Candle(Vec::new());
}

/// A loop's hooks before they are created.
pub struct HookSetup<'log> {
    document: HooksDocument,
    parameters: LoopParameters,
    buffers: Vec<String>,
    plan: LoopPlan,
    offers: Offers,
    served: Box<dyn Loop + 'log>,
    log: &'log dyn Log,
    states: Option<Vec<u8>>,
    directories: Vec<PathBuf>,
}

impl HookSetup<'static> {
    /// The hooks of a document.
    pub(super) fn new(document: HooksDocument) -> HookSetup<'static> {
        HookSetup {
            document,
            parameters: LoopParameters::NONE,
            buffers: BUFFERS.map(str::to_owned).into(),
            plan: LoopPlan::new(1, 0.0),
            offers: Offers::of_a_whole_loop(),
            served: Box::new(NoRequests),
            log: &STANDARD_ERROR,
            states: None,
            directories: Vec::new(),
        }
    }
}

impl<'log> HookSetup<'log> {
    /// The model's parameters, such as the entries of a `VarMap`; hooks see them in the order of their names.
    #[must_use]
    pub fn parameters(mut self, entries: impl IntoIterator<Item = (String, Var)>) -> Self {
        self.parameters = LoopParameters::Candle(entries.into_iter().collect());
        self
    }

    /// The model's parameters where they lie in another library's memory, in this order.
    #[must_use]
    pub fn foreign_parameters(mut self, parameters: Vec<ForeignParameter>) -> Self {
        self.parameters = LoopParameters::Foreign(parameters);
        self
    }

    /// Patterns of the parameters that are buffers: part of the model's state, but not learned from gradients. Default: batch
    /// norms' running statistics.
    #[must_use]
    pub fn buffers(mut self, patterns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.buffers = patterns.into_iter().map(Into::into).collect();
        self
    }

    /// What is known of the loop.
    #[must_use]
    pub fn plan(mut self, plan: LoopPlan) -> Self {
        self.plan = plan;
        self
    }

    /// What the loop has for its hooks, in the place of everything but modules.
    #[must_use]
    pub fn offers(mut self, offers: Offers) -> Self {
        self.offers = offers;
        self
    }

    /// What is known of the loop and what it has for its hooks, as JSON: `plan` with the keys of [`LoopPlan`]; `absent`, mount points
    /// that it never comes by; `shows`, what hooks can see of it ([`Readable`](sconce_plugin_api::ext::Readable)); `follows`, requests
    /// that it follows by itself.
    ///
    /// # Errors
    ///
    /// If it is not such a description.
    pub fn described(mut self, description: &str) -> HostResult<Self> {
        let wrong =
            |error: String| HostError::Loop(format!("the description of the loop: {error}"));
        let read: LoopDescription =
            serde_json::from_str(description).map_err(|error| wrong(error.to_string()))?;
        self.offers = read.offers().map_err(wrong)?;
        self.plan = read.plan;
        Ok(self)
    }

    /// The loop follows this request by what it reads of the host, such as the learning rate before each update.
    #[must_use]
    pub fn follows(mut self, request: Request) -> Self {
        self.offers.follows.add(request);
        self
    }

    /// Who serves what hooks request of the loop.
    #[must_use]
    pub fn serving(mut self, served: impl Loop + 'log) -> Self {
        self.served = Box::new(served);
        self
    }

    /// Where messages of hooks and of the host go. Default: standard error.
    #[must_use]
    pub fn log(self, log: &'log dyn Log) -> HookSetup<'log> {
        HookSetup { log, ..self }
    }

    /// The directory in which hooks write files.
    #[must_use]
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.document.output = directory.into();
        self
    }

    /// More directories with plugins, searched before the document's.
    #[must_use]
    pub fn plugins(mut self, directories: impl IntoIterator<Item = PathBuf>) -> Self {
        self.directories.extend(directories);
        self
    }

    /// Hooks' passes over tensors take no more than this many threads of those that the process may use: as many as the loop's own
    /// library. The first loop of a process decides, before anything is computed; results don't depend on it.
    #[must_use]
    pub fn threads(self, most: usize) -> Self {
        threads::use_at_most(most);
        self
    }

    /// The hooks go on from states that [`LoopHooks::states`] has collected.
    #[must_use]
    pub fn resuming(mut self, states: Vec<u8>) -> Self {
        self.states = Some(states);
        self
    }

    /// Finds, checks and creates the hooks, and calls `before_run`, for a loop that calls them by what it has computed.
    ///
    /// # Errors
    ///
    /// All problems of the hooks, those among them that the loop can't serve; or the error of the first that fails.
    pub fn start(mut self) -> HostResult<HookHost<'log>> {
        // The gradients that it returns are without frozen parameters, and summed over as many batches as hooks want.
        self.offers.follows.add(Request::Freeze);
        self.offers.follows.add(Request::SetAccumulation);
        let (parameters, setup) = self.adopted()?;
        Ok(HookHost::new(setup.begin(Some(&parameters))?, parameters))
    }

    /// As [`start`](HookSetup::start), for a loop that calls them event by event.
    ///
    /// # Errors
    ///
    /// As of [`start`](HookSetup::start).
    pub fn start_events(self) -> HostResult<LoopHooks<'log>> {
        match self.parameters {
            LoopParameters::Candle(_) => {
                let (parameters, setup) = self.adopted()?;
                setup.begin(Some(&parameters))
            }
            LoopParameters::Foreign(_) => self.begin(None),
        }
    }

    /// Registers candle's parameters, in the order of their names: that of a `VarMap` differs between runs.
    fn adopted(mut self) -> HostResult<(Parameters, Self)> {
        let LoopParameters::Candle(entries) = &mut self.parameters else {
            return Err(HostError::Loop(
                "the parameters are another library's: `start_events` is for them".to_owned(),
            ));
        };
        let mut entries = std::mem::take(entries);
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        let buffers = Patterns::new(&self.buffers).map_err(HostError::Loop)?;
        let parameters = entries.into_iter().map(|(name, var)| {
            let kind = if buffers.matches(&name) {
                ParameterKind::Buffer
            } else {
                ParameterKind::Parameter
            };
            (name, var, kind)
        });
        let parameters = Parameters::adopt(self.document.seed, parameters)
            .map_err(|error| HostError::Loop(error.to_string()))?;
        Ok((parameters, self))
    }

    fn begin(mut self, candle: Option<&Parameters>) -> HostResult<LoopHooks<'log>> {
        let states = self.states.take();
        let resumed = states.map(|bytes| LoopState::read(&bytes));
        let resumed = resumed.transpose().map_err(HostError::States)?;
        self.check_isolation()?;
        let foreign = match std::mem::replace(&mut self.parameters, LoopParameters::NONE) {
            LoopParameters::Foreign(parameters) => parameters,
            LoopParameters::Candle(_) => Vec::new(),
        };
        let document = &self.document;
        let list = document.hook_list();
        let mut warnings = Vec::new();
        let found = find_hooks(&list, &self.directories)?;
        let plans = plan_hooks(&list, found, &mut warnings)?;
        let published: Vec<String> = plans
            .iter()
            .flat_map(|plan| plan.known_metrics().cloned())
            .collect();
        let shared = Box::new(BridgeState::new(self.log));
        let names = show_parameters(candle, foreign, &shared);
        shared.set_groups(&self.groups());
        shared.optimizer.has_momentum.set(self.plan.has_momentum);
        shared.set_plan(self.plan.to_json(&names, &published));
        drop(shared.known.facts.set(self.facts(candle)));
        if let Some(state) = &resumed {
            shared.resume(state.hook_names());
        }
        fs_err::create_dir_all(&document.output)
            .map_err(|error| HostError::Loop(error.to_string()))?;
        let manifest: Arc<str> = serde_json::to_string(document).unwrap_or_default().into();
        let run = RunSetup {
            manifest,
            directory: &document.output,
            seed: document.seed,
        };
        let hooks = create_hooks(plans, &list, &run, &shared)?;
        shared.requests.take_declared();
        let (problems, doubtful) = misfits(&hooks, &list, &self.offers, &*self.served);
        let mut hooks = Dispatcher::new(hooks);
        if !problems.is_empty() {
            hooks.close(&shared);
            return Err(HostError::Unusable(problems));
        }
        warnings.extend(doubtful);
        for warning in warnings {
            shared.warn(&warning.message);
        }
        hooks.begin_run_as_guest();
        let followed = Followed::new(self.plan.epochs, self.plan.accumulate, &self.offers.absent);
        let total = self
            .plan
            .batches
            .map(|batches| batches.saturating_mul(self.plan.epochs));
        shared.clock.begin_training(total.unwrap_or(0), 0);
        let known = KnownOfLoop {
            batches: self.plan.batches,
            modules: self.plan.modules,
        };
        let served = (self.served, self.offers.follows);
        LoopHooks::begin(hooks, shared, followed, served, resumed, known)
    }

    /// A hook in a process of its own needs a program to be that process.
    fn check_isolation(&self) -> HostResult {
        let list = self.document.hook_list();
        let entries = list.entries.iter().filter(|entry| entry.is_isolated());
        let problems: Vec<Diagnostic> = entries
            .filter(|_| !crate::subprocess::is_program_known())
            .map(|entry| {
                let problem = format!(
                    "the hook `{}` is to run in a process of its own, which this program can't start",
                    entry.name
                );
                Diagnostic::new(problem)
                    .at(list.place(&format!("hooks[{}]", entry.index)))
                    .hint("name the program `sconce` to it first: `sconce_hooks::subprocess::set_program`")
            })
            .collect();
        if problems.is_empty() {
            return Ok(());
        }
        Err(HostError::Unusable(problems))
    }

    fn groups(&self) -> Groups {
        let rates = self.plan.groups.iter().map(|group| GroupRates {
            name: &group.name,
            learning_rate: group.learning_rate,
            weight_decay: group.weight_decay,
        });
        Groups::of_rates(rates)
    }

    /// The facts that do not change during the run, as given by `sconce.task/1`.
    fn facts(&self, candle: Option<&Parameters>) -> String {
        json!({
            "run": self.document.name,
            "run_directory": self.document.output,
            "seed": self.document.seed,
            "rank": 0,
            "world_size": 1,
            "classes": self.plan.classes,
            "sample_shape": self.plan.sample_shape,
            "metrics": self.plan.metrics,
            "modules": self.plan.modules,
            "parameter_count": candle.map_or(0, Parameters::element_count),
        })
        .to_string()
    }

    /// The document's output directory.
    pub fn output(&self) -> &Path {
        &self.document.output
    }
}

/// Shows the parameters; returns their names, and whether each is a buffer.
fn show_parameters(
    candle: Option<&Parameters>,
    foreign: Vec<ForeignParameter>,
    shared: &BridgeState<'_>,
) -> Vec<(String, bool)> {
    let Some(parameters) = candle else {
        let names = foreign.iter();
        let names = names.map(|entry| (entry.name.to_string(), entry.is_buffer));
        let names = names.collect();
        shared.tensors.foreign.set_parameters(foreign);
        return names;
    };
    shared.tensors.set_parameters(parameters);
    if let Some(first) = parameters.at(0) {
        shared.device.gpu.set(first.tensor().device());
    }
    let is_buffer = |entry: &Parameter| entry.kind() == ParameterKind::Buffer;
    let entries = parameters.iter();
    entries
        .map(|entry| (entry.name().to_owned(), is_buffer(entry)))
        .collect()
}

impl HookHost<'static> {
    /// The hooks that a file lists: `{"hooks": ["csv", {"hook": "ema", "config": {"decay": 0.99}}]}`.
    ///
    /// # Errors
    ///
    /// All problems of the file, with their places.
    pub fn from_file(path: impl AsRef<Path>) -> HostResult<HookSetup<'static>> {
        setup(HooksDocument::from_file(path.as_ref()))
    }

    /// The hooks that a text lists, as a file would that lies at `path`, in whose directory relative paths start.
    ///
    /// # Errors
    ///
    /// All problems of the text, with their places.
    pub fn from_text(text: &str, path: impl AsRef<Path>) -> HostResult<HookSetup<'static>> {
        setup(HooksDocument::from_text(text, path.as_ref()))
    }
}

fn setup(document: Result<HooksDocument, Vec<Diagnostic>>) -> HostResult<HookSetup<'static>> {
    document.map(HookSetup::new).map_err(HostError::Unusable)
}
