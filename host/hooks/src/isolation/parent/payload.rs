//! Payloads of mount points, as messages have them.

use sconce_plugin_api::Point;
use sconce_plugin_api::abi::{
    CheckpointAbi, FailureAbi, ModuleAbi, OutcomeAbi, ProfileAbi, TextAbi, ViewAbi,
};

use super::super::message::PayloadText;

/// The payload of a mount point.
///
/// # Safety
///
/// The view must be the host's for a call at this point.
pub(super) unsafe fn payload<'a>(point: Option<Point>, view: &ViewAbi) -> PayloadText<'a> {
    let Some(point) = point.filter(|_| !view.payload.is_null()) else {
        return PayloadText::None;
    };
    let payload = view.payload;
    // SAFETY: the payload is of the mount point's type, and it and its texts are borrowed for the call, by the caller's
    // guarantee.
    unsafe {
        let text = |text: TextAbi| text.read().unwrap_or_default();
        match point {
            Point::AfterRun => {
                let &OutcomeAbi { kind, reason } = &*payload.cast();
                PayloadText::Outcome {
                    kind,
                    reason: text(reason),
                }
            }
            Point::EpochProfile => {
                let profile: &ProfileAbi = &*payload.cast();
                let hooks = match profile.hook_count {
                    0 => &[],
                    count => std::slice::from_raw_parts(profile.hooks, count),
                };
                let hooks = hooks.iter();
                PayloadText::Profile {
                    times: [
                        profile.total,
                        profile.data,
                        profile.forward,
                        profile.loss,
                        profile.backward,
                        profile.update,
                    ],
                    hooks: hooks
                        .map(|hook| {
                            let seconds = [hook.seconds, hook.longest, hook.requests];
                            (text(hook.name), hook.calls, seconds)
                        })
                        .collect(),
                }
            }
            Point::OnException => {
                let &FailureAbi {
                    origin,
                    message,
                    hook,
                } = &*payload.cast();
                PayloadText::Failure {
                    origin,
                    message: text(message),
                    hook: text(hook),
                }
            }
            Point::ModuleForward | Point::ModuleBackward => {
                let &ModuleAbi { name, kind } = &*payload.cast();
                PayloadText::Module {
                    name: text(name),
                    kind: text(kind),
                }
            }
            Point::BeforeSaveCheckpoint
            | Point::AfterSaveCheckpoint
            | Point::AfterLoadCheckpoint => {
                let &CheckpointAbi {
                    path,
                    tag,
                    hook,
                    error,
                    bytes,
                    seconds,
                    reference,
                    missing,
                } = &*payload.cast();
                PayloadText::Checkpoint {
                    texts: [path, tag, hook, error, reference, missing].map(text),
                    bytes,
                    seconds,
                }
            }
            _ => PayloadText::None,
        }
    }
}
