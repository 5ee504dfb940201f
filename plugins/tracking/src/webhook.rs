//! The `webhook` hook: posts events of the run as JSON to a URL.
//!
//! ```text
//! {"event":"epoch","run":"digits","epoch":2,"phase":"val","metrics":{"accuracy":0.93,"loss":0.24},…}
//! ```
//!
//! A background thread does the posting. If the server is slower than the run, the queue fills up
//! and further events are dropped: training never waits for the server before its end.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sconce_plugin_api::prelude::*;
use serde_json::{Map, Value, json};

use crate::http::{self, Server};
use crate::outbox::{OnFailure, Outbox};

/// Where events are posted, and which.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// The URL: `http://HOST:PORT/PATH`.
    url: String,
    /// The events that are posted. Default: `start`, `epoch` and `end`.
    events: Vec<Event>,
    /// Post an `iteration` event every this many training iterations, counted over the run, at
    /// least 1. Default 100.
    #[schemars(range(min = 1))]
    every: u64,
    /// The metrics that are posted. Default: all except the entries of tables.
    metrics: Option<Vec<String>>,
    /// Wrap the event in an object under this name: `data` makes `{"data": EVENT}`. Default: none,
    /// the event is the whole message.
    field: Option<String>,
    /// Additional fields of each event, by name. Default: none.
    fields: BTreeMap<String, Value>,
    /// HTTP headers of each request. Default: none.
    headers: BTreeMap<String, String>,
    /// HTTP headers whose values come from environment variables, such as tokens:
    /// `{"Authorization": "MY_TOKEN"}`. Default: none.
    headers_from: BTreeMap<String, String>,
    /// Time limit of a request in seconds, above 0; also of posting the remaining events when the
    /// run ends. Default 10.
    #[schemars(range(min = 0.001, max = 3600))]
    timeout: f64,
    /// Retry a failed request this many times, from 0 to 10. Default 2.
    #[schemars(range(max = 10))]
    retries: u32,
    /// Seconds before the first retry; doubled before each further one. Default 1.
    #[schemars(range(min = 0, max = 60))]
    retry_wait: f64,
    /// Response to an event that can't be posted. Default `warn`.
    on_failure: OnFailure,
    /// Maximum number of waiting events, from 1 to 100000; further ones are dropped. Default 256.
    #[schemars(range(min = 1, max = 100_000))]
    queue: usize,
}

/// An event of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Event {
    /// The run begins, or resumes.
    Start,
    /// Another `every` training iterations are finished.
    Iteration,
    /// A pass over a phase's data is finished.
    Epoch,
    /// A checkpoint was saved, or saving it failed.
    Checkpoint,
    /// The run has ended: how, why, and all metrics.
    End,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            url: String::new(),
            events: vec![Event::Start, Event::Epoch, Event::End],
            every: 100,
            metrics: None,
            field: None,
            fields: BTreeMap::new(),
            headers: BTreeMap::new(),
            headers_from: BTreeMap::new(),
            timeout: 10.0,
            retries: 2,
            retry_wait: 1.0,
            on_failure: OnFailure::Warn,
            queue: 256,
        }
    }
}

/// State of the hook between calls.
pub(crate) struct Webhook {
    config: Config,
    run: String,
    outbox: Outbox<Value>,
    timeout: Duration,
}

