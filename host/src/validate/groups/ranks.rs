//! Whether a hook that changes what all ranks share says that it runs on all of them.

use sconce_plugin_api::ext::{Collection, Request};
use sconce_plugin_api::metadata::HookRanks;

use crate::validate::finding::{Checked, passed, warning};
use crate::validate::stage::Script;
use crate::validate::subject::Subject;

pub(super) fn ranks(subject: &Subject) -> Checked {
    if subject.metadata()?.ranks == HookRanks::All {
        return Ok(passed("it runs on all ranks"));
    }
    let played = subject.play(&Script::plain("ranks"))?;
    let written = played.recorder.written.borrow();
    let mut changes: Vec<&str> = Vec::new();
    for collection in written.iter() {
        match collection {
            Collection::Parameters => changes.push("parameters"),
            Collection::Gradients => changes.push("gradients"),
            Collection::Batch => changes.push("a batch's tensors"),
            _ => {}
        }
    }
    let scaling = format!("asks for {} ", Request::ScaleLoss.name());
    let acts = played.recorder.acts.borrow();
    if acts.iter().any(|act| act.action.starts_with(&scaling)) {
        changes.push("the loss");
    }
    if changes.is_empty() {
        return Ok(passed("it changes nothing that ranks share"));
    }
    Ok(warning(format!(
        "it changes {} but runs on the first rank alone: where several processes train together, that is refused",
        changes.join(", ")
    )))
}
