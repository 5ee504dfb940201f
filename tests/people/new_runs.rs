//! What `sconce new-run` writes for data of each kind: it says what it found, passes the check, and trains.

use std::fs;
use std::io::Write;
use std::path::Path;

use sconce_tests::{Workplace, artifacts};
use serde_json::{Value, json};

const STANDARD: [&str; 4] = [
    "sconce-plugin-checkpoints",
    "sconce-plugin-console",
    "sconce-plugin-csv",
    "sconce-plugin-report",
];

fn refused(place: &Workplace, arguments: &[&str], words: &[&str]) {
    place.sconce(arguments).expect(2, words);
}

fn gzip(path: &std::path::Path, bytes: &[u8]) {
    let file = std::fs::File::create(path).expect("a file");
    let mut packer = flate2::write::GzEncoder::new(file, flate2::Compression::default());
    packer.write_all(bytes).expect("packed");
    packer.finish().expect("packed");
}

/// Writes a manifest and checks it; gives it back.
fn new_run(place: &Workplace, arguments: &[&str]) -> Value {
    let all = [&["new-run", "--yes", "--plugins", "plugins"], arguments].concat();
    let finished = place.sconce(&all).expect(0, &[]);
    assert!(
        finished.stdout.contains("run.schema.json"),
        "{}",
        finished.stdout
    );
    place.sconce(&["check", "run.json"]).expect(0, &[]);
    let manifest = serde_json::from_str(&place.read("run.json")).expect("JSON");
    for file in ["run.json", "run.schema.json", "run.md"] {
        fs::remove_file(place.path(file)).expect("it was there");
    }
    manifest
}

#[test]
fn new_runs_pass_the_check() {
    let place = Workplace::new(&STANDARD);
    let manifest = new_run(&place, &[]);
    assert_eq!(manifest["data"]["kind"], "synthetic-digits");
    assert_eq!(
        manifest["hooks"],
        json!([
            "console",
            "csv",
            {"hook": "checkpoint", "config": {"best": [{"monitor": "accuracy"}], "load_best": true, "keep_last": 1}},
            "report",
        ])
    );
    let manifest = new_run(
        &place,
        &["--task", "digits", "--model", "convnet", "--epochs", "2"],
    );
    assert_eq!(
        (&manifest["model"]["kind"], &manifest["train"]["epochs"]),
        (&"convnet".into(), &2.into())
    );
    new_run(&place, &["--model", "resnet"]);

    let rows: Vec<String> = (0..40)
        .map(|row| {
            format!(
                "{};{};{}\n",
                row,
                40 - row,
                if row % 2 == 0 { "even" } else { "odd" }
            )
        })
        .collect();
    place.write_text(
        "table.csv",
        &format!("up;down;\"which\"\n{}", rows.concat()),
    );
    let manifest = new_run(&place, &["--data", "table.csv"]);
    assert_eq!(manifest["data"]["target"], "which");
    assert_eq!(manifest["data"]["delimiter"], ";");
    // What is packed is looked into.
    let table = place.read("table.csv");
    gzip(&place.path("table.csv.gz"), table.as_bytes());
    let manifest = new_run(&place, &["--data", "table.csv.gz"]);
    assert_eq!(manifest["data"]["kind"], "csv");
    assert_eq!(manifest["data"]["target"], "which");
    let manifest = new_run(
        &place,
        &["--task", "table", "--data", "table.csv", "--target", "up"],
    );
    assert_eq!(manifest["data"]["target"], "up");

    place.write_text("words.txt", &"the quick brown fox\n".repeat(200));
    let manifest = new_run(&place, &["--data", "words.txt"]);
    assert_eq!(manifest["model"]["kind"], "gpt");
}

#[test]
fn a_new_run_trains_and_is_explained() {
    let place = Workplace::new(&STANDARD);
    let arguments = [
        "new-run",
        "deep/first.json",
        "--yes",
        "--epochs",
        "1",
        "--plugins",
        "plugins",
    ];
    place.sconce(&arguments).expect(0, &[]);
    let notes = place.read("deep/first.md");
    for words in [
        "- `epochs`: ",
        "## `optimizer`",
        "Adam with decoupled weight decay",
        "- `threads`: ",
    ] {
        assert!(notes.contains(words), "{words}: {notes}");
    }
    let schema: Value = serde_json::from_str(&place.read("deep/first.schema.json")).expect("JSON");
    let checkpoint = &schema["$defs"]["config of checkpoint"]["properties"];
    assert!(checkpoint["keep_last"].is_object());
    let small = "data={\"kind\":\"synthetic-digits\",\"train\":200,\"val\":50,\"test\":10}";
    let run = ["run", "deep/first.json", "--set", small];
    place.sconce(&run).expect(0, &[]);
    place
        .sconce(&arguments)
        .expect(2, &["`deep/first.json` is there already"]);
}

