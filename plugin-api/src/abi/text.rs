//! Borrowed text: a pointer and a length, validated before use as a `str`.

use std::{fmt, ptr, slice, str};

use abi_stable::StableAbi;

/// UTF-8 text, borrowed for the duration of a call.
///
/// A null pointer with length 0 is the empty text.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct TextAbi {
    /// Pointer to the first byte, or null.
    pub pointer: *const u8,
    /// Length in bytes.
    pub length: usize,
}

impl TextAbi {
    /// The empty text.
    pub const EMPTY: TextAbi = TextAbi {
        pointer: ptr::null(),
        length: 0,
    };

    /// Borrows `text`; the receiver must not use the result longer than `text` lives.
    pub const fn new(text: &str) -> TextAbi {
        TextAbi {
            pointer: text.as_ptr(),
            length: text.len(),
        }
    }

    /// The text; `None` if it is not valid UTF-8, or pointer and length are inconsistent.
    ///
    /// # Safety
    ///
    /// If `pointer` is not null, `length` bytes starting there must be readable and unchanged for `'a`.
    pub unsafe fn read<'a>(self) -> Option<&'a str> {
        if self.length == 0 {
            return Some("");
        }
        if self.pointer.is_null() || self.length > isize::MAX as usize {
            return None;
        }
        // SAFETY: the pointer is not null and the length is within the limit of a slice; the caller
        // guarantees that the bytes are readable and unchanged for `'a`.
        let bytes = unsafe { slice::from_raw_parts(self.pointer, self.length) };
        str::from_utf8(bytes).ok()
    }
}

impl fmt::Debug for TextAbi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TextAbi({} bytes)", self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// # Safety
    ///
    /// As for [`TextAbi::read`].
    unsafe fn read(pointer: *const u8, length: usize) -> Option<&'static str> {
        // SAFETY: the caller upholds the contract of `TextAbi::read`.
        unsafe { TextAbi { pointer, length }.read() }
    }

    #[test]
    fn text_comes_back_and_nonsense_does_not() {
        // SAFETY: the pointers are null or point to literals of at least that length.
        unsafe {
            assert_eq!(TextAbi::new("väl").read(), Some("väl"));
            assert_eq!(TextAbi::EMPTY.read(), Some(""));
            assert_eq!(read(ptr::null(), 3), None);
            assert_eq!(read(b"abc".as_ptr(), usize::MAX), None);
            assert_eq!(read([0xff_u8, 0xfe].as_ptr(), 2), None);
        }
    }
}
