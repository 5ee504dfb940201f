//! How libraries are opened, and the types of the functions that their roots have in every language.

use std::ffi::c_void;
use std::path::Path;

use abi_stable::std_types::RString;
use sconce_plugin_api::abi::{ErrorAbi, HookAbi, SetupAbi, TextAbi};

/// Writes a plugin's description: `describe` of its root.
pub(super) type DescribeEntry = unsafe extern "C" fn(*mut RString, *mut ErrorAbi) -> u32;

/// Creates a hook: `create` of a plugin's root.
pub(super) type CreateEntry =
    unsafe extern "C" fn(TextAbi, TextAbi, *const SetupAbi, *mut HookAbi, *mut ErrorAbi) -> u32;

/// The plugin's table for an extension: `query` of its root.
pub(super) type QueryEntry = unsafe extern "C" fn(TextAbi) -> *const c_void;

/// # Safety
///
/// As for [`libloading::Library::new`].
#[cfg(unix)]
pub(super) unsafe fn open_now(
    path: &Path,
) -> Result<libloading::os::unix::Library, libloading::Error> {
    use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
    // SAFETY: the caller guarantees the same conditions: running the library's constructors is sound.
    unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
}

/// # Safety
///
/// As for [`libloading::Library::new`].
#[cfg(not(unix))]
pub(super) unsafe fn open_now(path: &Path) -> Result<libloading::Library, libloading::Error> {
    // SAFETY: the caller guarantees the same conditions: running the library's constructors is sound.
    unsafe { libloading::Library::new(path) }
}
