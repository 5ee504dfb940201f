//! The losses over the rates, as a plot and as JSON.

use std::path::Path;

use sconce_charts::{Line, LineChart};
use sconce_plugin_api::prelude::*;
use serde_json::json;

use super::curve::Curve;

/// Writes `NAME.svg` and `NAME.json`, each atomically.
pub(crate) fn write(
    directory: &Path,
    name: &str,
    curve: &Curve,
    suggestion: Option<f64>,
) -> Result<()> {
    let tried = &curve.tried;
    let text = json!({
        "suggestion": suggestion,
        "rates": tried.iter().map(|tried| tried.rate).collect::<Vec<_>>(),
        "losses": tried.iter().map(|tried| tried.loss).collect::<Vec<_>>(),
        "smoothed": tried.iter().map(|tried| tried.smoothed).collect::<Vec<_>>(),
    });
    put(directory, &format!("{name}.json"), &format!("{text:#}\n"))?;
    put(directory, &format!("{name}.svg"), &svg(curve, suggestion)?)
}

fn svg(curve: &Curve, suggestion: Option<f64>) -> Result<String> {
    let mut chart = LineChart::new("Learning rate range test");
    "learning rate".clone_into(&mut chart.x_label);
    "loss".clone_into(&mut chart.y_label);
    chart.x_log = true;
    let tried = curve.tried.iter();
    let losses = tried.clone().map(|tried| (tried.rate, tried.loss));
    chart.lines.push(Line::new("loss", losses));
    let smoothed = tried.clone().map(|tried| (tried.rate, tried.smoothed));
    chart.lines.push(Line::new("smoothed", smoothed));
    if let Some(rate) = suggestion {
        let shown = tried.map(|tried| tried.loss);
        let low = shown.clone().fold(f64::INFINITY, f64::min);
        let high = shown.fold(f64::NEG_INFINITY, f64::max);
        let name = format!("suggestion {rate:.3e}");
        chart
            .lines
            .push(Line::new(name, [(rate, low), (rate, high)]));
    }
    chart.svg().context("the plot can't be drawn")
}

fn put(directory: &Path, name: &str, text: &str) -> Result<()> {
    write_atomically(path_inside(directory, name)?, text)
}
