//! Data that have changed since a checkpoint was saved are noticed, by the name of the file.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use sconce_tests::{Finished, Workplace, edit, tiny};
use serde_json::{Value, json};

const TABLE: &str = "a,b,c\n0,1,x\n1,0,y\n0,2,x\n2,0,y\n1,2,x\n3,1,y\n0,3,x\n3,0,y\n";

/// A run of two epochs on a table, which saves `one` after the first.
fn manifest(data: Value) -> Value {
    let save = json!({"at": "after_cycle", "phase": "train", "what": "save_checkpoint", "text": "one", "once": true});
    let manifest = edit(tiny(), "/data", data);
    edit(
        manifest,
        "/hooks",
        json!([{"hook": "asker", "config": save}]),
    )
}

fn table(place: &Workplace, text: &str) {
    fs::write(place.path("table.csv"), text).expect("written");
}

fn on_table() -> Workplace {
    let place = Workplace::new(&["sconce-fixture-faults"]);
    table(&place, TABLE);
    let data = json!({"kind": "csv", "file": "table.csv", "target": "c", "val": {"count": 2}});
    place.run(&manifest(data)).expect(0, &[]);
    place
}

fn resume(place: &Workplace, more: &[&str]) -> Finished {
    let start = ["run", "manifest.json", "--resume", "one"];
    place.sconce(&[&start[..], more].concat())
}

#[test]
fn a_resume_on_a_changed_table_is_refused_and_can_be_allowed() {
    let place = on_table();
    let refused = "can't resume from";
    for (changed, words) in [
        (
            TABLE.replace("3,0,y", "3,0,x"),
            "`table.csv` has changed: it was 54 bytes (b3:",
        ),
        (TABLE.replace("0,2,x", "0,9,x"), "`table.csv` has changed"),
        (TABLE.replace('x', "z"), "`table.csv` has changed"),
        (format!("{TABLE}1,1,x\n"), "`table.csv` has changed"),
        (
            format!("\u{feff}{TABLE}"),
            "`table.csv` has the same rows, written in other bytes",
        ),
        (TABLE.replace('\n', "\r\n"), "`table.csv` has the same rows"),
    ] {
        table(&place, &changed);
        resume(&place, &[]).expect(2, &[refused, words, "`--allow-changes`"]);
    }
    table(&place, TABLE);
    resume(&place, &[]).expect(0, &["resumes from"]);
    table(&place, &TABLE.replace('\n', "\r\n"));
    resume(&place, &["--allow-changes"]).expect(0, &["not bit for bit", "has the same rows"]);
}

#[test]
fn the_record_says_what_was_read() {
    let place = on_table();
    let record: Value = serde_json::from_str(&place.read("out/run.json")).expect("JSON");
    let [file] = record["data"].as_array().expect("files").as_slice() else {
        panic!("one file: {}", record["data"]);
    };
    assert_eq!(file["name"], "table.csv");
    assert_eq!(file["bytes"], TABLE.len());
    let hash = file["hash"].as_str().expect("a hash");
    let listing = place.read("out/data.b3sums");
    assert_eq!(listing, format!("{}  table.csv\n", &hash["b3:".len()..]));
}

#[test]
fn a_renamed_class_of_a_folder_is_named_with_its_files() {
    let place = Workplace::new(&["sconce-fixture-faults"]);
    for (class, count) in [("cat", 8), ("dog", 8)] {
        let directory = place.path("images").join(class);
        fs::create_dir_all(&directory).expect("made");
        for index in 0..count {
            let image = format!("P2 4 4 255 {}", format!("{} ", index * 9 + 1).repeat(16));
            fs::write(directory.join(format!("{index}.pgm")), image).expect("written");
        }
    }
    let data = json!({"kind": "image-folder", "directory": "images", "mode": "grey"});
    place.run(&manifest(data)).expect(0, &[]);
    let rename = |from: &str, to: &str| {
        let path = |name: &str| Path::new(&place.path("images")).join(name);
        fs::rename(path(from), path(to)).expect("renamed");
    };
    rename("dog", "wolf");
    let words = [
        "`images` has changed: it was 16 files",
        "`dog/0.pgm` is gone",
        "and 11 more",
    ];
    resume(&place, &[]).expect(2, &words);
    rename("wolf", "dog");
    resume(&place, &[]).expect(0, &[]);
    fs::rename(
        place.path("images/cat/0.pgm"),
        place.path("images/dog/8.pgm"),
    )
    .expect("moved");
    resume(&place, &[]).expect(2, &["`cat/0.pgm` is gone", "`dog/8.pgm` is new"]);
}

#[test]
fn ranks_with_other_data_are_refused() {
    let team = tempfile::tempdir().expect("a directory");
    let start = |rank: &str, text: &str| {
        let place = Workplace::new(&["sconce-plugin-sockets"]);
        table(&place, text);
        let data = json!({"kind": "csv", "file": "table.csv", "target": "c"});
        place.write(&edit(tiny(), "/data", data));
        let mut command = place.command(&["run", "manifest.json"]);
        command
            .env("SCONCE_TEAM_RANK", rank)
            .env("SCONCE_TEAM_SIZE", "2")
            .env("SCONCE_TEAM_DIR", team.path())
            .env("SCONCE_TEAM_TOKEN", "0123456789abcdef0123456789abcdef")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        (place, command.spawn().expect("it starts"))
    };
    let ranks = [
        start("0", TABLE),
        start("1", &TABLE.replace("0,2,x", "0,9,x")),
    ];
    let [first, second] = ranks.map(|(place, rank)| {
        let ended = Finished::from(rank.wait_with_output().expect("it ends"));
        drop(place);
        ended
    });
    assert_eq!((first.code, second.code), (2, 2), "{}", first.stderr);
    first.expect(
        2,
        &["differs from rank 0: the data file `table.csv` has 54 bytes with hash b3:"],
    );
}
