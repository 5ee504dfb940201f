//! A plugin's file that is to take the place of the one that a run has opened.

use std::path::{Path, PathBuf};

use sconce_plugin_api::metadata::HookMetadata;

use super::copy::{self, LoadableFile};
use super::{compatibility, inspect};

/// A file that has passed all gates that execute none of its code.
#[derive(Clone, Debug)]
pub struct NewLibrary {
    /// Path of the plugin's file.
    pub path: PathBuf,
    /// The file to open: a private copy, to be [kept](LoadableFile::keep) before that.
    pub file: LoadableFile,
    /// Version of the plugin.
    pub version: String,
    /// SHA-256 of the file.
    pub sha256: String,
    /// The hook's description there.
    pub hook: HookMetadata,
    /// The hook's own code, if it is one in Python.
    pub script: Option<NewScript>,
}

/// The file of a hook in Python. What is in it counts when the hook is created, which may be long after it was asked for.
#[derive(Clone, Debug)]
pub struct NewScript {
    /// Its path. None for a module, which Python finds.
    pub path: Option<PathBuf>,
    /// SHA-256 of what the hook was created from.
    pub before: Option<String>,
}

/// The hook whose library is replaced.
#[derive(Clone, Debug)]
pub struct OldLibrary {
    /// Path of the plugin's file.
    pub path: PathBuf,
    /// Name of the plugin.
    pub plugin: String,
    /// Name of the hook in the plugin.
    pub kind: String,
    /// Who must have signed the file, if the manifest demands it.
    pub signed_by: Option<String>,
}

/// Looks at the file that is where a run found its plugin.
///
/// # Errors
///
/// Why it can't take the old one's place, for the user.
pub fn look(old: &OldLibrary) -> Result<NewLibrary, String> {
    let shown = old.path.display();
    let refused =
        |refusal: super::PluginRefusal| format!("`{shown}` is refused: {}", refusal.cause);
    let inspected = inspect(&old.path).map_err(refused)?;
    if let Some(signer) = &old.signed_by {
        inspected.check_signer(signer).map_err(refused)?;
    }
    let metadata = &inspected.metadata;
    if metadata.name != old.plugin {
        return Err(format!(
            "`{shown}` is now the plugin `{}`, and the run's is `{}`",
            metadata.name, old.plugin
        ));
    }
    let Some(hook) = inspected.hook(&old.kind) else {
        let names: Vec<String> = (metadata.hooks.iter())
            .map(|hook| format!("`{}`", hook.name))
            .collect();
        return Err(format!(
            "`{shown}` no longer has the hook `{}`; it has {}",
            old.kind,
            names.join(", ")
        ));
    };
    compatibility::check_hook(hook, &metadata.api_version)
        .map_err(|cause| format!("`{shown}` is refused: {cause}"))?;
    if inspected.looks_beside {
        return Err(format!(
            "`{shown}` looks for other libraries beside itself, so that it is not loaded from a copy; start the run again"
        ));
    }
    let source = copy::looked_at(&inspected).map_err(refused)?;
    Ok(NewLibrary {
        path: old.path.clone(),
        file: source,
        version: metadata.version.clone(),
        sha256: inspected.sha256().to_owned(),
        hook: hook.clone(),
        script: None,
    })
}

/// Identifies the contents of a file as long as it is not written to: its size and the time of its last change.
pub fn stamp(path: &Path) -> Option<(u64, std::time::SystemTime)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.len(), metadata.modified().ok()?))
}
