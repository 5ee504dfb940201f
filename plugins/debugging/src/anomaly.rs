//! The `anomaly` hook: finds where the first NaN or infinite value arises, in the forward and
//! backward pass, after autograd's anomaly mode.
//!
//! `{"hook": "anomaly", "config": {"action": "fail"}}`

use sconce_plugin_api::moment::{ChoosesModules, Stops};
use sconce_plugin_api::prelude::*;

use crate::numbers::{bad, module_of};

/// Where the hook checks values, and how it responds.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Whether inputs, modules' outputs and the loss are checked. Default true.
    forward: bool,
    /// Whether the gradients of modules and parameters are checked. Default true.
    backward: bool,
    /// Check every this many training iterations, at least 1; in the others the hook does not
    /// listen at modules. Default 1.
    #[schemars(range(min = 1))]
    every: u64,
    /// Start checking after this many iterations, for runs known to fail late. Default 0.
    begin: u64,
    /// Whether infinite values are bad too, not only NaN. Default true.
    infinite: bool,
    /// Response to the first bad value of an iteration. Default `fail`.
    action: Action,
    /// With `warn`: maximum number of warnings. Default 10.
    warnings: u64,
}

/// Response to a bad value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Action {
    /// Report an error of this hook, handled according to the entry's `on_error`: the run fails.
    Fail,
    /// Stop the run after the iteration.
    Stop,
    /// Print a warning.
    Warn,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            forward: true,
            backward: true,
            every: 1,
            begin: 0,
            infinite: true,
            action: Action::Fail,
            warnings: 10,
        }
    }
}

/// See the [module](self).
pub(crate) struct Anomaly {
    config: Config,
    /// Whether this iteration is checked: it is due, and no bad value has been found in it yet.
    looks: bool,
    /// The last module whose backward pass was checked.
    previous_module: Option<String>,
    /// Number of warnings so far.
    warned: u64,
    /// The last value given to `listen_at_modules`.
    listens: Option<bool>,
}

impl Anomaly {
    fn is_due(&self, finished: u64) -> bool {
        let Config { every, begin, .. } = self.config;
        finished >= begin && (finished + 1).is_multiple_of(every)
    }

    /// Sets whether the hook listens at modules in the iteration that comes next, or that has just begun.
    fn listen(&mut self, task: &mut At<'_, impl ChoosesModules>) -> Result<()> {
        let listens = self.is_due(task.iteration());
        if self.listens.replace(listens) == Some(listens) {
            return Ok(());
        }
        task.listen_at_modules(listens)
    }

    /// Describes the bad values of a tensor:
    /// `3 NaN values and 1 infinite value, of 64, the first at [0, 2]`
    fn bad(&self, tensor: &Tensor<'_>) -> Result<Option<String>> {
        let Some(bad) = bad(tensor, self.config.infinite)? else {
            return Ok(None);
        };
        let count = |count: usize, what: &str| match count {
            0 => None,
            1 => Some(format!("1 {what} value")),
            _ => Some(format!("{count} {what} values")),
        };
        let counts = [count(bad.nan, "NaN"), count(bad.infinite, "infinite")];
        let counts: Vec<String> = counts.into_iter().flatten().collect();
        Ok(Some(format!(
            "{}, of {}, the first at {:?}",
            counts.join(" and "),
            tensor.len(),
            bad.first
        )))
    }

    /// Responds to a bad value.
    fn meet(&mut self, task: &mut At<'_, impl Stops>, what: &str) -> Result<()> {
        self.looks = false;
        // The current batch is not counted yet.
        let (epoch, iteration) = (task.epoch(), task.iteration() + 1);
        let what = format!("anomaly in iteration {iteration} (epoch {epoch}): {what}");
        match self.config.action {
            Action::Fail => bail!("{what}"),
            Action::Stop => task.stop(&what),
            Action::Warn => {
                self.warned += 1;
                if self.warned <= self.config.warnings {
                    task.warn(what);
                }
                Ok(())
            }
        }
    }

    /// Names of the parameters and buffers with bad values.
    fn bad_parameters<'a>(&self, all: impl Iterator<Item = Tensor<'a>>) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for tensor in all {
            if self.bad(&tensor)?.is_some() {
                names.push(format!("`{}`", tensor.name()));
            }
        }
        Ok(names)
    }
}

fn is_training(task: &TaskView<'_>) -> bool {
    task.phase() == Phase::Train
}

