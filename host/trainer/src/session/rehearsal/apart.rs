//! Creates a hook that has a process of its own, for `sconce check`: under its sandbox, and then ended without being
//! dropped, as there is no run.

use std::cell::RefCell;

use sconce_hooks::planning::{HookPlan, not_created};

use super::Rehearsed;
use crate::bridge::BridgeState;
use crate::diagnostic::Diagnostic;
use crate::log::{Level, Log};
use crate::manifest::Manifest;

/// Creates the hook, and returns what it says, or its error.
pub(super) fn rehearse(
    plan: &HookPlan,
    manifest: &Manifest,
    expected_plan: &str,
) -> Result<Rehearsed, Diagnostic> {
    let place = tempfile::Builder::new().prefix("sconce-check-").tempdir();
    let place = place.map_err(|error| {
        Diagnostic::new(format!(
            "there is no directory in which hooks can be tried: {error}"
        ))
    })?;
    let said = Warnings::default();
    let shared = BridgeState::new(&said);
    shared.set_plan(expected_plan.to_owned());
    shared.register(&plan.spec.name);
    let blueprint = plan.blueprint(&manifest.run_setup(place.path()));
    let mut instance = blueprint
        .create(&shared)
        .map_err(|error| not_created(plan, error, &manifest.hook_list()))?;
    if let Some(proxy) = instance.other_process() {
        proxy.abandon();
    }
    let said = said.0.take().into_iter();
    let warnings = said.map(|message| {
        let text = format!("hook `{}`: {message}", plan.spec.name);
        Diagnostic::warning(text).at(manifest.place(&plan.json_path))
    });
    Ok(Rehearsed {
        warnings: warnings.collect(),
        declared: shared.requests.take_declared().into_iter().collect(),
    })
}

/// The hook's warnings.
#[derive(Default)]
struct Warnings(RefCell<Vec<String>>);

impl Log for Warnings {
    fn log(&self, level: Level, _source: &str, message: &str) {
        if level == Level::Warn {
            self.0.borrow_mut().push(message.to_owned());
        }
    }
}
