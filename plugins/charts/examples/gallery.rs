//! Writes one picture of each kind into a folder for visual inspection:
//! `cargo run -p sconce-charts --example gallery -- FOLDER`.

use std::error::Error;
use std::path::PathBuf;

use sconce_charts::{BarChart, HeatMap, Image, ImageGrid, Line, LineChart};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("which folder?")?);
    std::fs::create_dir_all(&folder)?;

    let mut chart = LineChart::new("Loss");
    chart.x_label = "epoch".into();
    chart.y_label = "cross-entropy".into();
    for index in 0..9 {
        let value = |x: i32| f64::from(10 - index) * (-0.2 * f64::from(x)).exp() + 0.1;
        let at = |x| {
            (
                f64::from(x),
                if x == 7 && index == 2 {
                    f64::NAN
                } else {
                    value(x)
                },
            )
        };
        chart
            .lines
            .push(Line::new(format!("train/loss {index}"), (1..=20).map(at)));
    }
    std::fs::write(folder.join("lines.svg"), chart.svg()?)?;
    chart.y_log = true;
    std::fs::write(folder.join("log.svg"), chart.svg()?)?;
    chart.x_log = true;
    chart.lines = vec![Line::new(
        "",
        (1..5000).map(|x| (f64::from(x), f64::from(x).sqrt())),
    )];
    std::fs::write(folder.join("loglog.svg"), chart.svg()?)?;

    let bars = ["conv1", "conv2", "fc1", "fc2"]
        .into_iter()
        .zip([0.2, 1.4, -0.3, 0.9]);
    let mut chart = BarChart::new("Gradient norms", bars);
    chart.y_label = "norm".into();
    std::fs::write(folder.join("bars.svg"), chart.svg()?)?;
    let edges: Vec<f64> = (0..=20).map(|i| f64::from(i) / 10.0 - 1.0).collect();
    let counts: Vec<f64> = (0..20)
        .map(|i| f64::from(100 - (10 - i) * (10 - i)))
        .collect();
    let mut chart = BarChart::histogram("Weights", &edges, &counts)?;
    chart.x_label = "value".into();
    std::fs::write(folder.join("histogram.svg"), chart.svg()?)?;

    let names: Vec<_> = (0..10).map(|i| format!("class {i}")).collect();
    let values = (0..100).map(|i| {
        if i % 11 == 0 {
            900.0 + f64::from(i)
        } else {
            f64::from(i % 7)
        }
    });
    let map = HeatMap {
        title: "Confusion matrix".to_owned(),
        x_label: "predicted".to_owned(),
        y_label: "true".to_owned(),
        rows: names.clone(),
        columns: names,
        values: values.collect(),
        range: None,
    };
    std::fs::write(folder.join("heat.svg"), map.svg()?)?;

    let values: Vec<Vec<f32>> = (0..12_u8)
        .map(|i| {
            (0..28 * 28)
                .map(|p| ((p % 28) as f32 * f32::from(i) / 9.0).sin())
                .collect()
        })
        .collect();
    let captions: Vec<_> = (0..12)
        .map(|i| format!("{i} > {} 0.{i:02}", i * 3 % 10))
        .collect();
    let images: Vec<_> = values
        .iter()
        .zip(&captions)
        .map(|(values, caption)| Image { values, caption })
        .collect();
    std::fs::write(
        folder.join("grid.png"),
        ImageGrid::new(1, 28, 28).png(&images)?,
    )?;
    Ok(())
}
