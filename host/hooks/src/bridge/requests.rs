//! Requests of hooks that the loop has yet to serve.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use sconce_plugin_api::Point;
use sconce_plugin_api::ext::Asked;

use crate::hook_id::HookId;

/// Requests that the loop has not served yet.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    stop: RefCell<Option<StopRequest>>,
    skip_batch: Cell<bool>,
    skip_update: Cell<bool>,
    /// Product of the factors for this batch's loss.
    loss_scale: Cell<Option<f64>>,
    asked: RefCell<Vec<(Asked, String)>>,
    /// Mount points from which the hook being created has opted out.
    left_out: RefCell<Vec<Point>>,
    /// Metrics that hooks have declared at their creation: names, or patterns of families.
    declared: RefCell<BTreeSet<String>>,
    /// What the hook being created says it uses with its configuration.
    uses: RefCell<Uses>,
    /// Hooks whose processes have ended and are to be restarted.
    restarts: RefCell<Vec<HookId>>,
    is_pending: Cell<bool>,
}

/// What a hook has declared at its creation: with its configuration it asks and reads less than its metadata say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// Names of the requests that it may make; `None`: those of its metadata.
    pub asks: Option<Vec<String>>,
    /// Names of what it may read or change of the loop; `None`: those of its metadata.
    pub reads: Option<Vec<String>>,
    /// Names of the modules at which it is called; `None`: all.
    pub modules: Option<Vec<String>>,
}

/// A requested stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopRequest {
    /// Reason, for the user.
    pub reason: String,
    /// Whether the current epoch and its validation are finished first.
    pub after_epoch: bool,
    /// The requesting hook; empty if it was not a hook.
    pub hook: String,
}

impl Requests {
    /// Requests a stop. The first request's reason is kept; only a more urgent stop replaces an
    /// earlier one.
    pub fn ask_stop(&self, stop: StopRequest) {
        let mut asked = self.stop.borrow_mut();
        let replaces = asked
            .as_ref()
            .is_none_or(|earlier| earlier.after_epoch && !stop.after_epoch);
        if replaces {
            *asked = Some(stop);
        }
    }

    /// Returns the requested stop, if any.
    pub fn stop(&self) -> Option<StopRequest> {
        self.stop.borrow().clone()
    }

    /// Whether training must end after this iteration.
    pub fn stops_now(&self) -> bool {
        self.stop
            .borrow()
            .as_ref()
            .is_some_and(|stop| !stop.after_epoch)
    }

    /// Whether training must end after this epoch, if not sooner.
    pub fn stops(&self) -> bool {
        self.stop.borrow().is_some()
    }

    /// Whether to skip the batch; clears the request.
    pub fn take_skip_batch(&self) -> bool {
        self.skip_batch.take()
    }

    /// Returns the factor for this batch's loss; clears the request.
    pub fn take_loss_scale(&self) -> f64 {
        self.loss_scale.take().unwrap_or(1.0)
    }

    /// Requests to skip the batch.
    pub(super) fn ask_skip_batch(&self) {
        self.skip_batch.set(true);
    }

    /// Requests to skip the update.
    pub(super) fn ask_skip_update(&self) {
        self.skip_update.set(true);
    }

    /// Multiplies the factor for this batch's loss by `factor`.
    pub(super) fn scale_loss(&self, factor: f64) {
        let scale = self.loss_scale.get().unwrap_or(1.0);
        self.loss_scale.set(Some(scale * factor));
    }

    /// Opts the hook being created out of a mount point.
    pub(super) fn leave_out(&self, point: Point) {
        self.left_out.borrow_mut().push(point);
    }

    /// Notes that the hook being created publishes a metric.
    pub(super) fn declare_metric(&self, name: String) {
        self.declared.borrow_mut().insert(name);
    }

    /// Notes which requests the hook being created may make with its configuration.
    pub(super) fn declare_asks(&self, names: Vec<String>) {
        self.uses.borrow_mut().asks = Some(names);
    }

    /// Notes what the hook being created may read with its configuration.
    pub(super) fn declare_reads(&self, names: Vec<String>) {
        self.uses.borrow_mut().reads = Some(names);
    }

    /// Notes at which modules the hook being created is called.
    pub(super) fn select_modules(&self, names: Vec<String>) {
        self.uses.borrow_mut().modules = Some(names);
    }

    /// Queues a request for the loop.
    pub fn ask(&self, asked: Asked, hook: String) {
        self.asked.borrow_mut().push((asked, hook));
        self.is_pending.set(true);
    }

    /// Asks for a hook's restart, whose process has ended.
    pub(crate) fn ask_restart(&self, hook: HookId) {
        self.restarts.borrow_mut().push(hook);
        self.is_pending.set(true);
    }

