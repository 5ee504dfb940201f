//! The `mlflow` hook: logs the run to an MLflow tracking server through its REST API.
//!
//! A background thread talks to the server; training never waits for it before its end. What has
//! been sent is recorded in `NAME-run.json` in the run's directory: a run resumed from a checkpoint
//! continues the same MLflow run, and sends nothing twice.

mod client;
mod config;
mod params;

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use client::{Begin, Client, Job, Metric};
use config::Config;
use sconce_plugin_api::{path_inside, prelude::*};

use crate::http::{self, Server};
use crate::outbox::Outbox;
use crate::webhook::told;

/// State of the hook between calls.
pub(crate) struct MlFlow {
    config: Config,
    outbox: Outbox<Job>,
    timeout: Duration,
    directory: PathBuf,
    run_name: String,
    params: Vec<(String, String)>,
    host: String,
}

#[hook(
    name = "mlflow",
    about = "Logs parameters, metrics, tags and artifacts to an MLflow tracking server.",
    priority = LOW
)]
impl Hook for MlFlow {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        let uri = config.uri.clone();
        let uri = uri.or_else(|| std::env::var("MLFLOW_TRACKING_URI").ok());
        let uri = uri.unwrap_or_else(|| "http://127.0.0.1:5000".to_owned());
        let uri = uri.trim_end_matches('/').to_owned();
        http::check_url("uri", &uri)?;
        for file in &config.artifacts {
            setup.path_below("artifacts", file)?;
        }
        let token = match &config.token_from {
            Some(name) => Some(http::variable("token_from", name)?),
            None => std::env::var("MLFLOW_TRACKING_TOKEN").ok(),
        };
        let bearer = token.map(|token| ("Authorization".to_owned(), format!("Bearer {token}")));
        let timeout = http::seconds("timeout", config.timeout)?;
        let server = Server::new(timeout, bearer.into_iter().collect());
        let directory = setup.run_directory().to_owned();
        let file = setup.path_below("name", format!("{}-run.json", setup.name()))?;
        let mut client = Client::new(server, uri, file);
        let work = move |jobs| client.work(jobs);
        let manifest = setup.manifest()?;
        let run_name = config.run_name.clone();
        Ok(MlFlow {
            outbox: Outbox::start("sconce-mlflow", config.queue, config.on_failure, work)?,
            run_name: run_name
                .unwrap_or_else(|| manifest["name"].as_str().unwrap_or_default().to_owned()),
            params: if config.params {
                params::flat(&manifest)
            } else {
                Vec::new()
            },
            host: setup.host_version().to_owned(),
            timeout,
            directory,
            config,
        })
    }

    fn before_run(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        let mut tags: Vec<(String, String)> = self.config.tags.clone().into_iter().collect();
        tags.push(("mlflow.source.name".to_owned(), self.host.clone()));
        let begin = Begin {
            experiment: self.config.experiment.clone(),
            name: self.run_name.clone(),
            time: now(),
            tags,
            params: std::mem::take(&mut self.params),
            resumes: task.is_resumed(),
        };
        self.outbox.hand(Job::Begin(begin), task)
    }

    fn after_iter(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        let interval = self.config.interval;
        let is_due = interval > 0 && task.iteration().is_multiple_of(interval);
        if !is_due || task.phase() != Phase::Train {
            return Ok(());
        }
        let mut metrics = self.metrics(task, Phase::Train, "iteration");
        // Report the batch's own loss instead of the epoch's mean.
        metrics.retain(|metric| metric.key != "iteration/loss");
        metrics.extend(
            task.loss()
                .map(|loss| at("iteration/loss".to_owned(), loss, task)),
        );
        if self.config.learning_rate {
            let rate = task.learning_rate();
            metrics.push(at("learning_rate".to_owned(), rate, task));
        }
        self.outbox.hand(Job::Metrics(metrics), task)
    }

    fn after_epoch(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        if !self.config.by_epoch {
            return Ok(());
        }
        let phase = task.phase();
        let mut prefix = phase.name().to_owned();
        if task.stream() != phase.name() {
            prefix = format!("{prefix}/{}", task.stream());
        }
        let metrics = self.metrics(task, phase, &prefix);
        self.outbox.hand(Job::Metrics(metrics), task)
    }

    fn after_run(&mut self, task: &mut TaskView<'_>, outcome: &Outcome<'_>) -> Result<()> {
        for file in &self.config.artifacts {
            let name = file.to_string_lossy().replace('\\', "/");
            let job = Job::Artifact(path_inside(&self.directory, file)?, name);
            self.outbox.hand(job, task)?;
        }
        let (word, reason) = told(outcome);
        let mut tags = vec![("sconce.outcome".to_owned(), word.to_owned())];
        tags.extend(reason.map(|reason| ("sconce.reason".to_owned(), reason.to_owned())));
        let status = match outcome {
            Outcome::Completed | Outcome::Stopped { .. } => "FINISHED",
            Outcome::Interrupted { .. } => "KILLED",
            _ => "FAILED",
        };
        let end = Job::End {
            status,
            time: now(),
            tags,
        };
        self.outbox.hand(end, task)?;
        self.outbox.close(self.timeout, task)
    }
}

impl MlFlow {
    /// A phase's metrics, with a prefix to their names.
    fn metrics(&self, task: &TaskView<'_>, phase: Phase, prefix: &str) -> Vec<Metric> {
        let metrics = task.metrics_of(phase);
        metrics
            .filter(|(name, _)| self.config.tables || !name.contains('/'))
            .map(|(name, value)| at(params::name(&format!("{prefix}/{name}")), value, task))
            .collect()
    }
}

/// A metric's value at the current iteration.
fn at(key: String, value: f64, task: &TaskView<'_>) -> Metric {
    Metric {
        key,
        value,
        time: now(),
        step: task.iteration(),
    }
}

/// Milliseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}
