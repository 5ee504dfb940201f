//! The state of a run that both the loop and the hooks' questions reach.
//!
//! Everything is behind `Cell`s and `RefCell`s: the loop and the host's functions, called by hooks
//! in the middle of a dispatch, take turns on one thread.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::ptr;

use sconce_plugin_api::{Phase, Point};

use super::requests::Requests;
use super::tensors::Exposed;
use crate::log::{Level, Log};
use crate::run::{Clock, MetricBoard};

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
    /// The learning rate, in force at once when a hook sets it.
    pub learning_rate: Cell<f64>,
    /// The run's clock.
    pub clock: Clock,
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
            learning_rate: Cell::new(0.0),
            clock: Clock::start(),
            point: Cell::new(None),
            phase: Cell::new(Phase::Train),
            hook: Cell::new(0),
            names: RefCell::default(),
        }
    }

    /// The pointer that goes to plugins with every view and setup.
    pub fn context(&self) -> *const c_void {
        ptr::from_ref(self).cast()
    }

    /// Registers the name of a hook about to be created; returns its index.
    pub(crate) fn register(&self, name: &str) -> usize {
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

    /// The name of the hook that is being called.
    pub(crate) fn hook_name(&self) -> String {
        let names = self.names.borrow();
        names.get(self.hook.get()).cloned().unwrap_or_default()
    }

    /// Warns the user in the host's name.
    pub(crate) fn warn(&self, message: &str) {
        self.log.log(Level::Warn, "sconce", message);
    }
}
