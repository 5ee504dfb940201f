//! What started this process, and how many more of its kind, as the environment says.

use std::ffi::OsString;
use std::fmt;
use std::process::Command;

/// Variables that `sconce launch` sets for the processes it starts.
pub const RANK: &str = "SCONCE_TEAM_RANK";
/// How many processes there are.
pub const SIZE: &str = "SCONCE_TEAM_SIZE";
/// The directory in which they meet.
pub const DIRECTORY: &str = "SCONCE_TEAM_DIR";
/// What tells this start from others.
pub const TOKEN: &str = "SCONCE_TEAM_TOKEN";
/// The launcher's process.
pub const PARENT: &str = "SCONCE_TEAM_PARENT";
/// The launcher's own command line, as a list in JSON.
pub const WORDS: &str = "SCONCE_TEAM_COMMAND";
/// Number of processes that are enough to go on with after others were killed, if fewer are.
pub const LEAST: &str = "SCONCE_TEAM_LEAST";

/// Beginnings of the names of all variables by which a process learns that it is one of several.
const PREFIXES: [&str; 9] = [
    "SCONCE_TEAM_",
    "OMPI_COMM_WORLD_",
    "OMPI_UNIVERSE_",
    "OMPI_MCA_ess",
    "OMPI_MCA_orte_",
    "PMI_",
    "PMIX_",
    "PRTE_",
    "MPI_LOCAL",
];

/// Step IDs from here on are Slurm's own steps, such as that of a batch script.
const FIRST_RESERVED_STEP: u64 = 0xFFFF_FFF0;

/// A program that starts several processes of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// `mpirun` of Open MPI.
    OpenMpi,
    /// `mpirun` of MPICH or its relatives, or another launcher that speaks PMI.
    Pmi,
    /// `srun` of Slurm.
    Slurm,
    /// `sconce launch`.
    Sconce,
}

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Launcher::OpenMpi | Launcher::Pmi => "mpirun",
            Launcher::Slurm => "srun",
            Launcher::Sconce => "sconce launch",
        })
    }
}

/// This process's place among those that its launcher started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The launcher.
    pub launcher: Launcher,
    /// Number of this process, from 0.
    pub rank: usize,
    /// Number of processes.
    pub size: usize,
    /// Number of this process among those on the same machine, if known.
    pub local_rank: Option<usize>,
    /// Number of processes on this machine, if known.
    pub local_size: Option<usize>,
}

impl Launch {
    /// The launch that this process's environment describes; none if it was started by itself.
    pub fn of_this_process() -> Option<Launch> {
        Launch::from_environment(|name| std::env::var(name).ok())
    }

    /// The launch described by the variables that `look_up` finds.
    ///
    /// The innermost launcher counts: `sconce launch` within a job of any kind; `mpirun` within a job of Slurm, whose
    /// variables there describe the processes that `mpirun` starts on each machine.
    fn from_environment(look_up: impl Fn(&str) -> Option<String>) -> Option<Launch> {
        let number = |name: &str| look_up(name)?.trim().parse::<usize>().ok();
        let launch = |launcher, rank, size, local_rank, local_size| {
            let (rank, size) = (number(rank)?, number(size)?);
            (rank < size).then(|| Launch {
                launcher,
                rank,
                size,
                local_rank: number(local_rank),
                local_size: number(local_size),
            })
        };
        let ours = || launch(Launcher::Sconce, RANK, SIZE, RANK, SIZE);
        let open_mpi = || {
            launch(
                Launcher::OpenMpi,
                "OMPI_COMM_WORLD_RANK",
                "OMPI_COMM_WORLD_SIZE",
                "OMPI_COMM_WORLD_LOCAL_RANK",
                "OMPI_COMM_WORLD_LOCAL_SIZE",
            )
        };
        let slurm = || {
            // A batch script sees the number of tasks too, but is a single process.
            let step: u64 = look_up("SLURM_STEP_ID")?.trim().parse().ok()?;
            if step >= FIRST_RESERVED_STEP {
                return None;
            }
            let size = ["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"];
            let size = *size.iter().find(|name| number(name).is_some())?;
            launch(Launcher::Slurm, "SLURM_PROCID", size, "SLURM_LOCALID", "")
        };
        let pmi = || {
            let (rank, size) = ("MPI_LOCALRANKID", "MPI_LOCALNRANKS");
            let pmi = launch(Launcher::Pmi, "PMI_RANK", "PMI_SIZE", rank, size)?;
            // `srun` speaks PMI too. `mpirun` within a job has Slurm start one process of its own on each machine.
            match slurm() {
                Some(slurm) if (slurm.rank, slurm.size) == (pmi.rank, pmi.size) => Some(slurm),
                _ => Some(pmi),
            }
        };
        ours().or_else(open_mpi).or_else(pmi).or_else(slurm)
    }
}

