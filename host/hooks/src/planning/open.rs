//! The libraries of a list's hooks, opened: in this process once each, or in one of a hook's own.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as MapEntry;
use std::path::PathBuf;
use std::sync::Arc;

use sconce_manifest::HookEntry;
use sconce_manifest::diagnostic::Diagnostic;
use sconce_manifest::problem::ManifestProblem;
use sconce_manifest::schema_check::Checker;
use sconce_plugin_api::ext::DeviceTable;
use sconce_plugin_api::metadata::HookMetadata;
use serde_json::Value;

use super::HookList;
use crate::isolation::IsolatedLibrary;
use crate::plugin::blueprint::HookLibrary;
use crate::plugin::copy::LoadableFile;
use crate::plugin::library::Library;
use crate::plugin::resolve::Resolved;
use crate::plugin::{Cause, PluginRefusal, catalogue};

/// The libraries of a run with their descriptions, each opened once. A run may have thousands of hooks from
/// one plugin.
#[derive(Default)]
pub(super) struct OpenedLibraries {
    by_file: BTreeMap<PathBuf, OpenedLibrary>,
}

/// An opened library.
pub(super) struct OpenedLibrary {
    pub(super) library: HookLibrary,
    pub(super) description: Value,
    /// The file it was loaded from.
    pub(super) file: PathBuf,
    /// Compiled configuration schemas, by hook name.
    checks: BTreeMap<String, Checker>,
}

impl OpenedLibraries {
    /// The library of a hook, opened on first use.
    pub(super) fn open(
        &mut self,
        resolved: &Resolved,
        source: &LoadableFile,
        warnings: &mut Vec<Diagnostic>,
    ) -> Result<&mut OpenedLibrary, PluginRefusal> {
        match self.by_file.entry(source.file.clone()) {
            MapEntry::Occupied(known) => Ok(known.into_mut()),
            MapEntry::Vacant(place) => {
                let library = Library::open_from(&resolved.plugin.path, &source.file)?;
                warnings.extend(library.warnings().iter().map(Diagnostic::warning));
                let (description, changes) = library.describe_watched();
                warnings.extend(changes.iter().map(Diagnostic::warning));
                let description = description?;
                Ok(place.insert(OpenedLibrary {
                    library: HookLibrary::Here(library),
                    description,
                    file: source.file.clone(),
                    checks: BTreeMap::new(),
                }))
            }
        }
    }
}

/// Opens a library in a process for one hook.
pub(super) fn opened_apart(
    entry: &HookEntry,
    resolved: &Resolved,
    source: &LoadableFile,
    list: &HookList<'_>,
) -> Result<OpenedLibrary, PluginRefusal> {
    if resolved
        .hook
        .requires
        .iter()
        .any(|id| id == DeviceTable::ID)
    {
        return Err(PluginRefusal {
            path: resolved.plugin.path.clone(),
            cause: Cause::NotApart(resolved.hook.name.clone()),
        });
    }
    let library = IsolatedLibrary::open(
        &resolved.plugin.path,
        &source.file,
        entry.sandbox().map(|sandbox| sandbox.rules()),
        list.limits.load_limit(),
        entry.time_limit().or(list.limits.call_limit()),
    )?;
    Ok(OpenedLibrary {
        description: library.description.clone(),
        library: HookLibrary::Apart(Arc::new(library)),
        file: source.file.clone(),
        checks: BTreeMap::new(),
    })
}

impl OpenedLibrary {
    /// Problems of a hook's configuration under its schema.
    pub(super) fn problems(&mut self, config: &Value, hook: &HookMetadata) -> Vec<ManifestProblem> {
        if !self.checks.contains_key(&hook.name) {
            let Some(schema) = catalogue::config_schema(&self.description, hook) else {
                return Vec::new();
            };
            self.checks.insert(hook.name.clone(), Checker::new(schema));
        }
        let check = self.checks.get(&hook.name);
        check.map_or_else(Vec::new, |check| check.check(config))
    }
}
