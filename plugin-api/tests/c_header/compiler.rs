//! This machine's compilers of C and C++.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A compiler, its name of the language, and the standard.
pub(crate) type Language = (&'static str, &'static str, &'static str);

/// Compilers and standards.
pub(crate) const LANGUAGES: [Language; 3] = [
    ("cc", "c", "c99"),
    ("cc", "c", "c11"),
    ("c++", "c++", "c++11"),
];

/// A directory for a test's files.
pub(crate) fn directory(test: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("c_header")
        .join(test);
    fs::create_dir_all(&directory).expect("a directory can be made");
    directory
}

/// Whether there are compilers of both languages. Where no test may be skipped (`SCONCE_NO_SKIPS`), there must be.
#[expect(clippy::print_stderr, reason = "tests say what they skip")]
pub(crate) fn has_compilers() -> bool {
    let works = |compiler: &str| {
        let output = Command::new(compiler).arg("--version").output();
        output.is_ok_and(|output| output.status.success())
    };
    let Some(missing) = ["cc", "c++"].into_iter().find(|compiler| !works(compiler)) else {
        return true;
    };
    let may_skip = std::env::var_os("SCONCE_NO_SKIPS").is_none();
    assert!(
        may_skip,
        "this test must run here, and there is no compiler `{missing}`"
    );
    eprintln!("skipped: there is no compiler `{missing}`");
    false
}

/// Compiles a file in the directory; the error is what the compiler said.
pub(crate) fn compile(directory: &Path, file: &str, language: Language) -> Result<(), String> {
    let (compiler, name, standard) = language;
    let output = Command::new(compiler)
        .current_dir(directory)
        .args(["-x", name, &format!("-std={standard}"), "-fsyntax-only"])
        .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I.", file])
        .output()
        .expect("the compiler can be run");
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}
