//! What a call has changed, so that it can be undone.

use std::cell::{Cell, RefCell};

use sconce_plugin_api::Phase;

use super::requests::Requests;
use super::values::Replaced;
use sconce_parameters::groups::Groups;

/// Changes of the call in progress, in order; none are noted outside of calls that may be undone.
#[derive(Default)]
pub(super) struct Journal {
    is_open: Cell<bool>,
    changes: RefCell<Vec<Change>>,
    has_gathered: Cell<bool>,
}

/// A change, with what was there before.
pub(super) enum Change {
    /// A published metric.
    Metric {
        phase: Phase,
        name: Box<str>,
        earlier: Option<f64>,
    },
    /// A published value, or an entry of a checkpoint.
    Value {
        is_of_checkpoint: bool,
        replaced: Replaced,
    },
    /// The groups' learning rates and momenta.
    Groups(Groups),
    /// Batches per update.
    Accumulation(Option<u64>),
    /// What hooks have asked for; once in a call.
    Requests(Box<Requests>),
    /// A claim, which was not there.
    Claim,
    /// The batch's loss, which no hook had given.
    GivenLoss,
}

impl Journal {
    /// Notes a change, if the call may be undone.
    #[inline]
    pub(super) fn note(&self, change: impl FnOnce() -> Change) {
        if self.is_open.get() {
            self.changes.borrow_mut().push(change());
        }
    }

    /// Notes the requests of this moment, before the call's first.
    #[inline]
    pub(super) fn note_requests(&self, requests: &Requests) {
        if !self.is_open.get() {
            return;
        }
        let mut changes = self.changes.borrow_mut();
        let is_noted = |change: &Change| matches!(change, Change::Requests(_));
        if !changes.iter().any(is_noted) {
            changes.push(Change::Requests(Box::new(requests.clone())));
        }
    }

    /// Notes that other ranks have seen something of the call.
    pub(super) fn note_gathering(&self) {
        self.has_gathered.set(self.is_open.get());
    }

    /// Begins a call that may be undone.
    pub(super) fn open(&self) {
        self.is_open.set(true);
        self.has_gathered.set(false);
        self.changes.borrow_mut().clear();
    }

    /// Ends a call that has happened. The room for changes stays, for the next call.
    pub(super) fn forget(&self) {
        self.is_open.set(false);
        self.changes.borrow_mut().clear();
    }

    /// Ends a call that is to be undone, and returns its changes.
    pub(super) fn close(&self) -> Vec<Change> {
        self.is_open.set(false);
        self.changes.take()
    }

    /// Whether other ranks have seen something of the last call.
    pub(super) fn has_gathered(&self) -> bool {
        self.has_gathered.get()
    }
}
