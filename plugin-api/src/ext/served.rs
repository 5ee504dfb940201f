//! What the tables' functions are called on, and what plugins lend them.

use std::ffi::c_void;
use std::slice;

/// What the functions of tables are called on: what a host makes of the context that it hands out for a call.
///
/// # Safety
///
/// A context that the host hands out must lead to a value of this type, or to none.
pub unsafe trait Served {
    /// The value that a context leads to.
    ///
    /// # Safety
    ///
    /// The context must be null, or one that the host handed out for a call that lasts as long as `'a`.
    unsafe fn of<'a>(context: *const c_void) -> Option<&'a Self>;
}

/// What a plugin lends by address and length; `None` if the address can't be right.
///
/// # Safety
///
/// If the address is not null, as many elements must be readable for `'a`.
#[inline]
pub(crate) unsafe fn lent<'a, T>(first: *const T, length: usize) -> Option<&'a [T]> {
    if length == 0 {
        return Some(&[]);
    }
    if first.is_null() || length > isize::MAX as usize / size_of::<T>().max(1) {
        return None;
    }
    // SAFETY: neither null nor too long; the rest is guaranteed by the caller.
    Some(unsafe { slice::from_raw_parts(first, length) })
}

/// As [`lent`], for writing.
///
/// # Safety
///
/// As for [`lent`], and nothing else may access the elements.
#[inline]
pub(crate) unsafe fn lent_mut<'a, T>(first: *mut T, length: usize) -> Option<&'a mut [T]> {
    if length == 0 {
        return Some(&mut []);
    }
    if first.is_null() || length > isize::MAX as usize / size_of::<T>().max(1) {
        return None;
    }
    // SAFETY: as in `lent`.
    Some(unsafe { slice::from_raw_parts_mut(first, length) })
}
