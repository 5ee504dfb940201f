//! Whether a hook in C handles the mount points that its metadata lists, and no others.
//!
//! In Rust the attribute `#[hook]` writes the list and the dispatch of one text. In C the author writes both: `SCONCE_HOOK`
//! and the `switch` in `call`.

use sconce_plugin_api::Point;
use sconce_plugin_api::abi::Status;
use sconce_plugin_api::metadata::HookMetadata;

use crate::validate::finding::{Checked, Finding, Verdict, failed, passed, unless};
use crate::validate::stage::Script;
use crate::validate::stage::trial::TrialEnvironment;
use crate::validate::stage::witness::Recorder;
use crate::validate::subject::Subject;

/// A number that no mount point will have.
const NO_POINT: u32 = u32::MAX;

pub(super) fn points(subject: &Subject) -> Checked {
    if !subject.inspected()?.metadata.is_c() {
        return Ok(passed("`#[hook]` writes both"));
    }
    let hook = subject.metadata()?;
    let misnamed = misnamed(&hook);
    if !misnamed.is_empty() {
        return Ok(failed(misnamed.join("\n")));
    }
    let unsupported = unsupported(subject)?;
    if !unsupported.is_empty() {
        return Ok(failed(unsupported.join("\n")));
    }
    let facts = format!("{} points", hook.points.len());
    Ok(unless(&unlisted(subject, &hook)?, Verdict::Warning, facts))
}

/// Points of the metadata whose names are those of other numbers.
fn misnamed(hook: &HookMetadata) -> Vec<String> {
    let known = hook.points.iter().filter_map(|listed| {
        let point = Point::from_number(listed.number)?;
        (point.name() != listed.name).then(|| {
            let (number, name) = (listed.number, point.name());
            format!(
                "the metadata calls the point {number} `{}`, it is `{name}`",
                listed.name
            )
        })
    });
    known.collect()
}

/// Points that the metadata lists and `call` does not know, found in a run.
fn unsupported(subject: &Subject) -> Result<Vec<String>, Finding> {
    let played = subject.play(&Script::plain("points"))?;
    let faults = played.faults();
    let faults = faults
        .iter()
        .filter(|fault| fault.error.status == Status::UNSUPPORTED.0);
    let told =
        |fault: &&&_| format!("the metadata lists a point that `call` does not know: {fault}");
    Ok(faults.map(|fault| told(&fault)).collect())
}

/// Points that the metadata does not list, at which `call` nevertheless does something.
fn unlisted(subject: &Subject, hook: &HookMetadata) -> Result<Vec<String>, Finding> {
    let config = subject.config()?.to_string();
    let recorder = Recorder::default();
    let trial = TrialEnvironment::new(subject, &recorder)?;
    let is_listed = |number: u32| hook.points.iter().any(|point| point.number == number);
    let known = Point::ALL
        .iter()
        .map(|point| (point.number(), point.name()));
    let all = known.chain([(NO_POINT, "a point that does not exist")]);
    let mut problems = Vec::new();
    for (number, name) in all.filter(|(number, _)| !is_listed(*number)) {
        subject.doing(format_args!(
            "the call at `{name}`, which its metadata does not list"
        ));
        let answer = trial.with(&config, |hook| Ok(trial.call(hook, number)))?;
        let is_refused = answer.is_err_and(|error| error.status == Status::UNSUPPORTED.0);
        if !is_refused {
            problems.push(format!(
                "`call` does not answer SCONCE_UNSUPPORTED at `{name}`, which the metadata does not list"
            ));
        }
    }
    Ok(problems)
}
