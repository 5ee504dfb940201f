//! A validation or test in progress.

use sconce_plugin_api::abi::ViewAbi;

use crate::checkpoint::{EpochStart, PassState};
use crate::exact::Exact;

/// A validation or test, as far as checkpoints must know of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Evaluation {
    /// Its pass over the data is not over: saves wait for its end.
    pub(super) is_under_way: bool,
    /// A hook has asked for it.
    pub(super) is_asked_for: bool,
    /// It is over, and the epoch's ordinal does not count it yet.
    pub(super) is_uncounted: bool,
    /// What the view shows of the training pass around it, while the view shows the evaluation's.
    pub(super) outer: Option<Outer>,
}

/// What the view shows of the training pass, which an evaluation interrupts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outer {
    pub(super) batch: u64,
    pub(super) batches: u64,
    pub(super) batch_size: u64,
    pub(super) loss: f64,
    pub(super) flags: u64,
}

impl Outer {
    /// The flags that belong to a pass.
    pub(super) const FLAGS: u64 = ViewAbi::HAS_LOSS | ViewAbi::UPDATES;

    pub(super) fn of(view: &ViewAbi) -> Outer {
        Outer {
            batch: view.batch,
            batches: view.batches,
            batch_size: view.batch_size,
            loss: view.loss,
            flags: view.flags & Self::FLAGS,
        }
    }

    /// The part of it that a checkpoint keeps; the rest follows from the counters.
    pub(super) fn state(self, begun: Option<EpochStart>) -> Option<PassState> {
        let has = |flag| self.flags & flag != 0;
        let state = PassState {
            loss: has(ViewAbi::HAS_LOSS).then_some(Exact(self.loss)),
            batch_size: self.batch_size,
            updates: has(ViewAbi::UPDATES),
            begun,
        };
        let is_as_at_the_beginning = state == PassState::default();
        (!is_as_at_the_beginning).then_some(state)
    }

    /// Shows its last batch again, in a pass that has gone on from there.
    pub(super) fn restore_flags(self, view: &mut ViewAbi) {
        view.batch_size = self.batch_size;
        view.loss = self.loss;
        view.flags = view.flags & !Self::FLAGS | self.flags;
    }

    pub(super) fn restore(self, view: &mut ViewAbi) {
        view.batch = self.batch;
        view.batches = self.batches;
        self.restore_flags(view);
    }
}
