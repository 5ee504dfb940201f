//! The manifest's hooks: finds them, opens their libraries, checks their configurations, and creates them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as MapEntry;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sconce_plugin_api::abi::Status;
use sconce_plugin_api::ext::DeviceTable;
use sconce_plugin_api::metadata::HookMetadata;
use sconce_plugin_api::{Point, Priority};
use serde_json::Value;

use super::StartFailure;
use super::mentioned::first_named;
use crate::bridge::BridgeState;
use crate::coming_from;
use crate::diagnostic::Diagnostic;
use crate::dispatch::{HookFault, HookSpec, LifeEvent, LoadedHook};
use crate::faults::{PluginFunction, Suspect};
use crate::isolation::IsolatedLibrary;
use crate::manifest::problem::ManifestProblem;
use crate::manifest::schema_check::Checker;
use crate::manifest::{ENTRY_KEYS, EntryForm, HookEntry, Manifest, OnCrash, explained};
use crate::plugin::blueprint::{HookBlueprint, HookLibrary};
use crate::plugin::catalogue;
use crate::plugin::copy::{self, LoadableFile};
use crate::plugin::entry_error::EntryError;
use crate::plugin::library::Library;
use crate::plugin::resolve::{HookOrigin, Resolved, is_missing, resolve};
use crate::plugin::search::{self, Inventory};
use crate::plugin::trial::{self, Candidate};
use crate::plugin::trust::{self, TrustStore};
use crate::plugin::{Cause, PluginRefusal};
use crate::team::meeting;

/// What a hook says it publishes that declares its metrics at its creation.
const DECLARED: &str = "*";

/// A hook of the manifest with its opened library, not yet created.
pub struct HookPlan {
    /// Its name, origin and call filters.
    pub spec: HookSpec,
    /// Path of its entry in the manifest, such as `hooks[1]`.
    pub json_path: String,
    library: HookLibrary,
    /// The file that was loaded.
    pub(super) file: PathBuf,
    /// Time limit of one of its calls.
    time_limit: Option<Duration>,
    /// Name of the hook in the plugin.
    pub(super) kind: String,
    pub(super) config: Value,
    /// The JSON Schema of its configuration, if the plugin provides one.
    pub(super) schema: Option<Value>,
    /// The metrics that it publishes, or [`DECLARED`].
    publishes: Vec<String>,
    /// The form of its entry.
    form: EntryForm,
    /// Extensions that it requires.
    pub requires: Vec<String>,
}

impl HookPlan {
    /// How the hook is created in a run.
    pub(super) fn blueprint(
        &self,
        manifest: &Arc<str>,
        directory: &Path,
        seed: u64,
    ) -> HookBlueprint {
        HookBlueprint {
            library: self.library.clone(),
            kind: self.kind.clone(),
            config: self.config.to_string(),
            manifest: Arc::clone(manifest),
            directory: directory.to_owned(),
            seed,
            name: self.spec.name.clone(),
            plugin: self.spec.plugin.clone(),
            file: self.spec.library.clone(),
            opened: self.file.clone(),
            keeps_state: matches!(self.spec.on_crash, OnCrash::Restart(_)),
        }
    }

    /// The metrics that it is known to publish before it has been created.
    pub(super) fn known_metrics(&self) -> impl Iterator<Item = &String> {
        let names = self.publishes.iter();
        names.filter(|name| *name != DECLARED)
    }

    /// Whether it says at its creation which metrics it publishes.
    pub(super) fn declares_metrics(&self) -> bool {
        self.publishes.iter().any(|name| name == DECLARED)
    }

    /// The place in the manifest of a part of its configuration; the configuration itself if `path` is empty.
    pub(super) fn place_in_config(&self, path: &str) -> String {
        self.form.place_in_config(&self.json_path, path)
    }

    /// Whether the hook runs in a process of its own.
    pub(super) fn is_isolated(&self) -> bool {
        matches!(self.library, HookLibrary::Apart(_))
    }

    /// The hook as it is identified in reports of crashes and hangs.
    pub fn suspect(&self) -> Suspect {
        Suspect {
            name: self.spec.name.clone(),
            plugin: self.spec.plugin.clone(),
            file: self.spec.library.display().to_string(),
            loaded: self.file.clone(),
            // A process of its own is killed at the limit; the run goes on.
            time_limit: self.time_limit.filter(|_| !self.is_isolated()),
            is_isolated: self.is_isolated(),
        }
    }
}

/// Searches all plugin directories. The installation directories are only searched if a hook is not found
/// elsewhere. No plugin code runs.
fn inventory(manifest: &Manifest, directories: &[PathBuf]) -> Inventory {
    let from_environment = search::from_environment();
    let all = directories
        .iter()
        .chain(&manifest.plugins)
        .chain(&from_environment);
    let inventory = Inventory::search(all);
    let mut requests = manifest.hooks.iter().map(request);
    if requests.any(|request| is_missing(&request, &inventory)) {
        inventory.with_installed()
    } else {
        inventory
    }
}

