//! Charts for hooks: [line charts](LineChart), [bar charts](BarChart) and [heat maps](HeatMap) as
//! self-contained SVG text, and [grids of small images](ImageGrid) as PNG.
//!
//! A plain library, independent of hooks and files. The same input gives the same bytes, all text is
//! escaped, and non-finite values leave a gap instead of causing an error.
//!
//! ```
//! use sconce_charts::{Line, LineChart};
//!
//! let mut chart = LineChart::new("Loss");
//! chart.x_label = "epoch".to_owned();
//! chart.lines.push(Line::new("train", [(1.0, 0.9), (2.0, 0.4)]));
//! chart.lines.push(Line::new("val", [(1.0, 1.0), (2.0, f64::NAN)]));
//! assert!(chart.svg()?.starts_with("<svg"));
//! # Ok::<(), sconce_charts::Error>(())
//! ```

#![forbid(unsafe_code)]

mod axis;
mod bars;
mod clip;
mod colour;
mod error;
mod font;
mod grid;
mod heat;
mod lines;

pub use bars::BarChart;
pub use error::Error;
pub use grid::{GridRange, Image, ImageGrid};
pub use heat::HeatMap;
pub use lines::{Line, LineChart};
