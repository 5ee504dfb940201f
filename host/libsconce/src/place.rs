//! Where this library was opened from.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Path of this library's file; none if the loader does not say.
pub(crate) fn of_this_library() -> Option<PathBuf> {
    let own: fn() -> Option<PathBuf> = of_this_library;
    // SAFETY: the structure consists of pointers, for which all zeros are valid.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the address is only looked up; the structure is ours.
    let known = unsafe { libc::dladdr(own as *const libc::c_void, &raw mut found) };
    if known == 0 || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's copy of the path, which stays as long as the library is open.
    let path = unsafe { CStr::from_ptr(found.dli_fname) };
    std::fs::canonicalize(OsStr::from_bytes(path.to_bytes())).ok()
}

/// The program that belongs to the library: `bin/sconce` of the same installation, or the one beside it in a checkout.
pub(crate) fn program(library: &Path) -> Option<PathBuf> {
    let beside = library.parent()?;
    let installed = beside.parent().and_then(Path::parent);
    let candidates = [
        installed.map(|root| root.join("bin/sconce")),
        Some(beside.join("sconce")),
    ];
    candidates.into_iter().flatten().find(|path| path.is_file())
}
