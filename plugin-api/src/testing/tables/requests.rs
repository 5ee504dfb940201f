//! What the hook asks for: refused by the host's rules, or written down and served.

use std::ffi::c_void;

use super::super::seen::Asked;
use super::super::stage::{Pending, Stage, Stop};
use super::{refuse, stage};
use crate::Point;
use crate::abi::{ErrorAbi, Status, TextAbi};
use crate::ext::{Collection, Request, RequestsTable, check_tag};

pub(super) static TABLE: RequestsTable = RequestsTable { request };

unsafe extern "C" fn request(
    context: *const c_void,
    request: u32,
    number: f64,
    text: TextAbi,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: the context is of this call, in which text and error are borrowed.
    unsafe {
        let Some(stage) = stage(context) else {
            return Status::INVALID.0;
        };
        let Some(request) = Request::from_number(request) else {
            return refuse(error, Status::UNSUPPORTED, "unknown request");
        };
        let text = text.read().unwrap_or_default();
        let answer = match request.why_not_at(stage.point(), stage.phase()) {
            Some(message) => Err((Status::NOT_LEGAL_HERE, message)),
            None => ask(stage, request, number, text).map_err(|text| (Status::INVALID, text)),
        };
        if let Some(at) = stage.place.get() {
            let refused = answer.as_ref().err().map(|(_, message)| message.clone());
            stage.seen.borrow_mut().asked.push(Asked {
                at,
                request,
                number,
                text: text.to_owned(),
                refused,
            });
        }
        match answer {
            Ok(()) => Status::OK.0,
            Err((status, message)) => refuse(error, status, &message),
        }
    }
}

fn ask(stage: &Stage, request: Request, number: f64, text: &str) -> Result<(), String> {
    match request {
        Request::Stop | Request::StopAfterEpoch => {
            let after_epoch = request == Request::StopAfterEpoch;
            let mut stop = stage.stop.borrow_mut();
            // The first reason counts, but for a more urgent stop.
            if stop
                .as_ref()
                .is_none_or(|known| known.after_epoch && !after_epoch)
            {
                *stop = Some(Stop {
                    reason: text.to_owned(),
                    after_epoch,
                });
            }
        }
        Request::SkipBatch => stage.skip_batch.set(true),
        Request::SkipUpdate => stage.skip_update.set(true),
        Request::SetLearningRate => {
            check(
                number >= 0.0,
                "a learning rate is finite and not negative",
                number,
            )?;
            let is_of_one = !text.is_empty();
            for_groups(stage, text, |group| {
                group.learning_rate = if is_of_one {
                    number
                } else {
                    number * group.scale
                };
            })?;
        }
        Request::SetMomentum => {
            check(
                (0.0..1.0).contains(&number),
                "a momentum is from 0 to below 1",
                number,
            )?;
            for_groups(stage, text, |group| group.momentum = number)?;
        }
        Request::ScaleLoss => {
            check(true, "a loss scale is finite", number)?;
            let scale = stage.loss_scale.get().unwrap_or(1.0);
            stage.loss_scale.set(Some(scale * number));
        }
        Request::SetAccumulation => {
            let is_count = number >= 1.0 && number.fract() == 0.0;
            let what = "the batches of an update are a whole number from 1 on";
            check(is_count, what, number)?;
            stage.accumulation.set(Some(number as u64));
        }
        Request::LeaveOutPoint => {
            let point = Point::from_number(number as u32).ok_or("there is no such mount point")?;
            stage.left_out.borrow_mut().push(point);
        }
        Request::Freeze => {
            stage.index(Collection::Parameters, text)?;
            let what = "a share of the learning rate is finite and not negative";
            check(number >= 0.0, what, number)?;
            later(stage, request, number, text);
        }
        Request::RenewStatistics => {
            let what = "samples are a whole number";
            check(number >= 0.0 && number.fract() == 0.0, what, number)?;
            later(stage, request, number, text);
        }
        Request::SaveCheckpoint
        | Request::SaveInBackground
        | Request::RollBack
        | Request::DeleteCheckpoint
        | Request::LoadParameters
        | Request::CopyCheckpoint
        | Request::PublishWeights => {
            let (first, rest) = text.split_once('/').unwrap_or((text, ""));
            let has_a_set = request == Request::LoadParameters;
            let is_of_two =
                has_a_set || matches!(request, Request::CopyCheckpoint | Request::PublishWeights);
            check_tag(if is_of_two { first } else { text })?;
            if is_of_two && !has_a_set {
                let (second, _) = rest.split_once('/').unwrap_or((rest, ""));
                check_tag(second)?;
            }
            later(stage, request, number, text);
        }
        Request::Validate
        | Request::SwapParameters
        | Request::SwapBack
        | Request::ListenAtModules => later(stage, request, number, text),
    }
    Ok(())
}

fn later(stage: &Stage, request: Request, number: f64, text: &str) {
    stage.pending.borrow_mut().push(Pending {
        request,
        number,
        text: text.to_owned(),
    });
}

fn check(is_right: bool, rule: &str, found: f64) -> Result<(), String> {
    if is_right && found.is_finite() {
        return Ok(());
    }
    Err(format!("{rule}, found {found}"))
}

/// Changes the group of this name, or all groups.
fn for_groups(
    stage: &Stage,
    name: &str,
    change: impl Fn(&mut super::super::stage::Group),
) -> Result<(), String> {
    let mut groups = stage.groups.borrow_mut();
    if name.is_empty() {
        groups.iter_mut().for_each(change);
        return Ok(());
    }
    if let Some(group) = groups.iter_mut().find(|group| &*group.name == name) {
        change(group);
        return Ok(());
    }
    let names: Vec<&str> = groups.iter().map(|group| &*group.name).collect();
    Err(format!(
        "there is no parameter group `{name}`; there are: {}",
        names.join(", ")
    ))
}
