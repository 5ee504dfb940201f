//! Functions of Python's, made of closures.

use std::any::Any;
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

/// The text of a panic.
pub(super) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a text").to_owned()
}
