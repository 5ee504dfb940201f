//! The `gradient-flow` hook: records the gradient norm of each module's parameters over time, as a
//! table and a chart, and warns when gradients vanish or explode.
//!
//! `{"hook": "gradient-flow", "config": {"every": 20}}`

use std::path::PathBuf;

use globset::{Glob, GlobSet, GlobSetBuilder};
use sconce_charts::{Line, LineChart};
use sconce_plugin_api::moment::ChangesGradients;
use sconce_plugin_api::prelude::*;
use sconce_plugin_api::spreadsheet;

use crate::numbers::{Magnitude, magnitude, module_of};

/// What is measured, when, and where the results go.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Measure every this many updates, at least 1. Default 10.
    #[schemars(range(min = 1))]
    every: u64,
    /// Modules that have parameters of their own, by name patterns: `fc*`, `layer1.*`. Default:
    /// all.
    modules: Vec<String>,
    /// Warn, once per module, if the norm of its gradients is below this; not negative; null:
    /// never. Default 1e-7.
    #[schemars(range(min = 0.0))]
    vanishing: Option<f64>,
    /// Warn, once per module, if the norm of its gradients is above this, or NaN; above 0; null:
    /// never. Default 1000.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    exploding: Option<f64>,
    /// CSV file under the run's directory that gets a row per module for each measurement; null: none.
    /// Default `gradient-flow.csv`.
    csv: Option<PathBuf>,
    /// SVG chart under the run's directory, redrawn at the end of each training epoch; null: none.
    /// Default `gradient-flow.svg`.
    chart: Option<PathBuf>,
    /// Whether the norms are published as metrics, such as `gradient_norm/fc1`. Default false.
    publish: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            every: 10,
            modules: vec!["*".to_owned()],
            vanishing: Some(1e-7),
            exploding: Some(1000.0),
            csv: Some("gradient-flow.csv".into()),
            chart: Some("gradient-flow.svg".into()),
            publish: false,
        }
    }
}

/// Maximum number of points per module before they are thinned: the chart has no more columns.
const MOST_POINTS: usize = 1000;

/// A module's gradient norms.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Flow {
    module: String,
    /// Updates and norms. A norm that is NaN or infinite is null, since JSON has no such number.
    points: Vec<(u64, Option<f64>)>,
    /// Whether vanishing and exploding gradients have been reported.
    told: [bool; 2],
    #[serde(skip)]
    gradient: Magnitude,
    #[serde(skip)]
    weight: Magnitude,
}

/// See the [module](self).
pub(crate) struct GradientFlow {
    config: Config,
    chosen: GlobSet,
    log: Option<LogFile>,
    chart: Option<PathBuf>,
    flows: Vec<Flow>,
    /// Whether there are points not in the chart yet.
    is_new: bool,
    /// One in this many measurements becomes a point of the chart.
    stride: u64,
    looks: u64,
}

impl GradientFlow {
    /// Accumulates the magnitudes of each module's gradients and parameters.
    fn measure(&mut self, task: &At<'_, impl ChangesGradients>) -> Result<()> {
        for flow in &mut self.flows {
            (flow.gradient, flow.weight) = Default::default();
        }
        for gradient in task.gradients() {
            let module = module_of(gradient.name());
            let Some(size) = magnitude(&gradient)? else {
                continue;
            };
            let weight = magnitude(&task.parameter(gradient.name())?)?.unwrap_or_default();
            let known = self.flows.iter().position(|flow| flow.module == module);
            let index = match known {
                Some(index) => index,
                None if self.chosen.is_match(module) => {
                    self.flows.push(Flow {
                        module: module.to_owned(),
                        ..Flow::default()
                    });
                    self.flows.len() - 1
                }
                None => continue,
            };
            if let Some(flow) = self.flows.get_mut(index) {
                flow.gradient = flow.gradient.and(size);
                flow.weight = flow.weight.and(weight);
            }
        }
        Ok(())
    }

