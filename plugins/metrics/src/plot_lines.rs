//! The `plot-lines` hook: a chart of metrics over the run, redrawn after each epoch.
//!
//! `{"hook": "plot-lines", "config": {"metrics": ["loss"], "file": "loss.svg"}}`

use std::path::PathBuf;

use sconce_charts::{Line, LineChart};
use sconce_plugin_api::prelude::*;

/// What is drawn, and the output file.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Metrics to draw: of one phase, as in `val/accuracy`, or of training and validation, as in `loss`.
    /// Default: the loss.
    metrics: Vec<Monitor>,
    /// Unit of the horizontal axis: completed epochs or training iterations. Default `epoch`.
    by: By,
    /// By iteration: interval of the points on the training lines, at least 1; their `loss` is that of the
    /// batch, other metrics are the mean of the epoch so far. Default 1.
    #[schemars(range(min = 1))]
    every: u64,
    /// Number of latest values that are averaged for each point of a line, at least 1. Default 1.
    #[schemars(range(min = 1))]
    smoothing: usize,
    /// SVG file, inside the run directory. Default `lines.svg`.
    file: PathBuf,
    /// Title of the chart. Default (null): the run's name.
    title: Option<String>,
    /// Label of the vertical axis. Default: none.
    y_label: String,
    /// Whether the vertical axis is logarithmic; values that are not above 0 are left out. Default false.
    y_log: bool,
    /// Whether the horizontal axis is logarithmic. Default false.
    x_log: bool,
    /// Width in pixels, from 200 to 10000. Default 800.
    #[schemars(range(min = 200, max = 10000))]
    width: u32,
    /// Height in pixels, from 150 to 10000. Default 450.
    #[schemars(range(min = 150, max = 10000))]
    height: u32,
}

/// Unit of the horizontal axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum By {
    /// Completed epochs.
    Epoch,
    /// Completed training iterations.
    Iteration,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            metrics: vec![Monitor::new("loss")],
            by: By::Epoch,
            every: 1,
            smoothing: 1,
            file: PathBuf::from("lines.svg"),
            title: None,
            y_label: String::new(),
            y_log: false,
            x_log: false,
            width: 800,
            height: 450,
        }
    }
}

/// A metric of a phase.
#[derive(Debug, Serialize, Deserialize)]
struct Series {
    phase: Phase,
    metric: String,
    /// Non-finite values are `None`, as JSON cannot represent them, and are drawn as gaps.
    points: Vec<(u64, Option<f64>)>,
}

/// See the [module](self).
pub(crate) struct PlotLines {
    config: Config,
    path: PathBuf,
    title: String,
    series: Vec<Series>,
}

/// Creates the lines for the configured metrics.
fn series(metrics: &[Monitor]) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for monitor in metrics {
        let phases = match monitor.phase() {
            Some(phase) => vec![phase],
            None => vec![Phase::Train, Phase::Val],
        };
        for phase in phases {
            let metric = monitor.name().to_owned();
            if !all
                .iter()
                .any(|known| known.phase == phase && known.metric == metric)
            {
                let points = Vec::new();
                all.push(Series {
                    phase,
                    metric,
                    points,
                });
            }
        }
    }
    all
}

impl Series {
    fn add(&mut self, x: u64, y: Option<f64>) {
        if let Some(y) = y {
            self.points.push((x, Some(y).filter(|y| y.is_finite())));
        }
    }

    /// Averages the latest `smoothing` values for each point; gaps remain and are not averaged.
    fn line(&self, smoothing: usize) -> Line {
        let points = self.points.iter().enumerate().map(|(index, (x, y))| {
            let latest = self
                .points
                .get((index + 1).saturating_sub(smoothing)..=index);
            let latest = latest.unwrap_or_default().iter().filter_map(|(_, y)| *y);
            let (sum, count) = latest.fold((0.0, 0_u32), |(sum, count), y| (sum + y, count + 1));
            let mean = y.map_or(f64::NAN, |_| sum / f64::from(count));
            (*x as f64, mean)
        });
        Line::new(format!("{}/{}", self.phase, self.metric), points)
    }
}

impl PlotLines {
    fn chart(&self) -> LineChart {
        let config = &self.config;
        let mut chart = LineChart::new(&self.title);
        chart.x_label = match config.by {
            By::Epoch => "epoch".to_owned(),
            By::Iteration => "iteration".to_owned(),
        };
        chart.y_label.clone_from(&config.y_label);
        (chart.x_log, chart.y_log) = (config.x_log, config.y_log);
        (chart.width, chart.height) = (config.width, config.height);
        let drawn = self
            .series
            .iter()
            .filter(|series| !series.points.is_empty());
        chart.lines = drawn.map(|series| series.line(config.smoothing)).collect();
        chart
    }

    fn draw(&self) -> Result<()> {
        if self.series.iter().all(|series| series.points.is_empty()) {
            return Ok(());
        }
        write_atomically(&self.path, self.chart().svg()?)
    }
}

