//! Sweeps: the same trials, decisions and results for any number of processes, on this machine or by a batch system, also after
//! a process was killed.

use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use sconce_tests::{Workplace, edit, tiny};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// A sweep of six trials of four epochs, two of which go on after the first, and one to the end.
fn sweep(output: &str) -> Value {
    json!({
        "run": "manifest.json", "output": output, "metric": "val/loss", "threads": 1, "trials": 6, "seed": 5,
        "grid": {"train.batch_size": [4, 8]},
        "random": {"optimizer.learning_rate": {"log": [1e-3, 1e-1]}},
        "halving": {"first": 1, "factor": 3}
    })
}

fn place() -> Workplace {
    let place = Workplace::new(&["sconce-plugin-csv"]);
    let manifest = edit(tiny(), "/hooks", json!(["csv"]));
    place.write(&edit(manifest, "/train/epochs", json!(4)));
    place
}

fn write(place: &Workplace, name: &str, sweep: &Value) {
    place.write_text(name, &sweep.to_string());
}

/// All that a sweep has come to but how long it took.
fn outcome(place: &Workplace, output: &str) -> Vec<String> {
    let table = place.read(&format!("{output}/results.csv"));
    let mut lines: Vec<String> = table
        .lines()
        .map(|line| {
            let mut cells: Vec<&str> = line.split(',').collect();
            cells.remove(4);
            cells.join(",")
        })
        .collect();
    for trial in 1..=6 {
        for file in ["val.csv", "manifest.json"] {
            let text = place.read(&format!("{output}/{trial:04}/{file}"));
            // A job of a batch system names the sweep's file by its absolute path.
            let place = format!("{}/", place.directory().display());
            lines.push(text.replace(&place, ""));
        }
    }
    let best = table.lines().nth(1).and_then(|line| line.split(',').next());
    let best: usize = best.and_then(|best| best.parse().ok()).expect("a trial");
    let weights = fs::read(place.path(&format!("{output}/{best:04}/weights.safetensors")));
    let weights = weights.expect("weights");
    lines.push(format!("{:?}", Sha256::digest(&weights)));
    lines
}

#[test]
fn a_sweep_decides_the_same_for_any_number_of_processes() {
    let place = place();
    write(&place, "one.json", &sweep("one"));
    let shown = place.sconce(&["sweep", "one.json"]).expect(0, &[]).stdout;
    assert!(shown.contains("the best: one/"), "{shown}");
    let table = place.read("one/results.csv");
    let states: Vec<&str> = table
        .lines()
        .skip(1)
        .filter_map(|line| line.split(',').nth(1))
        .collect();
    let expected = [
        "completed",
        "paused",
        "paused",
        "paused",
        "paused",
        "paused",
    ];
    assert_eq!(states, expected, "{table}");
    let losses: Vec<f64> = table
        .lines()
        .skip(3)
        .filter_map(|line| line.split(',').nth(3)?.parse().ok())
        .collect();
    assert!(losses.is_sorted() && losses.len() == 4, "{table}");
    // The trials are ordinary runs with all bits of one in one piece.
    let best = shown
        .lines()
        .find(|line| line.contains("sconce run"))
        .expect("a command");
    let words: Vec<String> = best
        .split_whitespace()
        .skip(1)
        .map(|word| word.trim_matches('\'').to_owned())
        .collect();
    let more = ["--output", "again", "--set", "threads=1"].map(str::to_owned);
    place
        .sconce(&[words, more.to_vec()].concat())
        .expect(0, &[]);
    let directory = shown
        .lines()
        .find_map(|line| line.strip_prefix("the best: "));
    let directory = directory.expect("the best trial");
    for file in ["weights.safetensors", "val.csv"] {
        let read = |of: &str| fs::read(place.path(&format!("{of}/{file}"))).expect("a file");
        assert!(read(directory) == read("again"), "{file}");
    }
    let keeps = |trial: usize| place.path(&format!("one/{trial:04}/checkpoints")).exists();
    let kept = (1..=6).filter(|trial| keeps(*trial)).count();
    assert!(kept <= 3, "{kept} of them have checkpoints");

    let two = edit(sweep("two"), "/parallel", json!(3));
    write(&place, "two.json", &two);
    place.sconce(&["sweep", "two.json"]).expect(0, &[]);
    assert_eq!(outcome(&place, "one"), outcome(&place, "two"));
    // Another start has nothing to do, and says the same.
    let again = place.sconce(&["sweep", "one.json"]).expect(0, &[]).stdout;
    assert!(
        !again.contains("trial 1:") && shown.ends_with(&again),
        "{again}"
    );
    // Trials can be added, and none changed.
    let changed = edit(sweep("one"), "/seed", json!(6));
    write(&place, "one.json", &changed);
    place.sconce(&["sweep", "one.json"]).expect(
        2,
        &[
            "has trials of another sweep",
            "there: {\"set\":",
            "another `output`",
        ],
    );
}

