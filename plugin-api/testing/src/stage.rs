//! The fake task behind the function tables: everything a call of the hook can see and change.

use std::cell::{Cell, OnceCell, RefCell};
use std::ffi::c_void;
use std::ptr;

use super::board::Board;
use super::fake::Fake;
use super::fake_ranks::FakeRanks;
use super::place::CallPosition;
use super::seen::{Change, Seen};
use super::uses::Uses;
use super::values::FakeValues;
use sconce_plugin_api::abi::ViewAbi;
use sconce_plugin_api::ext::{Asked, Collection, why_not_changed_on_first};
use sconce_plugin_api::{Phase, Point};

/// Names of the batch's tensors.
pub(super) const BATCH: [&str; 5] = ["inputs", "targets", "outputs", "loss", "indices"];
/// Names of a module's tensors.
pub(super) const MODULE: [&str; 4] = ["input", "output", "input_gradient", "output_gradient"];

/// A parameter group of the optimizer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FakeGroup {
    pub(super) name: Box<str>,
    pub(super) learning_rate: f64,
    /// Factor by which a learning rate for all groups is multiplied.
    pub(super) scale: f64,
    pub(super) momentum: f64,
    pub(super) weight_decay: f64,
}

/// A stop requested by the hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FakeStop {
    pub(super) reason: String,
    pub(super) after_epoch: bool,
}

/// What the hook has requested and the run has not served yet, and settings that it has changed.
#[derive(Default)]
pub(super) struct FakeRequests {
    pub(super) stop: RefCell<Option<FakeStop>>,
    pub(super) skip_batch: Cell<bool>,
    pub(super) skip_update: Cell<bool>,
    pub(super) loss_scale: Cell<Option<f64>>,
    pub(super) accumulation: Cell<Option<u64>>,
    pub(super) left_out: RefCell<Vec<Point>>,
    /// The modules at which the hook is called; `None`: all.
    pub(super) modules: RefCell<Option<Vec<String>>>,
    pub(super) pending: RefCell<Vec<Asked>>,
}

/// The state from which the tables answer, accessed by one call at a time through its context.
#[derive(Default)]
pub(super) struct FakeRun {
    /// The current call; `None` at creation.
    pub(super) place: Cell<Option<CallPosition>>,
    pub(super) parameters: RefCell<Vec<Fake>>,
    /// At the parameters' indices; empty slots for parameters that have no gradient at this point.
    pub(super) gradients: RefCell<Vec<Option<Fake>>>,
    pub(super) batch: RefCell<[Option<Fake>; 5]>,
    pub(super) module: RefCell<[Option<Fake>; 4]>,
    pub(super) values: RefCell<FakeValues>,
    pub(super) entries: RefCell<FakeValues>,
    pub(super) board: RefCell<Board>,
    pub(super) groups: RefCell<Vec<FakeGroup>>,
    /// Set before the first call; the text's address does not change afterwards.
    pub(super) facts: RefCell<Box<str>>,
    /// The run's plan, available from the hook's creation on.
    pub(super) plan: OnceCell<Box<str>>,
    pub(super) resume_flags: Cell<u64>,
    pub(super) clock: FakeClock,
    pub(super) requests: FakeRequests,
    /// Original content of the tensors that were lent for writing in the current call.
    pub(super) lent: RefCell<Vec<(Collection, usize, Fake)>>,
    pub(super) seen: RefCell<Seen>,
    pub(super) ranks: FakeRanks,
    pub(super) hook: FakeEntry,
    pub(super) uses: Uses,
    pub(super) model: FakeModel,
}

/// Seconds since the run's begin, and what is left of it.
#[derive(Default)]
pub(super) struct FakeClock {
    pub(super) elapsed: Cell<f64>,
    pub(super) remaining: Cell<f64>,
}

/// The model that hooks have run.
#[derive(Default)]
pub(super) struct FakeModel {
    /// Number of views of each sample.
    pub(super) views: Cell<usize>,
    /// Its modules, with their widths.
    pub(super) modules: RefCell<Vec<(String, usize)>>,
    /// Positions of its outputs, if they have several.
    pub(super) positions: Cell<Option<usize>>,
    /// The loss of the batch, if the hook has given it.
    pub(super) given_loss: Cell<Option<f64>>,
}

/// The hook's entry in the manifest, as far as the tables need it.
#[derive(Default)]
pub(super) struct FakeEntry {
    pub(super) name: String,
    pub(super) is_on_all_ranks: bool,
}

impl FakeRun {
    /// The context pointer for the tables.
    pub(super) fn context(&self) -> *const c_void {
        ptr::from_ref(self).cast()
    }

    pub(super) fn point(&self) -> Option<Point> {
        self.place.get().map(|place| place.point)
    }

    pub(super) fn phase(&self) -> Phase {
        self.place.get().map_or(Phase::Train, |place| place.phase)
    }

    /// Whether several processes train together and the hook runs on the first of them alone.
    pub(super) fn is_on_first_of_several(&self) -> bool {
        self.ranks.size > 1 && !self.hook.is_on_all_ranks
    }

