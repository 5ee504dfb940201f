//! Descriptions of plugins' hooks and their configurations, for which the plugins are loaded.

use std::time::Duration;

use sconce_plugin_api::metadata::HookMetadata;
use serde_json::Value;

use super::search::Inventory;
use crate::plugin::library::Library;
use crate::plugin::trial::{self, Candidate};
use crate::plugin::{Cause, Inspected, PluginRefusal, copy};
use sconce_manifest::diagnostic::Diagnostic;

/// A hook of a plugin, and the JSON Schema of its configuration.
#[derive(Clone, Debug)]
pub struct Described {
    /// Name of the plugin.
    pub plugin: String,
    /// Whether it is in a directory that the user named, rather than in an installation directory.
    pub is_named: bool,
    /// The hook.
    pub hook: HookMetadata,
    /// The JSON Schema of its configuration, if the plugin provides one.
    pub schema: Option<Value>,
}

/// Loads an inventory's plugins, and asks them for the schemas of their hooks. Each is first tried in another
/// process, within the time limit. Plugins that can't be loaded are left out and reported.
pub fn describe(inventory: &Inventory, limit: Duration) -> (Vec<Described>, Vec<Diagnostic>) {
    let mut problems = Vec::new();
    let mut tried: Vec<(&Inspected, Candidate)> = Vec::new();
    for plugin in &inventory.plugins {
        match copy::of(plugin) {
            Ok(source) => {
                let candidate = Candidate {
                    sha256: plugin.sha256().to_owned(),
                    file: source.file,
                };
                tried.push((plugin, candidate));
            }
            Err(refusal) => problems.push(refusal.diagnostic()),
        }
    }
    let candidates: Vec<Candidate> = tried.iter().map(|(_, one)| one.clone()).collect();
    let verdicts = trial::of(&candidates, limit);
    problems.extend(verdicts.warnings.into_iter().map(Diagnostic::warning));
    let mut described = Vec::new();
    for (plugin, candidate) in tried {
        let fault = verdicts.faults.get(plugin.sha256()).cloned();
        let hooks = match fault {
            Some(fault) => Err(PluginRefusal::new(&plugin.path, Cause::Trial(fault))),
            None => hooks(plugin, &candidate, inventory.is_named(plugin)),
        };
        match hooks {
            Ok(hooks) => described.extend(hooks),
            Err(refusal) => problems.push(refusal.diagnostic()),
        }
    }
    (described, problems)
}

fn hooks(
    plugin: &Inspected,
    candidate: &Candidate,
    is_named: bool,
) -> Result<Vec<Described>, PluginRefusal> {
    let library = Library::open_from(&plugin.path, &candidate.file)?;
    let description = library.describe()?;
    let described = plugin.metadata.hooks.iter().map(|hook| Described {
        plugin: plugin.metadata.name.clone(),
        is_named,
        hook: hook.clone(),
        schema: config_schema(&description, hook).cloned(),
    });
    Ok(described.collect())
}

/// The configuration schema of a hook in a plugin's description.
pub fn config_schema<'a>(description: &'a Value, hook: &HookMetadata) -> Option<&'a Value> {
    let hooks = description.get("hooks").and_then(Value::as_array);
    hooks
        .into_iter()
        .flatten()
        .find(|known| known.get("name").and_then(Value::as_str) == Some(hook.name.as_str()))
        .and_then(|known| known.get("config_schema"))
}
