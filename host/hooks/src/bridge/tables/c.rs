//! `sconce.c/1`.

use std::{ptr, slice};

use abi_stable::std_types::{RString, RVec};
use sconce_plugin_api::abi::{ErrorAbi, Status, TextAbi};
use sconce_plugin_api::ext::CTable;
use serde_json::Value;

/// The functions that plugins in C call.
pub static TABLE: CTable = CTable {
    set_error,
    read_error,
    clear_error,
    append,
    set_string,
    json_number,
    json_bool,
    json_text,
};

/// The message of an error that came without one.
pub const NO_MESSAGE: &str = "it gave no message";

/// Text of a message that is not UTF-8.
const UNREADABLE: &str = "(the hook's message is not valid UTF-8)";

unsafe extern "C" fn set_error(error: *mut ErrorAbi, message: TextAbi, place: TextAbi) {
    // SAFETY: the plugin passes the pointer that it was given for this call, or null, and lends the texts.
    unsafe {
        if let Some(error) = error.as_mut() {
            error.message = RString::from(match message.read() {
                Some("") => NO_MESSAGE,
                Some(message) => message,
                None => UNREADABLE,
            });
            error.place = RString::from(place.read().unwrap_or_default());
        }
    }
}

unsafe extern "C" fn read_error(error: *const ErrorAbi) -> TextAbi {
    // SAFETY: the plugin passes the pointer that it was given for this call, or null.
    let error = unsafe { error.as_ref() };
    error.map_or(TextAbi::EMPTY, |error| TextAbi::new(error.message.as_str()))
}

unsafe extern "C" fn clear_error(error: *mut ErrorAbi) {
    // SAFETY: the plugin passes the pointer that it was given for this call, or null.
    if let Some(error) = unsafe { error.as_mut() } {
        *error = ErrorAbi::new();
    }
}

unsafe extern "C" fn append(bytes: *mut RVec<u8>, data: *const u8, length: usize) {
    if data.is_null() || length == 0 || length > isize::MAX as usize {
        return;
    }
    // SAFETY: the plugin passes the pointer that it was given for this call, or null; `length` bytes are readable from
    // `data` on, by the extension's contract.
    unsafe {
        if let Some(bytes) = bytes.as_mut() {
            bytes.extend_from_slice(slice::from_raw_parts(data, length));
        }
    }
}

unsafe extern "C" fn set_string(string: *mut RString, text: TextAbi) {
    // SAFETY: the plugin passes the pointer that it was given for this call, or null, and lends the text.
    unsafe {
        if let Some(string) = string.as_mut() {
            *string = RString::from(text.read().unwrap_or_default());
        }
    }
}

/// What is at a pointer of a JSON text.
///
/// # Safety
///
/// The plugin lends both texts for the call.
unsafe fn find(json: TextAbi, pointer: TextAbi) -> Result<Value, Status> {
    // SAFETY: the caller guarantees that both texts are borrowed for the call.
    let (json, pointer) = unsafe { (json.read(), pointer.read()) };
    let (Some(json), Some(pointer)) = (json, pointer) else {
        return Err(Status::INVALID);
    };
    let mut value: Value = serde_json::from_str(json).map_err(|_| Status::INVALID)?;
    match value.pointer_mut(pointer).map(Value::take) {
        None | Some(Value::Null) => Err(Status::NOT_FOUND),
        Some(found) => Ok(found),
    }
}

unsafe extern "C" fn json_number(json: TextAbi, pointer: TextAbi, value: *mut f64) -> u32 {
    // SAFETY: the plugin lends the texts, and `value` is null or has room for a number.
    unsafe {
        let found = find(json, pointer).and_then(|found| found.as_f64().ok_or(Status::INVALID));
        give(found, value)
    }
}

unsafe extern "C" fn json_bool(json: TextAbi, pointer: TextAbi, value: *mut u32) -> u32 {
    // SAFETY: the plugin lends the texts, and `value` is null or has room for a number.
    unsafe {
        let found = find(json, pointer).and_then(|found| found.as_bool().ok_or(Status::INVALID));
        give(found.map(u32::from), value)
    }
}