#[test]
fn a_new_run_says_what_it_lacks() {
    let place = Workplace::new(&[]);
    let cases: [(&[&str], &str); 8] = [
        (&["--task", "image"], "`sconce new-run PATH`"),
        (
            &["--task", "table", "--data", "none.csv"],
            "there is no `none.csv`",
        ),
        (
            &["--task", "image", "--data", "plugins"],
            "neither IDX files nor a directory",
        ),
        (
            &["--task", "digits", "--model", "gpt"],
            "choose `mlp` or `convnet` or `resnet`",
        ),
        (&["--epochs", "0"], "0 is not in 1.."),
        (&["nowhere"], "there is no `nowhere`"),
        (&["a.json", "b.json"], "a second manifest"),
        (&["plugins", "tests"], "a second path of data"),
    ];
    for (arguments, words) in cases {
        refused(&place, &[&["new-run"], arguments].concat(), &[words]);
        assert!(!place.path("run.json").exists());
    }
    gzip(&place.path("idx.gz"), &[0, 0, 8, 1, 0, 0, 0, 2, 1, 2]);
    gzip(
        &place.path("tar.csv.gz"),
        &[&[1; 257][..], b"ustar"].concat(),
    );
    for (name, bytes, words) in [
        ("t.csv.xz", &b"\xfd7zXZ\0"[..], "compressed by xz"),
        ("t.csv.zip", b"PK\x03\x04", "unzip t.csv.zip"),
        ("t.zst", b"\x28\xb5\x2f\xfd", "zstd -d t.zst"),
        ("t.bz2", b"BZh9", "bzip2 -dk t.bz2"),
        ("t.parquet", b"PAR1", "to_csv("),
        ("t.bin", b"some\0bytes", "binary (it has NUL bytes)"),
        ("t.jsonl", b"{\"text\": \"a\"}\n", "tutorial-classification"),
    ] {
        std::fs::write(place.path(name), bytes).expect("written");
        refused(&place, &["new-run", "--yes", "--data", name], &[words]);
    }
    refused(
        &place,
        &["new-run", "--yes", "--data", "idx.gz"],
        &["gzipped, and in that an IDX file"],
    );
    refused(
        &place,
        &["new-run", "--yes", "--data", "tar.csv.gz"],
        &["a tar archive"],
    );
    assert!(!place.path("run.json").exists());
    place.write_text("t.csv", "a,b\n1,2\n");
    let arguments = ["new-run", "--data", "t.csv", "--target", "c"];
    refused(
        &place,
        &arguments,
        &["the table has no column `c`; it has: a, b"],
    );
    // Beside this program lie the plugins that it was built with.
    assert!(artifacts().directory().is_dir());
}

/// Writes a manifest for data, in which `words` are found; checks it, and trains by it.
fn trains(place: &Workplace, arguments: &[&str], words: &[&str]) -> Value {
    let all = [
        &["new-run", "--yes", "--epochs", "1", "--plugins", "plugins"],
        arguments,
    ]
    .concat();
    let printed = place.sconce(&all).expect(0, &[]).stdout;
    for word in words {
        assert!(printed.contains(word), "{arguments:?}: {word}: {printed}");
    }
    place.sconce(&["check", "run.json"]).expect(0, &[]);
    place.sconce(&["run", "run.json"]).expect(0, &[]);
    assert!(place.path("runs/run/report.html").is_file());
    let manifest = serde_json::from_str(&place.read("run.json")).expect("JSON");
    for file in ["run.json", "run.schema.json", "run.md"] {
        fs::remove_file(place.path(file)).expect("it was there");
    }
    fs::remove_dir_all(place.path("runs")).expect("it was there");
    manifest
}