/// The manifest's hooks with the plugins that provide them, and the files to load.
#[derive(Default)]
pub struct FoundHooks {
    hooks: Vec<(usize, Resolved, LoadableFile)>,
    /// Warnings for the user.
    warnings: Vec<Diagnostic>,
}

/// Finds the libraries of the manifest's hooks, and tries them in another process. No plugin code runs in
/// this process.
///
/// # Errors
///
/// All problems of all entries. While an entry can't be resolved, no plugin code runs anywhere.
pub fn find_hooks(
    manifest: &Manifest,
    directories: &[PathBuf],
) -> Result<FoundHooks, StartFailure> {
    if manifest.hooks.is_empty() {
        return Ok(FoundHooks::default());
    }
    let trust = trust::current().map_err(|problems| StartFailure::usage(problems.to_vec()))?;
    let inventory = inventory(manifest, directories);
    let mut problems = Vec::new();
    let mut found = Vec::new();
    for entry in &manifest.hooks {
        let json_path = format!("hooks[{}]", entry.index);
        match resolve(&request(entry), &inventory) {
            Ok(resolved) => found.push((entry.index, resolved)),
            Err(problem) => problems.push(placed(problem, manifest, &json_path)),
        }
    }
    if !problems.is_empty() {
        problems.extend(inventory.problems);
        return Err(StartFailure::plugin(problems));
    }
    let mut warnings: Vec<Diagnostic> = inventory.problems.into_iter().map(as_warning).collect();
    let sources = sources(&found, manifest, &mut warnings)?;
    warnings.extend(untrusted(&found, trust));
    let hooks = found.into_iter().zip(sources);
    Ok(FoundHooks {
        hooks: hooks
            .map(|((index, resolved), source)| (index, resolved, source))
            .collect(),
        warnings,
    })
}

/// Opens the libraries of the hooks that were found, and checks each hook's configuration.
///
/// # Errors
///
/// All problems of all entries.
pub fn plan_hooks(
    manifest: &Manifest,
    found: FoundHooks,
    warnings: &mut Vec<Diagnostic>,
) -> Result<Vec<HookPlan>, StartFailure> {
    warnings.extend(found.warnings);
    let mut plans = Vec::new();
    let mut failure = StartFailure::none();
    let mut opened = OpenedLibraries::default();
    let entries = manifest.hooks.iter().zip(found.hooks);
    for (entry, (index, resolved, source)) in entries {
        let refused = |refusal: PluginRefusal| {
            let json_path = format!("hooks[{index}]");
            StartFailure::plugin(vec![placed(refusal.diagnostic(), manifest, &json_path)])
        };
        let planned = if entry.is_isolated() {
            opened_apart(entry, &resolved, &source, manifest)
                .map_err(refused)
                .and_then(|mut library| {
                    plan(index, entry, &resolved, &mut library, manifest, warnings)
                })
        } else {
            let library = opened.open(&resolved, &source, warnings);
            library
                .map_err(refused)
                .and_then(|library| plan(index, entry, &resolved, library, manifest, warnings))
        };
        match planned {
            Ok(plan) => plans.push(plan),
            Err(problem) => failure = failure.and(problem),
        }
    }
    if failure.diagnostics.is_empty() {
        Ok(plans)
    } else {
        Err(failure)
    }
}

