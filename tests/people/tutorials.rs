//! The tutorials, followed command by command.

use std::process::Command;

use sconce_tests::{artifacts, workspace};

/// Their blocks in Python are tried by `tests/loops.sh`, where PyTorch is.
#[test]
fn the_tutorials_are_right() {
    let output = Command::new("python3")
        .arg(workspace().join("tests/tutorials.py"))
        .arg(artifacts().sconce())
        .arg(artifacts().directory())
        .output()
        .expect("there is a Python");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}{errors}");
    assert_eq!(said.matches("ok: ").count(), 4, "{said}");
}
