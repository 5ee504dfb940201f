//! The hooks of a list are created, in its order.

use sconce_base::patterns::Patterns;
use sconce_manifest::EntryForm;
use sconce_manifest::diagnostic::Diagnostic;
use sconce_manifest::mentioned::first_named;
use sconce_plugin_api::abi::Status;

use super::{HookList, HookPlan, RunSetup, UnusableHooks};
use crate::bridge::BridgeState;
use crate::dispatch::{HookFault, LifeEvent, LoadedHook};
use crate::faults::PluginFunction;
use crate::plugin::entry_error::EntryError;

/// The hooks that run on the rank with this number, of those that were planned: all ranks check the whole manifest in the
/// same way.
pub fn hooks_on(rank: usize, plans: Vec<HookPlan>) -> Vec<HookPlan> {
    let mut plans = plans;
    plans.retain(|plan| plan.spec.ranks.has(rank));
    plans
}

/// Creates the hooks that run on this rank, in the manifest's order.
///
/// # Errors
///
/// All hooks whose creation fails; those already created are dropped.
pub fn create_hooks(
    plans: Vec<HookPlan>,
    list: &HookList<'_>,
    run: &RunSetup<'_>,
    shared: &BridgeState<'_>,
) -> Result<Vec<LoadedHook>, UnusableHooks> {
    let mut hooks = Vec::new();
    let mut unusable = UnusableHooks::default();
    for plan in hooks_on(shared.ranks().rank(), plans) {
        let id = shared.register_on(&plan.spec.name, plan.spec.ranks);
        let blueprint = plan.blueprint(run);
        let create = || blueprint.create(shared);
        match shared.trail.around(id, PluginFunction::New, create) {
            Ok(instance) => {
                let left_out = shared.requests.take_left_out();
                let mut spec = plan.spec;
                spec.points.retain(|point| !left_out.contains(point));
                let uses = shared.requests.take_uses();
                spec.asks = uses.asks.or(spec.asks);
                spec.reads = uses.reads.or(spec.reads);
                let selected = || Patterns::new(&uses.modules?).ok();
                spec.modules = spec.modules.or_else(selected);
                hooks.push(LoadedHook::new(spec, instance).with_blueprint(blueprint));
            }
            Err(error) => {
                unusable.has_accident |= error.has_ended();
                unusable.add(not_created(&plan, error, list));
            }
        }
    }
    if unusable.diagnostics.is_empty() {
        Ok(hooks)
    } else {
        Err(unusable)
    }
}

/// The problem of a hook that can't be created, with its place in the manifest.
pub fn not_created(plan: &HookPlan, error: EntryError, list: &HookList<'_>) -> Diagnostic {
    if error.status == Status::CONFIG.0 {
        // Errors of this status have the form "`path`: message", by the plugin API's contract.
        let (path, message) = error
            .message
            .split_once(": ")
            .unwrap_or(("", &error.message));
        let path = path.trim_matches('`');
        let path = plan.place_in_config(path);
        // A Python file has a hook of its own, which `python` runs.
        let hook = match plan.form {
            EntryForm::Name => &plan.kind,
            EntryForm::Script => &plan.spec.name,
        };
        let message = format!("the configuration of `{hook}`: {message}");
        return Diagnostic::new(message).at(list.place(&path));
    }
    let path = match first_named(&plan.config, &error.message) {
        Some(path) => plan.place_in_config(&path),
        None => plan.json_path.clone(),
    };
    let fault = HookFault::new(Some(&plan.spec), LifeEvent::Create, error);
    Diagnostic::new(fault.to_string()).at(list.place(&path))
}
