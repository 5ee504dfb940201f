//! The type behind Python's tensors: a retained tensor of the host, described to `NumPy` and `DLPack`.
//!
//! An object holds a [`RetainedTensor`]: the memory lives as long as any array made of it, whatever the host does. How
//! many writable ones are alive is counted, since none may be when the call that lent them is over.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use sconce_plugin_api::tensor::{DType, RetainedTensor};

use super::dlpack;
use super::gil::{Gil, Ref};
use super::raise::raise;
use super::symbols::{FAST_CALL, GetSetDef, Getter, MethodDef, Object, PyObject, TP_FREE, python};
use super::types::new_type;

/// Offset of our pointer in an object: the size of a plain object, which differs between versions.
static OFFSET: AtomicI32 = AtomicI32::new(0);
/// The class that Python code sees, derived from the type.
static CLASS: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());

/// Writable tensors that are alive.
static WRITABLE: AtomicUsize = AtomicUsize::new(0);
static WRITABLE_NAMES: Mutex<Vec<Box<str>>> = Mutex::new(Vec::new());

/// Creates the type; `plain` is the size of a plain object.
pub(super) fn tensor_type(gil: &Gil, plain: c_int) -> Option<Ref> {
    OFFSET.store(plain, Ordering::Relaxed);
    let getters: [(&std::ffi::CStr, Getter); 6] = [
        (c"name", name),
        (c"dtype", dtype),
        (c"shape", shape),
        (c"is_writable", is_writable),
        (c"is_buffer", is_buffer),
        (c"__array_interface__", array_interface),
    ];
    let getters = getters.into_iter().map(|(name, get)| GetSetDef {
        name: name.as_ptr(),
        get: Some(get),
        set: ptr::null(),
        doc: ptr::null(),
        closure: ptr::null_mut(),
    });
    let methods = [
        MethodDef {
            name: c"_bits".as_ptr(),
            method: Some(bits),
            flags: FAST_CALL,
            doc: ptr::null(),
        },
        MethodDef {
            name: c"_dlpack".as_ptr(),
            method: Some(to_dlpack),
            flags: FAST_CALL,
            doc: ptr::null(),
        },
    ];
    let size = plain + c_int::try_from(size_of::<*mut c_void>()).ok()?;
    new_type(
        gil,
        c"sconce._native.Tensor",
        size,
        methods.into(),
        getters.collect(),
        Some(dealloc),
    )
}

/// Sets the class of new tensors; it is kept for ever.
pub(super) fn set_class(class: Ref) {
    CLASS.store(class.into_pointer(), Ordering::Release);
}

/// Number of writable tensors alive, also in arrays made of them.
pub(super) fn writable_alive() -> usize {
    WRITABLE.load(Ordering::Acquire)
}

/// Name of a writable tensor that is alive, the last one lent.
pub(super) fn name_of_writable() -> String {
    let names = WRITABLE_NAMES
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    names.last().map(ToString::to_string).unwrap_or_default()
}

/// A Python object for a tensor.
pub(super) fn new(gil: &Gil, held: RetainedTensor) -> Option<Ref> {
    let class = CLASS.load(Ordering::Acquire);
    if class.is_null() {
        return None;
    }
    // SAFETY: this thread has the lock, and the class is derived from our type.
    let object = gil.own(unsafe { (gil.python().PyType_GenericAlloc)(class, 0) })?;
    if held.is_writable() {
        WRITABLE.fetch_add(1, Ordering::AcqRel);
        let mut names = WRITABLE_NAMES
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        names.push(held.name().into());
    }
    // SAFETY: the object is new, of our type, and has room for a pointer there.
    unsafe { *place(object.pointer()) = Box::into_raw(Box::new(held)) };
    Some(object)
}

/// Where an object of the type has its pointer.
///
/// # Safety
///
/// The object must be of the type made by [`tensor_type`], or derived from it.
unsafe fn place(object: Object) -> *mut *mut RetainedTensor {
    let offset = usize::try_from(OFFSET.load(Ordering::Relaxed)).unwrap_or_default();
    // SAFETY: objects of the type have a pointer at this offset, which is a multiple of its alignment.
    unsafe { object.cast::<u8>().add(offset) }.cast()
}

/// The tensor of an object that Python passes; `None` with an exception set for `Tensor()`, which has none.
///
/// # Safety
///
/// As for [`place`]; the object must be alive for `'call`.
pub(super) unsafe fn held<'call>(object: Object) -> Option<&'call RetainedTensor> {
    // SAFETY: the caller guarantees an object of the type; its pointer is null or leads to our box, which lives as long
    // as the object.
    let held = unsafe { (*place(object)).as_ref() };
    if let (None, Some(python)) = (held, python()) {
        raise(python, python.type_error, "a tensor comes from a task");
    }
    held
}

