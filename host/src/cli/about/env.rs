//! `sconce env`: what a bug report needs to say about program, machine and plugins.

use std::path::PathBuf;

use clap::Args;
use sconce_ops::OPERATIONS_VARIABLE;
use sconce_ops::device::{self, DeviceError, DeviceFacts};
use sconce_plugin_api::abi::API_VERSION;
use serde_json::{Map, Value, json};

use crate::cli::show::output;
use crate::device_facts::described;
use crate::diagnostic::Diagnostic;
use crate::exit;
use crate::isolation::{SANDBOX_LOG, landlock_version};
use crate::kernels;
use crate::manifest::LOAD_LIMIT;
use crate::plugin::search::{self, Inventory};
use crate::team::{Launch, found, pair};
use crate::version::HOST_VERSION;

/// Arguments of `sconce env`.
#[derive(Debug, Args)]
pub(in crate::cli) struct EnvArgs {
    /// Directory to search for plugins, before those of `SCONCE_PLUGIN_PATH`.
    #[arg(long = "plugins", value_name = "DIR")]
    plugins: Vec<PathBuf>,
    /// Prints one JSON object.
    #[arg(long)]
    json: bool,
}

/// Environment variables that affect this program.
const VARIABLES: [&str; 11] = [
    search::VARIABLE,
    kernels::VARIABLE,
    OPERATIONS_VARIABLE,
    device::LIBRARIES_VARIABLE,
    LOAD_LIMIT,
    SANDBOX_LOG,
    kernels::threads::VARIABLES[0],
    kernels::threads::VARIABLES[1],
    kernels::threads::SPIN_LIMIT,
    "RUST_BACKTRACE",
    "NO_COLOR",
];

pub(in crate::cli) fn environment(arguments: &EnvArgs) -> u8 {
    let mut directories = arguments.plugins.clone();
    directories.extend(search::from_environment());
    let inventory = Inventory::search(&directories).with_installed();
    let mut facts = facts();
    let launch = Launch::of_this_process();
    if let Some(launch) = launch {
        facts.push(("launcher", launcher(launch)));
    }
    let mpirun = pair::mpirun();
    facts.extend(mpirun.clone().map(|text| ("mpirun", text)));
    let transports: Vec<Value> = found::all(&inventory)
        .map(|(plugin, transport)| {
            json!({
                "name": transport.name,
                "about": transport.about,
                "file": plugin.path,
                "problem": pair::mismatch(launch, mpirun.as_deref(), &transport.about),
            })
        })
        .collect();
    let plugins: Vec<Value> = inventory
        .plugins
        .iter()
        .map(|plugin| {
            json!({
                "name": plugin.metadata.name,
                "version": plugin.metadata.version,
                "api": plugin.metadata.api_version,
                "compiler": plugin.metadata.rustc,
                "file": plugin.path,
                "sha256": plugin.sha256(),
            })
        })
        .collect();
    if arguments.json {
        let mut all: Map<String, Value> = facts
            .into_iter()
            .map(|(key, value)| (key.to_owned(), Value::String(value)))
            .collect();
        all.insert("directories".to_owned(), json!(inventory.directories));
        all.insert("absent".to_owned(), json!(inventory.absent));
        all.insert("plugins".to_owned(), Value::Array(plugins));
        all.insert("transports".to_owned(), Value::Array(transports));
        output::json(&all);
    } else {
        let mut rows: Vec<Vec<String>> = facts
            .into_iter()
            .map(|(key, value)| vec![key.to_owned(), value])
            .collect();
        for directory in &inventory.directories {
            let text = directory.display().to_string();
            rows.push(vec!["plugins in".to_owned(), text]);
        }
        for directory in &inventory.absent {
            let text = format!("{}, which is not there", directory.display());
            rows.push(vec!["plugins in".to_owned(), text]);
        }
        for plugin in &inventory.plugins {
            let metadata = &plugin.metadata;
            rows.push(vec![
                "plugin".to_owned(),
                format!(
                    "{} {} (API {}, {}) {} {}",
                    metadata.name,
                    metadata.version,
                    metadata.api_version,
                    metadata.rustc,
                    plugin.path.display(),
                    plugin.sha256()
                ),
            ]);
        }
        for (plugin, transport) in found::all(&inventory) {
            let about = format!(
                "{}: {} {}",
                transport.name,
                transport.about,
                plugin.path.display()
            );
            rows.push(vec!["transport".to_owned(), about]);
        }
        output::table(&rows);
        output::diagnostics(&mismatches(&inventory, launch, mpirun.as_deref()));
    }
    output::diagnostics(&inventory.problems);
    exit::DONE
}