    /// Whether the current batch repeats one of rank 0.
    pub(super) fn repeats_batch(&self) -> bool {
        use Point as P;
        let Some(place) = self.place.get() else {
            return false;
        };
        let iteration = match place.point {
            P::BeforeIter
            | P::AfterForward
            | P::AfterLoss
            | P::AfterBackward
            | P::BeforeUpdate
            | P::AfterUpdate
            | P::ModuleForward
            | P::ModuleBackward => place.iteration,
            // It is counted by then.
            P::AfterIter => place.iteration.saturating_sub(1),
            _ => return false,
        };
        place.phase == Phase::Train && self.ranks.repeats(iteration)
    }

    /// Begins a call of the hook.
    pub(super) fn begin_call(&self, point: Point, view: &mut ViewAbi) {
        let place = CallPosition::of(point, view);
        self.place.set(Some(place));
        self.seen.borrow_mut().calls.push(place);
        view.point = point.number();
        view.context = self.context();
        view.learning_rate = self.learning_rate();
    }

    /// Ends a call of the hook and records its modifications.
    pub(super) fn end_call(&self, view: &mut ViewAbi) {
        view.learning_rate = self.learning_rate();
        let Some(at) = self.place.get() else { return };
        for (collection, index, before) in self.lent.take() {
            let Some(after) = self.with(collection, index, |tensor| tensor.clone()) else {
                continue;
            };
            if after != before {
                self.seen.borrow_mut().changes.push(Change {
                    at,
                    collection,
                    name: after.name.to_string(),
                    before: before.floats(),
                    after: after.floats(),
                });
            }
        }
    }

    fn learning_rate(&self) -> f64 {
        self.groups
            .borrow()
            .first()
            .map_or(0.0, |group| group.learning_rate)
    }

    /// Records a tensor before the hook modifies it.
    pub(super) fn note(&self, collection: Collection, index: usize) {
        let mut lent = self.lent.borrow_mut();
        if lent
            .iter()
            .any(|(of, at, _)| (*of, *at) == (collection, index))
        {
            return;
        }
        if let Some(tensor) = self.with(collection, index, |tensor| tensor.clone()) {
            lent.push((collection, index, tensor));
        }
    }

    pub(super) fn count(&self, collection: Collection) -> usize {
        match collection {
            Collection::Parameters => self.parameters.borrow().len(),
            Collection::Gradients => self.gradients.borrow().len(),
            // The last is not among the variables.
            Collection::Batch => BATCH.len() - 1,
            Collection::Module => MODULE.len(),
            Collection::Published => self.values.borrow().entries.len(),
            Collection::Checkpoint => self.entries.borrow().entries.len(),
            _ => 0,
        }
    }

    /// The index of a name, or a message with the nearest name.
    pub(super) fn index(&self, collection: Collection, name: &str) -> Result<usize, String> {
        let known: Vec<String> = match collection {
            Collection::Parameters | Collection::Gradients => {
                let parameters = self.parameters.borrow();
                parameters
                    .iter()
                    .map(|tensor| tensor.name.to_string())
                    .collect()
            }
            Collection::Batch => BATCH.map(str::to_owned).to_vec(),
            Collection::Module => MODULE.map(str::to_owned).to_vec(),
            Collection::Published => return published(&self.values.borrow(), name),
            Collection::Checkpoint => return published(&self.entries.borrow(), name),
            _ => Vec::new(),
        };
        known.iter().position(|known| known == name).ok_or_else(|| {
            format!(
                "{} have no `{name}`; there are: {}",
                collection.name(),
                known.join(", ")
            )
        })
    }

    /// Calls a function with a tensor, if there is one at the index.
    pub(super) fn with<T>(
        &self,
        collection: Collection,
        index: usize,
        what: impl FnOnce(&mut Fake) -> T,
    ) -> Option<T> {
        match collection {
            Collection::Parameters => self.parameters.borrow_mut().get_mut(index).map(what),
            Collection::Gradients => {
                let mut gradients = self.gradients.borrow_mut();
                gradients.get_mut(index)?.as_mut().map(what)
            }
            Collection::Batch => self.batch.borrow_mut().get_mut(index)?.as_mut().map(what),
            Collection::Module => self.module.borrow_mut().get_mut(index)?.as_mut().map(what),
            Collection::Published => self.values.borrow_mut().tensor_at(index).map(what),
            Collection::Checkpoint => self.entries.borrow_mut().tensor_at(index).map(what),
            _ => None,
        }
    }

    /// Why a tensor cannot be modified at this point; `None` if it can.
    pub(super) fn why_not_writable(&self, collection: Collection, index: usize) -> Option<String> {
        if collection == Collection::Published && self.point().is_some() {
            return self.values.borrow().why_not_writable(index);
        }
        if self.is_on_first_of_several()
            && let Some(message) = why_not_changed_on_first(&self.hook.name, collection)
        {
            return Some(message);
        }
        let name = match collection {
            Collection::Batch => BATCH.get(index).copied().unwrap_or_default(),
            _ => "",
        };
        collection.why_not_changed_at(name, self.point())
    }
}

fn published(values: &FakeValues, name: &str) -> Result<usize, String> {
    values.tensor_index(name).ok_or_else(|| {
        let names = values.entries.iter().flatten().map(|entry| &*entry.name);
        let names: Vec<&str> = names.collect();
        format!(
            "no hook has published a tensor `{name}`; there are: {}",
            names.join(", ")
        )
    })
}
