//! Files in the repository that tests generate, such as tables in `docs`.

use std::fs;
use std::path::Path;

/// Compares a file with what it should contain. With `UPDATE_EXPECT=1` in the environment the file is rewritten instead.
///
/// # Panics
///
/// If the file differs, naming the first line that does, or can't be read or written.
#[track_caller]
pub fn assert_file(path: impl AsRef<Path>, expected: &str) {
    let path = path.as_ref();
    let kept = fs::read_to_string(path).unwrap_or_default();
    if kept == expected {
        return;
    }
    if std::env::var_os("UPDATE_EXPECT").is_some_and(|value| value == "1") {
        fs::write(path, expected).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        return;
    }
    let same = (kept.lines().zip(expected.lines())).take_while(|(kept, expected)| kept == expected);
    let line = same.count();
    let shown = |text: &str| {
        text.lines()
            .nth(line)
            .unwrap_or("the end of the file")
            .to_owned()
    };
    panic!(
        "{}:{} is out of date: `UPDATE_EXPECT=1` in this test's environment rewrites the file\n   found: {}\nexpected: {}",
        path.display(),
        line + 1,
        shown(&kept),
        shown(expected),
    );
}
