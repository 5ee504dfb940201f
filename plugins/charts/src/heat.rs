//! Heat maps with names and numbers, such as confusion matrices.

#![expect(clippy::cast_possible_wrap, reason = "pixels of a picture are few")]

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::colour::{self, FAINT, INK};
use crate::{Error, axis};

/// A table of numbers drawn as coloured cells.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatMap {
    /// Title above the table; empty: none.
    pub title: String,
    /// Label of the columns, below the table.
    pub x_label: String,
    /// Label of the rows, left of the table.
    pub y_label: String,
    /// Names of the rows, from the top.
    pub rows: Vec<String>,
    /// Names of the columns, from the left.
    pub columns: Vec<String>,
    /// Values in row-major order. A value that is not finite is drawn as a grey cell.
    pub values: Vec<f64>,
    /// Values of the lightest and the darkest colour; by default 0 (or the minimum, if that is less) and
    /// the maximum.
    pub range: Option<(f64, f64)>,
}

/// Returns the side of a cell in pixels: the largest that keeps the table within about 900.
fn cell(count: usize) -> i32 {
    (900 / count.max(1) as i32).clamp(12, 56)
}

/// Maximum length of a drawn name in characters, of about 7 pixels each; longer ones are truncated.
const LONGEST_NAME: usize = 24;

impl HeatMap {
    /// Returns the table as an SVG document. Numbers are written into cells that are wide enough.
    ///
    /// # Errors
    ///
    /// If the number of values is not rows times columns, or there are more than 1,000 of either.
    pub fn svg(&self) -> Result<String, Error> {
        let (rows, columns) = (self.rows.len(), self.columns.len());
        if self.values.len() != rows * columns || rows.max(columns) > 1000 {
            let values = self.values.len();
            return Err(Error::Shape {
                what: "a heat map",
                why: format!("{values} values for {rows} rows and {columns} columns"),
            });
        }
        let side = cell(rows.max(columns));
        let names = |names: &[String]| {
            let longest = names
                .iter()
                .map(|name| name.chars().count().min(LONGEST_NAME))
                .max();
            longest.unwrap_or(0) as i32 * 7 + 14
        };
        let left = 34 + names(&self.rows);
        let top = if self.title.is_empty() { 12 } else { 44 };
        let (width, height) = (columns as i32 * side, rows as i32 * side);
        let bottom = names(&self.columns) + 34;
        let picture = (
            (left + width + 20).max(200) as u32,
            (top + height + bottom) as u32,
        );

        let mut text = String::new();
        {
            let area = SVGBackend::with_string(&mut text, picture).into_drawing_area();
            area.fill(&WHITE).map_err(Error::drawing)?;
            self.draw_cells(&area, (left, top), side)?;
            self.draw_names(&area, (left, top), side)?;
            let style = |size: i32| ("sans-serif", size).into_font().color(&INK);
            let middle = Pos::new(HPos::Center, VPos::Center);
            let labels = [
                (
                    &self.title,
                    (picture.0 as i32 / 2, 24),
                    style(20).pos(middle),
                ),
                (
                    &self.x_label,
                    (left + width / 2, picture.1 as i32 - 16),
                    style(15).pos(middle),
                ),
                (
                    &self.y_label,
                    (18, top + height / 2),
                    ("sans-serif", 15)
                        .into_font()
                        .transform(FontTransform::Rotate270)
                        .color(&INK)
                        .pos(middle),
                ),
            ];
            for (label, place, style) in labels {
                area.draw_text(label, &style, place)
                    .map_err(Error::drawing)?;
            }
            area.present().map_err(Error::drawing)?;
        }
        Ok(text)
    }

    /// Returns the values of the lightest and the darkest colour.
    fn range(&self) -> (f64, f64) {
        let finite = || {
            self.values
                .iter()
                .copied()
                .filter(|value| value.is_finite())
        };
        self.range
            .unwrap_or_else(|| (finite().fold(0.0, f64::min), finite().fold(0.0, f64::max)))
    }

