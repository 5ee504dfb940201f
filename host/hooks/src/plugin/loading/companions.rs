//! Other libraries that come into the process with a plugin.
//!
//! Where signatures are demanded, a plugin's file must not name any outside of the system's directories. What a constructor opens
//! by itself, and what the loader's own variables add, is seen only afterwards: in the list of what is loaded.

use std::collections::BTreeSet;
use std::ffi::{CStr, OsStr, OsString, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use crate::plugin::gates::structure::is_systems;

/// Variables by which the loader takes libraries from elsewhere.
const VARIABLES: [&str; 3] = ["LD_AUDIT", "LD_LIBRARY_PATH", "LD_PRELOAD"];

/// Those that are set.
pub fn variables() -> Vec<&'static str> {
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    VARIABLES.into_iter().filter(is_set).collect()
}

/// Keeps a process from taking libraries from elsewhere.
pub(crate) fn without_variables(command: &mut Command) {
    for name in VARIABLES {
        command.env_remove(name);
    }
}

/// The libraries that are loaded.
pub(in crate::plugin) struct Loaded(BTreeSet<OsString>);

impl Loaded {
    pub(in crate::plugin) fn now() -> Loaded {
        let mut names = BTreeSet::new();
        // SAFETY: the function is called for each library while this call lasts, with a pointer to the set, which nothing else
        // uses meanwhile.
        unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut names).cast()) };
        Loaded(names)
    }

    /// The libraries that have come since, other than `own` and the system's.
    pub(in crate::plugin) fn strangers(&self, own: &Path) -> Vec<String> {
        let now = Loaded::now();
        let new = now.0.difference(&self.0);
        let strangers = new.filter(|name| *name != own.as_os_str() && !is_of_system(name));
        strangers
            .map(|name| name.to_string_lossy().into_owned())
            .collect()
    }
}

/// Whether a library is the system's. The kernel's own has a name without a path.
fn is_of_system(name: &OsStr) -> bool {
    match name.to_str() {
        Some(name) => name.is_empty() || name == "linux-vdso.so.1" || is_systems(name),
        None => false,
    }
}

/// Adds the name of a library to the set at `names`.
unsafe extern "C" fn note(
    library: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    names: *mut c_void,
) -> c_int {
    // SAFETY: the loader gives a valid description, and passes on the pointer to the set.
    let (name, names) = unsafe {
        (
            (*library).dlpi_name,
            names.cast::<BTreeSet<OsString>>().as_mut(),
        )
    };
    if let (false, Some(names)) = (name.is_null(), names) {
        // SAFETY: a name ends with a null character, and stays while the library is loaded.
        let name = unsafe { CStr::from_ptr(name) };
        names.insert(OsStr::from_bytes(name.to_bytes()).to_owned());
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_libraries_are_not_strangers() {
        let loaded = Loaded::now();
        assert!(!loaded.0.is_empty());
        assert_eq!(loaded.strangers(Path::new("")), Vec::<String>::new());
        let none = Loaded(BTreeSet::new());
        assert_eq!(none.strangers(Path::new("")), Vec::<String>::new());
        assert!(!is_of_system(OsStr::new("/home/me/libx.so")));
        assert!(!is_of_system(OsStr::new("libx.so")));
    }

    #[test]
    fn the_loaders_variables_are_kept_from_a_process() {
        let mut command = Command::new("true");
        command.env("LD_PRELOAD", "x.so").env("PATH", "/bin");
        without_variables(&mut command);
        let set = command.get_envs().filter(|(_, value)| value.is_some());
        assert_eq!(set.count(), 1);
    }
}
