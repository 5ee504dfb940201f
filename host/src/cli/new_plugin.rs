//! `sconce new-plugin`: a crate with a hook, its tests and a manifest that uses it.

mod api;
mod names;

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::{manifest_text, output};
use crate::diagnostic::Diagnostic;
use crate::exit;
use crate::plugin::search;
use crate::session::Failure;
use api::Api;

/// The arguments of `sconce new-plugin`.
#[derive(Debug, Args)]
pub(super) struct NewPluginArgs {
    /// The crate's name, as `best-epoch`.
    name: String,
    /// The directory to write. Default: the name, below the present directory.
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// The hook's name in manifests. Default: the crate's.
    #[arg(long, value_name = "NAME")]
    hook: Option<String>,
    /// The directory of `sconce-plugin-api`, or a version of it. Default: the one beside the sources
    /// that this program was built from.
    #[arg(long, value_name = "DIR|VERSION")]
    api: Option<String>,
}

/// Where each template goes.
const FILES: [(&str, &str); 5] = [
    (
        "Cargo.toml",
        include_str!("new_plugin/template/Cargo.toml.txt"),
    ),
    (
        "README.md",
        include_str!("new_plugin/template/README.md.txt"),
    ),
    (
        ".gitignore",
        include_str!("new_plugin/template/gitignore.txt"),
    ),
    ("src/lib.rs", include_str!("new_plugin/template/lib.rs.txt")),
    (
        "src/tests.rs",
        include_str!("new_plugin/template/tests.rs.txt"),
    ),
];

/// Writes the crate.
pub(super) fn new_plugin(arguments: &NewPluginArgs) -> Result<u8, Failure> {
    let usage = |problem| Failure::usage(vec![problem]);
    names::check_crate(&arguments.name).map_err(usage)?;
    let hook = match &arguments.hook {
        Some(hook) => hook.clone(),
        None => arguments.name.replace('_', "-").to_lowercase(),
    };
    names::check_hook(&hook).map_err(usage)?;
    let api = Api::find(arguments.api.as_deref()).map_err(usage)?;
    let default = PathBuf::from(&arguments.name);
    let directory = arguments.path.as_ref().unwrap_or(&default);
    check_empty(directory).map_err(usage)?;

    let plugins = standard_plugins();
    let has_console = plugins.is_some() || are_installed();
    let library = arguments.name.replace('-', "_");
    let library = format!("{DLL_PREFIX}{library}{DLL_SUFFIX}");
    let words = [
        ("{crate}", arguments.name.clone()),
        ("{hook}", hook.clone()),
        ("{type}", names::type_of(&hook)),
        ("{api}", api.dependency()),
        ("{library}", library),
        ("{sconce}", this_program()),
        ("{where_from}", api.in_words()),
    ];
    let mut written = Vec::new();
    for (file, template) in FILES {
        let mut text = template.to_owned();
        for (word, value) in &words {
            text = text.replace(word, value);
        }
        written.push((file, text));
    }
    written.push((
        "run.json",
        manifest_text::text(&manifest(&hook, plugins.as_deref(), has_console)),
    ));
    for (file, text) in &written {
        write(&directory.join(file), text).map_err(|error| {
            usage(Diagnostic::new(format!(
                "the plugin can't be written: {error}"
            )))
        })?;
    }

    output::line(&format!(
        "{} has a plugin with the hook `{hook}`:",
        directory.display()
    ));
    for (file, _) in &written {
        output::line(&format!("  {file}"));
    }
    output::line(&api.in_words());
    if !has_console {
        output::line(
            "The standard plugins were found neither beside this program nor where plugins are installed: \
             run.json does without them.",
        );
    }
    output::line("\nNext:");
    output::line(&format!("  cd {}", directory.display()));
    output::line("  cargo test");
    output::line("  cargo build --release");
    output::line(&format!("  {} run run.json", this_program()));
    Ok(exit::DONE)
}

/// A manifest with the hook, and with one that shows a run where there is one.
fn manifest(hook: &str, plugins: Option<&Path>, has_console: bool) -> Value {
    let mut directories = vec![json!("target/release")];
    let mut hooks = vec![json!({"hook": hook, "config": {"metric": "accuracy", "patience": 2}})];
    if let Some(plugins) = plugins {
        directories.push(json!(plugins));
    }
    if has_console {
        hooks.insert(0, json!("console"));
    }
    json!({
        "name": hook,
        "seed": 1,
        "plugins": directories,
        "model": {"kind": "mlp", "hidden": [32]},
        "data": {"kind": "synthetic-digits", "train": 2000, "val": 400, "test": 400},
        "optimizer": {"kind": "adamw", "learning_rate": 0.003},
        "train": {"epochs": 10, "batch_size": 64},
        "hooks": hooks,
    })
}

/// The directory of the standard plugins, where they lie beside this program and are not installed with it.
pub(super) fn standard_plugins() -> Option<PathBuf> {
    let program = std::env::current_exe()
        .and_then(std::fs::canonicalize)
        .ok()?;
    let beside = program.parent()?;
    has_standard(beside).then(|| beside.to_owned())
}

/// Whether the standard plugins are found without being asked for.
fn are_installed() -> bool {
    let places = search::installed_directories();
    places.iter().any(|place| has_standard(place))
}

fn has_standard(directory: &Path) -> bool {
    let console = format!("{DLL_PREFIX}sconce_plugin_console{DLL_SUFFIX}");
    directory.join(console).is_file()
}

/// How this program is called: by its name where it is on the path, else by its file.
pub(super) fn this_program() -> String {
    let name = "sconce".to_owned();
    let Ok(program) = std::env::current_exe() else {
        return name;
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let file = format!("sconce{}", std::env::consts::EXE_SUFFIX);
    let real = std::fs::canonicalize(&program).ok();
    let is_first = std::env::split_paths(&path)
        .map(|directory| directory.join(&file))
        .find(|candidate| candidate.is_file())
        .is_some_and(|candidate| std::fs::canonicalize(candidate).ok() == real);
    if is_first {
        name
    } else {
        program.display().to_string()
    }
}

/// Refuses a directory with something in it.
fn check_empty(directory: &Path) -> Result<(), Diagnostic> {
    let problem = match std::fs::read_dir(directory) {
        Ok(mut entries) => match entries.next() {
            None => return Ok(()),
            Some(_) => format!("`{}` is there already, and not empty", directory.display()),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => format!("`{}` can't be written to: {error}", directory.display()),
    };
    Err(Diagnostic::new(problem).hint("choose another name, or another place by `--path DIR`"))
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(directory) = path.parent() {
        fs_err::create_dir_all(directory)?;
    }
    fs_err::write(path, text)
}
