//! The libraries of a list's hooks: searched for, copied, and tried in another process.

use std::path::{Path, PathBuf};

use sconce_manifest::HookEntry;
use sconce_manifest::diagnostic::Diagnostic;

use super::{HookList, UnusableHooks};
use crate::plugin::copy::{self, LoadableFile};
use crate::plugin::resolve::{HookOrigin, Resolved, is_missing, resolve};
use crate::plugin::search::{self, Inventory};
use crate::plugin::trial::{self, Candidate};
use crate::plugin::trust::{self, TrustStore};
use crate::plugin::{Cause, PluginRefusal};

/// Searches all plugin directories. The installation directories are only searched if a hook is not found
/// elsewhere. No plugin code runs.
fn inventory(list: &HookList<'_>, directories: &[PathBuf]) -> Inventory {
    let from_environment = search::from_environment();
    let all = directories
        .iter()
        .chain(list.plugins)
        .chain(&from_environment);
    let inventory = Inventory::search(all);
    let mut requests = list.entries.iter().map(request);
    if requests.any(|request| is_missing(&request, &inventory)) {
        inventory.with_installed()
    } else {
        inventory
    }
}

/// The manifest's hooks with the plugins that provide them, and the files to load.
#[derive(Default)]
pub struct FoundHooks {
    pub(super) hooks: Vec<(usize, Resolved, LoadableFile)>,
    /// Warnings for the user.
    pub(super) warnings: Vec<Diagnostic>,
}

/// Finds the libraries of the manifest's hooks, and tries them in another process. No plugin code runs in
/// this process.
///
/// # Errors
///
/// All problems of all entries. While an entry can't be resolved, no plugin code runs anywhere.
pub fn find_hooks(
    list: &HookList<'_>,
    directories: &[PathBuf],
) -> Result<FoundHooks, UnusableHooks> {
    if list.entries.is_empty() {
        return Ok(FoundHooks::default());
    }
    let trust = trust::current().map_err(|problems| UnusableHooks::usage(problems.to_vec()))?;
    let inventory = inventory(list, directories);
    let mut problems = Vec::new();
    let mut found = Vec::new();
    for entry in list.entries {
        let json_path = format!("hooks[{}]", entry.index);
        match resolve(&request(entry), &inventory) {
            Ok(resolved) => found.push((entry.index, resolved)),
            Err(problem) => problems.push(list.placed(problem, &json_path)),
        }
    }
    if !problems.is_empty() {
        problems.extend(inventory.problems);
        return Err(UnusableHooks::plugin(problems));
    }
    let mut warnings: Vec<Diagnostic> = inventory.problems.into_iter().map(as_warning).collect();
    let sources = sources(&found, list, &mut warnings)?;
    warnings.extend(untrusted(&found, trust));
    let hooks = found.into_iter().zip(sources);
    Ok(FoundHooks {
        hooks: hooks
            .map(|((index, resolved), source)| (index, resolved, source))
            .collect(),
        warnings,
    })
}

/// The files to load: private copies, tried in another process.
fn sources(
    found: &[(usize, Resolved)],
    list: &HookList<'_>,
    warnings: &mut Vec<Diagnostic>,
) -> Result<Vec<LoadableFile>, UnusableHooks> {
    let mut problems = Vec::new();
    let mut sources = Vec::new();
    let place = |refusal: PluginRefusal, index: usize| {
        list.placed(refusal.diagnostic(), &format!("hooks[{index}]"))
    };
    for (index, resolved) in found {
        match copy::of(&resolved.plugin) {
            Ok(source) => sources.push(source),
            Err(refusal) => problems.push(place(refusal, *index)),
        }
    }
    if !problems.is_empty() {
        return Err(UnusableHooks::plugin(problems));
    }
    let mut known: Vec<Diagnostic> = sources
        .iter()
        .filter_map(|source| source.warning.as_ref().map(Diagnostic::warning))
        .collect();
    known.dedup();
    warnings.extend(known);
    let tried = found.iter().zip(&sources).zip(list.entries);
    let candidates: Vec<Candidate> = tried
        // The start of an isolated hook's process is its trial.
        .filter(|(_, entry)| !entry.is_isolated())
        .map(|(tried, _)| tried)
        .map(|((_, resolved), source)| Candidate {
            sha256: resolved.plugin.sha256().to_owned(),
            file: source.file.clone(),
        })
        .collect();
    let verdicts = trial::of(&candidates, list.limits.load_limit());
    warnings.extend(verdicts.warnings.into_iter().map(Diagnostic::warning));
    for (index, resolved) in found {
        if let Some(fault) = verdicts.faults.get(resolved.plugin.sha256()) {
            let cause = Cause::Trial(fault.clone());
            problems.push(place(
                PluginRefusal::new(&resolved.plugin.path, cause),
                *index,
            ));
        }
    }
    if problems.is_empty() {
        Ok(sources)
    } else {
        Err(UnusableHooks::plugin(problems))
    }
}

/// Warnings about plugins that no trusted key has signed, each once, if the user wants them.
fn untrusted(found: &[(usize, Resolved)], trust: &TrustStore) -> Vec<Diagnostic> {
    let mut warned: Vec<&Path> = Vec::new();
    let mut warnings = Vec::new();
    for (_, resolved) in found {
        let plugin = &resolved.plugin;
        if !warned.contains(&plugin.path.as_path())
            && let Some(warning) = trust.warning(&plugin.path, &plugin.signature, &plugin.outside)
        {
            warned.push(&plugin.path);
            warnings.push(warning);
        }
    }
    warnings
}

fn request(entry: &HookEntry) -> HookOrigin {
    HookOrigin {
        hook: entry.hook.clone(),
        library: entry.library.clone(),
        sha256: entry.sha256.clone(),
        signed_by: entry.signed_by.clone(),
    }
}

fn as_warning(mut problem: Diagnostic) -> Diagnostic {
    problem.is_warning = true;
    problem
}