#[hook(
    name = "anomaly",
    about = "Names the module that makes the first value that is infinite or NaN.",
    priority = HIGHEST,
    ranks = "all",
    asks = stop,
    optional = [loss, inputs, targets, outputs, after_forward, module_forward, module_backward]
)]
impl Hook for Anomaly {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        if !config.forward && !config.backward {
            bail!("neither `forward` nor `backward` is looked at: one of them must be true");
        }
        if !config.forward {
            for point in [Point::ModuleForward, Point::AfterForward, Point::AfterLoss] {
                setup.leave_out(point);
            }
        }
        if !config.backward {
            setup.leave_out(Point::ModuleBackward);
            setup.leave_out(Point::AfterBackward);
        }
        let forward = ["inputs", "outputs", "parameters", "loss", "targets"];
        let reads = forward.iter().filter(|_| config.forward);
        let reads = reads.chain(["gradients"].iter().filter(|_| config.backward));
        setup.reads(&reads.copied().collect::<Vec<_>>())?;
        if config.action != Action::Stop {
            setup.asks(&[])?;
        }
        Ok(Anomaly {
            config,
            looks: false,
            previous_module: None,
            warned: 0,
            listens: None,
        })
    }

    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        self.listens = Some(false);
        task.listen_at_modules(false)
    }

    fn before_epoch(&mut self, task: &mut BeforeEpoch<'_>) -> Result<()> {
        if is_training(task) {
            self.listen(task)
        } else {
            Ok(())
        }
    }

    fn before_iter(&mut self, task: &mut BeforeIter<'_>) -> Result<()> {
        if is_training(task) {
            // After a resume `before_epoch` has shown the counters of the epoch's start.
            self.listen(task)?;
        }
        self.looks = is_training(task) && self.is_due(task.iteration());
        self.previous_module = None;
        if self.looks
            && self.config.forward
            // Not every loop shows its inputs.
            && let Ok(inputs) = task.inputs()
            && let Some(bad) = self.bad(&inputs)?
        {
            return self.meet(task, &format!("the batch's inputs have {bad}"));
        }
        Ok(())
    }

    fn module_forward(&mut self, task: &mut ModuleForward<'_>, module: &Module<'_>) -> Result<()> {
        if !self.looks || !self.config.forward || !is_training(task) {
            return Ok(());
        }
        let Some(bad) = self.bad(&module.output()?)? else {
            return Ok(());
        };
        let parameters = self.bad_parameters(module.parameters())?;
        let input = match self.bad(&module.input()?)? {
            Some(bad) => {
                format!("its input has {bad}, from what is between it and the module before")
            }
            None => "its input is finite".to_owned(),
        };
        let parameters = match parameters.as_slice() {
            [] => "its parameters are finite".to_owned(),
            names => format!(
                "not so {}: an update before this one made them",
                names.join(", ")
            ),
        };
        let (name, kind) = (module.name(), module.kind());
        let what = format!(
            "in the forward pass of the module `{name}` ({kind}): its output has {bad}; {input}, {parameters}"
        );
        self.meet(task, &what)
    }

    fn after_forward(&mut self, task: &mut AfterForward<'_>) -> Result<()> {
        if self.looks
            && self.config.forward
            && is_training(task)
            && let Ok(outputs) = task.outputs()
            && let Some(bad) = self.bad(&outputs)?
        {
            return self.meet(
                task,
                &format!("after the last module: the model's outputs have {bad}"),
            );
        }
        Ok(())
    }

    fn after_loss(&mut self, task: &mut AfterLoss<'_>) -> Result<()> {
        if !self.looks || !self.config.forward || !is_training(task) {
            return Ok(());
        }
        match task.loss() {
            Some(loss) if loss.is_nan() || self.config.infinite && loss.is_infinite() => {
                // Not every loop shows its targets.
                let targets = task.targets().ok();
                let bad = targets.map(|targets| self.bad(&targets)).transpose()?;
                let targets = match bad {
                    Some(Some(bad)) => format!("the targets have {bad}"),
                    Some(None) => "outputs and targets are finite".to_owned(),
                    None => "the outputs are finite".to_owned(),
                };
                self.meet(task, &format!("in the loss, which is {loss}; {targets}"))
            }
            _ => Ok(()),
        }
    }

    fn module_backward(
        &mut self,
        task: &mut ModuleBackward<'_>,
        module: &Module<'_>,
    ) -> Result<()> {
        if !self.looks || !self.config.backward {
            return Ok(());
        }
        let (name, kind) = (module.name(), module.kind());
        if let Some(bad) = self.bad(&module.output_gradient()?)? {
            let between = match &self.previous_module {
                Some(behind) => format!("between it and `{behind}`, whose gradients are finite"),
                None => "in the loss or what else is behind it".to_owned(),
            };
            let what = format!(
                "in the backward pass behind the module `{name}` ({kind}): the gradient of its output has \
                 {bad}; it was made {between}"
            );
            return self.meet(task, &what);
        }
        // An integer input has no gradient.
        if let Ok(gradient) = module.input_gradient()
            && let Some(bad) = self.bad(&gradient)?
        {
            let what = format!(
                "in the backward pass of the module `{name}` ({kind}): the gradient of its input has {bad}; \
                 that of its output is finite"
            );
            return self.meet(task, &what);
        }
        self.previous_module = Some(name.to_owned());
        Ok(())
    }

    fn after_backward(&mut self, task: &mut AfterBackward<'_>) -> Result<()> {
        if !self.looks || !self.config.backward {
            return Ok(());
        }
        // The backward pass reaches the last parameter first.
        let mut last = None;
        for gradient in task.gradients() {
            if let Some(bad) = self.bad(&gradient)? {
                let name = gradient.name();
                let module = module_of(name);
                last = Some(format!(
                    "in the backward pass of the module `{module}`: the gradient of its parameter \
                     `{name}` has {bad}; those of its output and input are finite"
                ));
            }
        }
        match last {
            Some(what) => self.meet(task, &what),
            None => Ok(()),
        }
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        if !is_training(task) {
            return Ok(());
        }
        self.looks = false;
        self.listen(task)
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, Request, ScriptedRun};
    use serde_json::json;

    use super::*;

    #[test]
    fn the_place_of_the_first_bad_number_is_named() -> std::result::Result<(), Failed> {
        let broken = |iteration, number| if iteration == 2 { number } else { 0.5 };
        let inputs = move |number| vec![0.5, broken(number, f32::NAN), 0.5, 0.5, 0.5, 0.5];
        let outputs = move |number| vec![0.5, 0.5, broken(number, f32::INFINITY), 0.5];
        let gradient =
            move |number| vec![0.5, 0.5, broken(number, f32::NAN), broken(number, f32::NAN)];
        let run = || ScriptedRun::new().epochs(1);
        for (run, what) in [
            (
                run().inputs(inputs),
                "the batch's inputs have 1 NaN value, of 6, the first at [0, 1]",
            ),
            (
                run().outputs(outputs),
                "after the last module: the model's outputs have 1 infinite value, of 4, the \
             first at [1, 0]",
            ),
            (
                run().loss(|at| {
                    if at.iteration == 2 {
                        f64::INFINITY
                    } else {
                        1.0
                    }
                }),
                "in the loss, which is inf; outputs and targets are finite",
            ),
            (
                run().gradient("fc1.bias", gradient),
                "in the backward pass of the module `fc1`: the gradient of its parameter `fc1.bias` has 2 \
             NaN values, of 4, the first at [2]; those of its output and input are \
             finite",
            ),
        ] {
            let what = format!("anomaly in iteration 3 (epoch 0): {what}");
            let failed = run.drive::<Anomaly>(json!({})).unwrap_err();
            assert_eq!(failed.message, what);
            let seen = run.drive::<Anomaly>(json!({"action": "stop"}))?;
            assert_eq!(seen.stop_reason(), Some(what.as_str()));
            run.drive::<Anomaly>(json!({"begin": 3}))?;
        }
        Ok(())
    }

    #[test]
    fn iterations_in_between_are_not_looked_at_nor_listened_to() -> std::result::Result<(), Failed>
    {
        let run = ScriptedRun::new().epochs(1).loss(|_at| f64::NAN);
        let seen = run.drive::<Anomaly>(json!({"every": 2, "action": "warn"}))?;
        let asked = seen.asked_for(Request::ListenAtModules).into_iter();
        let asked: Vec<_> = asked
            .map(|asked| (asked.at.iteration, asked.number))
            .collect();
        assert_eq!(asked, [(0, 0.0), (1, 1.0), (2, 0.0), (3, 1.0), (4, 0.0)]);
        let what = |iteration| {
            format!(
                "anomaly in iteration {iteration} (epoch 0): in the loss, which is NaN; outputs and \
             targets are finite"
            )
        };
        assert_eq!(seen.warnings(), [what(2), what(4)]);
        let seen = run.drive::<Anomaly>(json!({"action": "warn", "warnings": 1}))?;
        assert_eq!(seen.warnings(), [what(1)]);
        Ok(())
    }
}
