//! Functions of Python's, made of closures.

use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyTuple};

use super::failure;

/// Makes a function that takes positional arguments. A panic in it becomes `sconce.InternalError`.
pub(super) fn function<'py, R>(
    py: Python<'py>,
    name: &'static CStr,
    doc: &'static CStr,
    call: impl for<'a> Fn(&Bound<'a, PyTuple>) -> PyResult<R> + Send + Sync + 'static,
) -> PyResult<Bound<'py, PyCFunction>>
where
    R: for<'a> IntoPyObject<'a> + 'static,
{
    PyCFunction::new_closure(py, Some(name), Some(doc), move |arguments, _| {
        let called = catch_unwind(AssertUnwindSafe(|| call(arguments)));
        called.unwrap_or_else(|panic| Err(failure::of_panic(arguments.py(), &*panic)))
    })
}
