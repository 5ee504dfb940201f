//! `sconce launch` and `sconce team`: ranks that find each other, and end together.
#![cfg(target_os = "linux")]

use std::fs;
use std::process::{Child, Command, Stdio};

use sconce_tests::{Workplace, until, until_ended};
use serde_json::Value;

const CHECK: [&str; 7] = [
    "launch",
    "-n",
    "3",
    "--check",
    "--",
    "--plugins",
    "transports",
];

fn place() -> Workplace {
    let place = Workplace::new(&[]);
    place.add_plugin("sconce-plugin-sockets", "transports");
    place
}

#[test]
fn ranks_find_each_other_and_every_call_is_right() {
    let place = place();
    let arguments = [&CHECK[..], &["--json"]].concat();
    let finished = place.sconce(&arguments).expect(0, &[]);
    let said: Value = serde_json::from_str(&finished.stdout).expect("one object");
    assert_eq!(said["ranks"], 3);
    assert_eq!(said["hosts"].as_array().map(Vec::len), Some(3));
    let finished = place.sconce(&CHECK).expect(0, &[]);
    assert!(
        finished.stdout.contains("deliver the right bytes"),
        "{}",
        finished.stdout
    );
}

#[test]
fn a_transport_that_is_missing_is_named_with_what_to_do() {
    let place = Workplace::new(&[]);
    place.sconce(&["launch", "-n", "2", "--check"]).expect(
        3,
        &[
            "no plugin offers the transport `sockets`",
            "sconce install-plugins",
        ],
    );
    let open_mpi = [("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "2")];
    place.sconce_in(&["team"], &open_mpi).expect(
        3,
        &[
            "no plugin offers the transport `mpi`",
            "cargo build --release --manifest-path plugins/mpi/Cargo.toml",
        ],
    );
    let finished = place.sconce_in(&["env"], &open_mpi).expect(0, &[]);
    assert!(
        finished.stdout.contains("mpirun, rank 0 of 2"),
        "{}",
        finished.stdout
    );
    // One process needs no transport.
    place.sconce(&["team"]).expect(0, &[]);
}

/// A launcher whose ranks talk for minutes: each message takes a second.
struct Launched {
    launcher: Child,
    _place: Workplace,
}

impl Launched {
    fn new() -> Launched {
        let place = place();
        let mut command = place.command(&CHECK);
        command.env("SCONCE_TEAM_LATENCY", "1000000");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        Launched {
            launcher: command.spawn().expect("started"),
            _place: place,
        }
    }

    /// The process of a rank, once it runs.
    fn rank(&self, rank: usize) -> u32 {
        let wanted = format!("SCONCE_TEAM_RANK={rank}");
        until(&format!("rank {rank} appears"), || {
            self.children().into_iter().find(|process| {
                let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
                environment
                    .split(|byte| *byte == 0)
                    .any(|one| one == wanted.as_bytes())
            })
        })
    }

    fn children(&self) -> Vec<u32> {
        let id = self.launcher.id();
        let text = fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        let text = text.unwrap_or_default();
        text.split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect()
    }

    /// The launcher's exit code and standard error.
    fn end(self) -> (Option<i32>, String) {
        let output = self.launcher.wait_with_output().expect("ended");
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    }
}

fn kill(signal: &str, process: u32) {
    let done = Command::new("kill")
        .args([signal, &process.to_string()])
        .status();
    assert!(done.expect("`kill` is there").success());
}

fn wait_for_end_of(processes: &[u32]) {
    for process in processes {
        until_ended(*process);
    }
}

#[test]
fn all_end_when_one_is_killed() {
    let launched = Launched::new();
    let ranks: Vec<u32> = (0..3).map(|rank| launched.rank(rank)).collect();
    kill("-KILL", ranks[1]);
    let (code, errors) = launched.end();
    assert_eq!(code, Some(128 + 9), "{errors}");
    assert!(errors.contains("error: rank 1 ("), "{errors}");
    assert!(errors.contains(") ended by signal 9 (SIGKILL)"), "{errors}");
    wait_for_end_of(&ranks);
}

#[test]
fn no_rank_outlives_its_launcher() {
    let launched = Launched::new();
    let ranks: Vec<u32> = (0..3).map(|rank| launched.rank(rank)).collect();
    // Until the ranks have asked the system to end them with the launcher: they are connected then.
    let sockets = |rank: &u32| {
        let files = fs::read_dir(format!("/proc/{rank}/fd"))
            .expect("its files")
            .flatten();
        let targets = files.filter_map(|file| fs::read_link(file.path()).ok());
        targets
            .filter(|target| target.to_string_lossy().starts_with("socket:"))
            .count()
    };
    until("the ranks have met", || {
        ranks.iter().all(|rank| sockets(rank) >= 2).then_some(())
    });
    kill("-KILL", launched.launcher.id());
    wait_for_end_of(&ranks);
    assert_eq!(launched.end().0, None, "killed");
}

#[test]
fn signals_reach_the_ranks() {
    let launched = Launched::new();
    let ranks: Vec<u32> = (0..3).map(|rank| launched.rank(rank)).collect();
    kill("-TERM", launched.launcher.id());
    let (code, errors) = launched.end();
    assert_eq!(code, Some(128 + 15), "{errors}");
    wait_for_end_of(&ranks);
}

#[test]
fn a_transport_in_c_is_opened_and_its_bytes_are_compared() {
    let place = Workplace::new(&[]);
    if place.add_c_plugin("tests/c/transport.c", &[]).is_none() {
        return;
    }
    let team = ["team", "--engine", "mpi", "--plugins", "plugins"];
    let words =
        "rank 0 can't talk to the others: rank 0: broadcast delivers other bytes than were sent";
    place.sconce(&team).expect(3, &[words]);
    let arguments = [&team[..], &["--timeout", "0.5"]].concat();
    let words = [
        "the transport `mpi` can't be opened: there is no time",
        "libtransport.so",
    ];
    place.sconce(&arguments).expect(3, &words);
    // Seen as one of four, it does not fit its launcher.
    let launched = [("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "4")];
    let words = "mpirun started 4 processes, but the MPI that libtransport.so was built for sees 2";
    place.sconce_in(&team, &launched).expect(3, &[words]);
    let finished = place.sconce(&["plugins", "plugins"]).expect(0, &[]);
    assert!(
        finished.stdout.contains("transport  Not an MPI."),
        "{}",
        finished.stdout
    );
    let finished = place
        .sconce(&["inspect", "plugins/libtransport.so"])
        .expect(0, &[]);
    assert!(
        finished.stdout.contains("idle-transport 0.1.0"),
        "{}",
        finished.stdout
    );
}
