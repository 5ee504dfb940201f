//! The `stop-on-nan` hook: ends the run, or leaves the update out, where a number is infinite or none.
//!
//! `{"hook": "stop-on-nan", "config": {"watch": ["loss", "gradients"], "action": "skip-update"}}`

use sconce_plugin_api::prelude::*;
use sconce_plugin_api::tensor::{DType, Tensor};

/// What is watched, and what happens.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// What is looked at. Default: the loss alone, which costs nothing.
    watch: Vec<Watched>,
    /// In every so many iterations (epochs, for metrics) it is looked; at least 1. Default 1.
    #[schemars(range(min = 1))]
    every: u64,
    /// What happens. Default `fail`.
    action: Action,
    /// So many bad iterations in a row are passed over, but for a warning at the first. With
    /// `skip-update` their updates are left out, and one more in a row is an error. Default 0; 10 with
    /// `skip-update`.
    allowed: Option<u64>,
    /// Infinite numbers are bad too, not only those that are none. Default true.
    infinite: bool,
}

/// Something that is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Watched {
    /// The loss of each batch, in training and validation.
    Loss,
    /// The model's outputs, in training and validation.
    Outputs,
    /// The gradients of each update.
    Gradients,
    /// The parameters and buffers after each update.
    Parameters,
    /// All metrics at the end of each pass.
    Metrics,
}

/// What happens where a number is bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Action {
    /// An error of this hook, judged by the entry's `on_error`: the run fails.
    Fail,
    /// The run stops.
    Stop,
    /// The update is left out (bad losses and gradients of the training); anything else fails.
    SkipUpdate,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            watch: vec![Watched::Loss],
            every: 1,
            action: Action::Fail,
            allowed: None,
            infinite: true,
        }
    }
}

impl Config {
    fn is_bad(&self, value: f64) -> bool {
        value.is_nan() || self.infinite && value.is_infinite()
    }

    /// Whether a tensor has a bad number: a sum with one has it too, so that most tensors need no look at
    /// each of their numbers.
    fn has_bad(&self, tensor: &Tensor<'_>) -> Result<bool> {
        match tensor.dtype() {
            Some(DType::F32) => {
                let mut elements = tensor.elements::<f32>()?;
                if let Ok(slice) = tensor.as_slice::<f32>() {
                    let sum: f32 = slice.iter().map(|value| value * 0.0).sum();
                    return Ok(sum.is_nan() && slice.iter().any(|v| self.is_bad(f64::from(*v))));
                }
                Ok(elements.any(|value| self.is_bad(f64::from(value))))
            }
            Some(DType::F64) => {
                let mut elements = tensor.elements::<f64>()?;
                Ok(elements.any(|value| self.is_bad(value)))
            }
            _ => Ok(false),
        }
    }
}

/// See the [module](self).
pub(crate) struct StopOnNan {
    config: Config,
    allowed: u64,
    /// Bad iterations in a row.
    row: u64,
    /// Whether this iteration is bad.
    is_bad: bool,
}

impl StopOnNan {
    fn watches(&self, watched: Watched) -> bool {
        self.config.watch.contains(&watched)
    }

    fn is_due(&self, task: &TaskView<'_>, watched: Watched) -> bool {
        let is_known = matches!(task.phase(), Phase::Train | Phase::Val);
        // The iteration under way is not counted yet.
        let now = task.iteration() + 1;
        self.watches(watched) && is_known && now.is_multiple_of(self.config.every)
    }

    /// Something is bad.
    fn meet(&mut self, task: &mut TaskView<'_>, what: &str) -> Result<()> {
        let is_update = task.phase() == Phase::Train
            && matches!(task.point(), Some(Point::AfterLoss | Point::BeforeUpdate));
        let skips = self.config.action == Action::SkipUpdate && is_update;
        if skips {
            task.skip_update()?;
        }
        if !std::mem::replace(&mut self.is_bad, true) {
            self.row += 1;
        }
        if self.row <= self.allowed && (skips || self.config.action != Action::SkipUpdate) {
            if self.row == 1 {
                let then = if skips {
                    "; the update is left out"
                } else {
                    ""
                };
                task.warn(format_args!("{what}{then}"));
            }
            return Ok(());
        }
        let again = match self.row {
            0 | 1 => String::new(),
            row => format!(", and something was in each of {row} iterations in a row"),
        };
        match self.config.action {
            Action::Stop => task.stop(&format!("{what}{again}")),
            Action::Fail | Action::SkipUpdate => bail!("{what}{again}"),
        }
    }
}

#[hook(
    name = "stop-on-nan",
    about = "Ends the run, or leaves the update out, where a number is infinite or none.",
    priority = HIGH
)]
impl Hook for StopOnNan {
    type Config = Config;

    fn new(config: Config, _setup: &Setup<'_>) -> Result<Self> {
        if config.every == 0 {
            bail!("`every` must be at least 1, found 0");
        }
        if config.watch.is_empty() {
            bail!("`watch` must name something to look at");
        }
        let default = if config.action == Action::SkipUpdate {
            10
        } else {
            0
        };
        Ok(StopOnNan {
            allowed: config.allowed.unwrap_or(default),
            config,
            row: 0,
            is_bad: false,
        })
    }

    fn before_iter(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        if task.phase() == Phase::Train {
            self.is_bad = false;
        }
        Ok(())
    }

    fn after_forward(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        if self.is_due(task, Watched::Outputs) && self.config.has_bad(&task.outputs()?)? {
            return self.meet(task, "the outputs have a number that is infinite or none");
        }
        Ok(())
    }

    fn after_loss(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        match task.loss() {
            Some(loss) if self.is_due(task, Watched::Loss) && self.config.is_bad(loss) => {
                self.meet(task, &format!("the loss is {loss}"))
            }
            _ => Ok(()),
        }
    }

    fn before_update(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        if !self.is_due(task, Watched::Gradients) {
            return Ok(());
        }
        for gradient in task.gradients() {
            if self.config.has_bad(&gradient)? {
                let what = format!(
                    "the gradient of `{}` has a number that is infinite or none",
                    gradient.name()
                );
                return self.meet(task, &what);
            }
        }
        Ok(())
    }

    fn after_update(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        if !self.is_due(task, Watched::Parameters) {
            return Ok(());
        }
        for parameter in task.parameters() {
            if self.config.has_bad(&parameter)? {
                let what = format!(
                    "`{}` has a number that is infinite or none",
                    parameter.name()
                );
                return self.meet(task, &what);
            }
        }
        Ok(())
    }

    fn after_iter(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        if task.phase() == Phase::Train && !self.is_bad {
            self.row = 0;
        }
        Ok(())
    }

    fn after_epoch(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        if !self.watches(Watched::Metrics) || !task.epoch().is_multiple_of(self.config.every) {
            return Ok(());
        }
        let mut metrics = task.metrics_of(task.phase());
        if let Some((name, value)) = metrics.find(|(_, value)| self.config.is_bad(*value)) {
            let what = format!("the metric `{name}` is {value}");
            return self.meet(task, &what);
        }
        Ok(())
    }

    fn save_state(&mut self) -> Result<Vec<u8>> {
        state::to_bytes(&self.row)
    }

    fn load_state(&mut self, bytes: &[u8]) -> Result<()> {
        self.row = state::from_bytes(bytes)?;
        self.is_bad = false;
        Ok(())
    }
}
