//! The `best-loss` hook: writes the best validation loss so far into `best.txt` in the run's
//! directory, publishes it as a metric, and stops the run when the model is good enough.

use std::path::PathBuf;

// What every hook needs: `Hook`, `TaskView`, `Result`, the macros.
use sconce_plugin_api::prelude::*;

/// The entry's `config` in the manifest, read by `serde`; an unknown key is an error.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Config {
    /// Stop when the validation accuracy reaches this, from 0 to 1. Default 1.
    accuracy: f64,
}

impl Default for Config {
    fn default() -> Self {
        Config { accuracy: 1.0 }
    }
}

/// The hook's state, which lives as long as the run.
struct BestLoss {
    accuracy: f64,
    file: PathBuf,
    /// The best loss so far, and after how many epochs it was reached.
    best: Option<(f64, u64)>,
}

// The host calls only the methods in this block.
#[hook(
    name = "best-loss",
    about = "Keeps the best validation loss; stops at an accuracy.",
    publishes = ["best_loss"],
    state = best,
)]
impl Hook for BestLoss {
    type Config = Config;

    // Called once, before training starts. An error here rejects the manifest's entry.
    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        let accuracy = config.accuracy;
        if !(0.0..=1.0).contains(&accuracy) {
            bail!("`accuracy` must be from 0 to 1, found {accuracy}");
        }
        let file = setup.run_directory().join("best.txt");
        Ok(BestLoss {
            accuracy,
            file,
            best: None,
        })
    }

    // Called after each pass over a phase's data: training, validation, test.
    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        if task.phase() != Phase::Val {
            return Ok(());
        }
        if let Some(loss) = task.metric("loss") {
            self.remember(loss, task.epoch())?;
        }
        // Hooks called later see it, so `console` prints it too.
        if let Some((loss, _)) = self.best {
            task.publish_metric("best_loss", loss)?;
        }
        match task.metric("accuracy") {
            Some(accuracy) if accuracy >= self.accuracy => {
                task.stop(&format!("validation accuracy {accuracy:.4} is good enough"))
            }
            _ => Ok(()),
        }
    }
}

impl BestLoss {
    fn remember(&mut self, loss: f64, epoch: u64) -> Result<()> {
        if !loss.is_finite() || self.best.is_some_and(|(best, _)| best <= loss) {
            return Ok(());
        }
        self.best = Some((loss, epoch));
        // `?` converts any error into the hook's; `context` adds what was being done.
        std::fs::write(&self.file, format!("loss {loss}\nepoch {epoch}\n"))
            .context(format_args!("can't write `{}`", self.file.display()))
    }
}

export_plugin!(BestLoss);
