//! What hooks have asked for, until the loop serves it.

use std::cell::{Cell, RefCell};

use sconce_plugin_api::Point;
use sconce_plugin_api::ext::Asked;

/// Requests that the loop has not served yet.
#[derive(Debug, Default)]
pub struct Requests {
    stop: RefCell<Option<Stop>>,
    skip_batch: Cell<bool>,
    skip_update: Cell<bool>,
    /// The product of the factors for this batch's loss.
    loss_scale: Cell<Option<f64>>,
    asked: RefCell<Vec<(Asked, String)>>,
    /// The mount points that the hook which is being created does without.
    left_out: RefCell<Vec<Point>>,
    is_pending: Cell<bool>,
}

/// A stop that somebody asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Why, for the user.
    pub reason: String,
    /// Whether the present epoch and its validation are still finished.
    pub after_epoch: bool,
    /// The hook that asked; empty where it was none.
    pub hook: String,
}

impl Requests {
    /// Asks for a stop. The first reason counts; only a more urgent stop replaces an earlier one.
    pub fn ask_stop(&self, stop: Stop) {
        let mut asked = self.stop.borrow_mut();
        let replaces = asked
            .as_ref()
            .is_none_or(|earlier| earlier.after_epoch && !stop.after_epoch);
        if replaces {
            *asked = Some(stop);
        }
    }

    /// The stop that was asked for, if any.
    pub fn stop(&self) -> Option<Stop> {
        self.stop.borrow().clone()
    }

    /// Whether the training has to end at the end of this iteration.
    pub fn stops_now(&self) -> bool {
        self.stop
            .borrow()
            .as_ref()
            .is_some_and(|stop| !stop.after_epoch)
    }

    /// Whether the training has to end at the end of this epoch, if not sooner.
    pub fn stops(&self) -> bool {
        self.stop.borrow().is_some()
    }

    /// Whether the batch is to be left out; the question serves the request.
    pub fn take_skip_batch(&self) -> bool {
        self.skip_batch.take()
    }

    /// The factor for this batch's loss; the question serves the request.
    pub fn take_loss_scale(&self) -> f64 {
        self.loss_scale.take().unwrap_or(1.0)
    }

    /// Asks to leave the batch out.
    pub(super) fn ask_skip_batch(&self) {
        self.skip_batch.set(true);
    }

    /// Asks to leave the update out.
    pub(super) fn ask_skip_update(&self) {
        self.skip_update.set(true);
    }

    /// Multiplies the factor for this batch's loss.
    pub(super) fn scale_loss(&self, factor: f64) {
        let scale = self.loss_scale.get().unwrap_or(1.0);
        self.loss_scale.set(Some(scale * factor));
    }

    /// The hook that is being created does without a mount point.
    pub(super) fn leave_out(&self, point: Point) {
        self.left_out.borrow_mut().push(point);
    }

    /// Queues something for the loop.
    pub(super) fn ask(&self, asked: Asked, hook: String) {
        self.asked.borrow_mut().push((asked, hook));
        self.is_pending.set(true);
    }

    /// The mount points that the hook created last does without.
    pub fn take_left_out(&self) -> Vec<Point> {
        self.left_out.take()
    }

    /// Whether there is something for the loop to do.
    #[inline]
    pub fn is_pending(&self) -> bool {
        self.is_pending.get()
    }

    /// What there is for the loop to do, in the order of asking, each with the hook that asked.
    pub fn take_asked(&self) -> Vec<(Asked, String)> {
        self.is_pending.set(false);
        self.asked.take()
    }

    /// Whether the update is to be left out; the question serves the request.
    pub fn take_skip_update(&self) -> bool {
        self.skip_update.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a_stop(reason: &str, after_epoch: bool) -> Stop {
        Stop {
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
}
