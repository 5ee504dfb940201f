//! Diagnostics as text: the message, the place with an excerpt, notes and hints.

use std::ops::Range;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use super::{Diagnostic, Place};

/// A line longer than this is cut around what is meant: a manifest may be one line of a megabyte.
const LONGEST_LINE: usize = 160;

/// All diagnostics, one after the other.
pub fn text(diagnostics: &[Diagnostic], colour: bool) -> String {
    let renderer = if colour {
        Renderer::styled()
    } else {
        Renderer::plain()
    };
    let renderer = renderer.decor_style(DecorStyle::Ascii);
    let mut text = String::new();
    for diagnostic in diagnostics {
        text.push_str(&renderer.render(&[group(diagnostic)]));
        text.push_str("\n\n");
    }
    text
}

fn group(diagnostic: &Diagnostic) -> Group<'_> {
    let mut notes: Vec<String> = Vec::new();
    let level = if diagnostic.is_warning {
        Level::WARNING
    } else {
        Level::ERROR
    };
    let mut group = Group::with_title(level.primary_title(&diagnostic.message));
    if let Some(place) = &diagnostic.place {
        match &place.span {
            Some(span) => group = group.element(snippet(place, span)),
            None => notes.push(format!("in {}", place.file.display())),
        }
        if !place.json_path.is_empty() {
            notes.push(format!("at {}", place.json_path));
        }
    }
    notes.extend(diagnostic.notes.iter().cloned());
    for note in notes {
        group = group.element(Level::NOTE.message(note));
    }
    for hint in &diagnostic.hints {
        group = group.element(Level::HELP.with_name("hint").message(hint));
    }
    group
}

/// The line with what is meant, and its place.
fn snippet<'a>(
    place: &'a Place,
    span: &Range<usize>,
) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
    let (line, start) = line_at(&place.text, span.start);
    let end = place.text[start..]
        .find('\n')
        .map_or(place.text.len(), |end| start + end);
    let shown = window(&place.text, start..end, span);
    let marked = span.start.clamp(shown.start, shown.end)..span.end.clamp(shown.start, shown.end);
    let annotation =
        AnnotationKind::Primary.span(marked.start - shown.start..marked.end - shown.start);
    // The column of a cut line would be that of the cut: the path says the true one.
    let column = place.text[start..span.start.min(end)].chars().count() + 1;
    let path = if shown.start == start {
        place.file.display().to_string()
    } else {
        format!("{} (column {column})", place.file.display())
    };
    Snippet::source(&place.text[shown])
        .line_start(line)
        .path(path)
        .annotation(annotation)
}

/// The number of the line with the byte at `offset`, from 1, and where that line starts.
fn line_at(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, start)
}

/// The part of a line that is shown: all of a short one.
fn window(text: &str, line: Range<usize>, span: &Range<usize>) -> Range<usize> {
    if line.len() <= LONGEST_LINE {
        return line;
    }
    let from = span.start.saturating_sub(LONGEST_LINE / 4).max(line.start);
    let to = (from + LONGEST_LINE).min(line.end);
    boundary(text, from)..boundary(text, to)
}

/// The character boundary at or before `offset`.
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
            .at(Place {
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
