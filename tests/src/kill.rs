//! Runs that are killed, and gone on with until they are done: their results must be those of a run
//! that nothing has happened to.

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

/// How often a run is begun again at most.
const ATTEMPTS: usize = 12;

/// What is done to a run.
#[derive(Clone, Debug)]
pub enum Blow {
    /// It sends itself a signal at a mount point.
    Signal {
        /// The signal's name, as `KILL`.
        signal: &'static str,
        /// The mount point.
        at: &'static str,
        /// The iterations that are finished by then.
        iteration: u64,
    },
    /// It is killed from outside after some time, which falls anywhere: into a save, say.
    After(Duration),
    /// No file may become longer than so many blocks of 512 bytes.
    Limit(u64),
}

/// A run of three epochs of three batches, an update after every second and at the epoch's end; each
/// iteration is saved.
pub fn manifest() -> Value {
    let save =
        json!({"at": "after_iter", "phase": "train", "what": "save_checkpoint", "text": "each"});
    let cycle = json!({"at": "after_cycle", "what": "save_in_background", "text": "cycle"});
    let hooks = json!([
        "counter",
        // What a resumed run alone publishes gets no column.
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

/// The blow of this number, of those that a seed gives.
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

/// What a finished run has come to.
#[derive(Debug, PartialEq, Eq)]
pub struct Results {
    weights: Vec<u8>,
    tables: Vec<String>,
}

/// The results of a run that nothing happens to.
///
/// # Panics
///
/// Where it fails.
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

/// Strikes a run and goes on with it until it is done. Its results, and how often it was begun.
///
/// # Panics
///
/// Where it does not come to its end, or leaves something half done behind.
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

/// The first run, which the blow falls upon; its exit code.
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
        // It may have come to its end.
        drop(child.kill());
    }
    child.wait().expect("it ends").code()
}
