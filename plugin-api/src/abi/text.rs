//! Borrowed text: a pointer and a length, checked before it becomes a `str`.

use std::{fmt, ptr, slice, str};

use abi_stable::StableAbi;

/// UTF-8 text that is borrowed for the call it comes with.
///
/// Null with length 0 is the empty text.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct TextAbi {
    /// The first byte, or null.
    pub pointer: *const u8,
    /// How many bytes.
    pub length: usize,
}

impl TextAbi {
    /// The empty text.
    pub const EMPTY: TextAbi = TextAbi {
        pointer: ptr::null(),
        length: 0,
    };

    /// Borrows `text`; whoever receives this must not use it longer than `text` lives.
    pub const fn new(text: &str) -> TextAbi {
        TextAbi {
            pointer: text.as_ptr(),
            length: text.len(),
        }
    }

    /// The text, or nothing where it is no valid UTF-8 or its pointer and length make no sense.
    ///
    /// # Safety
    ///
    /// Where `pointer` is not null, `length` bytes behind it must be readable and unchanged for `'a`.
    pub unsafe fn read<'a>(self) -> Option<&'a str> {
        if self.length == 0 {
            return Some("");
        }
        if self.pointer.is_null() || self.length > isize::MAX as usize {
            return None;
        }
        // SAFETY: not null, not longer than a slice may be; the rest is the caller's promise.
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
        // SAFETY: passed on.
        unsafe { TextAbi { pointer, length }.read() }
    }

    #[test]
    fn text_comes_back_and_nonsense_does_not() {
        // SAFETY: the pointers are null, or lead to literals of at least that length.
        unsafe {
            assert_eq!(TextAbi::new("väl").read(), Some("väl"));
            assert_eq!(TextAbi::EMPTY.read(), Some(""));
            assert_eq!(read(ptr::null(), 3), None);
            assert_eq!(read(b"abc".as_ptr(), usize::MAX), None);
            assert_eq!(read([0xff_u8, 0xfe].as_ptr(), 2), None);
        }
    }
}