#[hook(
    name = "webhook",
    about = "Posts the run's begin, end, epochs and metrics as JSON to an address.",
    priority = LOW,
    optional = loss
)]
impl Hook for Webhook {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        http::check_url("url", &config.url)?;
        let timeout = http::seconds("timeout", config.timeout)?;
        let mut headers: Vec<(String, String)> = config.headers.clone().into_iter().collect();
        for (name, variable) in &config.headers_from {
            headers.push((name.clone(), http::variable("headers_from", variable)?));
        }
        let poster = Poster {
            server: Server::new(timeout, headers),
            url: config.url.clone(),
            retries: config.retries,
            wait: http::seconds("retry_wait", config.retry_wait)?,
        };
        let work = move |events: Vec<Value>| -> Vec<String> {
            let answers = events.iter().map(|event| poster.post(event));
            answers.filter_map(Result::err).collect()
        };
        let manifest = setup.manifest()?;
        Ok(Webhook {
            outbox: Outbox::start("sconce-webhook", config.queue, config.on_failure, work)?,
            run: manifest["name"].as_str().unwrap_or_default().to_owned(),
            config,
            timeout,
        })
    }

    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        let more = json!({"resumed": task.resumed().is_some(), "epochs": task.epochs()});
        self.post(Event::Start, task, more)
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        let is_due =
            task.phase() == Phase::Train && task.iteration().is_multiple_of(self.config.every);
        if !is_due || !self.config.events.contains(&Event::Iteration) {
            return Ok(());
        }
        let more = json!({
            "loss": task.loss(),
            "learning_rate": task.learning_rate(),
            "metrics": self.metrics(task, Phase::Train),
        });
        self.post(Event::Iteration, task, more)
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        let more = json!({
            "phase": task.phase().name(),
            "stream": task.stream(),
            "learning_rate": task.learning_rate(),
            "metrics": self.metrics(task, task.phase()),
        });
        self.post(Event::Epoch, task, more)
    }

    fn after_save_checkpoint(
        &mut self,
        task: &mut AfterSaveCheckpoint<'_>,
        checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        let more = json!({
            "tag": checkpoint.tag,
            "bytes": checkpoint.bytes,
            "error": checkpoint.error,
        });
        self.post(Event::Checkpoint, task, more)
    }

    fn after_run(&mut self, task: &mut AfterRun<'_>, outcome: &Outcome<'_>) -> Result<()> {
        let (outcome, reason) = told(outcome);
        let metrics: Map<String, Value> = Phase::ALL
            .into_iter()
            .map(|phase| (phase.name().to_owned(), self.metrics(task, phase)))
            .filter(|(_, metrics)| metrics.as_object().is_some_and(|map| !map.is_empty()))
            .collect();
        let more = json!({"outcome": outcome, "reason": reason, "metrics": metrics});
        self.post(Event::End, task, more)?;
        self.outbox.close(self.timeout, task)
    }
}

impl Webhook {
    /// Queues an event, adding the fields that all events have.
    fn post(&mut self, event: Event, task: &TaskView<'_>, more: Value) -> Result<()> {
        if !self.config.events.contains(&event) {
            return Ok(());
        }
        let time = SystemTime::now().duration_since(UNIX_EPOCH);
        let mut json = json!({
            "event": format!("{event:?}").to_lowercase(),
            "run": self.run,
            "time": time.unwrap_or_default().as_secs_f64(),
            "elapsed": task.elapsed().as_secs_f64(),
            "epoch": task.epoch(),
            "iteration": task.iteration(),
            "update": task.update(),
        });
        if let (Some(object), Value::Object(more)) = (json.as_object_mut(), more) {
            object.extend(more);
            object.extend(self.config.fields.clone());
        }
        if let Some(field) = &self.config.field {
            json = json!({field.as_str(): json});
        }
        self.outbox.hand(json, task)
    }

    /// A phase's metrics by name; a value that is not finite becomes `null`.
    fn metrics(&self, task: &TaskView<'_>, phase: Phase) -> Value {
        let is_chosen = |name: &str| match &self.config.metrics {
            Some(chosen) => chosen.iter().any(|chosen| chosen == name),
            None => !name.contains('/'),
        };
        let metrics = task.metrics_of(phase).filter(|(name, _)| is_chosen(name));
        let metrics: Map<String, Value> = metrics
            .map(|(name, value)| (name.to_owned(), json!(value)))
            .collect();
        Value::Object(metrics)
    }
}

/// An outcome and its reason as text.
pub(crate) fn told<'a>(outcome: &Outcome<'a>) -> (&'static str, Option<&'a str>) {
    match *outcome {
        Outcome::Completed => ("completed", None),
        Outcome::Stopped { reason } => ("stopped", Some(reason)),
        Outcome::Interrupted { signal } => ("interrupted", Some(signal)),
        Outcome::Failed { error } => ("failed", Some(error)),
        _ => ("ended", None),
    }
}

