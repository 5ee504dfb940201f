//! Opens the transport of a run, if it has several ranks.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::found::{file_name, find};
use super::interface::Transport;
use super::opened::OpenedTransport;
use crate::diagnostic::Diagnostic;
use crate::exit;
use crate::launcher::{Launch, Launcher};
use crate::manifest::{DistributedConfig, Engine};
use crate::plugin::library::Library;
use crate::plugin::{Inspected, PluginRefusal, copy, trust};
use crate::start_failure::StartFailure;

/// Connects this process with all others of its run; `None` if it is the only one.
///
/// `directories` are searched for the transport's plugin, before those of the environment and those where plugins are
/// installed. Its file passes the same gates as a hook's.
///
/// # Errors
///
/// If there is no such plugin, it is refused, a rank can't be reached, or launcher and transport disagree on the number
/// of ranks.
pub fn open(
    config: &DistributedConfig,
    directories: &[PathBuf],
) -> Result<Option<Box<dyn Transport>>, StartFailure> {
    let launch = Launch::of_this_process();
    let Some(name) = transport_of(&config.engine, launch) else {
        return Ok(None);
    };
    trust::current().map_err(|problems| StartFailure::usage(problems.to_vec()))?;
    let plugin = find(name, directories)?;
    let library =
        load(&plugin).map_err(|refusal| StartFailure::plugin(vec![refusal.diagnostic()]))?;
    let timeout = Duration::try_from_secs_f64(config.timeout).unwrap_or(Duration::MAX);
    let json = serde_json::to_string(config)?;
    let opened = OpenedTransport::open((&plugin, &library), name, &json, timeout);
    let opened = opened.map_err(|error| {
        let problem = format!("the transport `{name}` can't be opened: {error}");
        let problem = Diagnostic::new(problem);
        let problem = problem.note(format!("plugin: {}", plugin.path.display()));
        let mut failure = StartFailure::plugin(vec![problem]);
        if error.is_late {
            failure.code = exit::HANG;
        }
        failure
    })?;
    if let Some(launch) = launch
        && let Some(problem) = disagreement(launch, opened.size(), name, &plugin.path)
    {
        return Err(StartFailure::plugin(vec![problem]));
    }
    Ok((opened.size() > 1).then(|| Box::new(opened) as Box<dyn Transport>))
}

/// The name of the transport to open; none for a single process.
fn transport_of(engine: &Engine, launch: Option<Launch>) -> Option<&'static str> {
    match (engine, launch) {
        (Engine::Mpi, _) => Some("mpi"),
        (Engine::None, _) | (Engine::Sockets | Engine::Auto, None) => None,
        (Engine::Sockets, Some(_)) => Some("sockets"),
        (Engine::Auto, Some(launch)) if launch.size == 1 => None,
        (Engine::Auto, Some(launch)) => Some(match launch.launcher {
            Launcher::Sconce => "sockets",
            Launcher::OpenMpi | Launcher::Pmi | Launcher::Slurm => "mpi",
        }),
    }
}

/// Opens a plugin from its private copy. There is no trial in another process: a transport's plugin runs no code before
/// its transport is opened, and to open that in a process apart would be to join the ranks there.
fn load(plugin: &Inspected) -> Result<Library, PluginRefusal> {
    let loadable = copy::of(plugin)?;
    Library::open_from(&plugin.path, &loadable.file)
}

/// The error if the launcher and the transport see different numbers of processes: then this is a library of another
/// MPI than the launcher's, to which each process seems to be alone.
fn disagreement(launch: Launch, seen: usize, name: &str, library: &Path) -> Option<Diagnostic> {
    if launch.size == seen {
        return None;
    }
    let Launch { launcher, size, .. } = launch;
    let library = file_name(library);
    let problem = if name == "mpi" && launcher != Launcher::Sconce {
        let remedy = match launcher {
            Launcher::Slurm => "`srun --mpi=pmix`, or build it for the MPI that srun works with",
            _ => "build it for this MPI, or srun --mpi=pmix",
        };
        Diagnostic::new(format!(
            "{launcher} started {size} processes, but the MPI that {library} was built for sees {seen}: {remedy}"
        ))
        .hint(
            "`MPICC=…  cargo build --release --manifest-path plugins/mpi/Cargo.toml` builds it for the MPI of that \
             compiler; `sconce env` says which one a library was built for",
        )
    } else {
        Diagnostic::new(format!(
            "{launcher} started {size} processes, but the transport `{name}` sees {seen}"
        ))
        .hint("leave `distributed.engine` to `auto`, which takes the transport that goes with the launcher")
    };
    Some(problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(launcher: Launcher, size: usize) -> Launch {
        Launch {
            launcher,
            rank: 0,
            size,
            local_rank: None,
            local_size: None,
        }
    }

    #[test]
    fn the_launcher_chooses_the_transport() {
        let open_mpi = Some(launch(Launcher::OpenMpi, 4));
        let ours = Some(launch(Launcher::Sconce, 4));
        for (engine, launch, name) in [
            (Engine::Auto, None, None),
            (Engine::Auto, open_mpi, Some("mpi")),
            (Engine::Auto, Some(launch(Launcher::Slurm, 2)), Some("mpi")),
            (Engine::Auto, Some(launch(Launcher::Pmi, 1)), None),
            (Engine::Auto, ours, Some("sockets")),
            (Engine::Mpi, None, Some("mpi")),
            (Engine::Mpi, ours, Some("mpi")),
            (Engine::Sockets, None, None),
            (Engine::None, open_mpi, None),
        ] {
            assert_eq!(transport_of(&engine, launch), name, "{engine:?} {launch:?}");
        }
    }

    #[test]
    fn a_library_of_another_mpi_is_named() {
        let path = Path::new("/plugins/libsconce_mpi.so");
        let open_mpi = launch(Launcher::OpenMpi, 4);
        assert_eq!(disagreement(open_mpi, 4, "mpi", path), None);
        let problem = disagreement(open_mpi, 1, "mpi", path).map(|problem| problem.message);
        assert_eq!(
            problem.as_deref(),
            Some(
                "mpirun started 4 processes, but the MPI that libsconce_mpi.so was built for sees 1: build it for this \
                 MPI, or srun --mpi=pmix"
            )
        );
        let problem = disagreement(launch(Launcher::Sconce, 2), 1, "mpi", path);
        let words = "sconce launch started 2 processes, but the transport `mpi` sees 1";
        assert!(problem.is_some_and(|problem| problem.message == words));
    }
}
