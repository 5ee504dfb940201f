//! `sconce.c/1`.

use std::{ptr, slice};

use abi_stable::std_types::{RString, RVec};
use sconce_plugin_api::abi::{ErrorAbi, Status, TextAbi};
use sconce_plugin_api::ext::CTable;
use serde_json::Value;

use crate::plugin::entry_error::NO_MESSAGE;

pub(super) static TABLE: CTable = CTable {
    set_error,
    read_error,
    clear_error,
    append,
    set_string,
    json_number,
    json_bool,
    json_text,
};

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
