//! Escaping of CSV cells that a spreadsheet would run as formulas.
//!
//! A spreadsheet treats a cell that begins with `=`, `+`, `-` or `@` as a formula, quoted or not, and a
//! formula can start programs: `=cmd|' /C calc'!A0` as the name of a class or a metric. Such cells are
//! prefixed with an apostrophe, which makes them text. Numbers are unchanged.
//!
//! ```
//! use sconce_plugin_api::spreadsheet::{escaped, unescaped};
//!
//! assert_eq!(escaped("=1+2"), "'=1+2");
//! assert_eq!(escaped("-1.5e-3"), "-1.5e-3");
//! assert_eq!(unescaped("'=1+2"), "=1+2");
//! ```

use std::borrow::Cow;

/// Escapes a cell: prefixes an apostrophe if a spreadsheet would treat it as a formula.
///
/// A cell with apostrophes in front of a formula gets one more, so that [`unescaped`] restores every text.
pub fn escaped(cell: &str) -> Cow<'_, str> {
    if begins_formula(cell.trim_start_matches('\'')) && cell.parse::<f64>().is_err() {
        Cow::Owned(format!("'{cell}"))
    } else {
        Cow::Borrowed(cell)
    }
}

/// Reverses [`escaped`].
pub fn unescaped(cell: &str) -> &str {
    match cell.strip_prefix('\'') {
        Some(text) if begins_formula(text.trim_start_matches('\'')) => text,
        _ => cell,
    }
}

/// Whether a text begins like a formula.
///
/// Some programs skip tab, carriage return and line feed, and treat full-width forms like the ASCII
/// characters.
fn begins_formula(text: &str) -> bool {
    text.starts_with([
        '=', '+', '-', '@', '\t', '\r', '\n', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}',
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_become_text_and_come_back() {
        for formula in [
            "=cmd|' /C calc'!A0",
            "+1+2",
            "-2+3",
            "@SUM(A1)",
            "\t=1",
            "\r=1",
            "\n=1",
            "＝1",
            "'=1",
            "''-x",
            "-",
        ] {
            let cell = escaped(formula);
            assert_eq!(cell, format!("'{formula}"));
            assert_eq!(unescaped(&cell), formula);
        }
    }

    #[test]
    fn numbers_and_plain_texts_stay() {
        for cell in [
            "-1.5", "+2e-7", "-inf", "NaN", "", "loss", "'quoted'", "a=b", "0-1",
        ] {
            assert_eq!(escaped(cell), cell);
            assert_eq!(unescaped(cell), cell);
        }
    }
}
