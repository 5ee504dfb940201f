//! The `loss-spike` hook: finds batches whose loss jumps, records them in a file, and skips their
//! update, rolls back, or stops.
//!
//! `{"hook": "loss-spike", "config": {"window": 20, "rtol": 1, "action": "skip-update"}}`
//!
//! The rule is that of Lightning's `SpikeDetection`: a loss is a spike if it is above the previous
//! one and differs from the mean of the last `window` losses by at least `atol` and by at least
//! `rtol` times that mean.

use std::collections::{BTreeSet, VecDeque};

use sconce_plugin_api::moment::SkipsUpdate;
use sconce_plugin_api::prelude::*;

use crate::roll_back::{self, RollBack, SavedRollBack};

/// What counts as a spike, and how the hook responds.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// The mean is taken over this many previous batches, at least 1. Default 10.
    #[schemars(range(min = 1))]
    window: usize,
    /// Number of batches at the start of the run that are never spikes; at least 1. Default 1.
    #[schemars(range(min = 1))]
    warm_up: u64,
    /// A spike differs from the mean by at least this, in units of the loss. Default (null): any
    /// difference.
    #[schemars(range(min = 0.0))]
    atol: Option<f64>,
    /// A spike differs from the mean by at least this multiple of the mean. Default 2; null: any
    /// difference.
    #[schemars(range(min = 0.0))]
    rtol: Option<f64>,
    /// Whether a NaN or infinite loss is a spike; if not, it is ignored. Default true.
    finite_only: bool,
    /// Also record the batch before a spike: its update may have spoilt the parameters.
    /// Default true.
    with_previous: bool,
    /// Response to a spike. Default `warn`.
    action: Action,
    /// Which checkpoint `roll-back` returns to, and how often.
    roll_back: roll_back::Config,
}

/// Response to a spike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Action {
    /// Print a warning. The loss enters the mean, so that one that stays high soon counts as
    /// normal.
    Warn,
    /// Skip the batch's update.
    SkipUpdate,
    /// Roll back to a checkpoint, and skip the recorded batches when the run reaches them again.
    RollBack,
    /// Stop the run.
    Stop,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            window: 10,
            warm_up: 1,
            atol: None,
            rtol: Some(2.0),
            finite_only: true,
            with_previous: true,
            action: Action::Warn,
            roll_back: roll_back::Config::default(),
        }
    }
}

/// The losses that a new one is compared with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Losses {
    window: VecDeque<f64>,
    last: Option<f64>,
    /// Number of batches seen so far.
    seen: u64,
}

impl Losses {
    /// Mean of the window.
    fn mean(&self) -> Option<f64> {
        let sum: f64 = self.window.iter().sum();
        (!self.window.is_empty()).then(|| sum / self.window.len() as f64)
    }

    /// Whether a loss is a spike according to `SpikeDetection`.
    fn is_spike(&self, loss: f64, config: &Config) -> bool {
        if self.seen < config.warm_up {
            return false;
        }
        if !loss.is_finite() {
            return config.finite_only;
        }
        let (Some(mean), Some(last)) = (self.mean(), self.last) else {
            return false;
        };
        let difference = (loss - mean).abs();
        let passes = |least: Option<f64>| least.is_none_or(|least| difference >= least.abs());
        loss > last && passes(config.atol) && passes(config.rtol.map(|rtol| rtol * mean))
    }

    fn add(&mut self, loss: f64, window: usize) {
        if !loss.is_finite() {
            return;
        }
        self.window.push_back(loss);
        while self.window.len() > window {
            self.window.pop_front();
        }
        self.last = Some(loss);
    }
}

/// A spike, as recorded in one line of the file.
#[derive(Serialize)]
struct Line {
    epoch: u64,
    iteration: u64,
    batch: u64,
    /// Null if NaN or infinite.
    loss: Option<f64>,
    mean: Option<f64>,
    last: Option<f64>,
    /// The iterations whose batches are suspected.
    batches: Vec<u64>,
    action: Action,
}