    /// Whether hooks are to be restarted.
    #[inline]
    pub fn has_restarts(&self) -> bool {
        !self.restarts.borrow().is_empty()
    }

    /// Takes all requests out, to be put back after calls whose requests don't count.
    pub fn set_aside(&self) -> Requests {
        Requests {
            stop: RefCell::new(self.stop.take()),
            skip_batch: Cell::new(self.skip_batch.take()),
            skip_update: Cell::new(self.skip_update.take()),
            loss_scale: Cell::new(self.loss_scale.take()),
            asked: RefCell::new(self.asked.take()),
            left_out: RefCell::new(self.left_out.take()),
            declared: RefCell::new(self.declared.take()),
            uses: RefCell::new(self.uses.take()),
            restarts: RefCell::new(self.restarts.take()),
            is_pending: Cell::new(self.is_pending.take()),
        }
    }

    /// Puts back requests that were set aside, in the place of all others.
    pub fn put_back(&self, requests: Requests) {
        self.stop.replace(requests.stop.into_inner());
        self.skip_batch.set(requests.skip_batch.get());
        self.skip_update.set(requests.skip_update.get());
        self.loss_scale.set(requests.loss_scale.get());
        self.asked.replace(requests.asked.into_inner());
        self.left_out.replace(requests.left_out.into_inner());
        self.declared.replace(requests.declared.into_inner());
        self.uses.replace(requests.uses.into_inner());
        self.restarts.replace(requests.restarts.into_inner());
        self.is_pending.set(requests.is_pending.get());
    }

    /// Takes out the requests that concern the requesting hook alone: whether it is called at modules.
    pub fn take_listening(&self) -> Vec<(String, bool)> {
        let asked = self.asked.take();
        let listening = asked.into_iter().filter_map(|(asked, hook)| match asked {
            Asked::Listen(listens) => Some((hook, listens)),
            _ => None,
        });
        listening.collect()
    }

    /// Returns and clears the hooks to restart.
    pub fn take_restarts(&self) -> Vec<HookId> {
        self.restarts.take()
    }

    /// Returns and clears the mount points that the last created hook opted out of.
    pub fn take_left_out(&self) -> Vec<Point> {
        self.left_out.take()
    }

    /// Returns and clears the metrics that hooks have declared.
    pub fn take_declared(&self) -> BTreeSet<String> {
        self.declared.take()
    }

    /// Returns and clears what the last created hook has declared to use.
    pub fn take_uses(&self) -> Uses {
        self.uses.take()
    }

    /// Whether requests are queued for the loop.
    #[inline]
    pub fn is_pending(&self) -> bool {
        self.is_pending.get()
    }

    /// Makes the loop look for requests at every mount point: those of other ranks are not queued here.
    pub fn keep_pending(&self) {
        self.is_pending.set(true);
    }

    /// Returns and clears the queued requests, in order, each with the requesting hook.
    pub fn take_asked(&self) -> Vec<(Asked, String)> {
        self.is_pending.set(false);
        self.asked.take()
    }

    /// Whether the update is to be skipped.
    pub fn skips_update(&self) -> bool {
        self.skip_update.get()
    }

    /// Whether to skip the update; clears the request.
    pub fn take_skip_update(&self) -> bool {
        self.skip_update.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a_stop(reason: &str, after_epoch: bool) -> StopRequest {
        StopRequest {
            reason: reason.to_owned(),
            after_epoch,
            hook: String::new(),
        }
    }

    #[test]
    fn the_first_reason_counts_unless_a_later_stop_is_more_urgent() {
        let requests = Requests::default();
        assert!(!requests.stops());
        requests.ask_stop(a_stop("first", true));
        requests.ask_stop(a_stop("second", true));
        assert_eq!(
            requests.stop().map(|stop| stop.reason).as_deref(),
            Some("first")
        );
        assert!(!requests.stops_now());
        requests.ask_stop(a_stop("urgent", false));
        requests.ask_stop(a_stop("late", false));
        assert_eq!(
            requests.stop().map(|stop| stop.reason).as_deref(),
            Some("urgent")
        );
        assert!(requests.stops_now());
    }

    #[test]
    fn what_a_hook_declares_to_use_is_taken_once() {
        let requests = Requests::default();
        requests.declare_asks(vec!["stop".to_owned()]);
        let aside = requests.set_aside();
        assert_eq!(requests.take_uses(), Uses::default());
        requests.put_back(aside);
        let uses = requests.take_uses();
        assert_eq!(uses.asks, Some(vec!["stop".to_owned()]));
        assert_eq!(uses.reads, None);
        assert_eq!(requests.take_uses(), Uses::default());
    }
}
