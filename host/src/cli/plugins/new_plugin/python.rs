//! `sconce new-plugin --language python`: a hook in Python with its test, a manifest, and the package `sconce` for editors,
//! type checkers and `pytest`. Nothing has to be built: the standard hook `python` runs it.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{check_empty, names, standard_plugins, this_program};
use crate::cli::show::manifest_text;
use crate::cli::show::output;
use crate::diagnostic::Diagnostic;
use crate::exit;
use crate::session::StartFailure;
use crate::shell_word::shell_word;

/// Target file of each template, in which `{name}`, `{type}` and `{sconce}` stand for the hook's.
const TEMPLATES: [(&str, &str); 4] = [
    ("hook.py", include_str!("template/python/hook.py.txt")),
    (
        "test_hook.py",
        include_str!("template/python/test_hook.py.txt"),
    ),
    ("README.md", include_str!("template/python/README.md.txt")),
    (".gitignore", include_str!("template/python/gitignore.txt")),
];

macro_rules! package {
    ($($file:literal)*) => {
        [$((
            concat!("sconce/", $file),
            include_str!(concat!(env!("SCONCE_CARRIED"), "/plugins/python/sconce/", $file)),
        ),)*]
    };
}

/// The package `sconce` as the hook `python` embeds it, with what only tests and type checkers need.
const PACKAGE: [(&str, &str); 9] = package! {
    "__init__.py" "__init__.pyi" "_errors.py" "_hook.py" "_payload.py" "_task.py" "_tensor.py" "py.typed" "testing.py"
};

/// Writes the directory of a hook in Python.
pub(super) fn new_hook(name: &str, hook: &str, path: Option<&Path>) -> Result<u8, StartFailure> {
    let usage = |problem| StartFailure::usage(vec![problem]);
    let directory = path.map_or_else(|| PathBuf::from(name), Path::to_path_buf);
    check_empty(&directory).map_err(usage)?;
    let plugins = standard_plugins();
    let words = [
        ("{name}", hook.to_owned()),
        ("{type}", names::type_of(hook)),
        ("{sconce}", this_program()),
    ];
    let fill = |template: &str| {
        let fill = |text: String, (word, value): &(&str, String)| text.replace(word, value);
        words.iter().fold(template.to_owned(), fill)
    };
    let run = manifest_text::text(&manifest(hook, plugins.as_deref()));
    let own = TEMPLATES.map(|(file, template)| (file, fill(template)));
    let package = PACKAGE.map(|(file, text)| (file, text.to_owned()));
    let run = [("run.json", run)];
    for (file, text) in own.iter().chain(&run).chain(&package) {
        super::write(&directory.join(file), text).map_err(|error| {
            usage(Diagnostic::new(format!(
                "the hook can't be written: {error}"
            )))
        })?;
    }
    output::line(&format!(
        "{} has the hook `{hook}` in Python:",
        directory.display()
    ));
    for (file, _) in own.iter().chain(&run) {
        output::line(&format!("  {file}"));
    }
    output::line(
        "  sconce/ (for tests and editors; runs use the package in this program's plugin)",
    );
    output::block("\nNext:");
    let there = directory.to_string_lossy();
    for command in [
        format!("cd {}", shell_word(&there)),
        "python3 -m venv .venv && .venv/bin/pip install numpy pytest".to_owned(),
        ".venv/bin/python -m pytest".to_owned(),
        format!("{} run run.json", this_program()),
    ] {
        output::line(&format!("  {command}"));
    }
    Ok(exit::DONE)
}

/// A manifest with the hook.
fn manifest(hook: &str, plugins: Option<&Path>) -> Value {
    let mut manifest = json!({
        "name": hook,
        "seed": 1,
        "model": {"kind": "mlp", "hidden": [32]},
        "data": {"kind": "synthetic-digits", "train": 2000, "val": 400, "test": 400},
        "optimizer": {"kind": "adamw", "learning_rate": 0.003},
        "train": {"epochs": 10, "batch_size": 64},
        "hooks": [
            "console",
            {"hook": "hook.py", "name": hook, "config": {"metric": "accuracy", "patience": 2}},
        ],
    });
    if let Some(plugins) = plugins {
        manifest["plugins"] = json!([plugins]);
    }
    manifest
}
