//! State of a run that both the loop and the functions called by hooks access.
//!
//! It uses `Cell` and `RefCell` throughout: the loop and the host's functions, which hooks call in
//! the middle of a dispatch, take turns on one thread.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell, Ref, RefCell};
use std::ffi::c_void;
use std::ptr;
use std::rc::Rc;

use candle_core::Tensor;
use sconce_plugin_api::ext::{Collection, why_not_changed_on_first};
use sconce_plugin_api::metadata::HookRanks;
use sconce_plugin_api::{Keep, Phase, Point};

use super::claims::Claims;
use super::device::{CopyCosts, OnDevice};
use super::exposed::Exposed;
use super::journal::{Change, Journal};
use super::model::{ForwardModel, ModelForHooks, WritesText};
use super::ranks::{Alone, RanksView, RegisteredHook};
use super::requests::Requests;
use super::values::{PublishedValues, ValueContent};
use super::witness::{HookAction, Witness};
use crate::clock::Clock;
use crate::faults::Trail;
use crate::hook_id::HookId;
use crate::log::{Level, Log};
use crate::metric_board::MetricBoard;
use sconce_parameters::groups::Groups;

/// State shared by the loop and the hooks of one run.
pub struct BridgeState<'run> {
    /// Destination of messages for the user.
    pub log: &'run dyn Log,
    /// Metrics of every phase, without those of batches in `late`.
    pub metrics: RefCell<MetricBoard>,
    /// What of the run is on a device.
    pub device: OnDevice,
    /// Requests of hooks that the loop has not served yet.
    pub requests: Requests,
    /// The loop's tensors that hooks can see.
    pub tensors: Exposed,
    /// Values and tensors published by hooks.
    pub values: PublishedValues,
    /// Extra entries of the checkpoint being saved or loaded.
    pub checkpoint_entries: PublishedValues,
    /// What the optimizer steps by.
    pub optimizer: OptimizerSettings,
    /// What is known before hooks are called.
    pub known: KnownBefore,
    /// What the model does for hooks.
    pub model: ModelForHooks,
    /// What hooks have claimed for themselves.
    pub(super) claims: Claims,
    /// What the call in progress has changed, if it may be undone.
    pub(super) journal: Journal,
    /// Clock of the run.
    pub clock: Clock,
    /// Record of hooks' calls, read after a crash.
    pub trail: &'static Trail,
    /// Observer of what hooks do.
    witness: Option<&'run dyn Witness>,
    /// The processes that train together.
    ranks: &'run dyn RanksView,
    call: CurrentCall,
    hooks: RefCell<Vec<RegisteredHook>>,
}

/// What the optimizer steps by, as hooks see and set it.
pub struct OptimizerSettings {
    /// Learning rate of the default group; a hook's change takes effect immediately.
    pub learning_rate: Cell<f64>,
    /// Parameter groups, with their current learning rates.
    pub groups: RefCell<Groups>,
    /// Whether the optimizer has a momentum that can be set.
    pub has_momentum: Cell<bool>,
    /// Batches per update, if a hook has set it.
    pub accumulation: Cell<Option<u64>>,
}

/// What is known before hooks are created or called, and does not change.
#[derive(Default)]
pub struct KnownBefore {
    /// Facts about the run, as JSON; set before the first hook is called.
    pub facts: OnceCell<String>,
    /// The run's plan as JSON, if known; set before hooks are created.
    pub(super) plan: OnceCell<String>,
    /// Names of the hooks in the checkpoint that the run resumes from; set before hooks are created.
    pub(super) resumed: OnceCell<Vec<String>>,
}

/// The call of a hook in progress, or the last one.
struct CurrentCall {
    /// Whether the hook is being put in the place of another instance of it, whose messages are not repeated.
    is_reinstating: Cell<bool>,
    /// None during a hook's creation.
    point: Cell<Option<Point>>,
    phase: Cell<Phase>,
    hook: Cell<Option<HookId>>,
}

impl<'run> BridgeState<'run> {
    /// Returns the state of a run that begins now.
    pub fn new(log: &'run dyn Log) -> Self {
        BridgeState {
            log,
            metrics: RefCell::default(),
            device: OnDevice::default(),
            requests: Requests::default(),
            tensors: Exposed::default(),
            values: PublishedValues::default(),
            checkpoint_entries: PublishedValues::default(),
            optimizer: OptimizerSettings {
                learning_rate: Cell::new(0.0),
                groups: RefCell::new(Groups::single(0.0, 0.0)),
                has_momentum: Cell::new(true),
                accumulation: Cell::new(None),
            },
            known: KnownBefore::default(),
            model: ModelForHooks::default(),
            claims: Claims::default(),
            journal: Journal::default(),
            clock: Clock::start(),
            trail: Trail::nowhere(),
            witness: None,
            ranks: &Alone,
            call: CurrentCall {
                is_reinstating: Cell::new(false),
                point: Cell::new(None),
                phase: Cell::new(Phase::Train),
                hook: Cell::new(None),
            },
            hooks: RefCell::default(),
        }
    }

