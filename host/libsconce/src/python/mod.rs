//! Python's extension module `sconce._sconce`: functions that the package `sconce` (`plugins/python/sconce`) is built on.
//!
//! **Parts.** `init` is the entry that Python calls, `function` makes functions of closures, `failure` exceptions of errors, `forked` refuses in copies of a process, `memory` is data of
//! Python's objects. `training` trains, `prediction` predicts, `hooks` are those of a loop of Python's. The classes that users see, and what they print, are in the package.
//!
//! Functions take and return texts, numbers, tuples and lists, and functions that know a run or a model.

mod failure;
mod forked;
mod function;
#[expect(unsafe_code, reason = "lends hooks the memory of Python's tensors")]
mod hooks;
#[expect(unsafe_code, reason = "an entry for Python")]
mod init;
#[expect(unsafe_code, reason = "reads memory of Python's objects")]
mod memory;
mod prediction;
mod training;

use pyo3::prelude::*;
use pyo3::types::PyModule;

use crate::place;

/// Adds all functions to the module, and says which program belongs to this library.
fn fill(module: &Bound<'_, PyModule>) -> PyResult<()> {
    if let Some(library) = place::of_this_library() {
        if let Some(program) = place::program(&library) {
            sconce::subprocess::set_program(&program);
        }
        sconce::subprocess::set_code(&library);
    }
    module.add("version", env!("CARGO_PKG_VERSION"))?;
    training::add_to(module)?;
    hooks::add_to(module)?;
    prediction::add_to(module)
}
