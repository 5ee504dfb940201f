//! Libraries that wait to be loaded in mid-run, and what is recorded of it.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sconce_lifecycle::Position;
use serde::{Deserialize, Serialize};

use crate::bridge::BridgeState;
use crate::dispatch::HookSpec;
use crate::manifest::ReloadAt;
use crate::plugin::blueprint::HookBlueprint;
use crate::plugin::new_library::NewLibrary;

/// Reloads that wait for the training. Clones refer to the same ones.
#[derive(Clone, Debug, Default)]
pub struct Reloads(Arc<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    is_asked: AtomicBool,
    orders: Mutex<VecDeque<ReloadOrder>>,
    /// What hooks were given, by the hooks' names.
    loaded: Mutex<BTreeMap<String, LoadedCode>>,
}

/// What a hook is created from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedCode {
    /// SHA-256 of its library.
    pub(crate) sha256: String,
    /// SHA-256 of its own file, if it is one in Python.
    pub(crate) script: Option<String>,
}

/// Hooks to be given new libraries together.
#[derive(Debug)]
pub struct ReloadOrder {
    /// Who asked, to be answered; none if the files have changed by themselves.
    pub(crate) request: Option<String>,
    /// The hooks.
    pub(crate) hooks: Vec<ReloadCandidate>,
}

/// A hook to be given a new library.
#[derive(Debug)]
pub struct ReloadCandidate {
    /// Name of the hook in the run.
    pub(crate) hook: String,
    /// What [`Reloader::prepare`] needs, or why there is nothing to load.
    pub(crate) library: Result<NewLibrary, String>,
}

/// Opens new libraries for a run.
pub trait Reloader {
    /// Rehearses a new library in another process, with the state of the hook in the run, and opens it here.
    ///
    /// # Errors
    ///
    /// Why it is refused, for the user.
    fn prepare(
        &self,
        library: &NewLibrary,
        old: &HookBlueprint,
        spec: &HookSpec,
        state: &[u8],
        shared: &BridgeState<'_>,
    ) -> Result<HookBlueprint, String>;

    /// Asks for all libraries that have changed, as `sconce reload` does.
    fn ask(&self);

    /// Tells who asked what became of it.
    fn answer(&self, request: &str, results: &[ReloadResult]);

    /// Keeps a library that a hook had or has now, for whoever resumes the run or wants to know.
    fn keep(&self, sha256: &str, file: &Path);

    /// Keeps the code of a hook in Python likewise.
    fn keep_script(&self, sha256: &str, code: &[u8]);
}

/// How a run's libraries are loaded again.
#[derive(Clone)]
pub struct ReloadService<'run> {
    /// What waits.
    pub waiting: Reloads,
    /// Opens new libraries.
    pub reloader: &'run dyn Reloader,
    /// Where in the training it happens.
    pub at: ReloadAt,
    /// Every how many iterations each hook is loaded again, for tests.
    pub every: Option<u64>,
}

/// What became of a request for one hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadResult {
    /// Name of the hook in the run.
    pub hook: String,
    /// Whether it has a new library.
    pub is_reloaded: bool,
    /// What was done, or why not.
    pub message: String,
}

impl ReloadService<'_> {
    /// Whether there may be something to load.
    #[inline]
    pub(crate) fn is_asked(&self) -> bool {
        self.waiting.is_asked() || self.every.is_some()
    }

    /// Whether every hook is loaded again after this iteration.
    pub(crate) fn loads_again(&self, iteration: u64) -> bool {
        (self.every).is_some_and(|every| iteration.is_multiple_of(every))
    }

    /// Whether orders are served here, between two iterations.
    pub(crate) fn serves_at(&self, position: &Position) -> bool {
        self.at != ReloadAt::Epoch || position.begun.is_none()
    }
}

impl Reloads {
    /// Adds an order.
    pub(crate) fn ask(&self, order: ReloadOrder) {
        self.orders().push_back(order);
        self.0.is_asked.store(true, Ordering::Release);
    }

    /// Whether an order waits.
    #[inline]
    pub(crate) fn is_asked(&self) -> bool {
        self.0.is_asked.load(Ordering::Acquire)
    }

    /// The next order.
    pub(crate) fn next(&self) -> Option<ReloadOrder> {
        let mut orders = self.orders();
        let next = orders.pop_front();
        self.0.is_asked.store(!orders.is_empty(), Ordering::Release);
        next
    }

    /// Notes what a hook has now.
    pub(crate) fn note_loaded(&self, hook: &str, code: LoadedCode) {
        self.loaded_now().insert(hook.to_owned(), code);
    }

    /// What a hook was given, if it was given anything.
    pub(crate) fn loaded(&self, hook: &str) -> Option<LoadedCode> {
        self.loaded_now().get(hook).cloned()
    }

    fn loaded_now(&self) -> MutexGuard<'_, BTreeMap<String, LoadedCode>> {
        self.0.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn orders(&self) -> MutexGuard<'_, VecDeque<ReloadOrder>> {
        self.0.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