unsafe extern "C" fn dealloc(object: Object) {
    let Some(python) = python() else { return };
    // SAFETY: Python calls this once, with the lock, for an object of our type, whose pointer is null or our box. Its
    // type, which its allocation has referenced, outlives the call: we hold a reference of our own.
    unsafe {
        let held = *place(object);
        if !held.is_null() {
            let held = Box::from_raw(held);
            if held.is_writable() {
                forget(held.name());
            }
        }
        let kind = (python.PyObject_Type)(object);
        let free = (python.PyType_GetSlot)(kind, TP_FREE);
        if !free.is_null() {
            let free: unsafe extern "C" fn(*mut c_void) = std::mem::transmute(free);
            free(object.cast());
        }
        (python.Py_DecRef)(kind);
        (python.Py_DecRef)(kind);
    }
}

fn forget(name: &str) {
    WRITABLE.fetch_sub(1, Ordering::AcqRel);
    let mut names = WRITABLE_NAMES
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if let Some(index) = names.iter().rposition(|known| &**known == name) {
        names.remove(index);
    }
}

/// Runs a getter with the lock and the object's tensor.
///
/// # Safety
///
/// Python must be calling, with an object of our type.
unsafe fn with(object: Object, get: impl FnOnce(&Gil, &RetainedTensor) -> Option<Ref>) -> Object {
    // SAFETY: the caller guarantees that Python is calling, with an object of the type that is alive for the call.
    let found = unsafe { Gil::held().and_then(|gil| get(&gil, held(object)?)) };
    found.map_or(ptr::null_mut(), Ref::into_pointer)
}

macro_rules! getter {
    ($name:ident, $get:expr) => {
        unsafe extern "C" fn $name(object: Object, _closure: *mut c_void) -> Object {
            // SAFETY: Python calls with an object of our type.
            unsafe { with(object, $get) }
        }
    };
}

getter!(name, |gil, held| gil.text(held.name()));
getter!(dtype, |gil, held| gil
    .text(held.dtype().map_or("unknown", DType::name)));
getter!(shape, |gil, held| integers(gil, held.shape(), 1));
getter!(is_writable, |gil, held| gil.boolean(held.is_writable()));
getter!(is_buffer, |gil, held| gil.boolean(held.is_buffer()));
getter!(array_interface, |gil, held| {
    let Some(code) = held.dtype().and_then(type_code) else {
        let message = format!(
            "`{}` is {}, which NumPy lacks: use .numpy() with the package ml_dtypes, .copy(), which converts to float32, \
             or torch.from_dlpack",
            held.name(),
            held.dtype().map_or("of an unknown type", DType::name)
        );
        raise(gil.python(), gil.python().type_error, &message);
        return None;
    };
    interface(gil, held, code)
});

unsafe extern "C" fn bits(object: Object, _arguments: *const Object, _count: isize) -> Object {
    // SAFETY: Python calls with an object of our type.
    unsafe { with(object, |gil, held| interface(gil, held, "<u2")) }
}

unsafe extern "C" fn to_dlpack(object: Object, arguments: *const Object, count: isize) -> Object {
    // SAFETY: Python calls with an object of our type and that many arguments; `sconce/_tensor.py` passes one.
    unsafe {
        with(object, |gil, held| {
            let has_flags = count > 0 && (gil.python().PyObject_IsTrue)(*arguments) == 1;
            dlpack::capsule(gil, &gil.share(object)?, held, has_flags)
        })
    }
}

/// NumPy's code of a type, little-endian as this machine; `None` if it has none.
fn type_code(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::F32 => "<f4",
        DType::F64 => "<f8",
        DType::F16 => "<f2",
        DType::I64 => "<i8",
        DType::U32 => "<u4",
        DType::U8 => "|u1",
        _ => return None,
    })
}

#[cfg(target_endian = "big")]
compile_error!("tensors are described to NumPy as little-endian");

fn integers(gil: &Gil, numbers: &[i64], factor: i64) -> Option<Ref> {
    gil.tuple_of(numbers.iter().map(|number| gil.signed(number * factor)))
}

/// NumPy's description of a tensor, version 3 of its array interface.
fn interface(gil: &Gil, held: &RetainedTensor, code: &str) -> Option<Ref> {
    let size = i64::try_from(held.dtype().map_or(1, DType::size)).ok()?;
    let address = gil.integer(held.data().addr() as u64);
    let data = gil.tuple([address, gil.boolean(!held.is_writable())]);
    let items = [
        (c"shape", integers(gil, held.shape(), 1)),
        (c"strides", integers(gil, held.strides(), size)),
        (c"typestr", gil.text(code)),
        (c"data", data),
        (c"version", gil.integer(3)),
    ];
    // SAFETY: this thread has the lock.
    let interface = gil.own(unsafe { (gil.python().PyDict_New)() })?;
    for (key, value) in items {
        let value = value?;
        // SAFETY: this thread has the lock; the dictionary takes a reference of its own.
        unsafe {
            (gil.python().PyDict_SetItemString)(interface.pointer(), key.as_ptr(), value.pointer());
        }
    }
    Some(interface)
}
