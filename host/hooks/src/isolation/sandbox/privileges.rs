//! What the user who runs a hook may do beyond files, and its process may not: capabilities.

use std::fs;
use std::io;

use rustix::process::{Signal, getegid, geteuid, set_parent_process_death_signal};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

/// Gives up all capabilities of this process, for good.
///
/// # Errors
///
/// If the system refuses.
pub(super) fn drop_all(has_network: bool) -> Result<(), String> {
    enter_namespaces(has_network);
    let dropped = || -> io::Result<()> {
        set_no_new_privs(true)?;
        for capability in CapabilitySet::all().iter() {
            // Refused where the process has none: nothing can then be got from the bounding set either.
            let _ = remove_capability_from_bounding_set(capability);
        }
        let _ = clear_ambient_capability_set();
        let none = CapabilitySets {
            effective: CapabilitySet::empty(),
            permitted: CapabilitySet::empty(),
            inheritable: CapabilitySet::empty(),
        };
        set_capabilities(None, none)?;
        let left = capabilities(None)?;
        if !(left.permitted | left.effective | left.inheritable).is_empty() {
            return Err(io::Error::other("some are left"));
        }
        // A change of credentials may clear it.
        set_parent_process_death_signal(Some(Signal::KILL))?;
        Ok(())
    };
    dropped().map_err(|error| format!("its capabilities can't be dropped: {error}"))
}

/// Enters a user namespace in which it is the same user, one for System V's and POSIX's objects and, without network, one
/// that has no other machine, where the system lets it: a second line behind the list of system calls, which many systems
/// refuse to give.
fn enter_namespaces(has_network: bool) {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    // In one call: some systems take away the right to the second once the first is there.
    let shared = libc::CLONE_NEWUSER | libc::CLONE_NEWIPC;
    let without_network = (!has_network).then_some(shared | libc::CLONE_NEWNET);
    // A system that gives no network namespace may give the others.
    let mut wanted = without_network.into_iter().chain([shared]);
    // SAFETY: the process has one thread, which shares neither memory nor descriptors with another process.
    if !wanted.any(|namespaces| unsafe { libc::unshare(namespaces) } == 0) {
        return;
    }
    let _ = fs::write("/proc/self/setgroups", "deny");
    let _ = fs::write("/proc/self/uid_map", format!("{user} {user} 1"));
    let _ = fs::write("/proc/self/gid_map", format!("{group} {group} 1"));
}
