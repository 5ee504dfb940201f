//! The run's machine and versions.

use std::env::consts::{ARCH, OS};
use std::fs;
use std::thread::available_parallelism;
use std::time::{SystemTime, UNIX_EPOCH};

use sconce_plugin_api::Setup;
use serde_json::Value;

use crate::html::moment;

/// Names and values, in display order.
pub(crate) struct Environment {
    pub(crate) rows: Vec<(&'static str, String)>,
    /// The run's hooks: names and kinds.
    pub(crate) hooks: Vec<(String, String)>,
}

impl Environment {
    pub(crate) fn of(setup: &Setup<'_>, manifest: &Value) -> Environment {
        let mut rows = vec![
            ("host", setup.host_version().to_owned()),
            ("system", format!("{OS}, {ARCH}")),
        ];
        rows.extend(processor().map(|name| ("processor", name)));
        if let Ok(count) = available_parallelism() {
            rows.push(("logical processors", count.to_string()));
        }
        let threads = &manifest["threads"];
        let threads = if threads.is_null() {
            "as many as the machine has".to_owned()
        } else {
            threads.to_string()
        };
        rows.push(("threads", threads));
        rows.extend(machine().map(|name| ("machine", name)));
        rows.push(("run directory", setup.run_directory().display().to_string()));
        rows.push(("seed", setup.seed().to_string()));
        if let Ok(now) = SystemTime::now().duration_since(UNIX_EPOCH) {
            rows.push(("started", moment(now.as_secs())));
        }
        if setup.is_resumed() {
            rows.push(("resumed", "yes".to_owned()));
        }
        let entries = manifest["hooks"].as_array().into_iter().flatten();
        let hooks = entries.map(|entry| {
            let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
            (text("name"), text("hook"))
        });
        Environment {
            rows,
            hooks: hooks.collect(),
        }
    }
}

/// The processor's model name, if the system has a file with it.
fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    let (_, name) = line.split_once(':')?;
    Some(name.trim().to_owned())
}

/// The machine's host name, if the system has a file with it.
fn machine() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}
