//! `sconce team`: checks that the processes a launcher starts can talk to each other, before a run depends on it.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::cli::show::output;
use crate::diagnostic::Diagnostic;
use crate::exit;
use crate::manifest::{DistributedConfig, Engine};
use crate::session::StartFailure;
use crate::team::{self, CheckTimes, Launch, Transport};

/// Arguments of `sconce team`.
#[derive(Debug, Args)]
pub(in crate::cli) struct TeamArgs {
    /// Directory to search for the transport's plugin, before those of `SCONCE_PLUGIN_PATH`.
    #[arg(long = "plugins", value_name = "DIR")]
    plugins: Vec<PathBuf>,
    /// Transport: `auto`, `mpi` or `sockets`.
    #[arg(long, default_value = "auto", value_parser = engine)]
    engine: Engine,
    /// Seconds that a rank waits for the others.
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    timeout: f64,
    /// Prints one JSON object.
    #[arg(long)]
    json: bool,
}

fn engine(text: &str) -> Result<Engine, String> {
    match text {
        "auto" => Ok(Engine::Auto),
        "mpi" => Ok(Engine::Mpi),
        "sockets" => Ok(Engine::Sockets),
        _ => Err("it is `auto`, `mpi` or `sockets`".to_owned()),
    }
}

pub(in crate::cli) fn team(arguments: &TeamArgs) -> Result<u8, StartFailure> {
    let config = DistributedConfig {
        engine: arguments.engine.clone(),
        timeout: arguments.timeout,
        ..DistributedConfig::default()
    };
    let Some(mut transport) = team::open(&config, &arguments.plugins)? else {
        if arguments.json {
            output::json(&json!({"ranks": 1}));
        } else {
            output::line("one process: no launcher has started others with it");
            output::line(
                "to check several: `mpirun -n 4 sconce team`, `sconce launch -n 4 --check`",
            );
        }
        return Ok(exit::DONE);
    };
    let times = team::check(&mut *transport).map_err(|error| {
        StartFailure::plugin(vec![Diagnostic::new(format!(
            "rank {} can't talk to the others: {error}",
            transport.rank()
        ))])
    })?;
    if transport.rank() == 0 {
        if arguments.json {
            output::json(&object(&*transport, times));
        } else {
            print(&*transport, times);
        }
    }
    Ok(exit::DONE)
}

fn object(transport: &dyn Transport, times: CheckTimes) -> serde_json::Value {
    let sums = times
        .sums
        .map(|(elements, seconds)| json!({"elements": elements, "seconds": seconds}));
    json!({
        "ranks": transport.size(),
        "hosts": transport.hosts(),
        "transport": transport.name(),
        "gather_seconds": times.gather,
        "sums": sums,
    })
}

fn print(transport: &dyn Transport, times: CheckTimes) {
    let mut machines: Vec<&String> = transport.hosts().iter().collect();
    machines.sort();
    machines.dedup();
    let launcher =
        Launch::of_this_process().map(|launch| format!(", started by {}", launch.launcher));
    output::line(&format!(
        "{} ranks on {} machine{}, by {}{}",
        transport.size(),
        machines.len(),
        if machines.len() == 1 { "" } else { "s" },
        transport.name(),
        launcher.unwrap_or_default(),
    ));
    let mut rows = Vec::new();
    for (rank, host) in transport.hosts().iter().enumerate() {
        rows.push(vec![format!("  rank {rank}"), host.clone()]);
    }
    output::table(&rows);
    output::line("broadcast, gather, exchange and collect deliver the right bytes");
    let microseconds = times.gather * 1e6;
    output::line(&format!(
        "64 bytes of every rank to every rank: {microseconds:.1} µs"
    ));
    for (elements, seconds) in times.sums {
        output::line(&format!(
            "sum of {elements} numbers: {:.0} µs",
            seconds * 1e6
        ));
    }
}
