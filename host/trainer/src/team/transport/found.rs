//! Plugins with transports in the plugin directories.

use std::path::{Path, PathBuf};

use sconce_plugin_api::metadata::TransportMetadata;

use crate::diagnostic::Diagnostic;
use crate::plugin::search::{self, Inventory};
use crate::plugin::{Inspected, PluginRefusal};
use crate::start_failure::StartFailure;

/// Finds the plugin that offers a transport: first in `directories` and those of the environment, then where plugins
/// are installed. None of its code runs.
///
/// # Errors
///
/// If there is none, or two in directories of the same standing.
pub(super) fn find(name: &str, directories: &[PathBuf]) -> Result<Inspected, StartFailure> {
    let from_environment = search::from_environment();
    let named = Inventory::search(directories.iter().chain(&from_environment)).without_shadowed();
    let inventory = if offering(&named, name).next().is_some() {
        named
    } else {
        named.with_installed().without_shadowed()
    };
    let mut found = offering(&inventory, name);
    match (found.next(), found.next()) {
        (Some(plugin), None) => Ok(plugin.clone()),
        (Some(one), Some(other)) => Err(StartFailure::plugin(vec![
            Diagnostic::new(format!("two plugins offer the transport `{name}`"))
                .note(one.path.display().to_string())
                .note(other.path.display().to_string())
                .hint("remove one of them from the plugin directories"),
        ])),
        (None, _) => Err(not_found(name, &inventory)),
    }
}

/// All transports of an inventory, each with its plugin.
pub fn all(inventory: &Inventory) -> impl Iterator<Item = (&Inspected, &TransportMetadata)> {
    let plugins = inventory.plugins.iter();
    plugins.flat_map(|plugin| {
        plugin
            .metadata
            .transports
            .iter()
            .map(move |one| (plugin, one))
    })
}

fn offering<'a>(inventory: &'a Inventory, name: &'a str) -> impl Iterator<Item = &'a Inspected> {
    let found = all(inventory).filter(move |(_, transport)| transport.name == name);
    found.map(|(plugin, _)| plugin)
}

fn not_found(name: &str, inventory: &Inventory) -> StartFailure {
    let mut diagnostic = Diagnostic::new(format!("no plugin offers the transport `{name}`"));
    for directory in &inventory.directories {
        diagnostic = diagnostic.note(format!("searched: {}", directory.display()));
    }
    for refusal in inventory.refused_plugins().map(PluginRefusal::line) {
        diagnostic = diagnostic.note(format!("refused: {refusal}"));
    }
    diagnostic = diagnostic.hint(how_to_get(name));
    StartFailure::plugin(vec![diagnostic])
}

/// The command that makes a transport's plugin.
fn how_to_get(name: &str) -> &'static str {
    match name {
        "mpi" => {
            "in a checkout of Sconce, `cargo build --release --manifest-path plugins/mpi/Cargo.toml` builds it for the \
             MPI of `mpicc` (`MPICC=…` for another), and `sconce install-plugins --from plugins/mpi/target/release` \
             installs it"
        }
        "sockets" => {
            "it is one of the standard plugins: `sconce install-plugins` installs them, or `--plugins DIR` names the \
             directory that they are in"
        }
        _ => "`--plugins DIR` names the directory of the plugin that offers it",
    }
}

/// The file's name, for messages.
pub(super) fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}