fn lines(header: &str, rows: usize, row: impl Fn(usize) -> String) -> String {
    let rows: Vec<String> = (0..rows).map(row).collect();
    format!("{header}\n{}\n", rows.join("\n"))
}

#[test]
fn a_table_says_target_task_and_what_it_leaves_out() {
    let place = Workplace::new(&STANDARD);
    let diamonds = lines(",carat,cut,price,x,y,z,sold,uuid", 60, |row| {
        format!(
            "{},0.{row:02},{},{}.5,1.{row},2.{row},3.{row},2024-01-{:02},{:08x}",
            row + 1,
            ["Fair", "Good"][row % 2],
            300 + row * 7,
            row % 28 + 1,
            row * 77_777 + 13
        )
    });
    place.write_text("diamonds.csv", &diamonds);
    let manifest = trains(
        &place,
        &["diamonds.csv"],
        &[
            "`price`, by its name",
            "regression",
            "`column1`: an identifier",
            "dates   `sold`, such as `2024-01-",
            "`uuid`: an identifier",
        ],
    );
    let data = &manifest["data"];
    assert_eq!(data["target"], "price");
    assert_eq!(data["target_scaling"], "standard");
    assert_eq!(data["ignore"], json!(["column1", "uuid"]));
    assert_eq!(data["dates"], json!(["sold"]));
    assert_eq!(manifest["hooks"][2]["config"]["best"][0]["monitor"], "rmse");

    // Yes and no of which one is rare: accuracy alone says little.
    let sick = lines("a,b,sick", 60, |row| {
        format!("0.{row:02},{row}.5,{}", u8::from(row % 10 == 0))
    });
    place.write_text("sick.csv", &sick);
    let words = [
        "`sick`, the last column",
        "classification: 2 distinct whole numbers, each in 6 to 54 rows",
    ];
    let manifest = trains(&place, &["sick.csv"], &words);
    let data = &manifest["data"];
    assert_eq!(
        (&data["target_kind"], &data["stratified"]),
        (&"classes".into(), &true.into())
    );
    assert_eq!(manifest["metrics"], json!(["accuracy", "f1"]));
    let manifest = trains(
        &place,
        &["sick.csv", "--target-kind", "numbers"],
        &["regression"],
    );
    assert_eq!(manifest["data"]["stratified"], Value::Null);

    // Neither a header nor clean columns.
    let kinds = lines("5.1,3,12x,kind0", 60, |row| {
        format!("{row}.5,{},{row},kind{}", row % 4, row % 3)
    });
    place.write_text("kinds.csv", &kinds);
    let words = [
        "header  none",
        "`column4`",
        "3 distinct texts",
        "`12x` in line 1",
    ];
    let manifest = trains(&place, &["kinds.csv"], &words);
    assert_eq!(manifest["data"]["header"], false);

    // Marks of missing values that aren't among the usual ones.
    let gaps = lines("a,price", 60, |row| match row {
        7 => "n/a,3".to_owned(),
        9 => "4,None".to_owned(),
        _ => format!("{row}.5,{}", row * 3),
    });
    place.write_text("gaps.csv", &gaps);
    let manifest = trains(
        &place,
        &["gaps.csv"],
        &["`None`, `n/a` between numbers", "numbers from 0 to 177"],
    );
    let missing = ["", "NA", "NaN", "null", "?", "None", "n/a"];
    assert_eq!(manifest["data"]["missing"], json!(missing));
    assert_eq!(manifest["data"]["ignore"], Value::Null);

    let rentals = lines("when,seen,fee,rented", 60, |row| {
        let (day, month) = (row % 28 + 1, row % 12 + 1);
        format!(
            "{day}/{month}/2024 17:05,{}/{month}/24,{row}.5,{}",
            row % 12 + 1,
            row * 3
        )
    });
    place.write_text("rentals.csv", &rentals);
    let manifest = trains(
        &place,
        &["rentals.csv", "--target", "rented"],
        &[
            "dates   `when`, such as `1/1/2024 17:05`",
            "`data.date_order`",
        ],
    );
    assert_eq!(manifest["data"]["dates"], json!(["when"]));
    assert_eq!(manifest["data"]["ignore"], json!(["seen"]));

    let penguins = lines("species,island,mass,sex", 60, |row| {
        let sex = ["MALE", "FEMALE", "NA"][row % 3];
        format!(
            "{},Dream,{},{sex}",
            ["Adelie", "Gentoo"][row % 2],
            3000 + row * 11 % 70
        )
    });
    place.write_text("penguins.csv", &penguins);
    let manifest = trains(
        &place,
        &["penguins.csv"],
        &["`species`, by its name", "2 distinct texts"],
    );
    assert_eq!(manifest["metrics"], json!(["accuracy"]));
}

