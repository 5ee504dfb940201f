//! Whether a hook gives the loss that a manifest leaves to hooks.

use sconce_plugin_api::Phase;
use sconce_plugin_api::ext::Readable;

use crate::data::Targets;
use crate::diagnostic::Diagnostic;
use crate::manifest::Manifest;
use crate::session::{HookPlan, StartFailure};
use crate::task::Task;

/// Checks that some hook may give the loss, if the manifest says that one does.
///
/// # Errors
///
/// If by their metadata none does.
pub(in crate::session) fn check_given_loss(
    manifest: &Manifest,
    task: &dyn Task,
    hooks: &[HookPlan],
) -> Result<(), StartFailure> {
    let is_given = match &manifest.loss {
        Some(loss) => loss.is_given(),
        // The default of data without targets.
        None => manifest.model.is_some() && has_no_targets(task),
    };
    if !is_given || hooks.iter().any(may_give) {
        return Ok(());
    }
    let problem = "the loss is given by a hook, and no hook of the manifest gives one";
    let hint = "add one of the plugin `self-supervised`, such as `simclr`, or one of your own that calls `task.set_loss(…)`";
    let place = manifest.place("loss");
    let diagnostic = Diagnostic::new(problem).at(place).hint(hint);
    Err(StartFailure::usage(vec![diagnostic]))
}

fn has_no_targets(task: &dyn Task) -> bool {
    let data = task.data(Phase::Train);
    data.is_some_and(|data| matches!(data.targets(), Targets::None))
}

/// Warnings about hooks that give the loss though the manifest has one of its own.
pub(super) fn unused_loss(manifest: &Manifest, hooks: &[HookPlan]) -> Option<Diagnostic> {
    manifest.loss.as_ref().filter(|loss| !loss.is_given())?;
    let hook = hooks.iter().find(|hook| gives(hook))?;
    let problem = format!(
        "the hook `{}` gives the loss, in the place of this one: `\"loss\": \"given\"` says so",
        hook.spec.name
    );
    Some(Diagnostic::warning(problem).at(manifest.place("loss")))
}

/// Whether a hook gives the loss, by its metadata; one that doesn't say may.
fn may_give(hook: &HookPlan) -> bool {
    hook.spec.reads.is_none() || gives(hook)
}

fn gives(hook: &HookPlan) -> bool {
    let reads = hook.spec.reads.as_deref().unwrap_or_default();
    reads.iter().any(|name| name == Readable::GivenLoss.name())
}
