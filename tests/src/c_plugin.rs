//! Plugins in C and C++, built by this machine's compilers.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Workplace, skip, workspace};

impl Workplace {
    /// Builds `plugins/libNAME.so` of a source of the checkout, such as `examples/clip-in-c/clip.c`; `None`, with a note,
    /// where there is no compiler.
    ///
    /// # Panics
    ///
    /// If the source does not compile without warnings.
    pub fn add_c_plugin(&self, source: &str, flags: &[&str]) -> Option<PathBuf> {
        let source = workspace().join(source);
        let name = source.file_stem().unwrap_or_default().to_string_lossy();
        let library = self.path(&format!("plugins/lib{name}.so"));
        compile(&source, &library, flags).then_some(library)
    }
}

/// Compiles a plugin; returns whether there is a compiler for it.
fn compile(source: &Path, library: &Path, flags: &[&str]) -> bool {
    let is_cpp = source.extension().is_some_and(|suffix| suffix == "cpp");
    let (compiler, standard) = if is_cpp {
        ("c++", "-std=c++11")
    } else {
        ("cc", "-std=c99")
    };
    let output = Command::new(compiler)
        .args([standard, "-O1", "-ffp-contract=off", "-fPIC", "-shared"])
        .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror"])
        .args(flags)
        .arg("-I")
        .arg(workspace().join("plugin-api/include"))
        .arg("-o")
        .args([library, source])
        .arg("-lm")
        .output();
    let Ok(output) = output else {
        skip(&format!("there is no compiler `{compiler}`"));
        return false;
    };
    assert!(
        output.status.success(),
        "{}: {}",
        source.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    true
}