/// Keeps the launcher's variables from a child process, which is not one of those that it started.
pub fn hide_from(child: &mut Command) {
    for name in of_launchers(std::env::vars_os().map(|(name, _)| name)) {
        child.env_remove(name);
    }
}

/// The names that are those of launchers' variables.
fn of_launchers(names: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    names.filter(|name| {
        let name = name.to_string_lossy();
        PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(variables: &[(&str, &str)]) -> Option<Launch> {
        Launch::from_environment(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    fn facts(variables: &[(&str, &str)]) -> Option<(Launcher, usize, usize)> {
        launch(variables).map(|launch| (launch.launcher, launch.rank, launch.size))
    }

    const OPEN_MPI: [(&str, &str); 4] = [
        ("OMPI_COMM_WORLD_RANK", "3"),
        ("OMPI_COMM_WORLD_SIZE", "4"),
        ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
    ];
    const STEP: [(&str, &str); 4] = [
        ("SLURM_STEP_ID", "0"),
        ("SLURM_NTASKS", "8"),
        ("SLURM_STEP_NUM_TASKS", "2"),
        ("SLURM_PROCID", "1"),
    ];

    #[test]
    fn each_launcher_is_recognised() {
        assert_eq!(facts(&[]), None);
        let found = launch(&OPEN_MPI).expect("Open MPI's");
        assert_eq!((found.rank, found.size), (3, 4));
        assert_eq!((found.local_rank, found.local_size), (Some(1), Some(2)));
        assert_eq!(found.launcher, Launcher::OpenMpi);
        let pmi = [("PMI_RANK", "0"), ("PMI_SIZE", "3")];
        assert_eq!(facts(&pmi), Some((Launcher::Pmi, 0, 3)));
        assert_eq!(facts(&STEP), Some((Launcher::Slurm, 1, 2)));
        let ours = [(RANK, "1"), (SIZE, "2")];
        assert_eq!(facts(&ours), Some((Launcher::Sconce, 1, 2)));
    }

    #[test]
    fn the_innermost_launcher_counts() {
        let both = [&OPEN_MPI[..], &STEP].concat();
        assert_eq!(facts(&both), Some((Launcher::OpenMpi, 3, 4)));
        let ours = [&both[..], &[(RANK, "0"), (SIZE, "2")]].concat();
        assert_eq!(facts(&ours), Some((Launcher::Sconce, 0, 2)));
        let by_slurm = [&STEP[..], &[("PMI_RANK", "1"), ("PMI_SIZE", "2")]].concat();
        assert_eq!(facts(&by_slurm), Some((Launcher::Slurm, 1, 2)));
        let within = [&STEP[..], &[("PMI_RANK", "1"), ("PMI_SIZE", "16")]].concat();
        assert_eq!(facts(&within), Some((Launcher::Pmi, 1, 16)));
    }

    #[test]
    fn a_batch_script_and_nonsense_are_single_processes() {
        let script = [("SLURM_NTASKS", "8"), ("SLURM_PROCID", "0")];
        assert_eq!(facts(&script), None);
        let own_step = [&script[..], &[("SLURM_STEP_ID", "4294967291")]].concat();
        assert_eq!(facts(&own_step), None);
        assert_eq!(facts(&[("PMI_RANK", "2"), ("PMI_SIZE", "2")]), None);
        assert_eq!(facts(&[("PMI_RANK", "x"), ("PMI_SIZE", "2")]), None);
    }

    #[test]
    fn only_launchers_variables_are_kept_from_children() {
        let names = [
            "PATH",
            "PMI_FD",
            "OMPI_MCA_ess",
            "SCONCE_TEAM_DIR",
            "SLURM_JOB_ID",
        ];
        let hidden: Vec<OsString> = of_launchers(names.iter().map(OsString::from)).collect();
        assert_eq!(hidden, ["PMI_FD", "OMPI_MCA_ess", "SCONCE_TEAM_DIR"]);
    }
}
