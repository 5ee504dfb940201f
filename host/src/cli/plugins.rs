//! `sconce plugins`: the plugins in directories. Runs none of their code.

use std::path::PathBuf;

use clap::Args;
use sconce_plugin_api::Priority;

use super::output;
use crate::exit;
use crate::plugin::search::{self, Inventory};

/// The arguments of `sconce plugins`.
#[derive(Debug, Args)]
pub(super) struct PluginsArgs {
    /// Directories with plugins, before those of `SCONCE_PLUGIN_PATH`. Default: the current one.
    directories: Vec<PathBuf>,
}

pub(super) fn plugins(arguments: &PluginsArgs) -> u8 {
    let mut directories = arguments.directories.clone();
    directories.extend(search::from_environment());
    if directories.is_empty() {
        directories.push(PathBuf::from("."));
    }
    let inventory = Inventory::search(&directories);
    let mut rows = vec![
        ["HOOK", "PRIORITY", "PLUGIN", "VERSION", "ABOUT", "FILE"]
            .map(String::from)
            .to_vec(),
    ];
    for plugin in &inventory.plugins {
        for hook in &plugin.metadata.hooks {
            rows.push(vec![
                hook.name.clone(),
                Priority::new(hook.priority).unwrap_or_default().to_string(),
                plugin.metadata.name.clone(),
                plugin.metadata.version.clone(),
                hook.about.clone(),
                plugin.path.display().to_string(),
            ]);
        }
    }
    if rows.len() > 1 {
        output::table(&rows);
    } else {
        output::line("no plugins found");
    }
    let refused: Vec<_> = inventory
        .refused_plugins()
        .map(super::super::plugin::refusal::Refusal::diagnostic)
        .collect();
    output::diagnostics(&refused);
    output::diagnostics(&inventory.problems);
    if !inventory.problems.is_empty() {
        return exit::USAGE;
    }
    if refused.is_empty() {
        exit::DONE
    } else {
        exit::PLUGIN
    }
}