    /// Records that the run resumes from a checkpoint with these hooks; must precede the hooks'
    /// creation.
    pub fn resume(&self, known: impl Iterator<Item = String>) {
        // Already set: a second call would belong to another run.
        drop(self.known.resumed.set(known.collect()));
    }

    /// Sets whether the hook being called is put in the place of another instance of it.
    pub fn reinstate(&self, is_reinstating: bool) {
        self.call.is_reinstating.set(is_reinstating);
    }

    pub(super) fn is_reinstating(&self) -> bool {
        self.call.is_reinstating.get()
    }

    /// Sets the run's plan, the JSON of a [`Plan`](sconce_plugin_api::Plan); must precede the hooks' creation.
    pub fn set_plan(&self, plan: String) {
        // Already set: a second call would belong to another run.
        drop(self.known.plan.set(plan));
    }

    /// Sets what writes text with the run's model; must precede the first call of a hook.
    pub fn set_text(&self, text: impl WritesText + 'static) {
        // Already set: a second call would belong to another run.
        drop(self.model.text.set(Box::new(text)));
    }

    /// Sets what runs the model for hooks; must precede the first call of a hook.
    pub fn set_forward(&self, model: Rc<dyn ForwardModel>) {
        // Already set: a second call would belong to another run.
        drop(self.model.forward.set(model));
    }

    /// Sets the record of hooks' calls.
    pub fn with_trail(mut self, trail: &'static Trail) -> Self {
        self.trail = trail;
        self
    }

    /// Sets an observer of what hooks do.
    pub fn with_witness(mut self, witness: &'run dyn Witness) -> Self {
        self.witness = Some(witness);
        self
    }

    /// Sets the processes that train together; must precede the hooks' creation.
    pub fn with_ranks(mut self, ranks: &'run dyn RanksView) -> Self {
        self.ranks = ranks;
        self
    }

