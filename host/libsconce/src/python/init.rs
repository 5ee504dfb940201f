//! The function that Python calls when the module is imported for the first time.

use std::ffi::c_int;
use std::panic::catch_unwind;
use std::ptr;

use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyModule;

/// Version of the interface that modules are made by; the stable one's.
const ABI3: c_int = 3;

/// Creates the module; null, with an exception set, if that fails.
#[unsafe(no_mangle)]
#[expect(unreachable_pub, reason = "its name is what Python knows")]
pub extern "C" fn PyInit__sconce() -> *mut ffi::PyObject {
    catch_unwind(|| {
        Python::attach(|py| match module(py) {
            Ok(module) => module.into_ptr(),
            Err(error) => {
                error.restore(py);
                ptr::null_mut()
            }
        })
    })
    .unwrap_or(ptr::null_mut())
}

fn module(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    // Python keeps the definition for as long as the module, which is for ever.
    let definition = Box::leak(Box::new(ffi::PyModuleDef {
        m_base: ffi::PyModuleDef_HEAD_INIT,
        m_name: c"_sconce".as_ptr(),
        m_doc: c"Sconce's own code, for the package `sconce`.".as_ptr(),
        m_size: -1,
        m_methods: ptr::null_mut(),
        m_slots: ptr::null_mut(),
        m_traverse: None,
        m_clear: None,
        m_free: None,
    }));
    // SAFETY: this thread holds the interpreter's lock; the definition is valid and stays. What is returned is a new reference
    // or null with an exception set.
    let module = unsafe {
        let created = ffi::PyModule_Create2(definition, ABI3);
        Bound::from_owned_ptr_or_err(py, created)?
    };
    let module = module
        .cast_into::<PyModule>()
        .map_err(|_| PyImportError::new_err("Python made something else of the module"))?;
    super::fill(&module)?;
    Ok(module)
}
