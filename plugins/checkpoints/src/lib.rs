//! The `checkpoint` hook: saves checkpoints, keeps some of them, loads and publishes the best.
//!
//! `{"hook": "checkpoint", "config": {"epochs": 1, "keep_last": 3, "best": [{"monitor": "accuracy"}]}}`
//!
//! At each moment one checkpoint is written; under its other tags (the best, `last`) it is the same
//! files once more. Older ones are deleted when the newer one is on the disk. What has been saved is a
//! part of this hook's state: a run that is resumed goes on keeping what it should.
//!
//! A run that an error or a signal ends is saved by the host itself, as `failed` or `interrupted`.

#![forbid(unsafe_code)]

mod config;
mod ledger;
mod template;

use sconce_plugin_api::prelude::*;

use config::{Best, Config, OnFailure, Published};
use ledger::Ledger;
use template::{Template, Values};

struct Checkpoints {
    name: String,
    config: Config,
    state: State,
    pending: Option<Pending>,
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct State {
    ledger: Ledger,
    /// When the last save by minutes was, in seconds of the run.
    saved: f64,
    /// Whether this epoch has been validated.
    validated: bool,
}

/// A checkpoint that the host has been asked for.
#[derive(Default)]
struct Pending {
    /// The first is written, the others are copies of it.
    tags: Vec<String>,
    /// What is to be deleted once it is there.
    doomed: Vec<String>,
    /// The state to go back to where it fails.
    before: State,
}

/// By what a checkpoint is saved, and so what its tag and number are.
#[derive(Clone, Copy)]
enum By {
    Epoch,
    Iteration,
}

impl Checkpoints {
    fn has_begun(&self, task: &TaskView<'_>) -> bool {
        task.epoch() >= self.config.begin_epoch && task.iteration() >= self.config.begin_iteration
    }

    fn pending(&self) -> Pending {
        Pending {
            before: self.state.clone(),
            ..Pending::default()
        }
    }

    /// A checkpoint of this moment, under the tag of its kind.
    fn add(&mut self, task: &TaskView<'_>, by: By, pending: &mut Pending) -> Result<()> {
        let (number, default) = match by {
            By::Epoch => (task.epoch(), "epoch-{epoch}"),
            By::Iteration => (task.iteration(), "iteration-{iteration}"),
        };
        let own = self.config.tag.clone();
        let template = own.unwrap_or_else(|| Template::new(default));
        let mut tag = template.tag(&values(task, None))?;
        if matches!(by, By::Epoch) && !task.is_whole() && self.state.ledger.newest() == Some(&tag) {
            // The end of a broken off epoch is not the end of the one before it.
            tag = Template::new("iteration-{iteration}").tag(&values(task, None))?;
        }
        let Config {
            keep_last,
            keep_every,
            ..
        } = self.config;
        let ledger = &mut self.state.ledger;
        pending
            .doomed
            .extend(ledger.add(&tag, number, keep_last, keep_every));
        ledger.saved_at(task.iteration());
        pending.tags.push(tag);
        if let Some(last) = &self.config.last {
            pending.tags.push(last.tag(&values(task, None))?);
        }
        Ok(())
    }

    /// The tags that this moment gets by metrics.
    fn add_best(&mut self, task: &TaskView<'_>, pending: &mut Pending) -> Result<()> {
        for (index, best) in self.config.best.iter().enumerate() {
            let is_fresh = self.state.validated || best.monitor.phase() == Some(Phase::Train);
            let value = best.monitor.value(task, Phase::Val);
            let Some(value) = value.filter(|_| is_fresh) else {
                continue;
            };
            let (rule, keep) = (best.rule(), best.keep);
            let passes = best
                .threshold
                .is_none_or(|threshold| rule.is_better(value, threshold));
            let ledger = &mut self.state.ledger;
            if passes && ledger.is_among_best(index, value, rule, keep) {
                let tag = best_tag(best, task, value)?;
                pending
                    .doomed
                    .extend(ledger.rank(index, &tag, value, rule, keep));
                pending.tags.push(tag);
            }
        }
        Ok(())
    }

    /// Asks for what is pending, if anything is.
    fn ask(&mut self, task: &mut TaskView<'_>, pending: Pending) -> Result<()> {
        let Some(tag) = pending.tags.first() else {
            return Ok(());
        };
        if self.config.parameters_only {
            task.save_parameters(tag)?;
        } else {
            task.save_checkpoint(tag)?;
        }
        self.pending = Some(pending);
        Ok(())
    }

    /// Asks for what comes once the newer checkpoint is on the disk.
    fn go_on(task: &mut TaskView<'_>, pending: &Pending) -> Result<()> {
        let Some((saved, copies)) = pending.tags.split_first() else {
            return Ok(());
        };
        for copy in copies.iter().filter(|copy| *copy != saved) {
            task.copy_checkpoint(saved, copy)?;
        }
        for doomed in pending
            .doomed
            .iter()
            .filter(|doomed| !pending.tags.contains(doomed))
        {
            task.delete_checkpoint(doomed)?;
        }
        Ok(())
    }

