//! `sconce inspect`: describes one library. Runs none of its code.

use std::path::PathBuf;

use clap::Args;
use sconce_plugin_api::Priority;
use sconce_plugin_api::metadata::{HookMetadata, PluginMetadata, TransportMetadata};
use serde_json::{Value, json};

use crate::cli::show::output;
use crate::exit;
use crate::plugin::trust::{self, SignatureState};
use crate::plugin::{Inspected, inspect};

/// Arguments of `sconce inspect`.
#[derive(Debug, Args)]
pub(in crate::cli) struct InspectArgs {
    /// Library to describe.
    library: PathBuf,
    /// Prints one JSON object.
    #[arg(long)]
    json: bool,
}

pub(in crate::cli) fn inspect_library(arguments: &InspectArgs) -> u8 {
    if let Err(problems) = trust::current() {
        output::diagnostics(problems);
        return exit::USAGE;
    }
    match inspect(&arguments.library) {
        Ok(plugin) if arguments.json => {
            output::json(&object(&plugin));
            exit::DONE
        }
        Ok(plugin) => {
            output::table(&plugin_rows(&plugin));
            for hook in &plugin.metadata.hooks {
                output::line("");
                output::table(&hook_rows(hook));
            }
            for transport in &plugin.metadata.transports {
                output::line("");
                output::table(&transport_rows(transport));
            }
            exit::DONE
        }
        Err(refusal) => {
            output::diagnostics(&[refusal.diagnostic()]);
            exit::PLUGIN
        }
    }
}

/// Describes a plugin as JSON.
pub(super) fn object(plugin: &Inspected) -> Value {
    let mut object = json!(plugin.metadata);
    object["file"] = json!(plugin.path);
    object["bytes"] = json!(plugin.size);
    object["sha256"] = json!(plugin.sha256());
    object["needs"] = json!(plugin.needed);
    object["signature"] = json!(plugin.signature);
    object
}

fn plugin_rows(plugin: &Inspected) -> Vec<Vec<String>> {
    let metadata = &plugin.metadata;
    [
        ("plugin", format!("{} {}", metadata.name, metadata.version)),
        ("about", metadata.about.clone()),
        (
            "file",
            format!("{}, {} bytes", plugin.path.display(), plugin.size),
        ),
        ("sha256", plugin.sha256().to_owned()),
        ("signature", signature(&plugin.signature)),
        (
            "API",
            format!(
                "{} (ABI epoch {})",
                metadata.api_version, metadata.abi_epoch
            ),
        ),
        ("language", language(metadata).to_owned()),
        ("compiler", metadata.rustc.clone()),
        ("target", metadata.target.clone()),
        ("panics", panics(metadata)),
        ("needs", plugin.needed.join(", ")),
    ]
    .into_iter()
    .filter(|(_, value)| !value.is_empty())
    .map(|(key, value)| vec![key.to_owned(), value])
    .collect()
}

fn transport_rows(transport: &TransportMetadata) -> Vec<Vec<String>> {
    let rows = [("transport", &transport.name), ("about", &transport.about)];
    rows.map(|(key, value)| vec![key.to_owned(), value.clone()])
        .into()
}

/// The state of the signature, with what the signer wrote into it.
fn signature(state: &SignatureState) -> String {
    match state {
        SignatureState::Trusted { comment, .. } if !comment.is_empty() => {
            format!("{state}: {}", comment.replace('\t', ", "))
        }
        state => state.to_string(),
    }
}

/// The plugin's language, for people.
pub(super) fn language(metadata: &PluginMetadata) -> &str {
    match metadata.language.as_deref() {
        None => "Rust",
        Some("c") => "C",
        Some("c++") => "C++",
        Some(other) => other,
    }
}

/// The panic strategy; empty in languages without panics.
fn panics(metadata: &PluginMetadata) -> String {
    match metadata.panic.as_str() {
        "none" => String::new(),
        strategy => strategy.to_owned(),
    }
}

/// Names of the metadata, which plugins of earlier versions lack.
fn listed(names: Option<&[String]>) -> String {
    names.map_or_else(|| "not known".to_owned(), |names| names.join(", "))
}

/// What the hook reads of its loop.
fn read(hook: &HookMetadata) -> String {
    let reads = listed(hook.reads.as_deref());
    if hook.optional.is_empty() {
        return reads;
    }
    format!("{reads} ({} if there)", hook.optional.join(", "))
}

fn hook_rows(hook: &HookMetadata) -> Vec<Vec<String>> {
    let points: Vec<&str> = hook
        .points
        .iter()
        .map(|point| point.name.as_str())
        .collect();
    let priority = Priority::new(hook.priority).unwrap_or_default();
    [
        ("hook", hook.name.clone()),
        ("about", hook.about.clone()),
        ("priority", priority.to_string()),
        ("called at", points.join(", ")),
        ("publishes", hook.publishes.join(", ")),
        ("requires", hook.requires.join(", ")),
        ("asks for", listed(hook.asks.as_deref())),
        ("reads", read(hook)),
        ("ranks", hook.ranks.name().to_owned()),
    ]
    .into_iter()
    .filter(|(_, value)| !value.is_empty())
    .map(|(key, value)| vec![key.to_owned(), value])
    .collect()
}