/// The launcher, and this process's place among those that it started.
fn launcher(launch: Launch) -> String {
    let Launch {
        launcher,
        rank,
        size,
        local_rank,
        local_size,
    } = launch;
    match (local_rank, local_size) {
        (Some(local_rank), Some(local_size)) => {
            format!(
                "{launcher}, rank {rank} of {size} ({local_rank} of {local_size} on this machine)"
            )
        }
        _ => format!("{launcher}, rank {rank} of {size}"),
    }
}

/// Warnings about transports of another MPI than the launcher's.
fn mismatches(
    inventory: &Inventory,
    launch: Option<Launch>,
    mpirun: Option<&str>,
) -> Vec<Diagnostic> {
    let warnings = found::all(inventory).filter_map(|(plugin, transport)| {
        let problem = pair::mismatch(launch, mpirun, &transport.about)?;
        let warning = Diagnostic::warning(format!("`{}` {problem}", plugin.path.display()));
        Some(warning.note(transport.about.clone()).hint(
            "build it with that MPI's compiler wrapper: `MPICC=… cargo build --release --manifest-path \
             plugins/mpi/Cargo.toml`",
        ))
    });
    warnings.collect()
}

/// Facts about program and machine.
fn facts() -> Vec<(&'static str, String)> {
    let features = [
        ("mimalloc", cfg!(feature = "mimalloc")),
        ("avx512", cfg!(feature = "avx512")),
        ("cuda", cfg!(feature = "cuda")),
        ("cudnn", cfg!(feature = "cudnn")),
    ];
    let features: Vec<&str> = features
        .into_iter()
        .filter_map(|(name, is_on)| is_on.then_some(name))
        .collect();
    let allocator = if cfg!(feature = "mimalloc") {
        "mimalloc"
    } else {
        "the system's"
    };
    let threads = kernels::threads::threads();
    let mut facts = vec![
        ("host", HOST_VERSION.to_owned()),
        ("plugin API", API_VERSION.to_owned()),
        ("features", features.join(", ")),
        ("allocator", allocator.to_owned()),
        (
            "target",
            format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
        ),
        ("system", system()),
        ("processor", processor()),
        (
            "instructions",
            format!("{:?}", kernels::level()).to_lowercase(),
        ),
        (
            "processors this process may use",
            threads.usable.to_string(),
        ),
        ("threads by default", threads.started().to_string()),
        ("Landlock", landlock_version()),
    ];
    match device::list() {
        Ok(gpus) if gpus.is_empty() => facts.push(("GPUs", "none".to_owned())),
        Ok(gpus) => {
            facts.push(("GPUs", gpus_line(&gpus)));
            let nccl = device::nccl::installed();
            facts.push(("NCCL", nccl.unwrap_or_else(|error| error.to_string())));
        }
        // The features say so.
        Err(DeviceError::NotBuilt) => {}
        Err(error) => facts.push(("GPUs", error.to_string())),
    }
    for name in VARIABLES {
        if let Some(value) = std::env::var_os(name) {
            facts.push((name, value.to_string_lossy().into_owned()));
        }
    }
    facts
}

/// The GPUs of this machine, by their numbers.
fn gpus_line(gpus: &[DeviceFacts]) -> String {
    let lines = gpus.iter().enumerate();
    let lines = lines.map(|(index, facts)| format!("cuda:{index} {}", described(facts)));
    lines.collect::<Vec<_>>().join("; ")
}

/// Name and version of the system, if available.
fn system() -> String {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))
        .map(|name| name.trim_matches('"').to_owned());
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    match name {
        Some(name) => format!("{name}, kernel {}", kernel.trim()),
        None => std::env::consts::OS.to_owned(),
    }
}

/// Name of the processor, if available.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .and_then(|rest| rest.split_once(':'));
    name.map_or_else(|| "unknown".to_owned(), |(_, name)| name.trim().to_owned())
}
