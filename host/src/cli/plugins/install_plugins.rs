//! `sconce install-plugins`: installs plugins where every run finds them. Runs none of their code.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use crate::cli::show::output;
use crate::diagnostic::Diagnostic;
use crate::exit;
use crate::plugin::install::{self, InstallPlan, PluginInstallation};
use crate::plugin::{Inspected, search, trust};
use crate::session::StartFailure;

/// Arguments of `sconce install-plugins`.
#[derive(Debug, Args)]
pub(in crate::cli) struct InstallPluginsArgs {
    /// Directory with plugins, or a single library. Default: the standard plugins next to this
    /// program.
    #[arg(long, value_name = "PATH")]
    from: Vec<PathBuf>,
    /// Target directory. Default: the user's plugin directory, which every run searches.
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Removes these plugins from there instead, by name: `sconce-plugin-csv`.
    #[arg(long, value_name = "PLUGIN", num_args = 1.., conflicts_with = "from")]
    remove: Vec<String>,
    /// Says what would be done, without doing it.
    #[arg(long)]
    dry_run: bool,
    /// Prints one JSON object.
    #[arg(long)]
    json: bool,
}

/// Prefix of the standard plugins' names: other libraries next to this program are not installed.
const STANDARD: &str = "sconce-plugin-";

pub(in crate::cli) fn install_plugins(arguments: &InstallPluginsArgs) -> Result<u8, StartFailure> {
    trust::current().map_err(|problems| StartFailure::usage(problems.to_vec()))?;
    let to = match &arguments.to {
        Some(to) => to.clone(),
        None => search::user_directory().ok_or_else(|| {
            let problem = Diagnostic::new("this user has no home directory to install plugins in");
            StartFailure::usage(vec![problem.hint("say where they go: `--to DIR`")])
        })?,
    };
    if arguments.remove.is_empty() {
        install(arguments, &to)
    } else {
        remove(arguments, &to)
    }
}

fn install(arguments: &InstallPluginsArgs, to: &Path) -> Result<u8, StartFailure> {
    let libraries = if arguments.from.is_empty() {
        let (beside, libraries) = standard();
        if libraries.is_empty() {
            return none_beside(&beside);
        }
        libraries
    } else {
        named(&arguments.from)?
    };
    let plan = InstallPlan::new(&libraries, to);
    output::diagnostics(&plan.refused);
    output::diagnostics(&plan.warnings);
    if plan.steps.is_empty() && plan.refused.is_empty() {
        let places: Vec<String> = arguments
            .from
            .iter()
            .map(|place| format!("`{}`", place.display()))
            .collect();
        let problem = format!("there is no plugin in {}", places.join(", "));
        return Err(StartFailure::plugin(vec![Diagnostic::new(problem)]));
    }
    if !arguments.dry_run {
        for step in &plan.steps {
            step.carry_out()
                .map_err(|problem| StartFailure::usage(vec![problem]))?;
        }
    }
    if arguments.json {
        output::json(&object(&plan.steps, to, arguments.dry_run));
    } else {
        print(&plan.steps, to, arguments.dry_run);
    }
    output::diagnostics(&notes(&plan.steps, to));
    Ok(if plan.refused.is_empty() {
        exit::DONE
    } else {
        exit::PLUGIN
    })
}

/// Directory of this program, and the libraries of the standard plugins in it.
fn standard() -> (PathBuf, Vec<PathBuf>) {
    let program = crate::subprocess::executable().and_then(std::fs::canonicalize);
    let program = program.unwrap_or_default();
    let beside = program.parent().unwrap_or(Path::new("."));
    let libraries = standard_in(beside).map(|plugin| plugin.path).collect();
    (beside.to_owned(), libraries)
}

fn standard_in(directory: &Path) -> impl Iterator<Item = Inspected> {
    let plugins = install::installed(directory).into_iter();
    plugins.filter(|plugin| plugin.metadata.name.starts_with(STANDARD))
}

/// Having nothing to install is fine if the plugins came with the program, as in an archive.
fn none_beside(beside: &Path) -> Result<u8, StartFailure> {
    let users = search::user_directory();
    let came = search::installed_directories()
        .into_iter()
        .find(|place| Some(place) != users.as_ref() && standard_in(place).next().is_some());
    if let Some(came) = came {
        output::line(&format!(
            "nothing to install: the standard plugins came with this program, in {}",
            came.display()
        ));
        return Ok(exit::DONE);
    }
    let problem = format!(
        "there are no standard plugins beside this program, in `{}`",
        beside.display()
    );
    let problem = Diagnostic::new(problem).hint(
        "build them by `cargo build --release` in a checkout, and say where they are: \
         `--from target/release`",
    );
    Err(StartFailure::plugin(vec![problem]))
}

