//! What hooks request of a loop in Python, served by an object's methods: `can`, `save`, `load_parameters`, `delete`, `copy`, `validate`
//! and `log`.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use sconce_hooks::host::{Loop, Served};
use sconce_hooks::log::{Level, Log};
use sconce_plugin_api::ext::Request;

/// The object.
pub(super) struct ServedByObject(Py<PyAny>);

/// Takes messages; one for each run, and there are few.
struct LogOfObject(Py<PyAny>);

impl ServedByObject {
    pub(super) fn new(object: Py<PyAny>) -> ServedByObject {
        ServedByObject(object)
    }

    /// The object as a log. It is never freed: hooks may refer to it from threads of their own until the process ends.
    pub(super) fn log(&self) -> &'static dyn Log {
        let object = Python::attach(|py| self.0.clone_ref(py));
        Box::leak(Box::new(LogOfObject(object)))
    }

    /// Calls a method that returns nothing; its exception is the reason of the refusal.
    fn call(
        &self,
        method: &str,
        arguments: impl for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyTuple>>,
    ) -> Served {
        Python::attach(|py| {
            let called =
                arguments(py).and_then(|given| self.0.bind(py).call_method1(method, given));
            called
                .map(drop)
                .map_err(|error| error.value(py).to_string())
        })
    }
}

impl Loop for ServedByObject {
    fn can(&self, request: Request) -> Served {
        Python::attach(|py| {
            let refused = self.0.bind(py).call_method1("can", (request.name(),));
            let refused = refused.and_then(|refused| refused.extract::<Option<String>>());
            match refused {
                Ok(None) => Ok(()),
                Ok(Some(reason)) => Err(reason),
                Err(error) => Err(error.value(py).to_string()),
            }
        })
    }

    fn save(&mut self, tag: &str, states: &[u8]) -> Served {
        self.call("save", |py| {
            PyTuple::new(
                py,
                [
                    tag.into_bound_py_any(py)?,
                    PyBytes::new(py, states).into_any(),
                ],
            )
        })
    }

    fn load_parameters(&mut self, tag: &str, set: Option<&str>) -> Served {
        self.call("load_parameters", |py| {
            PyTuple::new(py, [tag.into_bound_py_any(py)?, set.into_bound_py_any(py)?])
        })
    }

    fn delete(&mut self, tag: &str) -> Served {
        self.call("delete", |py| PyTuple::new(py, [tag]))
    }

    fn copy(&mut self, from: &str, to: &str) -> Served {
        self.call("copy", |py| PyTuple::new(py, [from, to]))
    }

    fn validate(&mut self) -> Served {
        self.call("validate", |py| Ok(PyTuple::empty(py)))
    }
}

impl Log for LogOfObject {
    fn log(&self, level: Level, source: &str, message: &str) {
        let level = match level {
            Level::Warn => 1,
            Level::Info => 2,
            Level::Debug => 3,
        };
        Python::attach(|py| {
            let told = self
                .0
                .bind(py)
                .call_method1("log", (level, source, message));
            if let Err(error) = told {
                error.write_unraisable(py, None);
            }
        });
    }
}