#[test]
fn a_target_from_which_nothing_can_be_learned_is_refused() {
    let place = Workplace::new(&[]);
    place.write_text(
        "t.csv",
        &lines("a,same,name", 40, |row| {
            format!("{}.5,1,name {row}", row * row)
        }),
    );
    for (target, words) in [
        ("same", "is `1` in every row"),
        ("name", "too many for classes"),
    ] {
        refused(
            &place,
            &["new-run", "t.csv", "--target", target],
            &[words, "--target COLUMN"],
        );
    }
    let names = lines("name,a", 120, |row| format!("name {row},{}", row % 2));
    place.write_text("names.csv", &names);
    let words = ["has no inputs for the target `a`", "`name` is left out"];
    refused(&place, &["new-run", "names.csv"], &words);
    place.write_text("one.csv", &lines("a", 40, |row| (row % 2).to_string()));
    refused(&place, &["new-run", "one.csv"], &["has no inputs"]);
    place.write_text("few.csv", "a,b\n1,2\n2,3\n");
    refused(&place, &["new-run", "few.csv"], &["at least 5"]);
    assert!(!place.path("run.json").exists());
}

#[test]
fn images_keep_their_size_and_stay_grey() {
    let place = Workplace::new(&STANDARD);
    let write = |path: &str, magic: &str, [height, width]: [usize; 2], channels: &[usize]| {
        let pixels = (0..height * width).flat_map(|pixel| {
            channels
                .iter()
                .map(move |shift| (pixel * shift % 251) as u8)
        });
        let bytes: Vec<u8> = format!("{magic}\n{width} {height}\n255\n")
            .bytes()
            .chain(pixels)
            .collect();
        let path = place.path(path);
        fs::create_dir_all(path.parent().expect("below a directory")).expect("made");
        fs::write(path, bytes).expect("written");
    };
    for number in 0..20 {
        let class = ["cat", "dog"][number % 2];
        write(
            &format!("grey/{class}/{number}.pgm"),
            "P5",
            [28, 20],
            &[1 + number],
        );
        write(
            &format!("plain/{class}/{number}.ppm"),
            "P6",
            [18, 18],
            &[2, 2, 2],
        );
        write(
            &format!("colour/{class}/{number}.ppm"),
            "P6",
            [300, 150 + number],
            &[2, 3, 5],
        );
    }
    let manifest = trains(
        &place,
        &["grey"],
        &["all 28 × 20, grey", "cat (10), dog (10)"],
    );
    assert_eq!(
        (&manifest["data"]["size"], &manifest["data"]["mode"]),
        (&json!([28, 20]), &"grey".into())
    );
    assert_eq!(manifest["data"]["stratified"], true);
    let manifest = trains(&place, &["plain"], &["all 18 × 18, grey"]);
    assert_eq!(manifest["data"]["mode"], "grey");
    let manifest = trains(
        &place,
        &["colour"],
        &["of several sizes", "in colour; resized to 64 × "],
    );
    let data = &manifest["data"];
    assert_eq!(
        (&data["mode"], &data["resize"]),
        (&Value::Null, &"cover".into())
    );
    for phase in ["train", "test"] {
        for class in 0..2 {
            for number in 0..5 {
                let path = format!("phases/{phase}/{class}/{number}.pgm");
                write(&path, "P5", [16, 16], &[class + 1]);
            }
        }
    }
    let manifest = trains(&place, &["phases"], &["in 2 classes, in `phases/train`"]);
    let data = &manifest["data"];
    assert_eq!(data["test"], json!({"file": "phases/test"}));
    assert_eq!(data["val"], json!({"fraction": 0.1}));
    place.write_text("grey/notes.txt", "not an image");
    refused(
        &place,
        &["new-run", "grey"],
        &["notes.txt` is in no class's directory"],
    );
}

