//! Data in the memory of Python's objects, read in place.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sconce::embedded::{Content, ProvidedArray, ProvidedFile};

/// What the package says of an object: the path that stands for it, the object, and of an array NumPy's name of the element type, the
/// shape, and the address of its first element.
type Described<'py> = (
    PathBuf,
    Bound<'py, PyAny>,
    Option<(String, Vec<usize>, usize, usize)>,
);

/// Memory that an object owns, which is kept for as long.
struct OwnedByPython {
    address: usize,
    length: usize,
    _owner: Py<PyAny>,
}

impl AsRef<[u8]> for OwnedByPython {
    fn as_ref(&self) -> &[u8] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: the object, which this keeps, owns this many bytes there: its own description of its memory, which
        // `__array_interface__` promises to be valid for the object's lifetime. Writing to an array while it is read is a mistake of its
        // owner's, as for every library that computes with arrays without the interpreter's lock.
        unsafe { std::slice::from_raw_parts(self.address as *const u8, self.length) }
    }
}

/// Takes what the package describes, each with its path.
pub(super) fn provided(list: &Bound<'_, PyAny>) -> PyResult<Vec<(PathBuf, ProvidedFile)>> {
    let described: Vec<Described<'_>> = list.extract()?;
    described.into_iter().map(one).collect()
}

fn one((path, object, array): Described<'_>) -> PyResult<(PathBuf, ProvidedFile)> {
    let Some((element, shape, address, length)) = array else {
        let bytes = object.cast::<PyBytes>()?;
        let content = bytes.as_bytes();
        let (address, length) = (content.as_ptr() as usize, content.len());
        let content = owned(address, length, object)?;
        return Ok((path, ProvidedFile::Bytes(content)));
    };
    let content = owned(address, length, object)?;
    let array = ProvidedArray {
        element,
        shape,
        content,
    };
    Ok((path, ProvidedFile::Array(array)))
}

fn owned(address: usize, length: usize, owner: Bound<'_, PyAny>) -> PyResult<Content> {
    if address == 0 && length > 0 {
        return Err(PyValueError::new_err("an array's memory is at no address"));
    }
    Ok(Arc::new(OwnedByPython {
        address,
        length,
        _owner: owner.unbind(),
    }))
}
