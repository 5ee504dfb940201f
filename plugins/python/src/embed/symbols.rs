//! The functions of libpython that are used, all of Python's stable ABI, looked up by name.
//!
//! Python's structures and macros appear nowhere: the same code runs with every version from 3.9 on, whatever the
//! layout of its objects, free-threaded builds included.

#![expect(non_snake_case, reason = "Python's own names")]

use std::ffi::{c_char, c_int, c_longlong, c_ulonglong, c_void};
use std::sync::OnceLock;

use libloading::Library;

/// A Python object, known by its address only.
#[repr(C)]
pub(super) struct PyObject {
    opaque: [u8; 0],
}

pub(super) type Object = *mut PyObject;

macro_rules! functions {
    ($($name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions and objects of libpython.
        pub(super) struct Python {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            /// `None`.
            pub(super) none: Object,
            pub(super) type_error: Object,
            pub(super) value_error: Object,
        }

        impl Python {
            /// Looks all of them up.
            pub(super) fn load(library: &Library) -> Result<Python, libloading::Error> {
                // SAFETY: the types are those of Python's headers, and the library stays open for ever.
                unsafe {
                    Ok(Python {
                        $($name: *library.get(concat!(stringify!($name), "\0").as_bytes())?,)*
                        none: *library.get::<Object>(b"_Py_NoneStruct\0")?,
                        type_error: **library.get::<*const Object>(b"PyExc_TypeError\0")?,
                        value_error: **library.get::<*const Object>(b"PyExc_ValueError\0")?,
                    })
                }
            }
        }
    };
}

functions! {
    // The interpreter.
    Py_IsInitialized() -> c_int;
    Py_InitializeEx(c_int);
    Py_DecodeLocale(*const c_char, *mut usize) -> *mut c_void;
    Py_SetProgramName(*const c_void);
    PyEval_SaveThread() -> *mut c_void;
    PyGILState_Ensure() -> c_int;
    PyGILState_Release(c_int);
    // References and attributes.
    Py_IncRef(Object);
    Py_DecRef(Object);
    PyObject_Call(Object, Object, Object) -> Object;
    PyObject_GetAttrString(Object, *const c_char) -> Object;
    PyObject_IsTrue(Object) -> c_int;
    PyObject_Type(Object) -> Object;
    // Numbers, texts, bytes.
    PyBool_FromLong(std::ffi::c_long) -> Object;
    PyLong_FromUnsignedLongLong(c_ulonglong) -> Object;
    PyLong_FromLongLong(c_longlong) -> Object;
    PyLong_AsLongLong(Object) -> c_longlong;
    PyFloat_FromDouble(f64) -> Object;
    PyFloat_AsDouble(Object) -> f64;
    PyUnicode_FromStringAndSize(*const c_char, isize) -> Object;
    PyUnicode_AsUTF8AndSize(Object, *mut isize) -> *const c_char;
    PyBytes_FromStringAndSize(*const c_char, isize) -> Object;
    PyBytes_AsStringAndSize(Object, *mut *mut c_char, *mut isize) -> c_int;
    // Containers.
    PyTuple_New(isize) -> Object;
    PyTuple_SetItem(Object, isize, Object) -> c_int;
    PyTuple_GetItem(Object, isize) -> Object;
    PyDict_New() -> Object;
    PyDict_SetItem(Object, Object, Object) -> c_int;
    PyDict_SetItemString(Object, *const c_char, Object) -> c_int;
    PyDict_GetItemString(Object, *const c_char) -> Object;
    PyCapsule_New(*mut c_void, *const c_char, Option<unsafe extern "C" fn(Object)>) -> Object;
    PyCapsule_GetPointer(Object, *const c_char) -> *mut c_void;
    PyCapsule_IsValid(Object, *const c_char) -> c_int;
    // Code and types.
    Py_CompileString(*const c_char, *const c_char, c_int) -> Object;
    PyEval_EvalCode(Object, Object, Object) -> Object;
    PyEval_GetBuiltins() -> Object;
    PyType_FromSpec(*mut TypeSpec) -> Object;
    PyType_GenericAlloc(Object, isize) -> Object;
    PyType_GetSlot(Object, c_int) -> *mut c_void;
    // Exceptions.
    PyErr_Occurred() -> Object;
    PyErr_Clear();
    PyErr_SetString(Object, *const c_char);
    PyErr_Fetch(*mut Object, *mut Object, *mut Object);
    PyErr_NormalizeException(*mut Object, *mut Object, *mut Object);
    PyException_SetTraceback(Object, Object) -> c_int;
}

// SAFETY: the addresses of functions and immortal objects, which are only used with the GIL.
unsafe impl Send for Python {}
// SAFETY: as above.
unsafe impl Sync for Python {}

/// `PyType_Spec`.
#[repr(C)]
pub(super) struct TypeSpec {
    pub(super) name: *const c_char,
    pub(super) basicsize: c_int,
    pub(super) itemsize: c_int,
    pub(super) flags: u32,
    pub(super) slots: *mut TypeSlot,
}

/// `PyType_Slot`.
#[repr(C)]
pub(super) struct TypeSlot {
    pub(super) slot: c_int,
    pub(super) function: *mut c_void,
}

/// `PyMethodDef`, of a method with `METH_FASTCALL`.
#[repr(C)]
pub(super) struct MethodDef {
    pub(super) name: *const c_char,
    pub(super) method: Option<FastCall>,
    pub(super) flags: c_int,
    pub(super) doc: *const c_char,
}

pub(super) type FastCall = unsafe extern "C" fn(Object, *const Object, isize) -> Object;

/// `PyGetSetDef`, without setters.
#[repr(C)]
pub(super) struct GetSetDef {
    pub(super) name: *const c_char,
    pub(super) get: Option<Getter>,
    pub(super) set: *const c_void,
    pub(super) doc: *const c_char,
    pub(super) closure: *mut c_void,
}

pub(super) type Getter = unsafe extern "C" fn(Object, *mut c_void) -> Object;

/// `METH_FASTCALL`.
pub(super) const FAST_CALL: c_int = 0x80;
/// `Py_TPFLAGS_DEFAULT`, with `Py_TPFLAGS_HAVE_VERSION_TAG` of older versions, and `Py_TPFLAGS_BASETYPE`.
pub(super) const BASE_TYPE: u32 = 1 << 18 | 1 << 10;
/// `Py_tp_dealloc`, `Py_tp_methods`, `Py_tp_getset`, `Py_tp_free`.
pub(super) const TP_DEALLOC: c_int = 52;
pub(super) const TP_METHODS: c_int = 64;
pub(super) const TP_GETSET: c_int = 73;
pub(super) const TP_FREE: c_int = 74;
/// `Py_file_input`.
pub(super) const FILE_INPUT: c_int = 257;

static PYTHON: OnceLock<Python> = OnceLock::new();

/// The functions, once Python has been opened.
pub(super) fn python() -> Option<&'static Python> {
    PYTHON.get()
}

/// Keeps the functions for the rest of the process.
pub(super) fn keep(python: Python) -> &'static Python {
    PYTHON.get_or_init(|| python)
}
