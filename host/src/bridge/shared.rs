//! The state of a run that both the loop and the hooks' questions reach.
//!
//! Everything is behind `Cell`s and `RefCell`s: the loop and the host's functions, called by hooks
//! in the middle of a dispatch, take turns on one thread.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell};
use std::ffi::c_void;
use std::ptr;

use candle_core::Tensor;
use sconce_plugin_api::{Keep, Phase, Point};

use super::claims::Claims;
use super::exposed::Exposed;
use super::requests::Requests;
use super::values::Values;
use super::witness::{Deed, Witness};
use crate::clock::Clock;
use crate::faults::Trail;
use crate::log::{Level, Log};
use crate::metric_board::MetricBoard;
use crate::nn::Surroundings;
use crate::optim::Groups;

/// What the loop and the hooks of one run share.
pub struct Shared<'run> {
    /// Where words for the user go.
    pub log: &'run dyn Log,
    /// The metrics of every phase.
    pub metrics: RefCell<MetricBoard>,
    /// What hooks have asked for and the loop has not served yet.
    pub requests: Requests,
    /// The tensors that hooks can see.
    pub tensors: Exposed,
    /// What hooks have published.
    pub values: Values,
    /// The extra entries of the checkpoint at hand.
    pub checkpoint_entries: Values,
    /// The learning rate of the default group, in force at once when a hook sets it.
    pub learning_rate: Cell<f64>,
    /// The parameter groups, with the learning rates in force.
    pub groups: RefCell<Groups>,
    /// Whether they have a momentum that can be set.
    pub has_momentum: Cell<bool>,
    /// The batches of an update, where a hook has set them.
    pub accumulation: Cell<Option<u64>>,
    /// What does not change during the run, as JSON; set before the first hook is called.
    pub facts: OnceCell<String>,
    /// What the run will be, as JSON; set before hooks are created, where it is known.
    pub(super) plan: OnceCell<String>,
    /// The hooks that the checkpoint knows from which the run goes on; set before hooks are created.
    pub(super) resumed: OnceCell<Vec<String>>,
    /// What hooks have claimed for themselves.
    pub(super) claims: Claims,
    /// The run's clock.
    pub clock: Clock,
    /// Where the calls of hooks leave their breadcrumbs.
    pub trail: &'static Trail,
    /// Who wants to know what hooks do.
    witness: Option<&'run dyn Witness>,
    point: Cell<Option<Point>>,
    phase: Cell<Phase>,
    hook: Cell<usize>,
    names: RefCell<Vec<String>>,
}

impl<'run> Shared<'run> {
    /// The state of a run that begins now.
    pub fn new(log: &'run dyn Log) -> Self {
        Shared {
            log,
            metrics: RefCell::default(),
            requests: Requests::default(),
            tensors: Exposed::default(),
            values: Values::default(),
            checkpoint_entries: Values::default(),
            learning_rate: Cell::new(0.0),
            groups: RefCell::new(Groups::single(0.0, 0.0)),
            has_momentum: Cell::new(true),
            accumulation: Cell::new(None),
            facts: OnceCell::new(),
            plan: OnceCell::new(),
            resumed: OnceCell::new(),
            claims: Claims::default(),
            clock: Clock::start(),
            trail: Trail::nowhere(),
            witness: None,
            point: Cell::new(None),
            phase: Cell::new(Phase::Train),
            hook: Cell::new(0),
            names: RefCell::default(),
        }
    }

    /// The run goes on from a checkpoint that knows these hooks; told before hooks are created.
    pub fn resume(&self, known: impl Iterator<Item = String>) {
        // A second time would be another run's.
        drop(self.resumed.set(known.collect()));
    }

    /// Says what the run will be, as the JSON of a [`Plan`](sconce_plugin_api::Plan); before hooks are created.
    pub fn foretell(&self, plan: String) {
        // A second time would be another run's.
        drop(self.plan.set(plan));
    }

    /// With a place for the breadcrumbs of calls.
    pub fn with_trail(mut self, trail: &'static Trail) -> Self {
        self.trail = trail;
        self
    }

    /// With somebody who is told what hooks do.
    pub fn with_witness(mut self, witness: &'run dyn Witness) -> Self {
        self.witness = Some(witness);
        self
    }

    /// A hook does something to the run; the error is why it may not.
    #[inline]
    pub(super) fn sees(&self, deed: &Deed<'_>) -> Result<(), String> {
        match self.witness {
            Some(witness) => witness.sees(&self.hook_name(), deed),
            None => Ok(()),
        }
    }

    /// The pointer that goes to plugins with every view and setup.
    pub fn context(&self) -> *const c_void {
        ptr::from_ref(self).cast()
    }

    /// Registers the name of a hook about to be created; returns its index.
    pub fn register(&self, name: &str) -> usize {
        let mut names = self.names.borrow_mut();
        names.push(name.to_owned());
        self.hook.set(names.len() - 1);
        names.len() - 1
    }

    /// Where the run is, for the judgement of requests.
    pub(crate) fn enter(&self, point: Option<Point>, phase: Phase) {
        self.point.set(point);
        self.phase.set(phase);
    }

    /// Which hook is called next.
    #[inline]
    pub(crate) fn set_hook(&self, hook: usize) {
        self.hook.set(hook);
    }

    /// The mount point of the present call; nothing during creation.
    pub(crate) fn point(&self) -> Option<Point> {
        self.point.get()
    }

    /// The phase of the present call.
    pub(crate) fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// Takes the optimizer's groups over.
    pub fn set_groups(&self, groups: &Groups) {
        *self.groups.borrow_mut() = groups.clone();
        self.learning_rate.set(groups.default().learning_rate);
    }

    /// The index of the hook that is being called.
    pub(crate) fn hook(&self) -> usize {
        self.hook.get()
    }

    /// The index of the hook of this name.
    pub(crate) fn hook_index(&self, name: &str) -> Option<usize> {
        self.names.borrow().iter().position(|known| known == name)
    }

    /// The name of the hook of this index.
    pub(crate) fn name_of(&self, hook: usize) -> String {
        self.names.borrow().get(hook).cloned().unwrap_or_default()
    }

    /// The name of the hook that is being called.
    pub(crate) fn hook_name(&self) -> String {
        let names = self.names.borrow();
        names.get(self.hook.get()).cloned().unwrap_or_default()
    }

    /// Tells the user something in the host's name.
    pub(crate) fn info(&self, message: &str) {
        self.log.log(Level::Info, "sconce", message);
    }

    /// Warns the user in the host's name.
    pub(crate) fn warn(&self, message: &str) {
        self.log.log(Level::Warn, "sconce", message);
    }
}

impl Surroundings for Shared<'_> {
    fn published(&self, name: &str) -> candle_core::Result<Option<Tensor>> {
        match self.values.tensor_of(name) {
            None => Ok(None),
            Some((Keep::Batch, tensor)) => Ok(Some(tensor)),
            // Its publisher may write to it before the backward pass reads it.
            Some((_, tensor)) => tensor.copy().map(Some),
        }
    }

    fn show(&self, name: Cow<'static, str>, tensor: &Tensor) {
        self.tensors.show(name, tensor);
    }
}
