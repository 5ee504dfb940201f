//! MLflow's REST API (<https://mlflow.org/docs/latest/rest-api.html>), used on the background
//! thread.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use sconce_plugin_api::write_atomically;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::http::{Answer, Server};

/// A job that training hands over.
pub(crate) enum Job {
    /// Create the run, or resume the one recorded in the file.
    Begin(Begin),
    /// Log metrics of a step.
    Metrics(Vec<Metric>),
    /// Upload a file under this name.
    Artifact(PathBuf, String),
    /// End the run.
    End {
        status: &'static str,
        time: u64,
        tags: Vec<(String, String)>,
    },
}

/// Properties of the run to create.
pub(crate) struct Begin {
    pub(crate) experiment: String,
    pub(crate) name: String,
    pub(crate) time: u64,
    pub(crate) tags: Vec<(String, String)>,
    pub(crate) params: Vec<(String, String)>,
    /// Resume the run recorded in the file.
    pub(crate) resumes: bool,
}

/// A metric's value at a step; `time` in milliseconds since 1970.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Metric {
    pub(crate) key: String,
    pub(crate) value: f64,
    pub(crate) time: u64,
    pub(crate) step: u64,
}

/// The run's record on the server, stored in the run's directory: a resumed run needs it.
#[derive(Default, Serialize, Deserialize)]
struct Known {
    uri: String,
    run_id: String,
    artifact_uri: String,
    /// The last step of each metric that the server has.
    steps: BTreeMap<String, u64>,
}

/// Client for a single run.
pub(crate) struct Client {
    server: Server,
    uri: String,
    /// File in which `known` is stored.
    file: PathBuf,
    known: Known,
    /// A run that is still to be created on the server.
    waiting: Option<Begin>,
    /// The steps that the server had when this process resumed the run: they are not sent again.
    sent_before: BTreeMap<String, u64>,
}

/// MLflow accepts at most this many metrics and parameters per request.
const MOST_METRICS: usize = 1000;
const MOST_PARAMS: usize = 100;

type Done<T = ()> = Result<T, String>;

impl Client {
    pub(crate) fn new(server: Server, uri: String, file: PathBuf) -> Self {
        Client {
            server,
            uri,
            file,
            known: Known::default(),
            waiting: None,
            sent_before: BTreeMap::new(),
        }
    }

    /// Processes jobs in order, combining consecutive metrics into one request. Returns the
    /// failures.
    pub(crate) fn work(&mut self, jobs: Vec<Job>) -> Vec<String> {
        let mut failures = Vec::new();
        let mut metrics = Vec::new();
        for job in jobs {
            if let Job::Metrics(more) = job {
                metrics.extend(more);
                continue;
            }
            let sent = self.metrics(std::mem::take(&mut metrics));
            failures.extend(sent.err());
            let done = match job {
                Job::Begin(begin) => {
                    self.waiting = Some(begin);
                    self.begin()
                }
                Job::Artifact(path, name) => self.artifact(&path, &name),
                Job::End { status, time, tags } => self.end(status, time, &tags),
                Job::Metrics(_) => Ok(()),
            };
            failures.extend(done.err());
        }
        failures.extend(self.metrics(metrics).err());
        failures
    }

    /// Creates the run; if that fails, it is tried again with the next job.
    fn begin(&mut self) -> Done {
        let Some(begin) = self.waiting.take() else {
            return Ok(());
        };
        let result = self.try_begin(&begin);
        if self.known.run_id.is_empty() {
            self.waiting = Some(begin);
        }
        result
    }

    fn try_begin(&mut self, begin: &Begin) -> Done {
        if begin.resumes && self.go_on() {
            let update = json!({"run_id": self.known.run_id, "status": "RUNNING"});
            return self.call("runs/update", &update).map(drop);
        }
        let experiment = self.experiment(&begin.experiment)?;
        let mut tags = pairs(&begin.tags);
        tags.push(json!({"key": "mlflow.runName", "value": begin.name}));
        let create = json!({"experiment_id": experiment, "run_name": begin.name,
            "start_time": begin.time, "tags": tags});
        let made = self.call("runs/create", &create)?;
        let text = |key: &str| made["run"]["info"][key].as_str().map(str::to_owned);
        self.known = Known {
            uri: self.uri.clone(),
            run_id: text("run_id").ok_or("the server made a run without an identifier")?,
            artifact_uri: text("artifact_uri").unwrap_or_default(),
            steps: BTreeMap::new(),
        };
        self.keep()?;
        for params in begin.params.chunks(MOST_PARAMS) {
            let batch = json!({"run_id": self.known.run_id, "params": pairs(params)});
            self.call("runs/log-batch", &batch)?;
        }
        Ok(())
    }

    /// ID of the experiment with this name, created if it doesn't exist.
    fn experiment(&self, name: &str) -> Done<Value> {
        let url = self.url(&format!(
            "experiments/get-by-name?experiment_name={}",
            encoded(name)
        ));
        let answer = self.server.get(&url).map_err(unreachable)?;
        if answer.status != 404 {
            let found = json(&answer, "experiments/get-by-name")?;
            return Ok(found["experiment"]["experiment_id"].clone());
        }
        let made = self.call("experiments/create", &json!({"name": name}))?;
        Ok(made["experiment_id"].clone())
    }