unsafe extern "C" fn json_text(
    json: TextAbi,
    pointer: TextAbi,
    text: *mut u8,
    capacity: usize,
    length: *mut usize,
) -> u32 {
    // SAFETY: the plugin lends the texts; `text` is null or has room for `capacity` bytes, and `length` is null or has
    // room for a number.
    unsafe {
        let found = match find(json, pointer) {
            Ok(Value::String(found)) => found,
            Ok(_) => return Status::INVALID.0,
            Err(status) => return status.0,
        };
        if !text.is_null() {
            ptr::copy_nonoverlapping(found.as_ptr(), text, found.len().min(capacity));
        }
        give(Ok(found.len()), length)
    }
}

/// Writes what was found, or returns why nothing was.
///
/// # Safety
///
/// `to` must be null or have room for a value.
unsafe fn give<T>(found: Result<T, Status>, to: *mut T) -> u32 {
    match found {
        Ok(value) => {
            if !to.is_null() {
                // SAFETY: the caller guarantees that there is room for a value.
                unsafe { to.write(value) };
            }
            Status::OK.0
        }
        Err(status) => status.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{"a": {"b": [1.5, true, "wört", null]}, "c/d": 2}"#;

    fn number(json: &str, pointer: &str) -> (u32, f64) {
        let mut value = -1.0;
        // SAFETY: the texts and the number are borrowed for the call.
        let status =
            unsafe { json_number(TextAbi::new(json), TextAbi::new(pointer), &raw mut value) };
        (status, value)
    }

    #[test]
    fn values_are_found_by_pointers() {
        assert_eq!(number(JSON, "/a/b/0"), (Status::OK.0, 1.5));
        assert_eq!(number(JSON, "/c~1d"), (Status::OK.0, 2.0));
        for (json, pointer, status) in [
            (JSON, "/a/x", Status::NOT_FOUND),
            (JSON, "/a/b/3", Status::NOT_FOUND),
            (JSON, "/a/b/1", Status::INVALID),
            (JSON, "", Status::INVALID),
            ("{", "/a", Status::INVALID),
        ] {
            // What is not found leaves the value as it is.
            assert_eq!(number(json, pointer), (status.0, -1.0), "{pointer}");
        }
        let mut flag = 7;
        // SAFETY: as above.
        let status =
            unsafe { json_bool(TextAbi::new(JSON), TextAbi::new("/a/b/1"), &raw mut flag) };
        assert_eq!((status, flag), (Status::OK.0, 1));
    }

    #[test]
    fn texts_are_cut_at_the_capacity_and_have_their_whole_length() {
        let text = |capacity: usize| {
            let mut bytes = [b'.'; 8];
            let mut length = 0;
            // SAFETY: the texts, the eight bytes and the length are borrowed for the call.
            let status = unsafe {
                json_text(
                    TextAbi::new(JSON),
                    TextAbi::new("/a/b/2"),
                    bytes.as_mut_ptr(),
                    capacity,
                    &raw mut length,
                )
            };
            assert_eq!((status, length), (Status::OK.0, 5));
            bytes
        };
        assert_eq!(&text(8), "wört...".as_bytes());
        assert_eq!(&text(1), b"w.......");
        assert_eq!(&text(0), b"........");
    }

    #[test]
    fn errors_and_states_are_written_and_null_is_ignored() {
        let mut error = ErrorAbi::new();
        let mut bytes = RVec::new();
        // SAFETY: error and bytes are borrowed for the calls; the others do nothing with null.
        unsafe {
            set_error(&raw mut error, TextAbi::new("wrong"), TextAbi::new("a.c:1"));
            assert_eq!(read_error(&raw const error).read(), Some("wrong"));
            assert_eq!(error.place, "a.c:1");
            set_error(&raw mut error, TextAbi::EMPTY, TextAbi::EMPTY);
            assert_eq!(error.message, NO_MESSAGE);
            clear_error(&raw mut error);
            assert!(error.message.is_empty() && error.place.is_empty());
            append(&raw mut bytes, b"ab".as_ptr(), 2);
            append(&raw mut bytes, ptr::null(), 2);
            append(&raw mut bytes, b"c".as_ptr(), 1);
            set_error(ptr::null_mut(), TextAbi::EMPTY, TextAbi::EMPTY);
            clear_error(ptr::null_mut());
            append(ptr::null_mut(), b"c".as_ptr(), 1);
            set_string(ptr::null_mut(), TextAbi::EMPTY);
            assert_eq!(read_error(ptr::null()).read(), Some(""));
        }
        assert_eq!(bytes.as_slice(), b"abc");
    }
}
