//! Exceptions of the package `sconce`, made of errors.

use std::any::Any;

use pyo3::prelude::*;
use sconce::embedded::{StartFailure, render};
use sconce::exit;

/// The exception for a run that can't start, with all problems and their hints.
pub(super) fn of_start(py: Python<'_>, failure: &StartFailure) -> PyErr {
    let class = match failure.code {
        exit::PLUGIN => "PluginError",
        exit::HOOK => "HookError",
        exit::TRAINING => "TrainingError",
        _ if failure.is_of_data => "DataError",
        _ => "ManifestError",
    };
    let text = render::text(&failure.diagnostics, false);
    let text = text.trim_end();
    new(py, class, text.strip_prefix("error: ").unwrap_or(text))
}

/// The exception for a mistake of this program.
pub(super) fn of_panic(py: Python<'_>, panic: &(dyn Any + Send)) -> PyErr {
    let problem = format!(
        "Sconce has made a mistake of its own: {}\nhint: report it, with what `sconce env` prints",
        panic_text(panic)
    );
    new(py, "InternalError", &problem)
}

/// An exception of one of the package's classes.
pub(super) fn new(py: Python<'_>, class: &str, text: &str) -> PyErr {
    let made = py
        .import("sconce._errors")
        .and_then(|errors| errors.getattr(class))
        .and_then(|class| class.call1((text,)));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// The text of a panic.
fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a text").to_owned()
}
