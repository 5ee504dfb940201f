//! Data that no memory holds is trained on from where it lies.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use sconce_tests::{Workplace, artifacts};
use serde_json::json;

/// An IDX file of zeros that takes no room on the disk.
fn sparse(path: &Path, dimensions: &[u32]) {
    let mut file = File::create(path).expect("created");
    let mut header = vec![0, 0, 8, dimensions.len() as u8];
    for size in dimensions {
        header.extend(size.to_be_bytes());
    }
    file.write_all(&header).expect("written");
    let count: u64 = dimensions.iter().map(|&size| u64::from(size)).product();
    file.set_len(header.len() as u64 + count).expect("as long");
}

#[test]
fn five_gigabytes_of_images_need_a_small_part_of_that_in_memory() {
    const IMAGES: u32 = 80_000;
    let place = Workplace::new(&[]);
    // 256 × 256 bytes each: 5.2 GB.
    sparse(&place.path("images"), &[IMAGES, 256, 256]);
    sparse(&place.path("labels"), &[IMAGES]);
    place.write(&json!({
        "model": {"kind": "mlp", "hidden": [4]},
        "data": {
            "kind": "idx",
            "images": "images",
            "labels": "labels",
            "val": {"count": 32},
            "normalise": "none"
        },
        "optimizer": {"kind": "sgd", "learning_rate": 0.01},
        "train": {"epochs": 0, "initial_validation": true, "batch_size": 16},
        "threads": 1,
        "output": "out"
    }));
    // With less than half of it to be had, in KiB.
    let limited = "ulimit -v 2500000; exec \"$0\" \"$@\"";
    let run = |arguments: &[&str]| {
        let output = Command::new("sh")
            .args(["-c", limited])
            .arg(artifacts().sconce())
            .args(arguments)
            .current_dir(place.directory())
            .output()
            .expect("a shell");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let problems = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{text}{problems}");
        text + &problems
    };
    let checked = run(&["check", "manifest.json"]);
    let words = "80000 images read on demand: 1 × 256 × 256, 5242880000 bytes";
    assert!(checked.contains(words), "{checked}");
    let trained = run(&["run", "manifest.json"]);
    assert!(trained.contains("79968 train, 32 val"), "{trained}");
}
