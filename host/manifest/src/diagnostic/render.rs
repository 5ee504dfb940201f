//! Rendering of diagnostics as text: message, location with an excerpt, notes and hints.

use std::ops::Range;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use super::quote::tamed;
use super::{Diagnostic, TextLocation};
use crate::printable::steers;
use crate::screen;

/// Longer lines are cut around the reported span: a manifest may be a single line of a megabyte.
const LONGEST_LINE: usize = 160;

/// Maximum and minimum width of excerpts, in columns.
const WIDEST_EXCERPT: usize = 140;
const NARROWEST_EXCERPT: usize = 40;

/// Maximum length of a message, note or hint, in characters.
const LONGEST_TEXT: usize = 4000;

/// Maximum length of a path, in characters.
const LONGEST_PATH: usize = 160;

/// Renders all diagnostics, one after the other.
pub fn text(diagnostics: &[Diagnostic], colour: bool) -> String {
    let renderer = if colour {
        Renderer::styled()
    } else {
        Renderer::plain()
    };
    let renderer = renderer
        .decor_style(DecorStyle::Ascii)
        .term_width(excerpt_width());
    let mut text = String::new();
    for diagnostic in diagnostics {
        text.push_str(&renderer.render(&[group(diagnostic)]));
        text.push_str("\n\n");
    }
    text
}

/// Width of excerpts: the terminal's, if there is one.
fn excerpt_width() -> usize {
    match screen::columns() {
        0 => WIDEST_EXCERPT,
        columns => usize::from(columns).clamp(NARROWEST_EXCERPT, WIDEST_EXCERPT),
    }
}

fn group(diagnostic: &Diagnostic) -> Group<'_> {
    let mut notes: Vec<String> = Vec::new();
    let level = if diagnostic.is_warning {
        Level::WARNING
    } else {
        Level::ERROR
    };
    let mut group =
        Group::with_title(level.primary_title(tamed(&diagnostic.message, LONGEST_TEXT)));
    if let Some(place) = &diagnostic.place {
        match &place.span {
            Some(span) => group = group.element(snippet(place, span)),
            None => notes.push(format!("in {}", file(place))),
        }
        if !place.json_path.is_empty() {
            notes.push(format!("at {}", tamed(&place.json_path, LONGEST_PATH)));
        }
    }
    notes.extend(diagnostic.notes.iter().cloned());
    for note in notes {
        group = group.element(Level::NOTE.message(tamed(&note, LONGEST_TEXT)));
    }
    for hint in &diagnostic.hints {
        let hint = tamed(hint, LONGEST_TEXT);
        group = group.element(Level::HELP.with_name("hint").message(hint));
    }
    group
}

/// Returns the line that contains the span, with the span marked.
fn snippet(
    place: &TextLocation,
    span: &Range<usize>,
) -> Snippet<'static, annotate_snippets::Annotation<'static>> {
    let (line, start) = line_at(&place.text, span.start);
    let end = place.text[start..]
        .find('\n')
        .map_or(place.text.len(), |end| start + end);
    let shown = window(&place.text, start..end, span);
    let from = span.start.clamp(shown.start, shown.end);
    let to = span.end.clamp(from, shown.end);
    let before = visible(&place.text, shown.start..from);
    let meant = visible(&place.text, from..to);
    let after = visible(&place.text, to..shown.end);
    let annotation = AnnotationKind::Primary.span(before.len()..before.len() + meant.len());
    // The column within a cut line would be misleading, so the path gives the true one.
    let path = if shown.start == start {
        file(place)
    } else {
        let before = place.text.get(start..span.start.min(end));
        let column = before.map_or(0, |before| before.chars().count()) + 1;
        format!("{} (column {column})", file(place))
    };
    Snippet::source(before + &meant + &after)
        .line_start(line)
        .path(path)
        .annotation(annotation)
}

/// Returns the name of the file.
fn file(place: &TextLocation) -> String {
    tamed(&place.file.display().to_string(), LONGEST_TEXT)
}

