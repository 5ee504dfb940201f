//! `sconce new-plugin`: a plugin with a hook, its tests and a manifest that uses it: a crate in Rust, in C or C++ a
//! directory with a `Makefile`; or a hook in Python.

mod api;
mod c;
mod files;
mod names;
mod offline;
mod python;
mod sources;

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::cli::show::manifest_text;
use crate::cli::show::output;
use crate::diagnostic::Diagnostic;
use crate::exit;
use crate::plugin::search;
use crate::session::StartFailure;
use crate::shell_word::shell_word;
use api::Api;
use files::{check_empty, failed, write, write_files};

/// Arguments of `sconce new-plugin`.
#[derive(Debug, Args)]
pub(in crate::cli) struct NewPluginArgs {
    /// Name of the plugin, such as `best-epoch`; in Rust of its crate, in Python of the hook.
    name: String,
    /// Language to write it in.
    #[arg(long, value_name = "LANGUAGE", default_value = "rust")]
    language: PluginLanguage,
    /// Directory to write. Default: the name, in the current directory.
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// Name of the hook in manifests. Default: the plugin's name.
    #[arg(long, value_name = "NAME")]
    hook: Option<String>,
    /// Directory of `sconce-plugin-api`, or a version of it. Default: the checkout that contains this
    /// program, otherwise as `--vendor`.
    #[arg(long, value_name = "DIR|VERSION")]
    api: Option<String>,
    /// Copies the sources of `sconce-plugin-api` embedded in this program into the crate. Building it then
    /// needs neither a checkout nor this program.
    #[arg(long, conflicts_with = "api")]
    vendor: bool,
    /// As `--vendor`, with the sources of all other crates that it needs: `cargo` then builds it without a
    /// network. Archives of Sconce contain them.
    #[arg(long, conflicts_with = "api")]
    offline: bool,
}

/// Language of a new plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PluginLanguage {
    /// A crate: the default.
    Rust,
    /// A file with a Makefile.
    C,
    /// As C.
    #[value(name = "c++", alias = "cpp")]
    Cpp,
    /// A Python file, which the standard hook `python` runs.
    Python,
}

/// Target file of each template in Rust.
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

/// Writes the plugin.
pub(in crate::cli) fn new_plugin(arguments: &NewPluginArgs) -> Result<u8, StartFailure> {
    let usage = |problem| StartFailure::usage(vec![problem]);
    match arguments.language {
        PluginLanguage::Rust => names::check_crate(&arguments.name).map_err(usage)?,
        _ => names::check_library(&arguments.name).map_err(usage)?,
    }
    let hook = match &arguments.hook {
        Some(hook) => hook.clone(),
        None => arguments.name.replace('_', "-").to_lowercase(),
    };
    names::check_hook(&hook).map_err(usage)?;
    let default = PathBuf::from(&arguments.name);
    let directory = arguments.path.as_ref().unwrap_or(&default);
    let target = NewPlugin {
        name: &arguments.name,
        hook: &hook,
        directory,
        plugins: standard_plugins(),
    };
    match arguments.language {
        PluginLanguage::Rust => rust(arguments, &target),
        PluginLanguage::C => c::write(&c::C, arguments, &target),
        PluginLanguage::Cpp => c::write(&c::CPP, arguments, &target),
        PluginLanguage::Python => {
            return python::new_hook(&arguments.name, &hook, arguments.path.as_deref());
        }
    }
    .map_err(usage)?;
    Ok(exit::DONE)
}

/// A plugin to be written.
struct NewPlugin<'a> {
    name: &'a str,
    hook: &'a str,
    directory: &'a Path,
    /// Directory of the standard plugins, for the manifest.
    plugins: Option<PathBuf>,
}

impl NewPlugin<'_> {
    fn has_console(&self) -> bool {
        self.plugins.is_some() || are_installed()
    }

    /// The manifest, with the plugin's library in this directory.
    fn manifest(&self, library: &str) -> (&'static str, String) {
        let run = manifest(
            self.hook,
            library,
            self.plugins.as_deref(),
            self.has_console(),
        );
        ("run.json", manifest_text::text(&run))
    }

    /// Prints what was written and what to do next.
    fn print(&self, files: &[(String, String)], notes: &[String], commands: &[&str]) {
        output::line(&format!(
            "{} has a plugin with the hook `{}`:",
            self.directory.display(),
            self.hook
        ));
        for (file, _) in files {
            output::line(&format!("  {file}"));
        }
        for note in notes {
            output::block(note);
        }
        if !self.has_console() {
            output::line(
                "The standard plugins were found neither beside this program nor where plugins are installed: \
                 run.json does without them.",
            );
        }
        output::block("\nNext:");
        let directory = self.directory.to_string_lossy();
        output::line(&format!("  cd {}", shell_word(&directory)));
        for command in commands {
            output::line(&format!("  {command}"));
        }
        output::line(&format!("  {} run run.json", this_program()));
    }
}

/// Writes a crate.
fn rust(arguments: &NewPluginArgs, target: &NewPlugin<'_>) -> Result<(), Diagnostic> {
    let api = if arguments.vendor || arguments.offline {
        Api::Copy
    } else {
        Api::find(arguments.api.as_deref())?
    };
    let others = arguments.offline.then(offline::find).transpose()?;
    check_empty(target.directory)?;
    let mut files = from_templates(target.name, target.hook, &api);
    files.push(target.manifest("target/release"));
    let files: Vec<(String, String)> = files
        .into_iter()
        .map(|(file, text)| (file.to_owned(), text))
        .collect();
    write_all(target.directory, &files, &api, others.as_deref())?;
    let mut notes = vec![api.in_words()];
    notes.extend(others.map(|_| offline::IN_WORDS.to_owned()));
    target.print(&files, &notes, &["cargo test", "cargo build --release"]);
    Ok(())
}

/// Fills in the templates.
fn from_templates(name: &str, hook: &str, api: &Api) -> Vec<(&'static str, String)> {
    let library = name.replace('-', "_");
    let words = [
        ("{crate}", name.to_owned()),
        ("{hook}", hook.to_owned()),
        ("{type}", names::type_of(hook)),
        ("{api}", api.dependency()),
        ("{testing}", api.testing()),
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

/// Writes the crate, and the sources of other crates that it should contain.
fn write_all(
    directory: &Path,
    files: &[(String, String)],
    api: &Api,
    others: Option<&Path>,
) -> Result<(), Diagnostic> {
    write_files(directory, files)?;
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

/// Returns a manifest with the hook, whose library is in this directory, and with the hook `console` if it is available.
fn manifest(hook: &str, library: &str, plugins: Option<&Path>, has_console: bool) -> Value {
    let mut directories = vec![json!(library)];
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

/// Directory of the standard plugins, if they are next to this program and not installed with it.
pub(in crate::cli) fn standard_plugins() -> Option<PathBuf> {
    let program = crate::subprocess::executable()
        .and_then(std::fs::canonicalize)
        .ok()?;
    let beside = program.parent()?;
    has_standard(beside).then(|| beside.to_owned())
}

/// Whether the standard plugins are found without naming their directory.
fn are_installed() -> bool {
    let places = search::installed_directories();
    places.iter().any(|place| has_standard(place))
}

fn has_standard(directory: &Path) -> bool {
    let console = format!("{DLL_PREFIX}sconce_plugin_console{DLL_SUFFIX}");
    directory.join(console).is_file()
}

/// How to call this program: by name if it is on the path, otherwise by its file.
pub(in crate::cli) fn this_program() -> String {
    let name = "sconce".to_owned();
    let Ok(program) = crate::subprocess::executable() else {
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
