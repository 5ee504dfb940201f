//! Types of ours, made of tables of methods and attributes.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use super::gil::{Gil, Ref};
use super::symbols::{
    BASE_TYPE, GetSetDef, MethodDef, Object, TP_DEALLOC, TP_GETSET, TP_METHODS, TypeSlot, TypeSpec,
};

/// Creates a type from its tables, which are kept for ever: types are never freed.
pub(super) fn new_type(
    gil: &Gil,
    name: &'static CStr,
    size: c_int,
    mut methods: Vec<MethodDef>,
    mut getters: Vec<GetSetDef>,
    dealloc: Option<unsafe extern "C" fn(Object)>,
) -> Option<Ref> {
    methods.push(MethodDef {
        name: ptr::null(),
        method: None,
        flags: 0,
        doc: ptr::null(),
    });
    getters.push(GetSetDef {
        name: ptr::null(),
        get: None,
        set: ptr::null(),
        doc: ptr::null(),
        closure: ptr::null_mut(),
    });
    let mut slots = vec![
        TypeSlot {
            slot: TP_METHODS,
            function: methods.leak().as_mut_ptr().cast(),
        },
        TypeSlot {
            slot: TP_GETSET,
            function: getters.leak().as_mut_ptr().cast(),
        },
    ];
    if let Some(dealloc) = dealloc {
        slots.push(TypeSlot {
            slot: TP_DEALLOC,
            function: dealloc as *mut c_void,
        });
    }
    slots.push(TypeSlot {
        slot: 0,
        function: ptr::null_mut(),
    });
    let spec = Box::leak(Box::new(TypeSpec {
        name: name.as_ptr(),
        basicsize: size,
        itemsize: 0,
        flags: BASE_TYPE,
        slots: slots.leak().as_mut_ptr(),
    }));
    // SAFETY: this thread has the lock; specification and tables end as Python's headers say, and live for ever.
    gil.own(unsafe { (gil.python().PyType_FromSpec)(spec) })
}