    fn draw_cells(&self, area: &Area<'_>, (left, top): (i32, i32), side: i32) -> Result<(), Error> {
        let (low, high) = self.range();
        let columns = self.columns.len().max(1);
        for (index, value) in self.values.iter().enumerate() {
            let x = left + (index % columns) as i32 * side;
            let y = top + (index / columns) as i32 * side;
            let part = if high > low {
                (value - low) / (high - low)
            } else {
                0.0
            };
            let fill = if value.is_finite() {
                colour::shade(part)
            } else {
                FAINT
            };
            let corners = [(x, y), (x + side, y + side)];
            area.draw(&Rectangle::new(corners, fill.filled()))
                .map_err(Error::drawing)?;
            area.draw(&Rectangle::new(corners, WHITE.stroke_width(1)))
                .map_err(Error::drawing)?;
            let number = axis::number(*value);
            // At a height of 13 a digit is about 7 wide; text smaller than 8 is unreadable.
            let height = (13 * (side - 4) / (7 * number.len() as i32)).min(13);
            if value.is_finite() && height >= 8 {
                let style = ("sans-serif", height)
                    .into_font()
                    .color(&colour::text_on(part));
                let style = style.pos(Pos::new(HPos::Center, VPos::Center));
                let middle = (x + side / 2, y + side / 2);
                area.draw_text(&number, &style, middle)
                    .map_err(Error::drawing)?;
            }
        }
        Ok(())
    }

    fn draw_names(&self, area: &Area<'_>, (left, top): (i32, i32), side: i32) -> Result<(), Error> {
        let font = || ("sans-serif", side.min(13)).into_font();
        let style = font().color(&INK).pos(Pos::new(HPos::Right, VPos::Center));
        for (row, name) in (0..).zip(&self.rows) {
            let place = (left - 6, top + row * side + side / 2);
            area.draw_text(&cut(name), &style, place)
                .map_err(Error::drawing)?;
        }
        let below = top + self.rows.len() as i32 * side + 6;
        let upright = font().transform(FontTransform::Rotate270).color(&INK);
        let upright = upright.pos(Pos::new(HPos::Right, VPos::Center));
        for (column, name) in (0..).zip(&self.columns) {
            let place = (left + column * side + side / 2, below);
            area.draw_text(&cut(name), &upright, place)
                .map_err(Error::drawing)?;
        }
        Ok(())
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// Truncates a name to at most [`LONGEST_NAME`] characters.
fn cut(name: &str) -> String {
    if name.chars().count() <= LONGEST_NAME {
        return name.to_owned();
    }
    let kept: String = name.chars().take(LONGEST_NAME - 1).collect();
    kept + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(values: Vec<f64>) -> HeatMap {
        HeatMap {
            title: "Confusion matrix".to_owned(),
            x_label: "predicted".to_owned(),
            y_label: "true".to_owned(),
            rows: vec!["cat".to_owned(), "<dog>".to_owned()],
            columns: vec!["cat".to_owned(), "<dog>".to_owned()],
            values,
            range: None,
        }
    }

    #[test]
    fn a_confusion_matrix_has_names_numbers_and_shades() {
        let svg = map(vec![8.0, 2.0, 0.0, 16.0]).svg().unwrap();
        let document = roxmltree::Document::parse(&svg).unwrap();
        let texts: Vec<_> = document
            .descendants()
            .filter_map(|node| node.text())
            .map(str::trim)
            .collect();
        for text in [
            "8",
            "2",
            "0",
            "16",
            "<dog>",
            "cat",
            "predicted",
            "true",
            "Confusion matrix",
        ] {
            assert!(texts.contains(&text), "{text}: {texts:?}");
        }
        // The smallest value is lightest and the largest is darkest.
        assert!(svg.contains("#F7FBFF") && svg.contains("#08306B"), "{svg}");
    }

    #[test]
    fn a_fixed_range_and_missing_values() {
        let mut map = map(vec![0.5, 0.5, f64::NAN, 0.5]);
        map.range = Some((0.0, 1.0));
        let svg = map.svg().unwrap();
        assert!(
            svg.contains("#80969B") || svg.contains("#8096B5") || svg.contains("#8095B5"),
            "{svg}"
        );
        assert!(svg.contains("#DDDDDD"), "{svg}");
        assert!(!svg.contains("NaN"));
    }

    #[test]
    fn what_does_not_fit_is_refused_and_what_is_large_or_empty_is_not() {
        let error = map(vec![1.0; 3]).svg().unwrap_err().to_string();
        assert_eq!(
            error,
            "cannot draw a heat map: 3 values for 2 rows and 2 columns"
        );
        let mut large = map(vec![1.0; 200 * 200]);
        large.rows = (0..200)
            .map(|i| format!("a class with a very long name {i}"))
            .collect();
        large.columns.clone_from(&large.rows);
        assert!(large.svg().unwrap().contains("a class with a very lon…"));
        let empty = HeatMap {
            rows: vec![],
            columns: vec![],
            values: vec![],
            ..map(vec![])
        };
        assert!(empty.svg().is_ok());
        assert!(map(vec![0.0; 4]).svg().is_ok());
    }
}
