//! The arguments that single mount points have beside the task, as Python's objects.

use std::time::Duration;

use sconce_plugin_api::{Checkpoint, EpochProfile, Failure, Module, Origin, Outcome};

use super::functions::Functions;
use super::gil::{Gil, Ref};

/// A mount point's argument beside the task.
pub(crate) enum Payload<'call, 'task> {
    None,
    Module(&'call Module<'task>),
    Checkpoint(&'call Checkpoint<'task>),
    Profile(&'call EpochProfile<'task>),
    Failure(&'call Failure<'task>),
    Outcome(&'call Outcome<'task>),
}

/// The arguments of a call with a payload.
pub(super) fn arguments(
    gil: &Gil,
    functions: &Functions,
    payload: &Payload<'_, '_>,
) -> Option<Ref> {
    let task = || gil.share(functions.task.pointer());
    let second = match payload {
        Payload::None => return gil.tuple([task()]),
        Payload::Module(module) => {
            let facts = gil.tuple([task(), gil.text(module.name()), gil.text(module.kind())])?;
            gil.call(&functions.module, &facts)
        }
        Payload::Checkpoint(checkpoint) => {
            let error = checkpoint
                .error
                .map_or_else(|| gil.none(), |error| gil.text(error));
            let reference = checkpoint.reference();
            let missing: Vec<Option<Ref>> =
                checkpoint.missing().map(|text| gil.text(text)).collect();
            let facts = gil.tuple([
                gil.text(&checkpoint.path.to_string_lossy()),
                gil.text(checkpoint.tag),
                gil.text(checkpoint.asked_by),
                error,
                gil.integer(checkpoint.bytes),
                gil.float(checkpoint.duration.as_secs_f64()),
                reference.map_or_else(|| gil.none(), |reference| gil.text(&reference.to_string())),
                gil.tuple_of(missing.into_iter()),
            ])?;
            gil.call(&functions.checkpoint, &facts)
        }
        Payload::Profile(profile) => {
            let hooks: Vec<Option<Ref>> = profile
                .hooks()
                .map(|hook| {
                    gil.tuple([
                        gil.text(hook.name),
                        gil.integer(hook.calls),
                        gil.float(hook.time.as_secs_f64()),
                        gil.float(hook.longest.as_secs_f64()),
                        gil.float(hook.requests.as_secs_f64()),
                    ])
                })
                .collect();
            let seconds = |time: Duration| gil.float(time.as_secs_f64());
            let facts = gil.tuple([
                seconds(profile.total()),
                seconds(profile.data()),
                seconds(profile.forward()),
                seconds(profile.loss()),
                seconds(profile.backward()),
                seconds(profile.update()),
                gil.tuple_of(hooks.into_iter()),
            ])?;
            gil.call(&functions.profile, &facts)
        }
        Payload::Failure(failure) => {
            let (origin, hook) = match failure.origin {
                Origin::Task => ("task", ""),
                Origin::Data => ("data", ""),
                Origin::Hook(hook) => ("hook", hook),
                Origin::Signal => ("signal", ""),
                _ => ("host", ""),
            };
            let facts = gil.tuple([gil.text(origin), gil.text(hook), gil.text(failure.message)])?;
            gil.call(&functions.failure, &facts)
        }
        Payload::Outcome(outcome) => {
            let (kind, reason) = match outcome {
                Outcome::Completed => ("completed", ""),
                Outcome::Stopped { reason } => ("stopped", *reason),
                Outcome::Interrupted { signal } => ("interrupted", *signal),
                Outcome::Failed { error } => ("failed", *error),
                _ => ("failed", "an outcome that this version doesn't know"),
            };
            let facts = gil.tuple([gil.text(kind), gil.text(reason)])?;
            gil.call(&functions.outcome, &facts)
        }
    };
    gil.tuple([task(), second])
}
