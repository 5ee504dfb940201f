//! The previous run in the same directory: how it ended, if it did not finish.

use std::path::{Path, PathBuf};

use super::file::{self, Unfinished};
use sconce_manifest::diagnostic::Diagnostic;

/// Warning about the previous run, if it did not finish. Its report is renamed to make room for the
/// next one.
pub fn warning(directory: &Path) -> Option<Diagnostic> {
    let report = directory.join("crash.json");
    let Some(left) = file::read(directory) else {
        // A report here is of a run that finished and crashed only at the process's exit, which was
        // reported then.
        drop(keep(&report, directory));
        return None;
    };
    let known = std::fs::read(&report).ok();
    let known: Option<serde_json::Value> =
        known.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    // Another process ID means an earlier process.
    let known = known.filter(|known| known["pid"].as_u64() == Some(left.pid));
    let how = match known.as_ref().and_then(|known| known["kind"].as_str()) {
        Some("crash") => {
            let signal = known.as_ref().and_then(|known| known["signal"].as_str());
            format!("it crashed ({})", signal.unwrap_or("a signal"))
        }
        Some("exit") => "it was ended by a call of `exit`".to_owned(),
        Some("hang") => "it was ended because a hook did not come back".to_owned(),
        _ => "it was killed, or left without a word (`_exit`, `exec`)".to_owned(),
    };
    let mut warning = Diagnostic::warning(format!(
        "the run before in `{}` did not come to its end: {how} {}",
        directory.display(),
        moment(&left)
    ));
    if let Some(hook) = &left.hook {
        warning = warning.note(format!(
            "the hook `{}` of {} was being called",
            hook.name, hook.file
        ));
    }
    if let Some(checkpoint) = &left.checkpoint {
        warning = warning.note(format!("its last checkpoint: {checkpoint}"));
    }
    if let Ok(kept) = keep(&report, directory) {
        warning = warning.note(format!("its report is kept as {}", kept.display()));
    }
    match &left.hook {
        Some(hook) => Some(warning.hint(format!(
            "if the hook is at fault, `--skip {}` leaves it out",
            hook.name
        ))),
        None => Some(warning),
    }
}

/// Where the run was that has left its breadcrumbs in this directory, which no run uses now; `None` if it finished.
pub fn where_it_was(directory: &Path) -> Option<String> {
    let left = file::read(directory)?;
    Some(format!("it was {}", moment(&left)))
}

/// Renames a report to make room for the next one.
fn keep(report: &Path, directory: &Path) -> std::io::Result<PathBuf> {
    let kept = directory.join("crash.previous.json");
    std::fs::rename(report, &kept)?;
    Ok(kept)
}

fn moment(left: &Unfinished) -> String {
    let crumb = &left.crumb;
    match (&left.hook, crumb.entry()) {
        (Some(hook), "new") => format!("when the hook `{}` was created", hook.name),
        (Some(hook), "save_state") => format!("when the state of `{}` was saved", hook.name),
        (Some(hook), "load_state") => format!("when the state of `{}` was restored", hook.name),
        (Some(hook), "drop") => format!("when the hook `{}` was dropped", hook.name),
        (Some(hook), point) => format!(
            "in the hook `{}` at `{point}` ({}), epoch {}, iteration {}",
            hook.name,
            crumb.phase(),
            crumb.epoch,
            crumb.iteration
        ),
        (None, _) if crumb.entries == 0 => "before it called a hook".to_owned(),
        (None, point) => format!(
            "outside of its hooks, after `{point}` ({}), epoch {}, iteration {}",
            crumb.phase(),
            crumb.epoch,
            crumb.iteration
        ),
    }
}
