//! `sconce schema`: the manifest's JSON Schema, including the hooks of the plugins found, for
//! editors.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use crate::cli::show::output;
use crate::diagnostic::Diagnostic;
use crate::exit;
use crate::manifest::{self, KnownHook, LimitsConfig, Manifest, Overlay, TaskSource};
use crate::plugin::catalogue::{self, Described};
use crate::plugin::search::{self, Inventory};
use crate::plugin::trust;
use crate::session::StartFailure;

/// Arguments of `sconce schema`.
#[derive(Debug, Args)]
pub(in crate::cli) struct SchemaArgs {
    /// Manifest whose plugin directories are searched too.
    file: Option<PathBuf>,
    /// Directory to search for plugins, before the manifest's and those of `SCONCE_PLUGIN_PATH`.
    #[arg(long = "plugins", value_name = "DIR")]
    plugins: Vec<PathBuf>,
    /// Prints only the configuration schema of this hook.
    #[arg(long, value_name = "HOOK")]
    hook: Option<String>,
}

pub(in crate::cli) fn schema(
    arguments: &SchemaArgs,
    tasks: TaskSource,
) -> Result<u8, StartFailure> {
    let mut directories = arguments.plugins.clone();
    if let Some(file) = &arguments.file {
        let Manifest { plugins, .. } =
            manifest::load(file, &Overlay::default(), tasks).map_err(StartFailure::usage)?;
        directories.extend(plugins);
    }
    directories.extend(search::from_environment());
    trust::current().map_err(|problems| StartFailure::usage(problems.to_vec()))?;
    let inventory = Inventory::search(&directories)
        .with_installed()
        .without_shadowed();
    let (hooks, problems) = hooks_of(&inventory);
    output::diagnostics(&inventory.problems);
    output::diagnostics(&problems);
    let schema = if let Some(name) = &arguments.hook {
        let found = hooks.iter().find(|hook| hook.name == *name);
        let schema = found.and_then(|hook| hook.config.clone());
        schema.ok_or_else(|| unknown(name, &hooks))?
    } else {
        with(&hooks, tasks)
    };
    output::json(&schema);
    Ok(exit::DONE)
}

/// Returns the manifest's schema with the hooks of the plugins found, and problems with some of
/// these.
pub(super) fn with_hooks(inventory: &Inventory, tasks: TaskSource) -> (Value, Vec<Diagnostic>) {
    let (hooks, problems) = hooks_of(inventory);
    (with(&hooks, tasks), problems)
}

fn with(hooks: &[KnownHook], tasks: TaskSource) -> Value {
    let mut schema = manifest::json_schema(tasks);
    manifest::add_hooks(&mut schema, hooks);
    schema
}

fn hooks_of(inventory: &Inventory) -> (Vec<KnownHook>, Vec<Diagnostic>) {
    let limit = LimitsConfig::default().load_limit();
    let (described, problems) = catalogue::describe(inventory, limit);
    (known(described), problems)
}

/// Hooks as manifests name them, qualified with their plugin if two plugins have the same name. Installed
/// plugins yield to named ones.
fn known(described: Vec<Described>) -> Vec<KnownHook> {
    let mut named: BTreeMap<String, usize> = BTreeMap::new();
    let mut installed = named.clone();
    for one in &described {
        let plugins = if one.is_named {
            &mut named
        } else {
            &mut installed
        };
        *plugins.entry(one.hook.name.clone()).or_default() += 1;
    }
    described
        .into_iter()
        .map(|one| {
            let count = |plugins: &BTreeMap<String, usize>| {
                plugins.get(&one.hook.name).copied().unwrap_or_default()
            };
            let is_alone = match count(&named) {
                0 => count(&installed) == 1,
                1 => one.is_named,
                _ => false,
            };
            KnownHook {
                name: if is_alone {
                    one.hook.name
                } else {
                    format!("{}/{}", one.plugin, one.hook.name)
                },
                about: one.hook.about,
                config: one.schema,
            }
        })
        .collect()
}

fn unknown(name: &str, hooks: &[KnownHook]) -> StartFailure {
    let names = hooks.iter().map(|hook| hook.name.as_str());
    let problem = Diagnostic::new(format!(
        "no plugin that was found has a hook `{name}` with a schema"
    ));
    StartFailure::plugin(vec![match sconce_base::nearest::nearest(name, names) {
        Some(near) => problem.hint(format!("did you mean `{near}`?")),
        None => problem.hint("say where its plugin is: `--plugins DIR`, or `SCONCE_PLUGIN_PATH`"),
    }])
}
