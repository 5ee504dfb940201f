//! The interpreter's lock, and references to objects.
//!
//! A [`Gil`] proves that this thread holds the lock. References ([`Ref`]) are created and dropped only where there is one:
//! they don't leave this module's parent except inside [`Instance`](super::Instance), which takes the lock to drop them.

use std::ffi::{CStr, c_char};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use super::symbols::{Object, PyObject, Python, python};

/// Possession of the interpreter's lock.
pub(super) struct Gil {
    python: &'static Python,
    /// What `PyGILState_Ensure` returned; `None` if the lock is the caller's.
    state: Option<std::ffi::c_int>,
    /// The lock belongs to this thread.
    thread: PhantomData<*const ()>,
}

impl Gil {
    /// Waits for the lock; `None` if there is no interpreter.
    pub(super) fn take() -> Option<Gil> {
        let python = python()?;
        // SAFETY: the functions are kept only once the interpreter has been initialised, and it is never finalised.
        let state = unsafe { (python.PyGILState_Ensure)() };
        Some(Gil {
            python,
            state: Some(state),
            thread: PhantomData,
        })
    }

    /// The lock of a thread that has it already.
    ///
    /// # Safety
    ///
    /// Python must be calling, on this thread.
    pub(super) unsafe fn held() -> Option<Gil> {
        Some(Gil {
            python: python()?,
            state: None,
            thread: PhantomData,
        })
    }