/// Returns part of a line, with a symbol for each terminal control character; a range that splits a
/// character gives an empty text.
fn visible(text: &str, range: Range<usize>) -> String {
    let part = text.get(range).unwrap_or_default();
    let part = part.strip_suffix('\r').unwrap_or(part);
    let sign = |c| match c {
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        '\u{7f}' => '\u{2421}',
        _ => '\u{fffd}',
    };
    part.chars()
        .map(|c| if steers(c) { sign(c) } else { c })
        .collect()
}

/// Line number, from 1, of the byte at `offset`, and the offset at which that line starts.
fn line_at(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, start)
}

/// Part of a line that is shown: all of a short one.
fn window(text: &str, line: Range<usize>, span: &Range<usize>) -> Range<usize> {
    if line.len() <= LONGEST_LINE {
        return line;
    }
    let from = span.start.saturating_sub(LONGEST_LINE / 4).max(line.start);
    let to = (from + LONGEST_LINE).min(line.end);
    boundary(text, from)..boundary(text, to)
}

/// Returns the character boundary at or before `offset`.
fn boundary(text: &str, offset: usize) -> usize {
    (0..=offset)
        .rev()
        .find(|&offset| text.is_char_boundary(offset))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn at(text: &str, span: Range<usize>) -> Diagnostic {
        Diagnostic::new("unknown key `epohcs`")
            .at(TextLocation {
                file: "run.json".into(),
                text: Arc::from(text),
                json_path: "train".to_owned(),
                span: Some(span),
            })
            .note("known: `epochs`")
            .hint("did you mean `epochs`?")
    }

    #[test]
    fn a_diagnostic_shows_line_column_excerpt_notes_and_hints() {
        let source = "{\n  \"train\": {\"epohcs\": 3}\n}\n";
        let start = source.find("\"epohcs").expect("it");
        let found = text(&[at(source, start..start + 8)], false);
        let expected = "\
error: unknown key `epohcs`
 --> run.json:2:13
  |
2 |   \"train\": {\"epohcs\": 3}
  |             ^^^^^^^^
  |
  = note: at train
  = note: known: `epochs`
  = hint: did you mean `epochs`?

";
        assert_eq!(found, expected);
    }

    #[test]
    fn a_line_of_a_megabyte_is_cut() {
        let source = format!("{}\"epohcs\"{}", "é".repeat(500_000), "x".repeat(500_000));
        let start = source.find('"').expect("it");
        let found = text(&[at(&source, start..start + 8)], false);
        assert!(found.len() < 1200, "{} bytes", found.len());
        assert!(found.contains("column 500001"), "{found}");
    }

    #[test]
    fn what_would_steer_the_terminal_is_shown_instead() {
        let source = "{\"a\u{1b}[31m\u{9b}\": \u{202e}3}\r\n";
        let mut diagnostic = at(source, 1..11);
        diagnostic.message = "unknown key `a\u{1b}[31m`".to_owned();
        diagnostic.hints = vec!["not \u{7}".to_owned()];
        if let Some(place) = &mut diagnostic.place {
            place.json_path = "a\u{85}b".to_owned();
            place.file = "run\u{1b}.json".into();
        }
        let found = text(&[diagnostic], false);
        assert!(
            !found.contains(|c: char| c != '\n' && steers(c)),
            "{found:?}"
        );
        for words in [
            "`a\\u{1b}[31m`",
            "{\"a␛[31m�\": �3}\n",
            "at a\\u{85}b",
            "not \\u{7}",
        ] {
            assert!(found.contains(words), "{words} in\n{found}");
        }
    }

    #[test]
    fn a_message_with_a_key_of_a_megabyte_is_cut() {
        let mut diagnostic = at("{}", 0..1);
        diagnostic.message = "x".repeat(1_000_000);
        if let Some(place) = &mut diagnostic.place {
            place.json_path = "y".repeat(1_000_000);
        }
        let found = text(&[diagnostic], false);
        assert!(found.len() < 6000, "{} bytes", found.len());
    }

    #[test]
    fn a_place_without_an_excerpt_names_the_file() {
        let mut diagnostic = at("", 0..0);
        if let Some(place) = &mut diagnostic.place {
            place.span = None;
        }
        let found = text(&[diagnostic], false);
        assert!(
            found.contains("in run.json") && found.contains("at train"),
            "{found}"
        );
    }
}
