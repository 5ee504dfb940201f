//! Whether a hook asks for no more than its metadata say: a loop other than Sconce's own refuses hooks by that list.

use std::collections::BTreeSet;

use sconce_plugin_api::ext::Request;

use crate::validate::finding::{Checked, Verdict, passed, unless};
use crate::validate::stage::Script;
use crate::validate::stage::witness::Act;
use crate::validate::subject::Subject;

pub(super) fn asks(subject: &Subject) -> Checked {
    let Some(listed) = subject.metadata()?.asks else {
        return Ok(passed("its metadata don't say what it asks for"));
    };
    let played = subject.play(&Script::plain("asks"))?;
    let acts = played.recorder.acts.borrow();
    let requests = acts.iter().filter_map(Act::request);
    let asked: BTreeSet<&str> = requests
        .filter(|request| request.is_listed())
        .map(Request::name)
        .collect();
    let unlisted = asked
        .iter()
        .filter(|name| !listed.iter().any(|one| one == *name));
    let problems: Vec<String> = unlisted
        .map(|name| format!("it asks for `{name}`, which its metadata don't list"))
        .collect();
    Ok(unless(
        &problems,
        Verdict::Warning,
        format!("{} of {} requests", asked.len(), listed.len()),
    ))
}
