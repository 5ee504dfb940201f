//! Wording of a change that a plugin's code has made to the process.

/// Describes a change for a message; `when` is the event during which it was made.
pub(super) fn describe_change(what: &str, when: &str, is_undone: bool) -> String {
    let end = if is_undone {
        "that was undone"
    } else {
        "that can't be undone"
    };
    format!("{what} {when}; {end}")
}
