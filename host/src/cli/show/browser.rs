//! Pages shown in the user's browser.

use std::path::Path;
use std::process::{Command, Stdio};

/// Opens a page in a browser, where there is a screen for one. Returns whether a program took it.
pub(in crate::cli) fn open(page: &Path) -> bool {
    let has_screen = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let program = if cfg!(target_os = "macos") {
        "open"
    } else if has_screen("DISPLAY") || has_screen("WAYLAND_DISPLAY") {
        "xdg-open"
    } else {
        return false;
    };
    let mut command = Command::new(program);
    command
        .arg(page)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
