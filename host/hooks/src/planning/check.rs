//! Each hook's configuration is checked against its schema, and its entry becomes a plan.

use sconce_manifest::diagnostic::Diagnostic;
use sconce_manifest::problem::ManifestProblem;
use sconce_manifest::{ENTRY_KEYS, HookEntry, coming_from, explained};
use sconce_plugin_api::metadata::HookMetadata;
use sconce_plugin_api::{Point, Priority};
use serde_json::Value;

use super::find::FoundHooks;
use super::open::{OpenedLibraries, OpenedLibrary, opened_apart};
use super::{HookList, HookPlan, UnusableHooks};
use crate::dispatch::HookSpec;
use crate::plugin::resolve::Resolved;
use crate::plugin::{PluginRefusal, catalogue};

/// Opens the libraries of the hooks that were found, and checks each hook's configuration.
///
/// # Errors
///
/// All problems of all entries.
pub fn plan_hooks(
    list: &HookList<'_>,
    found: FoundHooks,
    warnings: &mut Vec<Diagnostic>,
) -> Result<Vec<HookPlan>, UnusableHooks> {
    warnings.extend(found.warnings);
    let mut plans = Vec::new();
    let mut failure = UnusableHooks::default();
    let mut opened = OpenedLibraries::default();
    let entries = list.entries.iter().zip(found.hooks);
    for (entry, (index, resolved, source)) in entries {
        let refused = |refusal: PluginRefusal| {
            let json_path = format!("hooks[{index}]");
            UnusableHooks::plugin(vec![list.placed(refusal.diagnostic(), &json_path)])
        };
        let planned = if entry.is_isolated() {
            opened_apart(entry, &resolved, &source, list)
                .map_err(refused)
                .and_then(|mut library| plan(index, entry, &resolved, &mut library, list, warnings))
        } else {
            let library = opened.open(&resolved, &source, warnings);
            library
                .map_err(refused)
                .and_then(|library| plan(index, entry, &resolved, library, list, warnings))
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

fn plan(
    index: usize,
    entry: &HookEntry,
    resolved: &Resolved,
    opened: &mut OpenedLibrary,
    list: &HookList<'_>,
    warnings: &mut Vec<Diagnostic>,
) -> Result<HookPlan, UnusableHooks> {
    let json_path = format!("hooks[{index}]");
    let config = Value::Object(entry.config.clone());
    let found = opened.problems(&config, &resolved.hook);
    let mut problems: Vec<Diagnostic> = found
        .into_iter()
        .map(|problem| told(problem, &resolved.hook, list, entry))
        .collect();
    let modules = entry.modules().unwrap_or_else(|message| {
        let place = list.place(&format!("{json_path}.modules"));
        problems.push(Diagnostic::new(message).at(place));
        None
    });
    if !problems.is_empty() {
        return Err(UnusableHooks::usage(problems));
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
            asks: resolved.hook.asks.clone(),
            reads: resolved.hook.reads.clone(),
            optional: resolved.hook.optional.clone(),
        },
        json_path,
        library: opened.library.clone(),
        file: opened.file.clone(),
        time_limit: entry.time_limit().or(list.limits.call_limit()),
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
    list: &HookList<'_>,
    entry: &HookEntry,
) -> Diagnostic {
    let json_path = format!("hooks[{}]", entry.index);
    let path = entry.form.place_in_config(&json_path, &problem.path);
    let place = if problem.is_key {
        list.source.key_location(&path)
    } else {
        list.place(&path)
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