#[test]
fn idx_files_and_texts_are_known_by_their_path() {
    let place = Workplace::new(&STANDARD);
    let mut images = vec![0, 0, 8, 3, 0, 0, 0, 40, 0, 0, 0, 20, 0, 0, 0, 20];
    images.extend((0..40 * 400_u32).map(|pixel| (pixel % 241) as u8));
    let mut labels = vec![0, 0, 8, 1, 0, 0, 0, 40];
    labels.extend((0..40).map(|label| label % 12));
    fs::create_dir(place.path("idx")).expect("made");
    fs::write(place.path("idx/train-images-idx3-ubyte"), images).expect("written");
    gzip(&place.path("idx/train-labels-idx1-ubyte.gz"), &labels);
    let words = [
        "40 images in `idx/train-images-idx3-ubyte`",
        "labels from 0 to 11",
    ];
    let data = trains(&place, &["idx"], &words)["data"].take();
    assert_eq!(
        (&data["kind"], &data["stratified"]),
        (&"idx".into(), &true.into())
    );
    assert_eq!(data["classes"][11], "11");

    place.write_text("words.txt", &"the quick brown fox\n".repeat(80));
    let manifest = trains(&place, &["words.txt"], &[]);
    assert_eq!(manifest["hooks"][2]["config"]["best"][0]["monitor"], "loss");
    place.write_text("short.txt", "too short");
    refused(&place, &["new-run", "short.txt"], &["has 9 bytes, too few"]);
}

/// Writes a NumPy file of version 1.
fn npy(path: &Path, descr: &str, shape: &str, elements: &[u8]) {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let length = (header.len() as u16).to_le_bytes();
    let bytes = [
        b"\x93NUMPY\x01\x00",
        &length[..],
        header.as_bytes(),
        elements,
    ]
    .concat();
    fs::write(path, bytes).expect("written");
}

#[test]
fn arrays_are_found_with_their_targets() {
    let place = Workplace::new(&STANDARD);
    let floats = |count: usize| -> Vec<u8> {
        (0..count)
            .flat_map(|index| ((index * 37 % 101) as f32).to_le_bytes())
            .collect()
    };
    let integers = |count: u32, most: u32| -> Vec<u8> {
        (0..count)
            .flat_map(|index| (i64::from(index % most)).to_le_bytes())
            .collect()
    };
    npy(&place.path("x.npy"), "<f4", "(40, 3)", &floats(120));
    npy(&place.path("y.npy"), "<i8", "(40,)", &integers(40, 2));
    for path in ["x.npy", "y.npy"] {
        let manifest = trains(
            &place,
            &[path],
            &["inputs  `x.npy`", "target  `y.npy`", "2 distinct integers"],
        );
        let data = &manifest["data"];
        assert_eq!(
            (&data["inputs"], &data["targets"]),
            (&"x.npy".into(), &"y.npy".into())
        );
        assert_eq!(
            (&data["stratified"], &data["standardise"]),
            (&true.into(), &true.into())
        );
    }
    npy(&place.path("heights.npy"), "<f4", "(40,)", &floats(40));
    let manifest = trains(
        &place,
        &["x.npy", "--target", "heights.npy"],
        &["regression"],
    );
    assert_eq!(manifest["hooks"][2]["config"]["best"][0]["monitor"], "rmse");
    fs::create_dir(place.path("train")).expect("made");
    npy(
        &place.path("train/images.npy"),
        "|u1",
        "(40, 1, 20, 20)",
        &vec![7; 40 * 400],
    );
    npy(
        &place.path("train/labels.npy"),
        "<i8",
        "(40,)",
        &integers(40, 4),
    );
    let manifest = trains(&place, &["train"], &["train/images.npy"]);
    assert_eq!(manifest["model"]["kind"], "convnet");

    refused(
        &place,
        &["new-run", "heights.npy"],
        &["no targets", "--target y.npy"],
    );
    npy(
        &place.path("many.npy"),
        "<i8",
        "(40,)",
        &integers(40, 3)
            .iter()
            .map(|byte| byte * 100)
            .collect::<Vec<_>>(),
    );
    refused(
        &place,
        &["new-run", "x.npy", "--target", "many.npy"],
        &["astype(\"float32\")"],
    );
    npy(&place.path("short.npy"), "<i8", "(39,)", &integers(39, 2));
    refused(
        &place,
        &["new-run", "x.npy", "--target", "short.npy"],
        &["40 inputs, but 39 targets"],
    );
}