/// See the [module](self).
pub(crate) struct LossSpike {
    config: Config,
    log: LogFile,
    losses: Losses,
    /// The iterations whose batches are skipped.
    skipped: BTreeSet<u64>,
    roll_back: RollBack,
    /// Reason for a rollback to be requested after this iteration.
    wanted: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct State {
    losses: Losses,
    skipped: BTreeSet<u64>,
    #[serde(flatten)]
    roll_back: SavedRollBack,
    log: LogFileState,
}

impl LossSpike {
    fn meet(&mut self, task: &mut At<'_, impl SkipsUpdate>, loss: f64) -> Result<()> {
        let iteration = task.iteration();
        let mean = self.losses.mean();
        let mut batches = vec![iteration];
        if self.config.with_previous && iteration > 0 {
            batches.insert(0, iteration - 1);
        }
        let line = Line {
            epoch: task.epoch(),
            iteration,
            batch: task.batch(),
            loss: loss.is_finite().then_some(loss),
            mean,
            last: self.losses.last,
            batches: batches.clone(),
            action: self.config.action,
        };
        let text = sconce_plugin_api::state::to_bytes(&line)?;
        self.log.write([&text[..], b"\n"].concat())?;
        let mean = mean.map_or_else(String::new, |mean| {
            format!(", the mean of those before {mean:.4}")
        });
        let what = format!("the loss jumps to {loss:.4}{mean}");
        match self.config.action {
            Action::Warn => {
                self.losses.add(loss, self.config.window);
                task.warn(what);
                Ok(())
            }
            Action::SkipUpdate => {
                task.warn(format_args!("{what}; the update is left out"));
                task.skip_update()
            }
            Action::RollBack => {
                self.skipped.extend(batches);
                self.wanted = Some(what);
                task.skip_update()
            }
            Action::Stop => task.stop(&what),
        }
    }
}

#[hook(
    name = "loss-spike",
    about = "Finds batches whose loss jumps, names them, and leaves them out, goes back or stops.",
    priority = HIGH,
    ranks = "all",
    asks = [stop, skip_update, save_checkpoint, roll_back, set_learning_rate],
    reads = [groups, parameters]
)]
impl Hook for LossSpike {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        if (config.atol, config.rtol) == (None, None) {
            bail!("give `atol` or `rtol`: without both every rise of the loss is a spike");
        }
        if config.action != Action::RollBack {
            for point in [
                Point::BeforeIter,
                Point::BeforeEpoch,
                Point::AfterIter,
                Point::AfterEpoch,
                Point::AfterSaveCheckpoint,
                Point::AfterLoadCheckpoint,
            ] {
                setup.leave_out(point);
            }
        }
        let roll_back = RollBack::new(&config.roll_back, setup, 1.0)?;
        let mut reads = vec!["loss"];
        match config.action {
            Action::Warn => setup.asks(&[])?,
            Action::SkipUpdate => setup.asks(&["skip_update"])?,
            Action::Stop => setup.asks(&["stop"])?,
            Action::RollBack => {
                let of_batches = ["skip_update", "skip_batch"].into_iter();
                let asks: Vec<&str> = of_batches.chain(roll_back.asks()).collect();
                setup.asks(&asks)?;
                reads.extend(roll_back.reads());
            }
        }
        setup.reads(&reads)?;
        let file = format!("{}.jsonl", setup.name());
        Ok(LossSpike {
            roll_back,
            config,
            log: LogFile::new(setup.path_below("name", file)?),
            losses: Losses::default(),
            skipped: BTreeSet::new(),
            wanted: None,
        })
    }

    fn before_epoch(&mut self, task: &mut BeforeEpoch<'_>) -> Result<()> {
        self.roll_back.keep(task)
    }

    fn before_iter(&mut self, task: &mut BeforeIter<'_>) -> Result<()> {
        if task.phase() == Phase::Train && self.skipped.contains(&task.iteration()) {
            return task.skip_batch();
        }
        Ok(())
    }

    fn after_loss(&mut self, task: &mut AfterLoss<'_>) -> Result<()> {
        let Some(mut task) = task.in_training() else {
            return Ok(());
        };
        let Some(loss) = task.loss() else {
            return Ok(());
        };
        let is_spike = self.losses.is_spike(loss, &self.config);
        self.losses.seen += 1;
        if is_spike {
            return self.meet(&mut task, loss);
        }
        self.losses.add(loss, self.config.window);
        Ok(())
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        let Some(mut task) = task.in_training() else {
            return Ok(());
        };
        match self.wanted.take() {
            Some(what) => self.roll_back.ask(&mut task, &what),
            None => Ok(()),
        }
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        self.roll_back.end_epoch(task);
        Ok(())
    }

    fn after_save_checkpoint(
        &mut self,
        _task: &mut AfterSaveCheckpoint<'_>,
        checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        self.roll_back.saved(checkpoint);
        Ok(())
    }

    fn after_load_checkpoint(
        &mut self,
        task: &mut AfterLoadCheckpoint<'_>,
        checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        self.roll_back.loaded(task, checkpoint)
    }

    fn save_state(&mut self) -> Result<Vec<u8>> {
        state::to_bytes(&State {
            losses: self.losses.clone(),
            skipped: self.skipped.clone(),
            roll_back: self.roll_back.save(),
            log: self.log.save()?,
        })
    }

    fn load_state(&mut self, bytes: &[u8]) -> Result<()> {
        let state: State = state::from_bytes(bytes)?;
        state::check_count("losses.seen", state.losses.seen)?;
        self.losses = state.losses;
        self.wanted = None;
        if self.roll_back.is_under_way() {
            // These findings caused the rollback: they are kept, also in the file.
            self.skipped.extend(state.skipped);
        } else {
            self.skipped = state.skipped;
            self.log.restore(&state.log)?;
        }
        self.roll_back.load(state.roll_back);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use sconce_plugin_testing::{Failed, Request, ScriptedRun};
    use serde_json::json;

    use super::*;

    /// Indices of the batches that are spikes; all other losses are added to the window.
    fn spikes(config: &Config, values: &[f64]) -> Vec<usize> {
        let mut losses = Losses::default();
        let mut found = Vec::new();
        for (batch, &loss) in values.iter().enumerate() {
            if losses.is_spike(loss, config) {
                found.push(batch);
            } else {
                losses.add(loss, config.window);
            }
            losses.seen += 1;
        }
        found
    }

    #[test]
    fn each_option_decides_what_a_spike_is() {
        let config = |change: fn(&mut Config)| {
            let mut config = Config::default();
            change(&mut config);
            config
        };
        let jump = [1.0, 1.0, 1.0, 3.0, 1.0, 9.0, 8.0];
        assert_eq!(spikes(&config(|_| ()), &jump), [3, 5, 6]);
        assert_eq!(spikes(&config(|c| c.rtol = Some(2.5)), &jump), [5, 6]);
        assert_eq!(spikes(&config(|c| c.atol = Some(7.5)), &jump), [5]);
        let both = config(|c| (c.atol, c.rtol) = (Some(1.5), None));
        assert_eq!(spikes(&both, &jump), [3, 5, 6]);
        // None of the first batches is a spike, whatever their losses; these enter the later mean.
        assert_eq!(spikes(&config(|c| c.warm_up = 4), &jump), [5, 6]);
        assert_eq!(spikes(&config(|c| c.warm_up = 6), &jump), [] as [usize; 0]);
        let slope = [1.0, 1.0, 2.0, 4.0, 8.0];
        assert_eq!(spikes(&config(|c| c.window = 3), &slope), [3, 4]);
        assert_eq!(spikes(&config(|c| c.window = 1), &slope), [] as [usize; 0]);
        let broken = [1.0, f64::NAN, 1.0, f64::INFINITY];
        assert_eq!(spikes(&config(|_| ()), &broken), [1, 3]);
        let lenient = config(|c| c.finite_only = false);
        assert_eq!(spikes(&lenient, &broken), [] as [usize; 0]);
    }

    #[test]
    fn the_run_goes_back_and_leaves_the_batches_of_a_spike_out() -> std::result::Result<(), Failed>
    {
        let is_first = Cell::new(true);
        let run = ScriptedRun::new().epochs(1).iterations(6).loss(move |at| {
            let is_spike = at.phase == Phase::Train && at.iteration == 3 && is_first.take();
            if is_spike { 9.0 } else { 1.0 }
        });
        let seen = run.drive::<LossSpike>(json!({"action": "roll-back"}))?;
        let asked = seen.asked().iter();
        let asked: Vec<_> = asked
            .map(|asked| (asked.at.iteration, asked.request))
            .collect();
        assert_eq!(
            asked,
            [
                (0, Request::SaveCheckpoint),
                (3, Request::SkipUpdate),
                (4, Request::RollBack),
                (2, Request::SkipBatch),
                (3, Request::SkipBatch),
            ]
        );
        // Three updates before the spike; after it the six batches without the two.
        assert_eq!(seen.learning_rates(), [0.1; 7]);
        assert_eq!(
            seen.file("loss-spike.jsonl").unwrap(),
            "{\"epoch\":0,\"iteration\":3,\"batch\":3,\"loss\":9.0,\"mean\":1.0,\"last\":1.0,\
         \"batches\":[2,3],\"action\":\"roll-back\"}\n"
        );
        Ok(())
    }

    #[test]
    fn a_spike_is_reported_or_skipped_or_stops_the_run() -> std::result::Result<(), Failed> {
        let spike = |action: &str| {
            ScriptedRun::new()
                .epochs(1)
                .loss(|at| if at.iteration == 2 { f64::NAN } else { 1.0 })
                .drive::<LossSpike>(json!({"action": action, "with_previous": false}))
        };
        let what = "the loss jumps to NaN, the mean of those before 1.0000";
        let seen = spike("warn")?;
        assert_eq!((seen.warnings(), seen.asked()), (vec![what], &[][..]));
        assert_eq!(
            seen.file("loss-spike.jsonl").unwrap(),
            "{\"epoch\":0,\"iteration\":2,\"batch\":2,\"loss\":null,\"mean\":1.0,\"last\":1.0,\
         \"batches\":[2],\"action\":\"warn\"}\n"
        );
        let seen = spike("skip-update")?;
        let skipped = seen.asked_for(Request::SkipUpdate);
        assert_eq!(
            skipped
                .iter()
                .map(|asked| asked.at.iteration)
                .collect::<Vec<_>>(),
            [2]
        );
        assert_eq!(seen.learning_rates().len(), 3);
        let seen = spike("stop")?;
        assert_eq!(seen.stop_reason(), Some(what));
        assert_eq!(seen.stopped_at().map(|at| at.iteration), Some(2));
        Ok(())
    }
}
