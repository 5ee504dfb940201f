//! Tensors as `DLPack` capsules, for PyTorch and others: the structures of `dlpack.h` 1.1.
//!
//! The capsule's structure holds a reference to the Python object, which holds the memory. Whoever takes the structure
//! out of the capsule calls its deleter, on any thread.

use std::ffi::{CStr, c_void};

use sconce_plugin_api::tensor::RetainedTensor;

use super::gil::{Gil, Ref};
use super::symbols::{Object, python};

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    dimensions: i32,
    type_code: u8,
    type_bits: u8,
    type_lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

/// `DLManagedTensor`, which can't say that a tensor is read-only.
#[repr(C)]
struct Managed {
    tensor: DlTensor,
    owner: Object,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
struct Versioned {
    major: u32,
    minor: u32,
    owner: Object,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: DlTensor,
}

const READ_ONLY: u64 = 1;
const MANAGED: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";

/// A capsule of a tensor; `object` is the Python object that holds it.
pub(super) fn capsule(
    gil: &Gil,
    object: &Ref,
    held: &RetainedTensor,
    has_flags: bool,
) -> Option<Ref> {
    let (type_code, type_bits) = held.dtype()?.codes();
    let tensor = DlTensor {
        data: held.data(),
        device_type: 1,
        device_id: 0,
        dimensions: i32::try_from(held.shape().len()).ok()?,
        type_code,
        type_bits,
        type_lanes: 1,
        shape: held.shape().as_ptr(),
        strides: held.strides().as_ptr(),
        byte_offset: 0,
    };
    let owner = gil.share(object.pointer())?.into_pointer();
    let (structure, name): (*mut c_void, &CStr) = if has_flags {
        let structure = Box::new(Versioned {
            major: 1,
            minor: 0,
            owner,
            deleter: Some(delete_versioned),
            flags: if held.is_writable() { 0 } else { READ_ONLY },
            tensor,
        });
        (Box::into_raw(structure).cast(), VERSIONED)
    } else {
        let structure = Box::new(Managed {
            tensor,
            owner,
            deleter: Some(delete),
        });
        (Box::into_raw(structure).cast(), MANAGED)
    };
    // SAFETY: this thread has the lock; the name lives for ever, and the destructor matches the structures.
    let capsule =
        unsafe { (gil.python().PyCapsule_New)(structure, name.as_ptr(), Some(drop_capsule)) };
    gil.own(capsule)
}

/// A capsule that nobody has taken the structure out of: those who do rename it.
unsafe extern "C" fn drop_capsule(capsule: Object) {
    let Some(python) = python() else { return };
    // SAFETY: Python calls with the lock and a capsule made above; while it has one of these names, the structure is the
    // capsule's.
    unsafe {
        if (python.PyCapsule_IsValid)(capsule, MANAGED.as_ptr()) == 1 {
            delete((python.PyCapsule_GetPointer)(capsule, MANAGED.as_ptr()).cast());
        } else if (python.PyCapsule_IsValid)(capsule, VERSIONED.as_ptr()) == 1 {
            delete_versioned((python.PyCapsule_GetPointer)(capsule, VERSIONED.as_ptr()).cast());
        }
    }
}

unsafe extern "C" fn delete(structure: *mut Managed) {
    // SAFETY: the structure was made by `capsule`, and its owner deletes it once.
    release(unsafe { Box::from_raw(structure) }.owner);
}

unsafe extern "C" fn delete_versioned(structure: *mut Versioned) {
    // SAFETY: the structure was made by `capsule`, and its owner deletes it once.
    release(unsafe { Box::from_raw(structure) }.owner);
}

/// Drops the reference to the Python object; the thread need not have the lock.
fn release(owner: Object) {
    if let Some(gil) = Gil::take() {
        drop(gil.own(owner));
    }
}