/// Posts events, on the background thread.
struct Poster {
    server: Server,
    url: String,
    retries: u32,
    wait: Duration,
}

impl Poster {
    fn post(&self, event: &Value) -> Result<(), String> {
        let mut wait = self.wait;
        let mut left = self.retries;
        loop {
            let failure = match self.server.post(&self.url, event) {
                Ok(answer) if (200..300).contains(&answer.status) => return Ok(()),
                Ok(answer) => format!("the server answers with status {}", answer.status),
                Err(error) => format!("the server can't be reached: {error}"),
            };
            if left == 0 {
                return Err(failure);
            }
            left -= 1;
            std::thread::sleep(wait);
            wait *= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, ScriptedRun};

    use super::*;
    use crate::served::server;

    #[test]
    fn chosen_events_are_posted_in_order() -> std::result::Result<(), Failed> {
        let (address, requests) = server("200 OK", "");
        let config = json!({
            "url": format!("{address}/events"), "events": ["start", "iteration", "epoch", "end"], "every": 3,
            "metrics": ["loss"], "field": "data", "fields": {"team": "a"},
        });
        ScriptedRun::new()
            .epochs(1)
            .loss(|at| 1.0 + at.batch as f64)
            .metric(Phase::Val, "accuracy", |_epoch| 0.5)
            .drive::<Webhook>(config)?;
        let (lines, mut posted): (Vec<_>, Vec<_>) = requests.try_iter().unzip();
        assert_eq!(lines, ["POST /events"; 5]);
        for event in &mut posted {
            let event = event["data"].as_object_mut().unwrap();
            assert!(event.remove("time").is_some_and(|time| time.is_number()));
            assert_eq!(event.remove("team"), Some(json!("a")));
            assert_eq!(event.remove("run"), Some(json!("scripted")));
        }
        let at = |event: &str, epoch: u64, iteration: u64, more: Value| {
            let mut all = json!({
                "event": event, "epoch": epoch, "iteration": iteration, "update": iteration,
                "elapsed": iteration as f64,
            });
            let Value::Object(more) = more else {
                return all;
            };
            all.as_object_mut().unwrap().extend(more);
            json!({"data": all})
        };
        let pass = |phase: &str, loss: f64| {
            json!({
                "phase": phase, "stream": phase, "learning_rate": 0.1, "metrics": {"loss": loss},
            })
        };
        assert_eq!(
            posted,
            [
                at("start", 0, 0, json!({"resumed": false, "epochs": 1})),
                at(
                    "iteration",
                    0,
                    3,
                    json!({"loss": 3.0, "learning_rate": 0.1, "metrics": {"loss": 2.0}})
                ),
                at("epoch", 1, 4, pass("train", 2.5)),
                at("epoch", 1, 4, pass("val", 1.5)),
                at(
                    "end",
                    1,
                    4,
                    json!({
                        "outcome": "completed", "reason": null,
                        "metrics": {"train": {"loss": 2.5}, "val": {"loss": 1.5}},
                    })
                ),
            ]
        );
        Ok(())
    }

    #[test]
    fn events_that_are_not_taken_are_warned_of_or_an_error() -> std::result::Result<(), Failed> {
        let (address, requests) = server("503 Service Unavailable", "");
        let config = |on_failure: &str| {
            json!({
                "url": address, "events": ["end"], "retries": 1, "retry_wait": 0, "on_failure": on_failure,
            })
        };
        let run = ScriptedRun::new().epochs(1);
        let what = "the server answers with status 503";
        assert_eq!(run.drive::<Webhook>(config("warn"))?.warnings(), [what]);
        assert_eq!(requests.try_iter().count(), 2, "it is tried again");
        assert_eq!(run.drive::<Webhook>(config("ignore"))?.warnings(), [""; 0]);
        let failed = run.drive::<Webhook>(config("error")).unwrap_err();
        assert_eq!(failed.message, what);
        Ok(())
    }
}
