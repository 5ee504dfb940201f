//! `sconce.requests/1`: what hooks ask for, and where each request is legal.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;

use sconce_plugin_api::Point;
use sconce_plugin_api::abi::{ErrorAbi, Status, TextAbi};
use sconce_plugin_api::ext::{Collection, Request, RequestsTable, check_tag};

use super::{Deed, Shared, refuse, shared};

pub(super) static TABLE: RequestsTable = RequestsTable { request };

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

/// Something that the loop does after all hooks of the point have run.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// Save a checkpoint of this tag.
    Save(String),
    /// Validate.
    Validate,
    /// Go back to the checkpoint of this tag.
    RollBack(String),
    /// Put a published set in the parameters' place.
    Swap(String),
    /// Put the parameters back.
    SwapBack,
    /// Save a checkpoint of the parameters alone.
    SaveParameters(String),
    /// Save a checkpoint of this tag, written while the training goes on.
    SaveInBackground(String),
    /// The same with the parameters alone.
    SaveParametersInBackground(String),
    /// Take the parameters from the checkpoint of this tag, with a published set in their place.
    LoadParameters(String, Option<String>),
    /// Delete the checkpoint of this tag.
    Delete(String),
    /// Give the checkpoint of the first tag the second one too.
    Copy(String, String),
    /// Write the parameters of a checkpoint into a file of their own: tag, name, published set.
    Publish(String, String, Option<String>),
    /// Call the hook at modules from now on, or don't.
    Listen(bool),
    /// Train the parameter or buffer of this name at this share of its group's learning rate.
    Freeze(String, f64),
    /// Compute the statistics of batch norms anew from so many training samples, or from all.
    Renew(Option<u64>),
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

    fn ask(&self, asked: Asked, hook: String) {
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

unsafe extern "C" fn request(
    context: *const c_void,
    request: u32,
    number: f64,
    text: TextAbi,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: the context is the one that the host handed out for this call, in which text and
    // error are borrowed.
    unsafe {
        let Some(shared) = shared(context) else {
            return Status::INVALID.0;
        };
        let Some(request) = Request::from_number(request) else {
            let message = format!("this host does not know the request {request}; update it");
            return refuse(error, Status::UNSUPPORTED, &message);
        };
        if let Some(message) = why_not_here(shared, request) {
            return refuse(error, Status::NOT_LEGAL_HERE, &message);
        }
        let text = text.read().unwrap_or_default();
        let asked = shared
            .sees(&Deed::Asks {
                request: request.name(),
                number,
                text,
            })
            .and_then(|()| ask(shared, request, number, text));
        match asked {
            Ok(()) => Status::OK.0,
            Err(message) => refuse(error, Status::INVALID, &message),
        }
    }
}

fn ask(shared: &Shared<'_>, request: Request, number: f64, text: &str) -> Result<(), String> {
    let requests = &shared.requests;
    match request {
        Request::Stop => requests.ask_stop(stop(shared, text, false)),
        Request::StopAfterEpoch => requests.ask_stop(stop(shared, text, true)),
        Request::SkipBatch => requests.skip_batch.set(true),
        Request::SkipUpdate => requests.skip_update.set(true),
        Request::SetLearningRate => {
            if !number.is_finite() || number < 0.0 {
                return Err(format!(
                    "a learning rate is finite and not negative, found {number}"
                ));
            }
            let mut groups = shared.groups.borrow_mut();
            if text.is_empty() {
                groups.set_learning_rate(number);
            } else {
                groups.set_learning_rate_of(text, number)?;
            }
            shared.learning_rate.set(groups.default().learning_rate);
        }
        Request::ScaleLoss => {
            if !number.is_finite() {
                return Err(format!("a loss scale is finite, found {number}"));
            }
            let scale = requests.loss_scale.get().unwrap_or(1.0);
            requests.loss_scale.set(Some(scale * number));
        }
        Request::SaveCheckpoint => {
            let asked = if number > 0.0 {
                Asked::SaveParameters(tag(text)?)
            } else {
                Asked::Save(tag(text)?)
            };
            requests.ask(asked, shared.hook_name());
        }
        Request::SaveInBackground => {
            let asked = if number > 0.0 {
                Asked::SaveParametersInBackground(tag(text)?)
            } else {
                Asked::SaveInBackground(tag(text)?)
            };
            requests.ask(asked, shared.hook_name());
        }
        Request::LeaveOutPoint => {
            let point = Point::from_number(number as u32)
                .ok_or_else(|| format!("there is no mount point {number}"))?;
            requests.left_out.borrow_mut().push(point);
        }
        Request::Validate => requests.ask(Asked::Validate, shared.hook_name()),
        Request::RollBack => requests.ask(Asked::RollBack(tag(text)?), shared.hook_name()),
        Request::SwapParameters => {
            requests.ask(Asked::Swap(text.to_owned()), shared.hook_name());
        }
        Request::SwapBack => requests.ask(Asked::SwapBack, shared.hook_name()),
        Request::LoadParameters => {
            let (from, set) = in_two(text);
            requests.ask(Asked::LoadParameters(tag(from)?, set), shared.hook_name());
        }
        Request::DeleteCheckpoint => requests.ask(Asked::Delete(tag(text)?), shared.hook_name()),
        Request::CopyCheckpoint => {
            let (from, to) = text.split_once('/').unwrap_or((text, ""));
            requests.ask(Asked::Copy(tag(from)?, tag(to)?), shared.hook_name());
        }
        Request::PublishWeights => {
            let (from, rest) = text.split_once('/').unwrap_or((text, ""));
            let (name, set) = in_two(rest);
            let asked = Asked::Publish(tag(from)?, tag(name)?, set);
            requests.ask(asked, shared.hook_name());
        }
        Request::ListenAtModules => requests.ask(Asked::Listen(number > 0.0), shared.hook_name()),
        Request::SetMomentum => set_momentum(shared, number, text)?,
        Request::Freeze => freeze(shared, number, text)?,
        Request::SetAccumulation => {
            let batches = whole(number).filter(|batches| *batches > 0);
            let batches = batches.ok_or_else(|| {
                format!("the batches of an update are a whole number from 1 on, found {number}")
            })?;
            shared.accumulation.set(Some(batches));
        }
        Request::RenewStatistics => {
            let samples = whole(number)
                .ok_or_else(|| format!("samples are a whole number, found {number}"))?;
            let samples = (samples > 0).then_some(samples);
            requests.ask(Asked::Renew(samples), shared.hook_name());
        }
        other => return Err(format!("this host does not serve `{}`", other.name())),
    }
    Ok(())
}

fn freeze(shared: &Shared<'_>, number: f64, text: &str) -> Result<(), String> {
    let index = shared.tensors.parameter_index(text)?;
    if !number.is_finite() || number < 0.0 {
        return Err(format!(
            "a share of the learning rate is finite and not negative, found {number}"
        ));
    }
    let is_whole = number == 0.0 || (number - 1.0).abs() < f64::EPSILON;
    if !is_whole && shared.is_buffer(Collection::Parameters, index) {
        return Err(format!(
            "`{text}` is a buffer, which no learning rate moves: its share is 0 or 1, \
                     found {number}"
        ));
    }
    shared
        .requests
        .ask(Asked::Freeze(text.to_owned(), number), shared.hook_name());
    Ok(())
}

fn set_momentum(shared: &Shared<'_>, momentum: f64, group: &str) -> Result<(), String> {
    if !(0.0..1.0).contains(&momentum) {
        return Err(format!("a momentum is from 0 to below 1, found {momentum}"));
    }
    if !shared.has_momentum.get() {
        let advice = "give it one in the manifest, if only a small one";
        return Err(format!(
            "the optimizer was configured without a momentum: {advice}"
        ));
    }
    let mut groups = shared.groups.borrow_mut();
    if group.is_empty() {
        groups.set_momentum(Some(momentum));
        return Ok(());
    }
    groups.set_momentum_of(group, momentum)
}

/// A number as a count, where it is one that JSON and floats can say.
fn whole(number: f64) -> Option<u64> {
    let is_count = (0.0..=9_007_199_254_740_992.0).contains(&number) && number.fract() == 0.0;
    is_count.then_some(number as u64)
}

/// What stands before a slash, and what behind it, if there is one.
fn in_two(text: &str) -> (&str, Option<String>) {
    match text.split_once('/') {
        Some((first, second)) => (first, Some(second.to_owned())),
        None => (text, None),
    }
}

/// A tag, if it is one.
fn tag(text: &str) -> Result<String, String> {
    check_tag(text)?;
    Ok(text.to_owned())
}

fn stop(shared: &Shared<'_>, reason: &str, after_epoch: bool) -> Stop {
    Stop {
        reason: reason.to_owned(),
        after_epoch,
        hook: shared.hook_name(),
    }
}

/// Why a request is not legal at the present mount point, or nothing where it is.
fn why_not_here(shared: &Shared<'_>, request: Request) -> Option<String> {
    request.why_not_at(shared.point(), shared.phase())
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
