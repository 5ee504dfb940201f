//! `sconce new-plugin`: a crate with a hook, its tests and a manifest that uses it.

mod api;
mod names;
mod offline;
mod sources;

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
    /// The directory of `sconce-plugin-api`, or a version of it. Default: the checkout's in which this
    /// program lies, else as `--vendor`.
    #[arg(long, value_name = "DIR|VERSION")]
    api: Option<String>,
    /// Copies the sources of `sconce-plugin-api` that this program carries into the crate, which then needs
    /// neither a checkout nor this program to build.
    #[arg(long, conflicts_with = "api")]
    vendor: bool,
    /// As `--vendor`, with the sources of all other crates that it needs: `cargo` then builds it without a
    /// network. Archives of Sconce have them.
    #[arg(long, conflicts_with = "api")]
    offline: bool,
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
    let api = if arguments.vendor || arguments.offline {
        Api::Copy
    } else {
        Api::find(arguments.api.as_deref()).map_err(usage)?
    };
    let others = arguments.offline.then(offline::find).transpose();
    let others = others.map_err(usage)?;
    let default = PathBuf::from(&arguments.name);
    let directory = arguments.path.as_ref().unwrap_or(&default);
    check_empty(directory).map_err(usage)?;

    let plugins = standard_plugins();
    let has_console = plugins.is_some() || are_installed();
    let mut files = from_templates(&arguments.name, &hook, &api);
    let run = manifest(&hook, plugins.as_deref(), has_console);
    files.push(("run.json", manifest_text::text(&run)));
    write_all(directory, &files, &api, others.as_deref()).map_err(usage)?;

    output::line(&format!(
        "{} has a plugin with the hook `{hook}`:",
        directory.display()
    ));
    for (file, _) in &files {
        output::line(&format!("  {file}"));
    }
    output::block(&api.in_words());
    if others.is_some() {
        output::block(offline::IN_WORDS);
    }
    if !has_console {
        output::line(
            "The standard plugins were found neither beside this program nor where plugins are installed: \
             run.json does without them.",
        );
    }
    output::block("\nNext:");
    output::line(&format!("  cd {}", directory.display()));
    output::line("  cargo test");
    output::line("  cargo build --release");
    output::line(&format!("  {} run run.json", this_program()));
    Ok(exit::DONE)
}

/// The templates with the crate's words in them.
fn from_templates(name: &str, hook: &str, api: &Api) -> Vec<(&'static str, String)> {
    let library = name.replace('-', "_");
    let words = [
        ("{crate}", name.to_owned()),
        ("{hook}", hook.to_owned()),
        ("{type}", names::type_of(hook)),
        ("{api}", api.dependency()),
        ("{excluded}", api.excluded()),
        ("{library}", format!("{DLL_PREFIX}{library}{DLL_SUFFIX}")),
        ("{sconce}", this_program()),
        ("{where_from}", api.in_words()),
    ];
    let fill = |(file, template): (&'static str, &str)| {
        let mut text = template.to_owned();
        for (word, value) in &words {
            text = text.replace(word, value);
        }
        (file, text)
    };
    FILES.map(fill).into()
}

/// Writes the crate, and beside it the sources of others that it is to carry.
fn write_all(
    directory: &Path,
    files: &[(&str, String)],
    api: &Api,
    others: Option<&Path>,
) -> Result<(), Diagnostic> {
    let failed =
        |error: std::io::Error| Diagnostic::new(format!("the plugin can't be written: {error}"));
    for (file, text) in files {
        write(&directory.join(file), text).map_err(failed)?;
    }
    if *api == Api::Copy {
        let copy = directory.join(api::COPY);
        for (file, text) in sources::files()? {
            write(&copy.join(file), &text).map_err(failed)?;
        }
    }
    if let Some(others) = others {
        offline::copy(others, &directory.join(offline::COPY)).map_err(failed)?;
        write(&directory.join(offline::CONFIG.0), offline::CONFIG.1).map_err(failed)?;
    }
    Ok(())
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
