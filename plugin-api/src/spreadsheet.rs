//! Cells of CSV files that a spreadsheet shows instead of running them.
//!
//! A spreadsheet takes a cell that begins with `=`, `+`, `-` or `@` for a formula, quoted or not, and a
//! formula can start programs: `=cmd|' /C calc'!A0` as the name of a class or a metric. Such texts get an
//! apostrophe in front, which makes them text. Numbers stay as they are.
//!
//! ```
//! use sconce_plugin_api::spreadsheet::{escaped, unescaped};
//!
//! assert_eq!(escaped("=1+2"), "'=1+2");
//! assert_eq!(escaped("-1.5e-3"), "-1.5e-3");
//! assert_eq!(unescaped("'=1+2"), "=1+2");
//! ```

use std::borrow::Cow;

/// The text of a cell, with an apostrophe in front where a spreadsheet would take it for a formula.
///
/// What begins with apostrophes and then such a character gets one more, so that [`unescaped`] gives
/// every text back.
pub fn escaped(cell: &str) -> Cow<'_, str> {
    if begins_formula(cell.trim_start_matches('\'')) && cell.parse::<f64>().is_err() {
        Cow::Owned(format!("'{cell}"))
    } else {
        Cow::Borrowed(cell)
    }
}

/// The text that [`escaped`] was given.
pub fn unescaped(cell: &str) -> &str {
    match cell.strip_prefix('\'') {
        Some(text) if begins_formula(text.trim_start_matches('\'')) => text,
        _ => cell,
    }
}

/// Tab, return and line feed are skipped by some programs, which then see what comes after; the wide
/// forms are taken for the plain ones.
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
