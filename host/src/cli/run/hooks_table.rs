//! Order of hooks at each mount point, as text.

use std::fmt::Write;

use sconce_plugin_api::{Phase, Point};

use crate::dispatch::{HookSpec, LoadedHook, order};
use crate::hook_id::HookId;

/// Number of hooks that are listed at a mount point, of more than that.
const MOST_LISTED: usize = 50;

/// Lists created hooks in call order, per mount point.
pub(in crate::cli) fn text(hooks: &[LoadedHook]) -> String {
    let specs: Vec<&HookSpec> = hooks.iter().map(|hook| &hook.spec).collect();
    of_specs(&specs)
}

/// Lists the hooks in call order for each mount point that one of them overrides. Phases are named
/// if the order depends on them.
pub(in crate::cli) fn of_specs(specs: &[&HookSpec]) -> String {
    let mut text = String::from("hooks, in the order of their calls:");
    if specs.is_empty() {
        text.push_str(" none");
    }
    for &point in Point::ALL {
        let mut orders: Vec<(Vec<&str>, Vec<HookId>)> = Vec::new();
        for phase in Phase::ALL {
            let called = order(specs.iter().copied(), point, phase);
            match orders.iter_mut().find(|(_, known)| *known == called) {
                Some((phases, _)) => phases.push(phase.name()),
                None => orders.push((vec![phase.name()], called)),
            }
        }
        let several = orders.len() > 1;
        for (phases, called) in orders.iter().filter(|(_, called)| !called.is_empty()) {
            let mut names: Vec<String> = called
                .iter()
                .take(MOST_LISTED)
                .filter_map(|hook| specs.get(hook.position()))
                .map(|spec| format!("{} ({})", spec.name, spec.priority))
                .collect();
            let more = called.len().saturating_sub(MOST_LISTED);
            if more > 0 {
                names.push(format!("and {more} more"));
            }
            let phases = if several {
                format!(" [{}]", phases.join(", "))
            } else {
                String::new()
            };
            // Writing to a string can't fail.
            let _ = write!(text, "\n  {point}{phases}: {}", names.join(", "));
        }
    }
    text
}