/// The named libraries, and all libraries in the named directories.
fn named(places: &[PathBuf]) -> Result<Vec<PathBuf>, StartFailure> {
    let mut libraries = Vec::new();
    for place in places {
        if place.is_dir() {
            let found = search::libraries(place).map_err(|error| {
                let problem = format!("`{}` can't be searched: {error}", place.display());
                StartFailure::usage(vec![Diagnostic::new(problem)])
            })?;
            libraries.extend(found);
        } else {
            libraries.push(place.clone());
        }
    }
    Ok(libraries)
}

/// What was done with a plugin, in a word, and the versions that were installed before.
fn outcome(step: &PluginInstallation) -> (&'static str, Vec<&str>) {
    let versions = step.previous.iter();
    let versions: Vec<&str> = versions
        .map(|other| other.metadata.version.as_str())
        .collect();
    match (step.is_there, versions.is_empty()) {
        (true, _) => ("unchanged", versions),
        (false, true) => ("new", versions),
        (false, false) => ("replaced", versions),
    }
}

fn print(steps: &[PluginInstallation], to: &Path, is_dry: bool) {
    let mut rows = vec![
        ["PLUGIN", "VERSION", "HOOKS", ""]
            .map(String::from)
            .to_vec(),
    ];
    for step in steps {
        let metadata = &step.plugin.metadata;
        let (what, versions) = outcome(step);
        let what = if what == "replaced" {
            format!("replaces {}", versions.join(", "))
        } else {
            what.to_owned()
        };
        rows.push(vec![
            metadata.name.clone(),
            metadata.version.clone(),
            metadata.hooks.len().to_string(),
            what,
        ]);
    }
    output::table(&rows);
    let count = match steps.len() {
        1 => "1 plugin".to_owned(),
        count => format!("{count} plugins"),
    };
    let verb = if is_dry {
        "would be installed in"
    } else {
        "installed in"
    };
    output::line(&format!("{count} {verb} {}", to.display()));
}

fn object(steps: &[PluginInstallation], to: &Path, is_dry: bool) -> Value {
    let plugins: Vec<Value> = steps
        .iter()
        .map(|step| {
            let (what, versions) = outcome(step);
            json!({
                "name": step.plugin.metadata.name,
                "version": step.plugin.metadata.version,
                "file": step.target,
                "sha256": step.plugin.sha256(),
                "outcome": what,
                "previous": versions,
            })
        })
        .collect();
    json!({"to": to, "dry_run": is_dry, "plugins": plugins})
}

/// Warnings about why plugins won't be found in the target directory.
fn notes(steps: &[PluginInstallation], to: &Path) -> Vec<Diagnostic> {
    let same = |place: &Path| {
        place == to
            || matches!(
                (std::fs::canonicalize(place), std::fs::canonicalize(to)),
                (Ok(place), Ok(to)) if place == to
            )
    };
    let searched = search::installed_directories();
    let Some(index) = searched.iter().position(|place| same(place)) else {
        let problem = format!(
            "runs don't look for plugins in `{}` of themselves",
            to.display()
        );
        let hint =
            "name it under `plugins` of the manifest, with `--plugins`, or in SCONCE_PLUGIN_PATH";
        return vec![Diagnostic::warning(problem).hint(hint)];
    };
    let earlier = searched.get(..index).unwrap_or_default();
    let mut notes = Vec::new();
    for place in earlier {
        let there = install::installed(place);
        let is_before = |step: &&PluginInstallation| {
            let name = &step.plugin.metadata.name;
            there.iter().any(|other| other.metadata.name == *name)
        };
        let hidden = steps.iter().filter(is_before).count();
        if hidden > 0 {
            notes.push(Diagnostic::warning(format!(
                "{hidden} of these lie in `{}` too, where this program looks first",
                place.display()
            )));
        }
    }
    notes
}

fn remove(arguments: &InstallPluginsArgs, to: &Path) -> Result<u8, StartFailure> {
    let there = install::installed(to);
    let mut files = Vec::new();
    let mut problems = Vec::new();
    for name in &arguments.remove {
        let before = files.len();
        files.extend(
            there
                .iter()
                .filter(|plugin| plugin.metadata.name == *name)
                .map(|plugin| &plugin.path),
        );
        if files.len() == before {
            let problem = format!("there is no plugin `{name}` in `{}`", to.display());
            let names = there.iter().map(|plugin| plugin.metadata.name.as_str());
            problems.push(match sconce_base::nearest::nearest(name, names) {
                Some(near) => Diagnostic::new(problem).hint(format!("did you mean `{near}`?")),
                None => Diagnostic::new(problem),
            });
        }
    }
    if !problems.is_empty() {
        return Err(StartFailure::usage(problems));
    }
    for file in &files {
        if !arguments.dry_run {
            install::remove(file)
                .map_err(|error| StartFailure::usage(vec![Diagnostic::new(error.to_string())]))?;
        }
        if !arguments.json {
            let verb = if arguments.dry_run {
                "would be removed"
            } else {
                "removed"
            };
            output::line(&format!("{}  {verb}", file.display()));
        }
    }
    if arguments.json {
        let object = json!({"from": to, "dry_run": arguments.dry_run, "removed": files});
        output::json(&object);
    }
    Ok(exit::DONE)
}
