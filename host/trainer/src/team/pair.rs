//! Whether a launcher and a transport's library are of the same MPI, as far as that can be seen without starting it.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::launcher::{Launch, Launcher, hide_from};
use crate::subprocess;

/// Time that `mpirun --version` may take.
const LIMIT: Duration = Duration::from_secs(5);

/// MPIs that understand each other's launchers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    OpenMpi,
    Mpich,
}

impl Family {
    /// The family of an MPI, by what it or its launcher says of itself.
    fn of(text: &str) -> Option<Family> {
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        if has(&["Open MPI", "OpenRTE", "PRRTE"]) {
            Some(Family::OpenMpi)
        } else if has(&["MPICH", "HYDRA", "Intel", "MVAPICH"]) {
            Some(Family::Mpich)
        } else {
            None
        }
    }
}

/// What the `mpirun` of this machine says it is, in one line; none if there is none.
pub fn mpirun() -> Option<String> {
    let mut command = Command::new("mpirun");
    hide_from(&mut command);
    command
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.spawn().ok()?;
    subprocess::watch(&mut child, LIMIT).ok()?;
    let mut text = String::new();
    child.stdout.take()?.read_to_string(&mut text).ok()?;
    Some(one_line(&text))
}

/// `mpirun (Open MPI) 4.1.4` as it is; of Hydra's details, the version.
fn one_line(text: &str) -> String {
    let mut lines = text.lines().map(str::trim);
    let first = lines.next().unwrap_or_default();
    let version = lines.find_map(|line| line.strip_prefix("Version:"));
    match version {
        Some(version) if first.starts_with("HYDRA") => format!("MPICH's HYDRA {}", version.trim()),
        _ => first.to_owned(),
    }
}

/// What is wrong with starting ranks by this launcher, or else by this `mpirun`, for a library that says this of the MPI
/// that it was built for.
pub fn mismatch(launch: Option<Launch>, mpirun: Option<&str>, about: &str) -> Option<String> {
    let library = Family::of(about)?;
    let by = match launch.map(|launch| launch.launcher) {
        Some(Launcher::OpenMpi) => Some((
            Family::OpenMpi,
            "the mpirun of Open MPI that started this process",
        )),
        Some(Launcher::Pmi) => Some((
            Family::Mpich,
            "the mpirun of MPICH that started this process",
        )),
        Some(Launcher::Slurm | Launcher::Sconce) => None,
        None => Family::of(mpirun?).map(|family| (family, "this machine's mpirun")),
    };
    let (family, who) = by?;
    (family != library).then(|| {
        format!("is of another MPI than {who}: each process would believe that it is the only one")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN_MPI: &str = "Built for Open MPI 4.1.4.";
    const MPICH: &str = "Built for MPICH 4.0.2.";

    #[test]
    fn a_library_of_another_mpi_is_noticed() {
        let launch = |launcher| {
            Some(Launch {
                launcher,
                rank: 0,
                size: 2,
                local_rank: None,
                local_size: None,
            })
        };
        let open_mpi = Some("mpirun (Open MPI) 4.1.4");
        let fits = |launcher, mpirun, about| mismatch(launcher, mpirun, about).is_none();
        assert!(fits(None, open_mpi, OPEN_MPI));
        assert!(!fits(None, open_mpi, MPICH));
        assert!(!fits(None, Some("MPICH's HYDRA 4.0.2"), OPEN_MPI));
        assert!(fits(None, None, MPICH));
        // The launcher counts, not what else is installed.
        assert!(fits(launch(Launcher::Pmi), open_mpi, MPICH));
        assert!(!fits(launch(Launcher::OpenMpi), None, MPICH));
        assert!(fits(launch(Launcher::Slurm), open_mpi, MPICH));
        assert!(fits(launch(Launcher::OpenMpi), None, "Unix sockets."));
    }

    #[test]
    fn launchers_are_named_in_a_line() {
        let hydra = "HYDRA build details:\n    Version:       4.0.2\n    CC: gcc\n";
        assert_eq!(one_line(hydra), "MPICH's HYDRA 4.0.2");
        let open_mpi = "mpirun.openmpi (OpenRTE) 4.1.4\n\nReport bugs to x\n";
        assert_eq!(one_line(open_mpi), "mpirun.openmpi (OpenRTE) 4.1.4");
        assert_eq!(Family::of(&one_line(open_mpi)), Some(Family::OpenMpi));
    }
}
