//! `sconce.c/1`: what plugins in C need to use the types of `abi_stable`, of which they only have pointers.

use std::ffi::c_void;

use abi_stable::std_types::{RString, RVec};

use super::Extension;
use crate::abi::{ErrorAbi, TextAbi};

/// Function table of `sconce.c/1`. Frozen.
///
/// All functions accept null where they write to, and do nothing then.
#[repr(C)]
#[derive(Debug)]
pub struct CTable {
    /// Sets message and place of an error.
    pub set_error: unsafe extern "C" fn(error: *mut ErrorAbi, message: TextAbi, place: TextAbi),
    /// The message of an error, borrowed until it changes.
    pub read_error: unsafe extern "C" fn(error: *const ErrorAbi) -> TextAbi,
    /// Empties an error, whose failure has been dealt with.
    pub clear_error: unsafe extern "C" fn(error: *mut ErrorAbi),
    /// Appends `length` bytes to a hook's state.
    pub append: unsafe extern "C" fn(bytes: *mut RVec<u8>, data: *const u8, length: usize),
    /// Sets the text of a string.
    pub set_string: unsafe extern "C" fn(string: *mut RString, text: TextAbi),
    /// The number at a JSON pointer (RFC 6901) of a JSON text.
    ///
    /// `NOT_FOUND` if there is nothing or null, `INVALID` if it is of another type or the text is not JSON.
    pub json_number: unsafe extern "C" fn(json: TextAbi, pointer: TextAbi, value: *mut f64) -> u32,
    /// The boolean at a JSON pointer, as 0 or 1; statuses as for `json_number`.
    pub json_bool: unsafe extern "C" fn(json: TextAbi, pointer: TextAbi, value: *mut u32) -> u32,
    /// Copies at most `capacity` bytes of the text at a JSON pointer and writes its complete length to `length`; statuses
    /// as for `json_number`.
    pub json_text: unsafe extern "C" fn(
        json: TextAbi,
        pointer: TextAbi,
        text: *mut u8,
        capacity: usize,
        length: *mut usize,
    ) -> u32,
}

// SAFETY: this type is the table frozen under `ID`.
unsafe impl Extension for CTable {
    const ID: &'static str = "sconce.c/1";
}

impl CTable {
    /// The extension's identifier.
    pub const ID: &'static str = <Self as Extension>::ID;
}

/// A plugin as its function `sconce_c_plugin_v1` returns it: the fields of
/// [`PluginRoot`](crate::abi::PluginRoot), some of which may be null. Frozen.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CPlugin {
    /// [`ABI_EPOCH`](crate::abi::ABI_EPOCH) that the plugin was built with.
    pub abi_epoch: u32,
    /// As in `PluginRoot`; null if the metadata section has the configuration schemas.
    pub describe:
        Option<unsafe extern "C" fn(description: *mut RString, error: *mut ErrorAbi) -> u32>,
    /// As in `PluginRoot`; null is an error.
    pub create: Option<
        unsafe extern "C" fn(
            kind: TextAbi,
            config: TextAbi,
            setup: *const crate::abi::SetupAbi,
            hook: *mut crate::abi::HookAbi,
            error: *mut ErrorAbi,
        ) -> u32,
    >,
    /// As in `PluginRoot`; null if the plugin has no tables.
    pub query: Option<unsafe extern "C" fn(extension: TextAbi) -> *const c_void>,
}

/// Name of the function that a plugin in C exports: `const sconce_plugin *(const sconce_host *)`.
pub const C_ENTRY: &str = "sconce_c_plugin_v1";