    /// Resumes the run recorded in the file, if that is on this server.
    fn go_on(&mut self) -> bool {
        let known = fs::read(&self.file).ok();
        let known: Option<Known> = known.and_then(|text| serde_json::from_slice(&text).ok());
        match known {
            Some(known) if known.uri == self.uri => {
                self.sent_before.clone_from(&known.steps);
                self.known = known;
                true
            }
            _ => false,
        }
    }

    fn metrics(&mut self, mut metrics: Vec<Metric>) -> Done {
        metrics.retain(|metric| {
            let before = self.sent_before.get(&metric.key);
            before.is_none_or(|&step| metric.step > step)
        });
        if metrics.is_empty() {
            return Ok(());
        }
        self.must_be_known()?;
        for metrics in metrics.chunks(MOST_METRICS) {
            let list: Vec<Value> = metrics.iter().map(metric).collect();
            let batch = json!({"run_id": self.known.run_id, "metrics": list});
            self.call("runs/log-batch", &batch)?;
            for metric in metrics {
                self.known.steps.insert(metric.key.clone(), metric.step);
            }
            self.keep()?;
        }
        Ok(())
    }

    /// Uploads a file, provided that the server serves its artifacts.
    fn artifact(&mut self, path: &std::path::Path, name: &str) -> Done {
        self.must_be_known()?;
        let Some(place) = self.known.artifact_uri.strip_prefix("mlflow-artifacts:") else {
            return Err(format!(
                "`{name}` is not uploaded: the server keeps artifacts at `{}`, and does not serve them",
                self.known.artifact_uri
            ));
        };
        let content =
            fs::read(path).map_err(|error| format!("can't read `{}`: {error}", path.display()))?;
        let place = place.trim_start_matches('/');
        let url = format!(
            "{}/api/2.0/mlflow-artifacts/artifacts/{place}/{}",
            self.uri,
            encoded(name)
        );
        let answer = self.server.put(&url, &content).map_err(unreachable)?;
        json(&answer, "mlflow-artifacts").map(drop)
    }

    fn end(&mut self, status: &str, time: u64, tags: &[(String, String)]) -> Done {
        self.must_be_known()?;
        let run_id = self.known.run_id.clone();
        let batch = json!({"run_id": run_id, "tags": pairs(tags)});
        self.call("runs/log-batch", &batch)?;
        let update = json!({"run_id": run_id, "status": status, "end_time": time});
        self.call("runs/update", &update).map(drop)
    }

    fn must_be_known(&mut self) -> Done {
        self.begin()?;
        if self.known.run_id.is_empty() {
            return Err("there is no run on the server".to_owned());
        }
        Ok(())
    }

    fn call(&self, what: &str, body: &Value) -> Done<Value> {
        let answer = self
            .server
            .post(&self.url(what), body)
            .map_err(unreachable)?;
        json(&answer, what)
    }

    fn url(&self, what: &str) -> String {
        format!("{}/api/2.0/mlflow/{what}", self.uri)
    }

    /// Saves `known` atomically.
    fn keep(&self) -> Done {
        let text = serde_json::to_vec(&self.known).map_err(|error| error.to_string())?;
        write_atomically(&self.file, text).map_err(|error| error.to_string())
    }
}

fn unreachable(error: impl std::fmt::Display) -> String {
    format!("the MLflow server can't be reached: {error}")
}

/// Parses a response's body; an error if the request failed.
fn json(answer: &Answer, what: &str) -> Done<Value> {
    let json: Value = serde_json::from_str(&answer.body).unwrap_or_default();
    if (200..300).contains(&answer.status) {
        return Ok(json);
    }
    let message = json["message"].as_str().unwrap_or_default();
    let message: String = message.chars().take(300).collect();
    let status = answer.status;
    Err(format!(
        "the MLflow server refuses `{what}` (status {status}): {message}"
    ))
}

fn pairs(pairs: &[(String, String)]) -> Vec<Value> {
    let pair = |(key, value): &(String, String)| json!({"key": key, "value": value});
    pairs.iter().map(pair).collect()
}

/// JSON has no infinity; MLflow reads these strings, as in the JSON of protocol buffers.
fn metric(metric: &Metric) -> Value {
    let value = match metric.value {
        value if value.is_nan() => json!("NaN"),
        f64::INFINITY => json!("Infinity"),
        f64::NEG_INFINITY => json!("-Infinity"),
        value => json!(value),
    };
    json!({"key": metric.key, "value": value, "timestamp": metric.time, "step": metric.step})
}

/// Percent-encodes a text for a URL, keeping slashes.
fn encoded(text: &str) -> String {
    let mut all = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte) {
            all.push(byte.into());
        } else {
            // Writing to a string can't fail.
            let _ = write!(all, "%{byte:02X}");
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_fit_into_addresses_and_numbers_into_json() {
        assert_eq!(encoded("a b/ü&c"), "a%20b/%C3%BC%26c");
        let value = |value| {
            let key = "loss".to_owned();
            metric(&Metric {
                key,
                value,
                time: 5,
                step: 2,
            })["value"]
                .clone()
        };
        assert_eq!(value(0.5), json!(0.5));
        assert_eq!(value(f64::NAN), json!("NaN"));
        assert_eq!(value(f64::NEG_INFINITY), json!("-Infinity"));
    }
}
