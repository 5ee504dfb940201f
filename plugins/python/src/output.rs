//! What is printed when no hook is left that could log it.

use std::io::{self, Write};

use sconce_plugin_api::ext::Level;

/// Writes lines to standard error, without what would control the terminal.
pub(crate) fn last_lines(lines: &[(Level, String)]) {
    let mut stderr = io::stderr().lock();
    for (_, line) in lines {
        let line: String = line
            .chars()
            .filter(|c| !c.is_control() || *c == '\t')
            .collect();
        // Nothing is left that could report it.
        let _ = writeln!(stderr, "python: {line}");
    }
}