    /// The processes that train together, of which this is one.
    pub fn ranks(&self) -> &'run dyn RanksView {
        self.ranks
    }

    /// Shows an action of the current hook to the witness; the error is the reason for its refusal.
    #[inline]
    pub(super) fn sees(&self, action: &HookAction<'_>) -> Result<(), String> {
        match self.witness {
            // What is undone is not shown either.
            Some(_) if self.is_reinstating() => Ok(()),
            Some(witness) => witness.sees(&self.hook_name(), action),
            None => Ok(()),
        }
    }

    /// Pointer passed to plugins in every view and setup.
    pub fn context(&self) -> *const c_void {
        ptr::from_ref(self).cast()
    }

    /// Registers the name of a hook about to be created, which runs on the first rank alone.
    pub fn register(&self, name: &str) -> HookId {
        self.register_on(name, HookRanks::First)
    }

    /// Registers the name of a hook about to be created, and where it runs.
    pub fn register_on(&self, name: &str, ranks: HookRanks) -> HookId {
        let mut hooks = self.hooks.borrow_mut();
        hooks.push(RegisteredHook {
            name: name.to_owned(),
            ranks,
        });
        let hook = HookId::at(hooks.len() - 1);
        self.call.hook.set(Some(hook));
        hook
    }

    /// Sets the mount point and phase, by which requests are checked.
    pub fn enter(&self, point: Option<Point>, phase: Phase) {
        self.call.point.set(point);
        self.call.phase.set(phase);
    }

    /// Whether hooks have been lent copies of a device's tensors since the last mount point ended.
    #[inline]
    pub(crate) fn has_host_copies(&self) -> bool {
        self.device.copies.is_used()
    }

    /// Ends a mount point: what hooks have written to copies of a device's tensors goes there. If that fails, with the hook that
    /// has written.
    pub(crate) fn end_point(&self) -> Result<(), (Option<HookId>, candle_core::Error)> {
        self.device.copies.end_point()
    }

    /// What copies of a device's tensors have cost since this was last asked, by hook.
    pub(crate) fn take_copy_costs(&self) -> Vec<(HookId, CopyCosts)> {
        self.device.copies.take_costs()
    }

    /// Sets the hook that is called next.
    #[inline]
    pub fn set_hook(&self, hook: HookId) {
        self.call.hook.set(Some(hook));
    }

    /// Mount point of the current call; `None` during creation.
    pub(crate) fn point(&self) -> Option<Point> {
        self.call.point.get()
    }

    /// Phase of the current call.
    pub(crate) fn phase(&self) -> Phase {
        self.call.phase.get()
    }

    /// Copies the optimizer's groups.
    pub fn set_groups(&self, groups: &Groups) {
        *self.optimizer.groups.borrow_mut() = groups.clone();
        self.optimizer
            .learning_rate
            .set(groups.default().learning_rate);
    }

    /// The hook being created or called, or the last one.
    pub(crate) fn hook(&self) -> Option<HookId> {
        self.call.hook.get()
    }

    /// The hook with this name.
    pub fn hook_called(&self, name: &str) -> Option<HookId> {
        let hooks = self.hooks.borrow();
        let position = hooks.iter().position(|known| known.name == name);
        position.map(HookId::at)
    }

    /// Name of a hook; empty for none.
    pub fn name_of(&self, hook: Option<HookId>) -> String {
        let hooks = self.hooks.borrow();
        let known = hook.and_then(|hook| hooks.get(hook.position()));
        known.map(|known| known.name.clone()).unwrap_or_default()
    }

    /// Whether a hook runs on all ranks.
    fn runs_on_all_ranks(&self, hook: Option<HookId>) -> bool {
        let hooks = self.hooks.borrow();
        let known = hook.and_then(|hook| hooks.get(hook.position()));
        known.is_some_and(|known| known.ranks == HookRanks::All)
    }

    /// Whether several processes train together and the hook being called runs on the first of them alone.
    pub(super) fn is_on_first_of_several(&self) -> bool {
        self.ranks.size() > 1 && !self.runs_on_all_ranks(self.call.hook.get())
    }

    /// Why the hook being called may not change tensors of a collection, as ranks share them and it runs on the first
    /// alone; `None` if it may.
    pub(super) fn why_not_shared(&self, collection: Collection) -> Option<String> {
        if !self.is_on_first_of_several() {
            return None;
        }
        why_not_changed_on_first(&self.hook_name(), collection)
    }

    /// Name of the hook being called.
    pub(crate) fn hook_name(&self) -> String {
        self.name_of(self.call.hook.get())
    }

    /// Metrics of every phase, with those of all batches: waits for those that are still on a device.
    #[inline]
    pub fn read_metrics(&self) -> Ref<'_, MetricBoard> {
        self.device.deferred.settle(&self.metrics);
        self.metrics.borrow()
    }

    /// Publishes a metric of the current hook and phase.
    pub(super) fn publish_metric(&self, name: &str, value: f64) -> Result<(), String> {
        let phase = self.phase();
        let mut metrics = self.metrics.borrow_mut();
        let earlier = metrics.publish(phase, name, value)?;
        self.journal.note(|| Change::Metric {
            phase,
            name: name.into(),
            earlier,
        });
        Ok(())
    }

    /// Publishes a value of the current hook, or sets an entry of a checkpoint.
    pub(super) fn set_value(
        &self,
        values: &PublishedValues,
        name: &str,
        keep: Keep,
        value: ValueContent,
    ) {
        let replaced = values.replace(name, keep, self.hook(), value);
        let is_of_checkpoint = ptr::eq(values, &raw const self.checkpoint_entries);
        self.journal.note(|| Change::Value {
            is_of_checkpoint,
            replaced,
        });
    }

    /// Removes a published value; returns whether there was one.
    pub(super) fn remove_value(&self, name: &str) -> bool {
        let Some(replaced) = self.values.take(name) else {
            return false;
        };
        self.journal.note(|| Change::Value {
            is_of_checkpoint: false,
            replaced,
        });
        true
    }

    /// Notes the groups' rates and momenta before they change.
    pub(super) fn note_groups(&self) {
        let groups = || Change::Groups(self.optimizer.groups.borrow().clone());
        self.journal.note(groups);
    }

    /// Sets the batches per update.
    pub(super) fn set_accumulation(&self, batches: u64) {
        let earlier = self.optimizer.accumulation.replace(Some(batches));
        self.journal.note(|| Change::Accumulation(earlier));
    }

    /// Claims something for the current hook; the error names the hook that has it.
    pub(super) fn claim(&self, what: &str) -> Result<(), String> {
        if self.claims.add(what, self.hook_name())? {
            self.journal.note(|| Change::Claim);
        }
        Ok(())
    }

    /// Logs information as the host.
    pub fn info(&self, message: &str) {
        self.log.log(Level::Info, "sconce", message);
    }

    /// Logs a warning as the host.
    pub fn warn(&self, message: &str) {
        self.log.log(Level::Warn, "sconce", message);
    }
}

/// What hooks give to the model's pass, and see of it.
impl BridgeState<'_> {
    /// The tensor that a hook published under a name for the loss, if any.
    ///
    /// # Errors
    ///
    /// If its publisher runs on the first of several ranks alone, or a copy can't be made.
    pub fn published(&self, name: &str) -> candle_core::Result<Option<Tensor>> {
        if self.ranks.size() > 1
            && let Some(owner) = self.values.publisher_of(name)
            && !self.runs_on_all_ranks(Some(owner))
        {
            candle_core::bail!(
                "the hook `{}` publishes `{name}` for the loss but runs on the first rank alone: \"ranks\": \"all\" in \
                 its entry makes it run on all",
                self.name_of(Some(owner))
            );
        }
        match self.values.tensor_of(name) {
            None => Ok(None),
            Some((Keep::Batch, tensor)) => Ok(Some(tensor)),
            // Copied because its publisher may write to it before the backward pass reads it.
            Some((_, tensor)) => tensor.copy().map(Some),
        }
    }

    /// Makes a tensor of the batch visible to hooks under a name.
    pub fn show(&self, name: Cow<'static, str>, tensor: &Tensor) {
        self.tensors.show(name, tensor);
    }
}