    pub(super) fn python(&self) -> &'static Python {
        self.python
    }

    /// Takes over a new reference; `None` for null, which means that an exception is set.
    #[expect(clippy::unused_self, reason = "proof that this thread has the lock")]
    pub(super) fn own(&self, object: Object) -> Option<Ref> {
        NonNull::new(object).map(Ref)
    }

    /// A new reference to an object that something else owns.
    pub(super) fn share(&self, object: Object) -> Option<Ref> {
        let object = NonNull::new(object)?;
        // SAFETY: this thread has the lock, and the object is alive.
        unsafe { (self.python.Py_IncRef)(object.as_ptr()) };
        Some(Ref(object))
    }

    pub(super) fn none(&self) -> Option<Ref> {
        self.share(self.python.none)
    }

    pub(super) fn text(&self, text: &str) -> Option<Ref> {
        let length = isize::try_from(text.len()).ok()?;
        // SAFETY: this thread has the lock; the text has `length` bytes of UTF-8.
        self.own(unsafe {
            (self.python.PyUnicode_FromStringAndSize)(text.as_ptr().cast::<c_char>(), length)
        })
    }

    pub(super) fn bytes(&self, bytes: &[u8]) -> Option<Ref> {
        let length = isize::try_from(bytes.len()).ok()?;
        // SAFETY: this thread has the lock; there are `length` bytes.
        self.own(unsafe {
            (self.python.PyBytes_FromStringAndSize)(bytes.as_ptr().cast::<c_char>(), length)
        })
    }

    pub(super) fn float(&self, number: f64) -> Option<Ref> {
        // SAFETY: this thread has the lock.
        self.own(unsafe { (self.python.PyFloat_FromDouble)(number) })
    }

    pub(super) fn integer(&self, number: u64) -> Option<Ref> {
        // SAFETY: this thread has the lock.
        self.own(unsafe { (self.python.PyLong_FromUnsignedLongLong)(number) })
    }

    pub(super) fn signed(&self, number: i64) -> Option<Ref> {
        // SAFETY: this thread has the lock.
        self.own(unsafe { (self.python.PyLong_FromLongLong)(number) })
    }

    pub(super) fn boolean(&self, value: bool) -> Option<Ref> {
        // SAFETY: this thread has the lock.
        self.own(unsafe { (self.python.PyBool_FromLong)(value.into()) })
    }

    /// A tuple; `None` if one of the items is.
    pub(super) fn tuple<const N: usize>(&self, items: [Option<Ref>; N]) -> Option<Ref> {
        self.tuple_of(items.into_iter())
    }

    pub(super) fn tuple_of(
        &self,
        items: impl ExactSizeIterator<Item = Option<Ref>>,
    ) -> Option<Ref> {
        let length = isize::try_from(items.len()).ok()?;
        // SAFETY: this thread has the lock.
        let tuple = self.own(unsafe { (self.python.PyTuple_New)(length) })?;
        for (index, item) in (0..length).zip(items) {
            let item = item?.into_pointer();
            // SAFETY: the tuple is new and has that many slots; it takes over the reference.
            unsafe { (self.python.PyTuple_SetItem)(tuple.pointer(), index, item) };
        }
        Some(tuple)
    }

    /// An attribute; `None` if there is none, with the exception set.
    pub(super) fn attribute(&self, object: &Ref, name: &CStr) -> Option<Ref> {
        // SAFETY: this thread has the lock; object and name are valid.
        self.own(unsafe { (self.python.PyObject_GetAttrString)(object.pointer(), name.as_ptr()) })
    }

    /// Calls a function with a tuple of arguments; `None` if it raised an exception, which is then set.
    pub(super) fn call(&self, function: &Ref, arguments: &Ref) -> Option<Ref> {
        // SAFETY: this thread has the lock; both are valid, and there are no keywords.
        self.own(unsafe {
            (self.python.PyObject_Call)(function.pointer(), arguments.pointer(), ptr::null_mut())
        })
    }

    /// Item of a tuple.
    pub(super) fn item(&self, tuple: &Ref, index: isize) -> Option<Ref> {
        // SAFETY: this thread has the lock; the item is borrowed from the tuple, or null.
        self.share(unsafe { (self.python.PyTuple_GetItem)(tuple.pointer(), index) })
    }

    /// Whether an object counts as true; no exception stays set.
    pub(super) fn is_true(&self, object: &Ref) -> bool {
        // SAFETY: this thread has the lock, and the object is alive.
        match unsafe { (self.python.PyObject_IsTrue)(object.pointer()) } {
            -1 => {
                // SAFETY: this thread has the lock.
                unsafe { (self.python.PyErr_Clear)() };
                false
            }
            answer => answer != 0,
        }
    }

    pub(super) fn is_none(&self, object: &Ref) -> bool {
        object.pointer() == self.python.none
    }

    /// A copy of a text; `None` if the object is not one. No exception stays set.
    pub(super) fn to_text(&self, object: &Ref) -> Option<String> {
        let mut length = 0;
        // SAFETY: this thread has the lock; the bytes belong to the object, which `object` keeps alive.
        unsafe {
            let data = (self.python.PyUnicode_AsUTF8AndSize)(object.pointer(), &raw mut length)
                .cast::<u8>();
            if data.is_null() {
                (self.python.PyErr_Clear)();
                return None;
            }
            let bytes = std::slice::from_raw_parts(data, usize::try_from(length).ok()?);
            Some(String::from_utf8_lossy(bytes).into_owned())
        }
    }

    /// A copy of a bytes object; `None` if the object is not one. No exception stays set.
    pub(super) fn to_bytes(&self, object: &Ref) -> Option<Vec<u8>> {
        let (mut data, mut length) = (ptr::null_mut(), 0);
        // SAFETY: this thread has the lock; the bytes belong to the object, which `object` keeps alive.
        unsafe {
            let status = (self.python.PyBytes_AsStringAndSize)(
                object.pointer(),
                &raw mut data,
                &raw mut length,
            );
            if status != 0 {
                (self.python.PyErr_Clear)();
                return None;
            }
            let length = usize::try_from(length).ok()?;
            Some(std::slice::from_raw_parts(data.cast::<u8>(), length).to_vec())
        }
    }

    /// Takes the exception that is set, as an object with its traceback.
    pub(super) fn exception(&self) -> Option<Ref> {
        let mut parts = [ptr::null_mut(); 3];
        let [kind, value, trace] = &mut parts;
        // SAFETY: this thread has the lock; the three places are valid, and own what is written to them.
        unsafe {
            (self.python.PyErr_Fetch)(&raw mut *kind, &raw mut *value, &raw mut *trace);
            if kind.is_null() {
                return None;
            }
            (self.python.PyErr_NormalizeException)(
                &raw mut *kind,
                &raw mut *value,
                &raw mut *trace,
            );
            if !trace.is_null() {
                (self.python.PyException_SetTraceback)(*value, *trace);
            }
        }
        let [kind, value, trace] = parts;
        drop((self.own(kind), self.own(trace)));
        self.own(value)
    }
}

impl Drop for Gil {
    fn drop(&mut self) {
        if let Some(state) = self.state {
            // SAFETY: the state is that of this thread's matching `PyGILState_Ensure`.
            unsafe { (self.python.PyGILState_Release)(state) };
        }
    }
}

/// A reference that is counted. It must be dropped by a thread that has the lock.
pub(super) struct Ref(NonNull<PyObject>);

// SAFETY: references may move between threads; whoever uses or drops one has the lock.
unsafe impl Send for Ref {}
// SAFETY: as above; a shared reference only gives away the address.
unsafe impl Sync for Ref {}

impl Ref {
    pub(super) fn pointer(&self) -> Object {
        self.0.as_ptr()
    }

    /// The address, with the reference.
    pub(super) fn into_pointer(self) -> Object {
        let pointer = self.pointer();
        std::mem::forget(self);
        pointer
    }
}

impl Drop for Ref {
    fn drop(&mut self) {
        if let Some(python) = python() {
            // SAFETY: the thread has the lock, by the type's contract, and this is the last use of this reference.
            unsafe { (python.Py_DecRef)(self.pointer()) };
        }
    }
}