    /// Adds the norms to the chart's points.
    fn keep(&mut self, update: u64) {
        self.looks += 1;
        if !self.looks.is_multiple_of(self.stride) {
            return;
        }
        self.is_new = true;
        for flow in &mut self.flows {
            let norm = flow.gradient.norm();
            flow.points.push((update, norm.is_finite().then_some(norm)));
        }
        if self
            .flows
            .iter()
            .any(|flow| flow.points.len() > MOST_POINTS)
        {
            self.stride = self.stride.saturating_mul(2);
            for flow in &mut self.flows {
                let mut index = 0;
                flow.points.retain(|_| {
                    index += 1;
                    index % 2 == 0
                });
            }
        }
    }

    fn write(&mut self, task: &TaskView<'_>) -> Result<()> {
        let Some(log) = &mut self.log else {
            return Ok(());
        };
        if !log.is_begun() {
            log.write("epoch,iteration,update,module,norm,max,weight_norm,ratio\n")?;
        }
        let mut writer = csv::Writer::from_writer(Vec::new());
        for flow in &self.flows {
            let (norm, weight) = (flow.gradient.norm(), flow.weight.norm());
            writer.write_record([
                task.epoch().to_string(),
                // The current batch is not counted yet.
                (task.iteration() + 1).to_string(),
                (task.update() + 1).to_string(),
                spreadsheet::escaped(&flow.module).into_owned(),
                norm.to_string(),
                flow.gradient.most.to_string(),
                weight.to_string(),
                (norm / weight).to_string(),
            ])?;
        }
        let rows = writer
            .into_inner()
            .map_err(csv::IntoInnerError::into_error)?;
        log.write(rows)
    }

    fn warn(&mut self, task: &TaskView<'_>) {
        let Config {
            vanishing,
            exploding,
            ..
        } = self.config;
        for flow in &mut self.flows {
            let (norm, module, update) = (flow.gradient.norm(), &flow.module, task.update() + 1);
            let [vanished, exploded] = &mut flow.told;
            if vanishing.is_some_and(|least| norm < least) && !std::mem::replace(vanished, true) {
                task.warn(format_args!(
                    "the gradients of `{module}` vanish: their norm is {norm:e} at update {update}; \
                     the layers after it pass on too small a gradient"
                ));
            }
            let is_large = |most| norm > most || norm.is_nan();
            if exploding.is_some_and(is_large) && !std::mem::replace(exploded, true) {
                task.warn(format_args!(
                    "the gradients of `{module}` explode: their norm is {norm:e} at update {update}; \
                     `grad-clip` or a lower learning rate may help"
                ));
            }
        }
    }

    fn draw(&mut self) -> Result<()> {
        let Some(path) = self.chart.as_ref().filter(|_| self.is_new) else {
            return Ok(());
        };
        let mut chart = LineChart::new("Norms of gradients");
        "update".clone_into(&mut chart.x_label);
        "norm".clone_into(&mut chart.y_label);
        chart.y_log = true;
        for flow in &self.flows {
            let point =
                |&(update, norm): &(u64, Option<f64>)| (update as f64, norm.unwrap_or(f64::NAN));
            let points = flow.points.iter().map(point);
            chart.lines.push(Line::new(flow.module.clone(), points));
        }
        write_atomically(path, chart.svg()?)?;
        self.is_new = false;
        Ok(())
    }
}