#[hook(
    name = "plot-lines",
    about = "Draws metrics over epochs or iterations, as a picture that each epoch renews.",
    priority = LOW,
    state = series,
    optional = loss
)]
impl Hook for PlotLines {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        if config.metrics.is_empty() {
            bail!("`metrics` names nothing to draw");
        }
        if config.by == By::Epoch {
            setup.leave_out(Point::AfterIter);
        }
        Ok(PlotLines {
            path: setup.path_below("file", &config.file)?,
            title: config.title.clone().unwrap_or_default(),
            series: series(&config.metrics),
            config,
        })
    }

    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        if self.config.title.is_none() {
            self.title = task.facts()?.run;
        }
        Ok(())
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        let is_due = task.iteration().is_multiple_of(self.config.every);
        if task.phase() != Phase::Train || !is_due {
            return Ok(());
        }
        let of_training = self
            .series
            .iter_mut()
            .filter(|series| series.phase == Phase::Train);
        for series in of_training {
            let value = match series.metric.as_str() {
                "loss" => task.loss(),
                name => task.metric(name),
            };
            series.add(task.iteration(), value);
        }
        Ok(())
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        let (phase, by) = (task.phase(), self.config.by);
        // By iteration, training points were added already; by epoch, an interrupted epoch gives none.
        let is_training = phase == Phase::Train;
        if is_training && (by == By::Iteration || !task.is_whole()) {
            return Ok(());
        }
        let x = match by {
            By::Epoch => task.epoch(),
            By::Iteration => task.iteration(),
        };
        for series in self
            .series
            .iter_mut()
            .filter(|series| series.phase == phase)
        {
            let value = task.metric(&series.metric);
            series.add(x, value);
        }
        if phase == Phase::Test {
            self.draw()
        } else {
            Ok(())
        }
    }

    fn after_cycle(&mut self, _task: &mut AfterCycle<'_>) -> Result<()> {
        self.draw()
    }

    fn state_restored(&mut self) -> Result<()> {
        for (at, _) in self.series.iter().flat_map(|series| &series.points) {
            state::check_count("points", *at)?;
        }
        let wanted = series(&self.config.metrics);
        for saved in std::mem::replace(&mut self.series, wanted) {
            let mut own = self.series.iter_mut();
            if let Some(own) =
                own.find(|own| (own.phase, &own.metric) == (saved.phase, &saved.metric))
            {
                own.points = saved.points;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use sconce_plugin_testing::{Failed, ScriptedRun, Seen};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_metric_without_a_phase_is_that_of_training_and_validation() {
        let all = series(&["loss", "val/accuracy", "val/loss"].map(Monitor::from));
        let names: Vec<_> = all.iter().map(|series| series.line(1).name).collect();
        assert_eq!(names, ["train/loss", "val/loss", "val/accuracy"]);
    }

    #[test]
    fn points_are_means_of_the_latest_and_gaps_stay() {
        let mut all = series(&[Monitor::new("val/loss")]);
        for (x, y) in [(1, 4.0), (2, 2.0), (3, f64::INFINITY), (4, 6.0)] {
            all[0].add(x, Some(y));
        }
        all[0].add(5, None);
        let means = |smoothing| -> Vec<f64> {
            let line = all[0].line(smoothing);
            line.points.iter().map(|(_, y)| *y).collect()
        };
        assert_eq!(format!("{:?}", means(1)), "[4.0, 2.0, NaN, 6.0]");
        assert_eq!(format!("{:?}", means(2)), "[4.0, 3.0, NaN, 6.0]");
        assert_eq!(format!("{:?}", means(3)), "[4.0, 3.0, NaN, 4.0]");
    }

    #[test]
    fn points_come_by_epochs_or_iterations() -> std::result::Result<(), Failed> {
        let points = |seen: &Seen| -> Vec<Vec<(u64, Option<f64>)>> {
            let state: BTreeMap<String, Vec<Series>> = seen.state_as().unwrap();
            state["series"]
                .iter()
                .map(|series| series.points.clone())
                .collect()
        };
        let run = ScriptedRun::new()
            .epochs(2)
            .loss(|at| match at.phase {
                Phase::Train => at.iteration as f64,
                _ => f64::NAN,
            })
            .metric(Phase::Val, "accuracy", |epoch| 0.25 * epoch as f64);
        let config = json!({"metrics": ["loss", "val/accuracy", "test/loss"]});
        let seen = run.drive::<PlotLines>(config.clone())?;
        let expected = vec![
            vec![(1, Some(1.5)), (2, Some(5.5))],
            vec![(1, None), (2, None)],
            vec![(1, Some(0.25)), (2, Some(0.5))],
            vec![],
        ];
        assert_eq!(points(&seen), expected);
        let svg = seen.file("lines.svg").unwrap();
        assert!(
            svg.contains("val/accuracy") && svg.contains("epoch"),
            "{svg}"
        );
        assert!(
            !svg.contains("test/loss"),
            "a line without points is left out"
        );
        run.check_resume::<PlotLines>(config)?;
        let config = json!({"by": "iteration", "every": 3, "file": "plots/loss.svg"});
        let seen = run.drive::<PlotLines>(config)?;
        let expected = vec![
            vec![(3, Some(2.0)), (6, Some(5.0))],
            vec![(4, None), (8, None)],
        ];
        assert_eq!(points(&seen), expected);
        assert!(seen.file("plots/loss.svg").unwrap().contains("iteration"));
        Ok(())
    }
}