    /// Loads and publishes, at the end.
    fn conclude(&self, task: &mut TaskView<'_>) -> Result<()> {
        let ledger = &self.state.ledger;
        let set = self.config.set.as_deref();
        let mut tags: Vec<&str> = Vec::new();
        for published in &self.config.publish {
            match published {
                Published::Last => tags.extend(ledger.newest()),
                Published::Best => {
                    let metrics = 0..self.config.best.len();
                    tags.extend(metrics.filter_map(|metric| ledger.best(metric)));
                }
            }
        }
        for tag in tags {
            task.publish_weights(tag, tag, set)?;
        }
        if !self.config.load_best {
            return Ok(());
        }
        if let Some(tag) = ledger.best(0) {
            return task.load_parameters(tag, set);
        }
        task.warn("there is no best checkpoint to load: its metric has had no value");
        Ok(())
    }
}

fn values<'a>(task: &TaskView<'_>, metric: Option<(&'a str, f64)>) -> Values<'a> {
    Values {
        epoch: task.epoch(),
        iteration: task.iteration(),
        update: task.update(),
        metric,
    }
}

fn best_tag(best: &Best, task: &TaskView<'_>, value: f64) -> Result<String> {
    let default = if best.keep == 1 {
        "best-{metric}"
    } else {
        "best-{metric}-epoch-{epoch}"
    };
    let template = best.tag.clone();
    let template = template.unwrap_or_else(|| Template::new(default));
    let name = best.monitor.to_string();
    template.tag(&values(task, Some((&name, value))))
}

#[hook(
    name = "checkpoint",
    about = "Saves checkpoints by epochs, iterations, minutes and metrics, and keeps the ones wanted.",
    priority = LOWER,
    requires = ["sconce.requests/1"]
)]
impl Hook for Checkpoints {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        Ok(Checkpoints {
            name: setup.name().to_owned(),
            config: config.checked()?,
            state: State::default(),
            pending: None,
        })
    }

    fn after_iter(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        if task.phase() != Phase::Train || !self.has_begun(task) {
            return Ok(());
        }
        let by_count = |every: u64| task.iteration().is_multiple_of(every);
        let now = task.elapsed().as_secs_f64();
        let is_time = |minutes: f64| now - self.state.saved >= minutes * 60.0;
        let by_time = self.config.minutes.is_some_and(is_time);
        if !by_time && !self.config.iterations.is_some_and(by_count) {
            return Ok(());
        }
        let mut pending = self.pending();
        if by_time {
            self.state.saved = now;
        }
        self.add(task, By::Iteration, &mut pending)?;
        self.ask(task, pending)
    }

    fn after_epoch(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        self.state.validated |= task.phase() == Phase::Val && !task.is_initial_validation();
        Ok(())
    }

    fn after_cycle(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        let mut pending = self.pending();
        if self.has_begun(task) && task.is_whole() {
            let epochs = self.config.epochs;
            if epochs.is_some_and(|every| task.epoch().is_multiple_of(every)) {
                self.add(task, By::Epoch, &mut pending)?;
            }
            self.add_best(task, &mut pending)?;
        }
        self.state.validated = false;
        pending.before.validated = false;
        self.ask(task, pending)
    }

    fn after_loop(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        if task.phase() != Phase::Train {
            return Ok(());
        }
        let is_wanted = self.config.save_last.0 && task.iteration() > 0;
        if is_wanted && !self.state.ledger.has(task.iteration()) {
            let by = if self.config.epochs.is_some() {
                By::Epoch
            } else {
                By::Iteration
            };
            let mut pending = self.pending();
            self.add(task, by, &mut pending)?;
            self.ask(task, pending)?;
        }
        self.conclude(task)
    }

    fn after_save_checkpoint(
        &mut self,
        task: &mut TaskView<'_>,
        checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        let is_ours = |pending: &mut Pending| {
            checkpoint.asked_by == self.name
                && pending
                    .tags
                    .first()
                    .is_some_and(|tag| tag == checkpoint.tag)
        };
        let Some(pending) = self.pending.take_if(is_ours) else {
            return Ok(());
        };
        let Some(error) = checkpoint.error else {
            return Self::go_on(task, &pending);
        };
        self.state = pending.before;
        match self.config.on_failure {
            OnFailure::Warn => Ok(()),
            OnFailure::Error => bail!("the checkpoint `{}` is not saved: {error}", checkpoint.tag),
        }
    }

    fn save_state(&mut self) -> Result<Vec<u8>> {
        state::to_bytes(&self.state)
    }

    fn load_state(&mut self, bytes: &[u8]) -> Result<()> {
        self.state = state::from_bytes(bytes)?;
        self.pending = None;
        Ok(())
    }
}

export_plugin!(Checkpoints);