#[hook(
    name = "gradient-flow",
    about = "Writes and draws the norms of the gradients of each module; warns of vanishing ones.",
    priority = HIGHEST,
    state = [flows, stride, looks, log],
    reads = [gradients, parameters]
)]
impl Hook for GradientFlow {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        let below = |option: &str, path: &Option<PathBuf>| {
            let path = path.as_deref();
            path.map(|path| setup.path_below(option, path)).transpose()
        };
        let mut chosen = GlobSetBuilder::new();
        for pattern in &config.modules {
            let glob = Glob::new(pattern);
            chosen
                .add(glob.with_context(|| format!("`modules` has no name pattern: `{pattern}`"))?);
        }
        Ok(GradientFlow {
            chosen: chosen.build().context("`modules` can't be used")?,
            log: below("csv", &config.csv)?.map(LogFile::new),
            chart: below("chart", &config.chart)?,
            config,
            flows: Vec::new(),
            is_new: false,
            stride: 1,
            looks: 0,
        })
    }

    fn before_update(&mut self, task: &mut BeforeUpdate<'_>) -> Result<()> {
        let update = task.update() + 1;
        if !update.is_multiple_of(self.config.every) {
            return Ok(());
        }
        self.measure(task)?;
        self.keep(update);
        self.write(task)?;
        self.warn(task);
        if self.config.publish {
            for flow in &self.flows {
                let name = format!("gradient_norm/{}", flow.module);
                task.publish_metric(&name, flow.gradient.norm())?;
            }
        }
        Ok(())
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        if task.phase() == Phase::Train {
            self.draw()
        } else {
            Ok(())
        }
    }

    fn after_run(&mut self, _task: &mut AfterRun<'_>, _outcome: &Outcome<'_>) -> Result<()> {
        self.draw()
    }

    fn state_restored(&mut self) -> Result<()> {
        state::check_count("looks", self.looks)?;
        state::check_count("stride", self.stride)?;
        if self.stride == 0 {
            bail!("the state's `stride` must be at least 1, found 0");
        }
        for flow in &self.flows {
            if flow.points.len() > MOST_POINTS {
                let (count, module) = (flow.points.len(), &flow.module);
                bail!("the state has {count} points of `{module}`, at most {MOST_POINTS} are kept");
            }
            for (update, _) in &flow.points {
                state::check_count("update", *update)?;
            }
        }
        self.is_new = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, ScriptedRun};
    use serde_json::json;

    use super::*;

    #[test]
    fn norms_by_module_are_written_published_and_warned_of() -> std::result::Result<(), Failed> {
        let run = ScriptedRun::new()
            .epochs(1)
            .learning_rate(0.0)
            .empty_model()
            .parameter("fc1.weight", &[1, 2], &[6.0, 0.0])
            .parameter("fc1.bias", &[1], &[-8.0])
            .parameter("fc2.weight", &[1], &[2.0])
            .gradient("fc1.weight", |_iteration| vec![0.0, -4.0])
            .gradient("fc1.bias", |_iteration| vec![3.0])
            .gradient("fc2.weight", |_iteration| vec![0.0]);
        let config = json!({"every": 2, "exploding": 4.5, "publish": true});
        let seen = run.drive::<GradientFlow>(config)?;
        let csv = "epoch,iteration,update,module,norm,max,weight_norm,ratio\n\
               0,2,2,fc1,5,4,10,0.5\n0,2,2,fc2,0,0,2,0\n\
               0,4,4,fc1,5,4,10,0.5\n0,4,4,fc2,0,0,2,0\n";
        assert_eq!(seen.file("gradient-flow.csv").unwrap(), csv);
        assert!(
            seen.file("gradient-flow.svg")
                .unwrap()
                .contains("Norms of gradients")
        );
        assert_eq!(seen.metric(Phase::Train, "gradient_norm/fc1"), [5.0, 5.0]);
        assert_eq!(
            seen.warnings(),
            [
                "the gradients of `fc1` explode: their norm is 5e0 at update 2; `grad-clip` or a lower \
             learning rate may help",
                "the gradients of `fc2` vanish: their norm is 0e0 at update 2; the layers after it pass \
             on too small a gradient",
            ]
        );
        let config = json!({
            "every": 4, "modules": ["*2"], "csv": "flow.csv", "chart": null, "vanishing": null,
        });
        let seen = run.drive::<GradientFlow>(config)?;
        let csv = "epoch,iteration,update,module,norm,max,weight_norm,ratio\n0,4,4,fc2,0,0,2,0\n";
        assert_eq!(seen.file("flow.csv").unwrap(), csv);
        assert_eq!(seen.warnings(), [""; 0]);
        Ok(())
    }
}