/// The files to load: private copies, tried in another process.
fn sources(
    found: &[(usize, Resolved)],
    manifest: &Manifest,
    warnings: &mut Vec<Diagnostic>,
) -> Result<Vec<LoadableFile>, StartFailure> {
    let mut problems = Vec::new();
    let mut sources = Vec::new();
    let place = |refusal: PluginRefusal, index: usize| {
        placed(refusal.diagnostic(), manifest, &format!("hooks[{index}]"))
    };
    for (index, resolved) in found {
        match copy::of(&resolved.plugin) {
            Ok(source) => sources.push(source),
            Err(refusal) => problems.push(place(refusal, *index)),
        }
    }
    if !problems.is_empty() {
        return Err(StartFailure::plugin(problems));
    }
    let mut known: Vec<Diagnostic> = sources
        .iter()
        .filter_map(|source| source.warning.as_ref().map(Diagnostic::warning))
        .collect();
    known.dedup();
    warnings.extend(known);
    let tried = found.iter().zip(&sources).zip(&manifest.hooks);
    let candidates: Vec<Candidate> = tried
        // The start of an isolated hook's process is its trial.
        .filter(|(_, entry)| !entry.is_isolated())
        .map(|(tried, _)| tried)
        .map(|((_, resolved), source)| Candidate {
            sha256: resolved.plugin.sha256().to_owned(),
            file: source.file.clone(),
        })
        .collect();
    let verdicts = trial::of(&candidates, manifest.limits.load_limit());
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
        Err(StartFailure::plugin(problems))
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

/// Adds the place of the manifest entry to a problem, unless it has a more precise one.
fn placed(problem: Diagnostic, manifest: &Manifest, json_path: &str) -> Diagnostic {
    if problem.place.is_some() {
        return problem;
    }
    problem.at(manifest.place(json_path))
}

/// The libraries of a run with their descriptions, each opened once. A run may have thousands of hooks from
/// one plugin.
#[derive(Default)]
struct OpenedLibraries {
    by_file: BTreeMap<PathBuf, OpenedLibrary>,
}

/// An opened library.
struct OpenedLibrary {
    library: HookLibrary,
    description: Value,
    /// The file it was loaded from.
    file: PathBuf,
    /// Compiled configuration schemas, by hook name.
    checks: BTreeMap<String, Checker>,
}

impl OpenedLibraries {
    /// The library of a hook, opened on first use.
    fn open(
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
fn opened_apart(
    entry: &HookEntry,
    resolved: &Resolved,
    source: &LoadableFile,
    manifest: &Manifest,
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
        manifest.limits.load_limit(),
        entry.time_limit().or(manifest.limits.call_limit()),
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
    fn problems(&mut self, config: &Value, hook: &HookMetadata) -> Vec<ManifestProblem> {
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

fn plan(
    index: usize,
    entry: &HookEntry,
    resolved: &Resolved,
    opened: &mut OpenedLibrary,
    manifest: &Manifest,
    warnings: &mut Vec<Diagnostic>,
) -> Result<HookPlan, StartFailure> {
    let json_path = format!("hooks[{index}]");
    let config = Value::Object(entry.config.clone());
    let found = opened.problems(&config, &resolved.hook);
    let mut problems: Vec<Diagnostic> = found
        .into_iter()
        .map(|problem| told(problem, &resolved.hook, manifest, entry))
        .collect();
    let modules = entry.modules().unwrap_or_else(|message| {
        let place = manifest.place(&format!("{json_path}.modules"));
        problems.push(Diagnostic::new(message).at(place));
        None
    });
    if !problems.is_empty() {
        return Err(StartFailure::usage(problems));
    }
    let schema = catalogue::config_schema(&opened.description, &resolved.hook).cloned();
    let (points, doubtful) = known_points(&resolved.hook);
    warnings.extend(doubtful);
    if resolved.plugin.metadata.panic == "abort" {
        warnings.push(Diagnostic::warning(format!(
            "`{}` was built with `panic = \"abort\"`: a panic in it ends the whole process",
            resolved.plugin.path.display()
        )));
    }
    for other in &resolved.shadowed {
        warnings.push(Diagnostic::warning(format!(
            "the hook `{}` comes from `{}`; another build of its plugin, `{}`, is passed over",
            resolved.hook.name,
            resolved.plugin.path.display(),
            other.display()
        )));
    }
    let default = Priority::new(resolved.hook.priority).unwrap_or_default();
    Ok(HookPlan {
        spec: HookSpec {
            name: entry.name.clone(),
            kind: resolved.hook.name.clone(),
            plugin: resolved.plugin.metadata.name.clone(),
            version: resolved.plugin.metadata.version.clone(),
            sha256: resolved.plugin.sha256().to_owned(),
            library: resolved.plugin.path.clone(),
            priority: entry.priority().unwrap_or(default),
            on_error: entry.on_error(),
            on_panic: entry.on_panic(),
            on_crash: entry.on_crash(),
            reload: entry.reload(),
            ranks: entry.ranks.unwrap_or(resolved.hook.ranks),
            points,
            phases: entry.phases(),
            // Checked to be valid when the manifest was loaded.
            every: entry.every().unwrap_or_default(),
            streams: entry.streams.clone(),
            modules,
        },
        json_path,
        library: opened.library.clone(),
        file: opened.file.clone(),
        time_limit: entry.time_limit().or(manifest.limits.call_limit()),
        kind: resolved.hook.name.clone(),
        config,
        schema,
        publishes: resolved.hook.publishes.clone(),
        form: entry.form,
        requires: resolved.hook.requires.clone(),
    })
}

/// A problem of a hook's configuration, with its place in the manifest.
fn told(
    problem: ManifestProblem,
    hook: &HookMetadata,
    manifest: &Manifest,
    entry: &HookEntry,
) -> Diagnostic {
    let json_path = format!("hooks[{}]", entry.index);
    let path = entry.form.place_in_config(&json_path, &problem.path);
    let place = if problem.is_key {
        manifest.source.key_location(&path)
    } else {
        manifest.place(&path)
    };
    let message = format!("the configuration of `{}`: {}", hook.name, problem.message);
    let diagnostic = Diagnostic::new(message).at(place);
    let is_of_entry = |key: &String| problem.path == *key && ENTRY_KEYS.contains(&key.as_str());
    if let Some(key) = problem.unknown.as_ref().filter(|key| is_of_entry(key)) {
        return diagnostic.hint(format!(
            "`{key}` is a key of the entry: it belongs beside `hook` and `config`, not under `config`"
        ));
    }
    let is_slip = problem.is_slip;
    let unknown = problem.unknown.filter(|_| !is_slip);
    let of_hook = unknown.map(|key| coming_from::hints(&key, Some(&hook.name)));
    let of_hook = of_hook.and_then(|hints| hints.into_iter().next());
    explained(diagnostic, problem.about, of_hook.or(problem.hint))
}

/// The mount points that this host knows, and warnings about the others and about misnamed ones.
fn known_points(hook: &HookMetadata) -> (Vec<Point>, Vec<Diagnostic>) {
    let mut known = Vec::new();
    let mut unknown = Vec::new();
    let mut warnings = Vec::new();
    for point in &hook.points {
        match Point::from_number(point.number) {
            Some(is) => {
                if is.name() != point.name {
                    warnings.push(Diagnostic::warning(format!(
                        "the metadata of the hook `{}` calls the mount point {} `{}`, it is `{is}`: the hook is called there",
                        hook.name, point.number, point.name
                    )));
                }
                known.push(is);
            }
            None => unknown.push(format!("`{}`", point.name)),
        }
    }
    if !unknown.is_empty() {
        warnings.push(Diagnostic::warning(format!(
            "the hook `{}` wants to be called at {}, which this host doesn't know; update the host",
            hook.name,
            unknown.join(", ")
        )));
    }
    (known, warnings)
}

/// The hooks that run on the rank with this number, of those that were planned: all ranks check the whole manifest in the
/// same way.
pub fn hooks_on(rank: usize, plans: Vec<HookPlan>) -> Vec<HookPlan> {
    let mut plans = plans;
    plans.retain(|plan| plan.spec.ranks.has(rank));
    plans
}

/// Creates the hooks that run on this rank, in the manifest's order.
///
/// # Errors
///
/// All hooks whose creation fails; those already created are dropped.
pub fn create_hooks(
    plans: Vec<HookPlan>,
    manifest: &Manifest,
    directory: &Path,
    shared: &BridgeState<'_>,
) -> Result<Vec<LoadedHook>, StartFailure> {
    let resolved: Arc<str> = manifest.resolved().to_string().into();
    let mut hooks = Vec::new();
    let mut problems = Vec::new();
    for plan in hooks_on(shared.ranks().rank(), plans) {
        let id = shared.register_on(&plan.spec.name, plan.spec.ranks);
        let blueprint = plan.blueprint(&resolved, directory, manifest.seed);
        let create = || blueprint.create(shared);
        match shared.trail.around(id, PluginFunction::New, create) {
            Ok(instance) => {
                let left_out = shared.requests.take_left_out();
                let mut spec = plan.spec;
                spec.points.retain(|point| !left_out.contains(point));
                hooks.push(LoadedHook::new(spec, instance).with_blueprint(blueprint));
            }
            Err(error) => {
                if error.has_ended() {
                    meeting::note_accident();
                }
                problems.push(not_created(&plan, error, manifest));
            }
        }
    }
    if problems.is_empty() {
        Ok(hooks)
    } else {
        Err(StartFailure::plugin(problems))
    }
}

pub(super) fn not_created(plan: &HookPlan, error: EntryError, manifest: &Manifest) -> Diagnostic {
    if error.status == Status::CONFIG.0 {
        // Errors of this status have the form "`path`: message", by the plugin API's contract.
        let (path, message) = error
            .message
            .split_once(": ")
            .unwrap_or(("", &error.message));
        let path = path.trim_matches('`');
        let path = plan.place_in_config(path);
        // A Python file has a hook of its own, which `python` runs.
        let hook = match plan.form {
            EntryForm::Name => &plan.kind,
            EntryForm::Script => &plan.spec.name,
        };
        let message = format!("the configuration of `{hook}`: {message}");
        return Diagnostic::new(message).at(manifest.place(&path));
    }
    let path = match first_named(&plan.config, &error.message) {
        Some(path) => plan.place_in_config(&path),
        None => plan.json_path.clone(),
    };
    let fault = HookFault::new(Some(&plan.spec), LifeEvent::Create, error);
    Diagnostic::new(fault.to_string()).at(manifest.place(&path))
}
