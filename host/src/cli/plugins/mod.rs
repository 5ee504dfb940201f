//! Commands about plugins, a file each; here `sconce plugins`, which lists those in directories. Only `validate` and the plugins of a run that
//! `reload` asks have their code run.

pub(in crate::cli) mod header;
pub(in crate::cli) mod inspect;
pub(in crate::cli) mod install_plugins;
pub(in crate::cli) mod new_plugin;
pub(in crate::cli) mod reload;
pub(in crate::cli) mod trust;
pub(in crate::cli) mod validate;

use std::path::PathBuf;

use clap::Args;
use sconce_plugin_api::Priority;
use serde_json::{Value, json};

use crate::cli::show::output;
use crate::exit;
use crate::plugin::Inspected;
use crate::plugin::search::{self, Inventory};
use crate::plugin::trust::{SignatureState, TrustStore, UnsignedPolicy};

/// Arguments of `sconce plugins`.
#[derive(Debug, Args)]
pub(in crate::cli) struct PluginsArgs {
    /// Directories with plugins, before those of `SCONCE_PLUGIN_PATH`. Default: the current one, and
    /// those where plugins are installed.
    directories: Vec<PathBuf>,
    /// Prints one JSON object with `plugins` and those `refused`.
    #[arg(long)]
    json: bool,
}

pub(in crate::cli) fn plugins(arguments: &PluginsArgs) -> u8 {
    let trust = match crate::plugin::trust::current() {
        Ok(trust) => trust,
        Err(problems) => {
            output::diagnostics(problems);
            return exit::USAGE;
        }
    };
    let mut directories = arguments.directories.clone();
    directories.extend(search::from_environment());
    if directories.is_empty() {
        directories.push(PathBuf::from("."));
    }
    let mut inventory = Inventory::search(&directories);
    if arguments.directories.is_empty() {
        inventory = inventory.with_installed();
    }
    if arguments.json {
        output::json(&object(&inventory));
        return code(&inventory);
    }
    for plugin in &inventory.plugins {
        let language = match inspect::language(&plugin.metadata) {
            "Rust" => String::new(),
            other => format!(" ({other})"),
        };
        output::line(&format!(
            "{} {}{language} in {}{}",
            plugin.metadata.name,
            plugin.metadata.version,
            plugin.path.display(),
            signature(plugin, trust)
        ));
        output::table(&rows(plugin));
    }
    if inventory.plugins.is_empty() {
        output::line("no plugins found");
        for directory in &inventory.directories {
            output::line(&format!("  searched: {}", directory.display()));
        }
        for directory in &inventory.absent {
            output::line(&format!("  not there: {}", directory.display()));
        }
    }
    let refused: Vec<_> = inventory
        .refused_plugins()
        .map(super::super::plugin::refusal::PluginRefusal::diagnostic)
        .collect();
    output::diagnostics(&refused);
    output::diagnostics(&inventory.problems);
    code(&inventory)
}

/// The state of a plugin's signature. That there is none says something only to users who trust keys.
fn signature(plugin: &Inspected, trust: &TrustStore) -> String {
    let is_usual = trust.keys.is_empty() && trust.unsigned == UnsignedPolicy::Allow;
    match &plugin.signature {
        SignatureState::Unsigned if is_usual => String::new(),
        state => format!(", {state}"),
    }
}

/// Rows for the hooks and transports of a plugin.
fn rows(plugin: &Inspected) -> Vec<Vec<String>> {
    let hooks = plugin.metadata.hooks.iter().map(|hook| {
        let priority = Priority::new(hook.priority).unwrap_or_default();
        [hook.name.clone(), priority.to_string(), hook.about.clone()]
    });
    let transports = plugin.metadata.transports.iter().map(|transport| {
        [
            transport.name.clone(),
            "transport".to_owned(),
            transport.about.clone(),
        ]
    });
    hooks
        .chain(transports)
        .map(|[name, kind, about]| vec![format!("  {name}"), kind, about])
        .collect()
}

fn code(inventory: &Inventory) -> u8 {
    if !inventory.problems.is_empty() {
        exit::USAGE
    } else if inventory.refused_plugins().next().is_some() {
        exit::PLUGIN
    } else {
        exit::DONE
    }
}

fn object(inventory: &Inventory) -> Value {
    let plugins: Vec<Value> = inventory.plugins.iter().map(inspect::object).collect();
    let refused: Vec<Value> = inventory
        .refused_plugins()
        .map(|refusal| {
            let diagnostic = refusal.diagnostic();
            json!({"file": refusal.path, "reason": diagnostic.message, "notes": diagnostic.notes})
        })
        .collect();
    json!({
        "directories": inventory.directories,
        "absent": inventory.absent,
        "plugins": plugins,
        "refused": refused,
    })
}
