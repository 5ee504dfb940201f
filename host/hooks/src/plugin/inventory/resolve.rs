//! Finds the library that provides a hook.

use std::path::{Path, PathBuf};

use sconce_plugin_api::metadata::HookMetadata;

use super::search::Inventory;
use crate::plugin::{Inspected, PluginRefusal, compatibility, inspect};
use sconce_base::nearest::nearest;
use sconce_manifest::coming_from;
use sconce_manifest::diagnostic::Diagnostic;

/// A manifest entry's information about the origin of its hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookOrigin {
    /// Name of the hook, or `plugin/hook`.
    pub hook: String,
    /// Path of the library to use, without a search.
    pub library: Option<PathBuf>,
    /// Required SHA-256 of the library.
    pub sha256: Option<String>,
    /// Name of the trusted key that must have signed the library.
    pub signed_by: Option<String>,
}

/// A hook, with the plugin that provides it.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The plugin.
    pub plugin: Inspected,
    /// Metadata of the hook.
    pub hook: HookMetadata,
    /// Other builds of the plugin, in directories that come later in the search.
    pub shadowed: Vec<PathBuf>,
}

/// Finds the library of a hook.
///
/// # Errors
///
/// If there is no such hook, if several plugins have one, or if the file is refused.
pub fn resolve(request: &HookOrigin, inventory: &Inventory) -> Result<Resolved, Diagnostic> {
    let (plugin_name, hook_name) = split(&request.hook);
    let (plugin, shadowed) = match &request.library {
        Some(library) => (from_library(library, plugin_name, hook_name)?, Vec::new()),
        None => from_inventory(request, inventory, plugin_name, hook_name)?,
    };
    let refused = |refusal: PluginRefusal| refusal.diagnostic();
    if let Some(signer) = &request.signed_by {
        plugin.check_signer(signer).map_err(refused)?;
    }
    if let Some(pinned) = &request.sha256 {
        plugin.check_fingerprint(pinned).map_err(refused)?;
    }
    let hook = plugin
        .hook(hook_name)
        .ok_or_else(|| not_in(&plugin, hook_name))?
        .clone();
    compatibility::check_hook(&hook, &plugin.metadata.api_version)
        .map_err(|cause| PluginRefusal::new(&plugin.path, cause).diagnostic())?;
    Ok(Resolved {
        plugin,
        hook,
        shadowed,
    })
}

/// Splits `plugin/hook` or `hook` into the plugin's and the hook's name.
fn split(name: &str) -> (Option<&str>, &str) {
    match name.rsplit_once('/') {
        Some((plugin, hook)) => (Some(plugin), hook),
        None => (None, name),
    }
}

/// Whether the installation directories must be searched for a hook, besides those searched so far.
pub fn is_missing(request: &HookOrigin, inventory: &Inventory) -> bool {
    let (plugin_name, hook_name) = split(&request.hook);
    let is_meant = |plugin: &Inspected| match &request.sha256 {
        Some(pinned) => is_pinned(plugin, pinned),
        None => true,
    };
    request.library.is_none() && !candidates(inventory, plugin_name, hook_name).any(is_meant)
}

/// The plugins that provide the hook.
fn candidates<'a>(
    inventory: &'a Inventory,
    plugin_name: Option<&'a str>,
    hook_name: &'a str,
) -> impl Iterator<Item = &'a Inspected> {
    inventory
        .plugins
        .iter()
        .filter(move |plugin| plugin_name.is_none_or(|name| name == plugin.metadata.name))
        .filter(move |plugin| plugin.hook(hook_name).is_some())
}

fn is_pinned(plugin: &Inspected, pinned: &str) -> bool {
    plugin.sha256().eq_ignore_ascii_case(pinned)
}

fn from_library(
    library: &Path,
    plugin_name: Option<&str>,
    hook_name: &str,
) -> Result<Inspected, Diagnostic> {
    let plugin = inspect(library).map_err(|refusal| refusal.diagnostic())?;
    match plugin_name {
        Some(wanted) if wanted != plugin.metadata.name => Err(Diagnostic::new(format!(
            "`{}` is the plugin `{}`, not `{wanted}`",
            library.display(),
            plugin.metadata.name
        ))),
        _ if plugin.hook(hook_name).is_none() => Err(not_in(&plugin, hook_name)),
        _ => Ok(plugin),
    }
}

fn not_in(plugin: &Inspected, hook: &str) -> Diagnostic {
    let names: Vec<&str> = plugin
        .metadata
        .hooks
        .iter()
        .map(|hook| hook.name.as_str())
        .collect();
    let diagnostic = Diagnostic::new(format!(
        "the plugin `{}` has no hook `{hook}`; it has {}",
        plugin.path.display(),
        quoted(&names)
    ));
    suggest(diagnostic, hook, &names)
}

