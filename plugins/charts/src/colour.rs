//! Colours on white that are distinguishable with any colour vision.

use plotters::style::RGBColor;

/// Okabe and Ito's palette without its yellow, which is hardly visible on white.
/// (<https://jfly.uni-koeln.de/color/>)
const PALETTE: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

/// Colour of text and axes.
pub(crate) const INK: RGBColor = RGBColor(51, 51, 51);

/// Colour of grid lines and of cells without a value.
pub(crate) const FAINT: RGBColor = RGBColor(221, 221, 221);

/// Returns the colour of the series at `index`; colours repeat after seven.
pub(crate) fn series(index: usize) -> RGBColor {
    PALETTE.get(index % PALETTE.len()).copied().unwrap_or(INK)
}

/// Returns whether the series at `index` is dashed: every second group of seven, as colours repeat.
pub(crate) fn dashed(index: usize) -> bool {
    (index / PALETTE.len()) % 2 == 1
}

/// Returns a shade between near white (0) and dark blue (1).
pub(crate) fn shade(part: f64) -> RGBColor {
    let part = part.clamp(0.0, 1.0);
    let mix = |light: f64, dark: f64| (light + (dark - light) * part).round() as u8;
    RGBColor(mix(247.0, 8.0), mix(251.0, 48.0), mix(255.0, 107.0))
}

/// Returns the colour of text on [`shade`] of `part`.
pub(crate) fn text_on(part: f64) -> RGBColor {
    if part > 0.5 {
        RGBColor(255, 255, 255)
    } else {
        INK
    }
}