#[test]
fn a_sweep_whose_processes_were_killed_goes_on() {
    let place = place();
    write(&place, "whole.json", &sweep("whole"));
    place.sconce(&["sweep", "whole.json"]).expect(0, &[]);
    write(
        &place,
        "killed.json",
        &edit(sweep("killed"), "/parallel", json!(2)),
    );
    for trial in [2, 4, 6] {
        let mut command = place.command(&["sweep", "killed.json"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("it starts");
        let begun = place.path(&format!("killed/{trial:04}/manifest.json"));
        while !begun.exists() && child.try_wait().expect("a child").is_none() {
            thread::sleep(Duration::from_millis(5));
        }
        child.kill().expect("it is killed");
        child.wait().expect("it has ended");
    }
    place.sconce(&["sweep", "killed.json"]).expect(0, &[]);
    assert_eq!(outcome(&place, "whole"), outcome(&place, "killed"));
}

/// A stand-in for Slurm, which runs each job when it is submitted.
const SBATCH: &str = r#"
echo "$@" >>jobs.txt
for word; do
  case $word in --array=*) array=${word#--array=}; array=${array%\%*};; esac
  last=$word
done
number=$(wc -l <jobs.txt)
if [ -z "$array" ]; then sh -c "$last" >/dev/null; echo "$number"; exit; fi
for range in $(echo "$array" | tr , ' '); do
  for task in $(seq "${range%-*}" "${range#*-}"); do
    SLURM_ARRAY_TASK_ID=$task sh -c "$last" >/dev/null
  done
done
echo "$number;cluster"
"#;

#[test]
fn slurm_runs_an_array_for_each_rung() {
    let place = place();
    place.write_program("bin/sbatch", SBATCH);
    write(&place, "here.json", &sweep("here"));
    place.sconce(&["sweep", "here.json"]).expect(0, &[]);
    let batch = json!({"system": "slurm", "options": ["--time=10"], "at_once": 2});
    write(&place, "there.json", &edit(sweep("there"), "/batch", batch));
    let path = format!(
        "{}:{}",
        place.path("bin").display(),
        std::env::var("PATH").unwrap_or_default()
    );
    place
        .sconce_in(&["sweep", "there.json"], &[("PATH", path.as_str())])
        .expect(0, &[]);
    assert_eq!(outcome(&place, "here"), outcome(&place, "there"));
    let jobs = place.read("jobs.txt");
    let arrays: Vec<&str> = jobs
        .lines()
        .filter(|job| job.contains("--array="))
        .collect();
    assert_eq!(arrays.len(), 3, "{jobs}");
    assert!(
        arrays[0].contains("--time=10") && arrays[0].contains("--array=1-6%2"),
        "{jobs}"
    );
    assert_eq!(jobs.matches("--dependency=afterany:").count(), 3, "{jobs}");
}

#[test]
fn what_is_wrong_with_a_sweep_is_said_before_or_after_its_first_trial() {
    let place = place();
    let said = |sweep: &Value, code: i32, words: &[&str]| {
        write(&place, "sweep.json", sweep);
        place.sconce(&["sweep", "sweep.json"]).expect(code, words);
    };
    let wrong = json!({"train.batch_size": [8, 0]});
    said(
        &edit(sweep("a"), "/grid", wrong),
        2,
        &["in trial 2: ", "train.batch_size=0"],
    );
    assert!(!place.path("a").exists(), "nothing was begun");
    said(
        &edit(
            edit(sweep("b"), "/goal", json!("less")),
            "/metric",
            json!("val/los"),
        ),
        2,
        &["no number `val/los`", "did you mean `val/loss`?"],
    );
    said(
        &edit(sweep("c"), "/metric", json!("val/speed")),
        2,
        &["give `goal`", "metric"],
    );
    said(
        &edit(sweep("d"), "/halving", json!({"frist": 1})),
        2,
        &["frist"],
    );
    let missing = json!({"hooks": [["nothing-of-this-name"]]});
    let grid = edit(edit(sweep("e"), "/grid", missing), "/random", json!({}));
    let mut grid = edit(grid, "/trials", json!(1));
    said(&grid, 3, &["trial 1 can't be run", "nothing-of-this-name"]);
    // A trial that diverges is a result.
    grid = edit(
        sweep("f"),
        "/random",
        json!({"optimizer.learning_rate": {"of": [1e30]}}),
    );
    grid["trials"] = json!(2);
    place.write(&edit(
        edit(tiny(), "/train/check_finite", json!(true)),
        "/train/epochs",
        json!(2),
    ));
    said(&grid, 0, &[]);
    let table = place.read("f/results.csv");
    assert_eq!(table.matches(",failed,").count(), 2, "{table}");
}
