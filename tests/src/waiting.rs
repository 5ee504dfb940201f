//! What tests of running programs share.

use std::time::Duration;

/// Waits until a condition holds, however slow the machine.
///
/// # Panics
///
/// If it does not within a minute.
pub fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    for _ in 0..6000 {
        if let Some(found) = condition() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("not in a minute: {what}");
}

/// Waits until a process has ended. A killed one goes on until it has its turn on a processor, and one that nobody has waited for
/// is still listed.
///
/// # Panics
///
/// If it has not within a minute.
pub fn until_ended(process: u32) {
    until(&format!("process {process} has ended"), || {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        (stat.is_empty() || stat.contains(") Z ")).then_some(())
    });
}

/// A file with `new` in the place of every `old`, which has the same length.
///
/// # Panics
///
/// If there is no `old`, or the lengths differ.
pub fn patched(mut bytes: Vec<u8>, old: &[u8], new: &[u8]) -> Vec<u8> {
    assert_eq!(old.len(), new.len());
    let found: Vec<usize> = (0..bytes.len() - old.len())
        .filter(|&at| &bytes[at..at + old.len()] == old)
        .collect();
    assert!(
        !found.is_empty(),
        "{:?} is there",
        String::from_utf8_lossy(old)
    );
    for at in found {
        bytes[at..at + new.len()].copy_from_slice(new);
    }
    bytes
}
