//! The `simclr` hook: each view is to find its sample's other view among all views of the batch.
//!
//! Chen, Kornblith, Norouzi and Hinton, "A Simple Framework for Contrastive Learning of Visual Representations", 2020.

use sconce_plugin_api::prelude::*;

use crate::learner::Learner;
use crate::losses::NtXent;
use crate::outputs::{check_plan, check_temperature};

/// How sharply views are told apart.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Divides cosine similarities, above 0. Default 0.5.
    #[schemars(extend("exclusiveMinimum" = 0))]
    temperature: f64,
}

impl Default for Config {
    fn default() -> Self {
        Config { temperature: 0.5 }
    }
}

/// See the [module](self).
pub(crate) struct SimClr {
    loss: NtXent,
    learner: Learner,
}

#[hook(
    name = "simclr",
    about = "Learns without labels: each view is to find its sample's other view (SimCLR).",
    requires = ["sconce.given-loss/1"],
    ranks = "all",
    publishes = ["output_spread"],
    state = learner.watch,
    reads = [given_loss, outputs, ranks]
)]
impl Hook for SimClr {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        check_temperature("temperature", config.temperature)?;
        check_plan(setup, 2)?;
        Ok(SimClr {
            loss: NtXent::new(config.temperature),
            learner: Learner::alone(),
        })
    }

    fn after_forward(&mut self, task: &mut AfterForward<'_>) -> Result<()> {
        self.learner.give(task, |batch| {
            Ok(self.loss.compute(batch.outputs, batch.gradient)?)
        })
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        self.learner.watch.end_epoch(task, None)
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, ScriptedRun};
    use serde_json::json;

    use super::*;

    #[test]
    fn losses_are_given_and_a_collapse_is_reported_once() -> std::result::Result<(), Failed> {
        let run = || ScriptedRun::new().validation(0).views(2).batch_size(3);
        let seen = run().drive::<SimClr>(json!({"temperature": 0.1}))?;
        assert_eq!(seen.losses().len(), 12);
        assert!(seen.warnings().is_empty(), "{:?}", seen.warnings());
        let same = run().outputs(|_| [0.3_f32, 0.4].repeat(6));
        let seen = same.drive::<SimClr>(json!({}))?;
        // Five rows, none more likely than the others.
        let loss = seen.losses()[0].value;
        assert!((loss - 5.0_f64.ln()).abs() < 1e-6, "{loss}");
        let warnings = seen.warnings();
        assert!(warnings.len() == 1 && warnings[0].contains("have collapsed"));
        run().check_resume::<SimClr>(json!({}))
    }

    #[test]
    fn what_lacks_views_or_has_validations_is_refused() {
        let one = ScriptedRun::new().validation(0);
        let told = one.drive::<SimClr>(json!({})).expect_err("one view");
        assert!(told.message.contains("add `\"views\"`"), "{told}");
        let told = ScriptedRun::new().views(2).drive::<SimClr>(json!({}));
        let told = told.expect_err("a validation");
        assert!(told.message.contains("leave out the data"), "{told}");
    }
}