fn from_inventory(
    request: &HookOrigin,
    inventory: &Inventory,
    plugin_name: Option<&str>,
    hook_name: &str,
) -> Result<(Inspected, Vec<PathBuf>), Diagnostic> {
    let mut candidates: Vec<&Inspected> = candidates(inventory, plugin_name, hook_name).collect();
    // If one of several is pinned, choose it; a mismatch of all is reported later.
    if let Some(pinned) = &request.sha256
        && candidates.iter().any(|plugin| is_pinned(plugin, pinned))
    {
        candidates.retain(|plugin| is_pinned(plugin, pinned));
    }
    // Installed plugins only fill gaps: they never make a hook from a named directory ambiguous.
    if candidates.iter().any(|plugin| inventory.is_named(plugin)) {
        candidates.retain(|plugin| inventory.is_named(plugin));
    }
    let mut found: Vec<&Inspected> = Vec::new();
    let mut shadowed = Vec::new();
    for plugin in candidates {
        // A plugin with the same bytes is not a second one; another build of a plugin in a later directory is
        // shadowed by the first, as in any search path.
        if found
            .iter()
            .any(|earlier| earlier.sha256() == plugin.sha256())
        {
            continue;
        }
        if found.iter().any(|earlier| is_shadowed(earlier, plugin)) {
            shadowed.push(plugin.path.clone());
        } else {
            found.push(plugin);
        }
    }
    match found.as_slice() {
        [plugin] => Ok(((*plugin).clone(), shadowed)),
        [] => Err(no_plugin_has(&request.hook, hook_name, inventory)),
        several => Err(ambiguous(hook_name, several)),
    }
}

/// Whether `earlier` shadows `later`, another build of the same plugin.
fn is_shadowed(earlier: &Inspected, later: &Inspected) -> bool {
    earlier.metadata.name == later.metadata.name && earlier.path.parent() != later.path.parent()
}

fn no_plugin_has(wanted: &str, hook_name: &str, inventory: &Inventory) -> Diagnostic {
    let mut diagnostic = Diagnostic::new(format!("no plugin has a hook `{wanted}`"));
    for directory in &inventory.directories {
        diagnostic = diagnostic.note(format!("searched: {}", directory.display()));
    }
    for directory in &inventory.absent {
        diagnostic = diagnostic.note(format!("not there: {}", directory.display()));
    }
    if !inventory.problems.is_empty() {
        diagnostic = diagnostic.hint("see which directories can't be searched, below");
    } else if inventory.directories.is_empty() {
        diagnostic = diagnostic.hint(
            "no directory was searched: install the standard plugins with `sconce install-plugins`, or \
             name a directory under `plugins`, with `--plugins`, or in SCONCE_PLUGIN_PATH",
        );
    }
    for refusal in inventory.refused_plugins() {
        diagnostic = diagnostic.note(format!("refused: {}", refusal.line()));
        if let Some(hint) = refusal.signature_hint()
            && !diagnostic.hints.contains(&hint)
        {
            diagnostic = diagnostic.hint(hint);
        }
    }
    let mut names: Vec<&str> = Vec::new();
    for plugin in &inventory.plugins {
        names.extend(plugin.metadata.hooks.iter().map(|hook| hook.name.as_str()));
    }
    names.sort_unstable();
    names.dedup();
    if !names.is_empty() {
        diagnostic = diagnostic.note(format!("hooks found: {}", quoted(&names)));
    }
    suggest(diagnostic, hook_name, &names)
}

fn ambiguous(hook_name: &str, several: &[&Inspected]) -> Diagnostic {
    let mut diagnostic = Diagnostic::new(format!(
        "the hook `{hook_name}` is ambiguous: {} plugins have it",
        several.len()
    ));
    for plugin in several {
        diagnostic = diagnostic.note(format!(
            "`{}/{hook_name}` in {}",
            plugin.metadata.name,
            plugin.path.display()
        ));
    }
    // With two files in one directory, the order decides nothing.
    let same_name = several
        .windows(2)
        .all(|pair| matches!(pair, [a, b] if a.metadata.name == b.metadata.name));
    diagnostic.hint(if same_name {
        "name the file with `\"library\"`, or pin it with `\"sha256\"`"
    } else {
        "write the plugin's name in front, as `plugin/hook`, or name the file with `\"library\"`"
    })
}

fn suggest(diagnostic: Diagnostic, wanted: &str, names: &[&str]) -> Diagnostic {
    match nearest(wanted, names.iter().copied()) {
        Some(name) => diagnostic.hint(format!("did you mean `{name}`?")),
        None => (coming_from::hints(wanted, None).into_iter()).fold(diagnostic, Diagnostic::hint),
    }
}

fn quoted(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
