//! HTTP requests to a server.

use std::time::Duration;

use sconce_plugin_api::{Context, Result, bail};
use serde_json::Value;
use ureq::Agent;

/// A server, and the headers sent with each request.
#[derive(Clone)]
pub(crate) struct Server {
    agent: Agent,
    headers: Vec<(String, String)>,
}

/// A server's response.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Server {
    /// Creates a client that sends these headers and limits each request to this time.
    pub(crate) fn new(timeout: Duration, headers: Vec<(String, String)>) -> Self {
        let config = Agent::config_builder()
            .timeout_global(Some(timeout))
            .http_status_as_error(false)
            .user_agent(concat!(
                "sconce-plugin-tracking/",
                env!("CARGO_PKG_VERSION")
            ))
            .build();
        Server {
            agent: config.new_agent(),
            headers,
        }
    }

    /// Posts JSON. The error says what failed, without the URL, which may contain a secret.
    pub(crate) fn post(&self, url: &str, json: &Value) -> Result<Answer, String> {
        let mut request = self
            .agent
            .post(url)
            .header("content-type", "application/json");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        answer(request.send(json.to_string()))
    }

    /// Sends a GET request.
    pub(crate) fn get(&self, url: &str) -> Result<Answer, String> {
        let mut request = self.agent.get(url);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        answer(request.call())
    }

    /// Uploads content by a PUT request.
    pub(crate) fn put(&self, url: &str, content: &[u8]) -> Result<Answer, String> {
        let mut request = self.agent.put(url);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        answer(request.send(content))
    }
}

type Sent = std::result::Result<ureq::http::Response<ureq::Body>, ureq::Error>;

fn answer(sent: Sent) -> Result<Answer, String> {
    let mut response = sent.map_err(|error| error.to_string())?;
    let body = response.body_mut().read_to_string();
    Ok(Answer {
        status: response.status().as_u16(),
        body: body.map_err(|error| error.to_string())?,
    })
}

/// Rejects URLs that can't be used.
pub(crate) fn check_url(option: &str, url: &str) -> Result<()> {
    if url.starts_with("https://") {
        bail!(
            "`{option}` begins with `https://`: this plugin speaks plain HTTP; send to a proxy on \
             this machine that adds TLS"
        );
    }
    if !url.starts_with("http://") || url.parse::<ureq::http::Uri>().is_err() {
        bail!("`{option}` must be an address such as `http://127.0.0.1:8000/path`: `{url}`");
    }
    Ok(())
}

/// Converts an option's number of seconds.
pub(crate) fn seconds(option: &str, seconds: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(seconds).with_context(|| format!("`{option}` is not a time"))
}

/// Value of an environment variable, for secrets that must not be in a manifest.
pub(crate) fn variable(option: &str, name: &str) -> Result<String> {
    std::env::var(name).with_context(|| format!("`{option}` names the variable `{name}`"))
}
