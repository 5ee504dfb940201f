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
use sconce_plugin_api::prelude::*;

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
    priority = LOW,
    optional = loss
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

    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        let mut tags: Vec<(String, String)> = self.config.tags.clone().into_iter().collect();
        tags.push(("mlflow.source.name".to_owned(), self.host.clone()));
        let begin = Begin {
            experiment: self.config.experiment.clone(),
            name: self.run_name.clone(),
            time: now(),
            tags,
            params: std::mem::take(&mut self.params),
            resumes: task.resumed().is_some(),
        };
        self.outbox.hand(Job::Begin(begin), task)
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
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

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
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

    fn after_run(&mut self, task: &mut AfterRun<'_>, outcome: &Outcome<'_>) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, ScriptedRun};
    use serde_json::{Value, json};

    use super::*;
    use crate::served::server;

    /// An answer to any request.
    const ANSWER: &str = r#"{"experiment": {"experiment_id": "7"}, "run": {"info": {"run_id": "r", "artifact_uri": "mlflow-artifacts:/7/r"}}}"#;

    #[test]
    fn the_run_its_metrics_and_its_end_are_logged() -> std::result::Result<(), Failed> {
        let (address, requests) = server("200 OK", ANSWER);
        let run = ScriptedRun::new()
            .epochs(1)
            .loss(|at| 1.0 + at.batch as f64)
            .metric(Phase::Val, "accuracy", |_epoch| 0.5)
            .fails_in(3, "no more memory");
        let config = json!({
            "uri": address, "experiment": "digits 1", "interval": 2, "params": false,
            "tags": {"team": "a"}, "artifacts": ["mlflow-run.json"],
        });
        let seen = run.drive::<MlFlow>(config)?;
        assert_eq!(seen.warnings(), [""; 0]);
        let requests: Vec<(String, Value)> = requests.try_iter().collect();
        let lines: Vec<_> = requests.iter().map(|(line, _)| line.as_str()).collect();
        assert_eq!(
            lines,
            [
                "GET /api/2.0/mlflow/experiments/get-by-name?experiment_name=digits%201",
                "POST /api/2.0/mlflow/runs/create",
                "POST /api/2.0/mlflow/runs/log-batch",
                "PUT /api/2.0/mlflow-artifacts/artifacts/7/r/mlflow-run.json",
                "POST /api/2.0/mlflow/runs/log-batch",
                "POST /api/2.0/mlflow/runs/update",
            ]
        );
        let created = &requests[1].1;
        assert_eq!(
            (&created["experiment_id"], &created["run_name"]),
            (&json!("7"), &json!("scripted"))
        );
        assert_eq!(created["tags"][0], json!({"key": "team", "value": "a"}));
        let metrics = requests[2].1["metrics"].as_array().unwrap().iter();
        let metrics: Vec<_> = metrics
            .map(|metric| (&metric["key"], &metric["value"], &metric["step"]))
            .collect();
        assert_eq!(
            metrics,
            [
                (&json!("iteration/loss"), &json!(2.0), &json!(2)),
                (&json!("learning_rate"), &json!(0.1), &json!(2)),
            ]
        );
        let tags = json!([
            {"key": "sconce.outcome", "value": "failed"},
            {"key": "sconce.reason", "value": "no more memory"},
        ]);
        assert_eq!(requests[4].1, json!({"run_id": "r", "tags": tags}));
        assert_eq!(requests[5].1["status"], "FAILED");
        // What a resumed run needs to know.
        let known: Value = serde_json::from_str(&seen.file("mlflow-run.json").unwrap()).unwrap();
        assert_eq!(
            known["steps"],
            json!({"iteration/loss": 2, "learning_rate": 2})
        );
        Ok(())
    }

    #[test]
    fn a_server_that_refuses_is_warned_of_or_an_error() -> std::result::Result<(), Failed> {
        let (address, _requests) = server("500 Internal Server Error", r#"{"message": "no disk"}"#);
        let config = |on_failure: &str| json!({"uri": address, "on_failure": on_failure});
        let what = "the MLflow server refuses `experiments/get-by-name` (status 500): no disk";
        let run = ScriptedRun::new().epochs(1);
        let seen = run.drive::<MlFlow>(config("warn"))?;
        assert_eq!(seen.warnings()[0], what);
        let failed = run.drive::<MlFlow>(config("error")).unwrap_err();
        assert_eq!(failed.message, what);
        let failed = run.drive::<MlFlow>(json!({"uri": "digits"})).unwrap_err();
        assert!(failed.message.contains("`uri`"), "{failed}");
        Ok(())
    }
}
