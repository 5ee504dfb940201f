//! What is written goes to the directory that was opened, whatever is at its path.

use std::path::Path;

use super::*;

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("a directory");
    let mut names: Vec<String> = entries
        .map(|entry| {
            let name = entry.expect("an entry").file_name();
            name.into_string().expect("text")
        })
        .collect();
    names.sort();
    names
}

#[test]
fn a_directory_in_the_place_of_another_is_not_it() {
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("run");
    std::fs::create_dir(&path).expect("made");
    let held = HeldDirectory::hold(&path);
    assert_eq!(held.vanished(), None);
    let moved = place.path().join("moved");
    std::fs::rename(&path, &moved).expect("moved");
    let gone = held.vanished().expect("gone");
    assert!(gone.contains("is not there any more"), "{gone}");
    std::fs::create_dir(&path).expect("made again");
    let other = held.vanished().expect("another");
    assert!(other.contains("there is another in its place"), "{other}");
    assert!(
        !cfg!(target_os = "linux") || other.contains("moved`"),
        "{other}"
    );
    // A link to the directory leads to it.
    std::fs::remove_dir(&path).expect("removed");
    std::os::unix::fs::symlink(&moved, &path).expect("linked");
    assert_eq!(held.vanished(), None);
}

/// As every writer of the host may find it between two of its calls.
#[test]
fn nothing_is_written_or_removed_through_a_link_in_the_place_of_the_directory() {
    let place = tempfile::tempdir().expect("a directory");
    let at = |name: &str| place.path().join(name);
    let (run, moved, elsewhere) = (at("run"), at("moved"), at("elsewhere"));
    for directory in ["run", "elsewhere"] {
        std::fs::create_dir_all(at(directory).join("checkpoints/a")).expect("made");
        std::fs::write(at(directory).join("checkpoints/a/index.json"), directory).expect("written");
    }
    let held = HeldDirectory::hold(&run);
    std::fs::rename(&run, &moved).expect("moved");
    std::os::unix::fs::symlink(&elsewhere, &run).expect("linked");

    let checkpoints = run.join("checkpoints");
    held.make_directory(&checkpoints).expect("it is there");
    let beside = checkpoints.join(".b.new-1");
    held.create_directory(&beside).expect("made");
    held.write_synced(&beside.join("x"), b"1").expect("written");
    held.link_or_copy(&checkpoints.join("a/index.json"), &beside.join("y"))
        .expect("linked");
    held.sync(&beside).expect("synced");
    assert_eq!(
        held.put(&beside, &checkpoints.join("b")).expect("put"),
        None
    );
    held.create_directory(&beside).expect("made");
    let earlier = held.put(&beside, &checkpoints.join("b")).expect("put");
    held.remove(&earlier.expect("what was there"))
        .expect("removed");
    held.link_to(Path::new("b"), &checkpoints.join("latest"))
        .expect("linked");
    held.remove(&checkpoints.join("a")).expect("removed");
    held.write_atomically(&run.join("run.json"), b"{}")
        .expect("written");
    held.remove_empty(&checkpoints.join("b"))
        .expect("it is empty");

    assert_eq!(names(&moved), ["checkpoints", "run.json"]);
    assert_eq!(names(&moved.join("checkpoints")), ["latest"]);
    assert_eq!(names(&elsewhere), ["checkpoints"]);
    assert_eq!(names(&elsewhere.join("checkpoints")), ["a"]);
    let index = std::fs::read(elsewhere.join("checkpoints/a/index.json"));
    assert_eq!(index.expect("read"), b"elsewhere");
}

#[test]
fn of_a_link_the_link_is_removed() {
    let place = tempfile::tempdir().expect("a directory");
    let at = |name: &str| place.path().join(name);
    std::fs::create_dir_all(at("a/b")).expect("made");
    std::fs::create_dir(at("kept")).expect("made");
    std::fs::write(at("kept/x"), "x").expect("written");
    std::os::unix::fs::symlink(at("kept"), at("a/b/link")).expect("linked");
    std::os::unix::fs::symlink(at("kept"), at("link")).expect("linked");
    let held = HeldDirectory::hold(place.path());
    held.remove(&at("a")).expect("removed");
    held.remove(&at("link")).expect("removed");
    let error = held.remove(&at("a")).expect_err("it is gone");
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert!(error.to_string().contains("can't remove `"), "{error}");
    assert_eq!(names(place.path()), ["kept"]);
    assert_eq!(names(&at("kept")), ["x"]);
}
