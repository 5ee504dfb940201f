//! The header of a `.npy` file: a Python dictionary such as
//! `{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }`.

use std::path::Path;

use super::ArrayError;
use super::element::ArrayElement;

/// Contents of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NpyHeader {
    pub(super) element: ArrayElement,
    pub(super) big_endian: bool,
    /// Whether elements along the first dimension are contiguous.
    pub(super) fortran_order: bool,
    pub(super) shape: Vec<usize>,
}

/// Parses the text of a header.
pub(super) fn parse(text: &str, file: &Path) -> Result<NpyHeader, ArrayError> {
    let damaged = |problem| ArrayError::Header {
        file: file.to_owned(),
        header: text.trim().chars().take(200).collect(),
        problem,
    };
    let inside = text.trim().strip_prefix('{');
    let inside = inside.and_then(|text| text.strip_suffix('}'));
    let inside = inside.ok_or_else(|| damaged("no dictionary"))?;
    let (mut descr, mut order, mut shape) = (None, None, None);
    let mut rest = inside.trim();
    while !rest.is_empty() {
        let (key, value) = rest.split_once(':').ok_or_else(|| damaged("no value"))?;
        let value = value.trim_start();
        let end = end_of_value(value);
        let (value, after) = value.split_at(end);
        let place = match unquoted(key.trim()) {
            Some("descr") => &mut descr,
            Some("fortran_order") => &mut order,
            Some("shape") => &mut shape,
            _ => return Err(damaged("an unknown key")),
        };
        *place = Some(value.trim());
        rest = after.trim_start_matches(',').trim();
    }
    let descr = descr.ok_or_else(|| damaged("no `descr`"))?;
    let element = unquoted(descr).and_then(element);
    let (element, big_endian) = element.ok_or_else(|| ArrayError::ElementType {
        place: format!("`{}`", file.display()),
        found: type_name(descr),
    })?;
    let fortran_order = match order {
        Some("True") => true,
        Some("False") => false,
        _ => return Err(damaged("no `fortran_order`, or neither True nor False")),
    };
    let shape = shape.and_then(tuple);
    let shape = shape.ok_or_else(|| damaged("no `shape`, or no tuple of numbers"))?;
    Ok(NpyHeader {
        element,
        big_endian,
        fortran_order,
        shape,
    })
}

/// Returns the end of a value: the first comma outside brackets and strings.
fn end_of_value(text: &str) -> usize {
    let mut depth = 0;
    let mut quote = None;
    for (place, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth -= 1,
            (None, ',') if depth == 0 => return place,
            _ => {}
        }
    }
    text.len()
}

fn unquoted(text: &str) -> Option<&str> {
    let quoted = |quote| text.strip_prefix(quote)?.strip_suffix(quote);
    quoted('\'').or_else(|| quoted('"'))
}

fn tuple(text: &str) -> Option<Vec<usize>> {
    let inside = text.strip_prefix('(')?.strip_suffix(')')?.trim();
    let inside = inside.strip_suffix(',').unwrap_or(inside);
    if inside.is_empty() {
        return Some(Vec::new());
    }
    // Python 2 wrote some numbers with a trailing L.
    let sizes = inside
        .split(',')
        .map(|size| size.trim().trim_end_matches('L'));
    sizes.map(|size| size.parse().ok()).collect()
}

/// Returns the element type of a name such as `<f4`, and whether it is big-endian.
pub(super) fn element(descr: &str) -> Option<(ArrayElement, bool)> {
    let big_endian = match descr.chars().next()? {
        '>' => true,
        '<' | '|' => false,
        '=' => cfg!(target_endian = "big"),
        _ => return None,
    };
    let element = match descr.get(1..)? {
        "f2" => ArrayElement::F16,
        "f4" => ArrayElement::F32,
        "f8" => ArrayElement::F64,
        "i1" => ArrayElement::I8,
        "i2" => ArrayElement::I16,
        "i4" => ArrayElement::I32,
        "i8" => ArrayElement::I64,
        "u1" => ArrayElement::U8,
        "u2" => ArrayElement::U16,
        "u4" => ArrayElement::U32,
        "u8" => ArrayElement::U64,
        "b1" => ArrayElement::Bool,
        _ => return None,
    };
    Some((element, big_endian))
}

/// Describes an unsupported type in words, if it is a common one.
fn type_name(descr: &str) -> String {
    let words = match unquoted(descr).and_then(|descr| descr.get(1..)) {
        _ if descr.starts_with('[') => "records of several fields",
        Some("O") => "Python objects",
        Some(kind) if kind.starts_with(['U', 'S']) => "texts",
        Some(kind) if kind.starts_with('c') => "complex numbers",
        Some(kind) if kind.starts_with(['M', 'm']) => "times",
        _ => "unknown",
    };
    format!("{descr} ({words})")
}
