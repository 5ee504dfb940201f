//! Runs that are killed and resumed until they finish: their results must equal those of an
//! undisturbed run.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use sconce::random::{self, Stream};
use serde_json::{Value, json};

use crate::{Workplace, artifacts, edit, tiny};

/// The plugins that the runs need.
const PLUGINS: [&str; 4] = [
    "sconce-fixture-breaker",
    "sconce-fixture-faults",
    "sconce-fixture-giver",
    "sconce-plugin-csv",
];

/// Maximum number of times that a run is started.
const ATTEMPTS: usize = 12;

/// How a run is disturbed.
#[derive(Clone, Debug)]
pub enum Blow {
    /// The run sends itself a signal at a mount point.
    Signal {
        /// The signal's name, as `KILL`.
        signal: &'static str,
        /// The mount point.
        at: &'static str,
        /// Number of iterations finished by then.
        iteration: u64,
    },
    /// The run is killed from outside after some time, possibly during a save.
    After(Duration),
    /// No file may grow beyond this many blocks of 512 bytes.
    Limit(u64),
}

/// A run of three epochs of three batches, with an update after every second batch and at the end
/// of the epoch; each iteration is saved.
pub fn manifest() -> Value {
    let save =
        json!({"at": "after_iter", "phase": "train", "what": "save_checkpoint", "text": "each"});
    let cycle = json!({"at": "after_cycle", "what": "save_in_background", "text": "cycle"});
    let hooks = json!([
        "counter",
        // A metric published only by a resumed run gets no column.
        {"hook": "csv", "config": {"variables": ["loss", "accuracy", "calls"]}},
        {"hook": "asker", "config": save},
        {"hook": "asker", "config": cycle},
        "breaker"
    ]);
    let manifest = edit(tiny(), "/train/accumulate", json!(2));
    let manifest = edit(manifest, "/train/epochs", json!(3));
    let optimizer = json!({"kind": "adamw", "learning_rate": 0.01});
    edit(edit(manifest, "/optimizer", optimizer), "/hooks", hooks)
}

/// The disturbance with this number in a seed's sequence.
pub fn blow(seed: u64, number: u64) -> Blow {
    let mut stream = random::stream(seed, "blow", number, 0);
    let iteration = pick(&mut stream, 10);
    let points = [
        "before_run",
        "before_iter",
        "after_backward",
        "after_update",
        "after_iter",
        "after_epoch",
        "after_cycle",
        "after_loop",
        "before_save_checkpoint",
        "after_save_checkpoint",
    ];
    let at = points[pick(&mut stream, points.len() as u64) as usize];
    let signal = |signal| Blow::Signal {
        signal,
        at,
        iteration,
    };
    match pick(&mut stream, 8) {
        0 | 1 => signal("KILL"),
        2 => signal("TERM"),
        3 => signal("INT"),
        4..=6 => Blow::After(Duration::from_micros(1000 + pick(&mut stream, 250_000))),
        _ => Blow::Limit(1 + pick(&mut stream, 120)),
    }
}

/// A number below `end`.
fn pick(stream: &mut Stream, end: u64) -> u64 {
    stream.below(end)
}

/// Results of a finished run.
#[derive(Debug, PartialEq, Eq)]
pub struct Results {
    weights: Vec<u8>,
    tables: Vec<String>,
}

/// Results of an undisturbed run.
///
/// # Panics
///
/// If the run fails.
pub fn straight() -> Results {
    let place = Workplace::new(&PLUGINS);
    place.run(&manifest()).expect(0, &[]);
    results(&place)
}

fn results(place: &Workplace) -> Results {
    let tables = ["train.csv", "val.csv", "test.csv"];
    Results {
        weights: fs::read(place.path("out/weights.safetensors")).expect("weights"),
        tables: tables
            .map(|table| place.read(&format!("out/{table}")))
            .to_vec(),
    }
}

/// Disturbs a run and resumes it until it finishes. Returns its results, and how often it was
/// started.
///
/// # Panics
///
/// If the run does not finish, or leaves incomplete files.
pub fn survive(blow: &Blow) -> (Results, usize) {
    let place = Workplace::new(&PLUGINS);
    place.write(&manifest());
    fs::create_dir(place.path("out")).expect("a directory");
    if let Blow::Signal {
        signal,
        at,
        iteration,
    } = blow
    {
        let order = json!({"at": at, "iteration": iteration, "signal": signal});
        place.write_text("out/break.json", &order.to_string());
    }
    let mut code = struck(&place, blow);
    let mut attempts = 1;
    let mut told = String::new();
    while code != Some(0) {
        assert!(
            attempts < ATTEMPTS,
            "{blow:?}: it does not come to its end\n{told}"
        );
        let begun = place.path("out/checkpoints/latest").exists();
        let how = if begun { "--resume" } else { "--overwrite" };
        let finished = place.sconce(&["run", "manifest.json", how]);
        code = Some(finished.code);
        told = finished.stderr;
        attempts += 1;
    }
    let entries = fs::read_dir(place.path("out/checkpoints")).expect("checkpoints");
    for entry in entries {
        let name = entry.expect("an entry").file_name();
        let name = name.to_string_lossy();
        assert!(!name.starts_with('.'), "{blow:?} leaves `{name}`");
    }
    (results(&place), attempts)
}

/// Starts the first run, which is disturbed; returns its exit code.
fn struck(place: &Workplace, blow: &Blow) -> Option<i32> {
    let mut command = match blow {
        Blow::Limit(blocks) => {
            let mut shell = Command::new("sh");
            let script = format!("ulimit -f {blocks} && exec \"$0\" \"$@\"");
            shell.arg("-c").arg(script).arg(artifacts().sconce());
            shell
        }
        _ => Command::new(artifacts().sconce()),
    };
    let mut child = command
        .args(["run", "manifest.json"])
        .current_dir(place.directory())
        .env_remove("SCONCE_PLUGIN_PATH")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .expect("the binary can be started");
    if let Blow::After(time) = blow {
        std::thread::sleep(*time);
        // It may have finished already.
        drop(child.kill());
    }
    child.wait().expect("it ends").code()
}
