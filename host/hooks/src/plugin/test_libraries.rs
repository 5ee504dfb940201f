//! Tiny shared libraries for testing the gates, built by this machine's C compiler.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests, which say what they skip"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use sconce_plugin_api::metadata::{MAGIC, SECTION};

/// Metadata of a plugin with these hooks, as JSON.
pub(super) fn metadata(name: &str, hooks: &[&str]) -> String {
    let hooks: Vec<String> = hooks
        .iter()
        .map(|hook| format!(r#"{{"name":"{hook}","priority":30,"points":[]}}"#))
        .collect();
    format!(
        r#"{{"name":"{name}","version":"1.0.0","abi_epoch":1,"api_version":"1.0.0","rustc":"rustc","target":"{}-unknown-linux","panic":"unwind","hooks":[{}]}}"#,
        std::env::consts::ARCH,
        hooks.join(",")
    )
}

/// A metadata section with this text.
pub(super) fn section(text: &[u8]) -> Vec<u8> {
    let length = u32::try_from(text.len()).unwrap().to_le_bytes();
    [&MAGIC[..], &length, text].concat()
}

/// Whether there is a C compiler that produces ELF files; prints a message if not. Where no test may be skipped
/// (`SCONCE_NO_SKIPS`), there must be one.
pub(super) fn has_compiler() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let found = cfg!(target_os = "linux")
            && Command::new("cc")
                .arg("--version")
                .output()
                .is_ok_and(|output| output.status.success());
        if !found {
            let may_skip = std::env::var_os("SCONCE_NO_SKIPS").is_none();
            assert!(may_skip, "there is no C compiler `cc` for Linux");
            println!("skipped: there is no C compiler `cc` for Linux");
        }
        found
    })
}

/// A source with something in every kind of section: constructors, relocations, thread-locals.
const SOURCE: &str = "
#include <stdio.h>
#include <stdlib.h>
static int zeros[1000];
static __thread int local = 3;
static int *pointer = &zeros[7];
__attribute__((constructor)) static void start(void) { zeros[0] = 1; }
int exported(void) { local++; return printf(\"%d\", *pointer + local + abs(zeros[3])); }
int other(void) { return exported() + 1; }
";

/// Compiles the source to `output` with these arguments.
pub(super) fn compile(output: &Path, source: &str, arguments: &[&str]) {
    let file = output.with_extension("c");
    fs::write(&file, source).unwrap();
    let result = Command::new("cc")
        .args(["-O1", "-fPIC", "-o"])
        .args([output, &file])
        .args(arguments)
        .output()
        .unwrap();
    fs::remove_file(file).unwrap();
    let errors = String::from_utf8_lossy(&result.stderr);
    assert!(result.status.success(), "{errors}");
}

/// Builds a shared library with these bytes as its metadata section, or without one.
pub(super) fn library(output: &Path, section: Option<&[u8]>, arguments: &[&str]) -> PathBuf {
    let metadata = section.map_or_else(String::new, |bytes| {
        let bytes: Vec<String> = bytes.iter().map(u8::to_string).collect();
        let (length, bytes) = (bytes.len(), bytes.join(","));
        format!(
            "__attribute__((section(\"{SECTION}\"), used)) \
             static const unsigned char metadata[{length}] = {{{bytes}}};"
        )
    });
    let arguments = [&["-shared"], arguments].concat();
    compile(output, &format!("{SOURCE}{metadata}"), &arguments);
    output.to_owned()
}

/// Builds a plugin library that is valid except that it has no root module.
pub(super) fn plugin(output: &Path, name: &str, hooks: &[&str]) -> PathBuf {
    library(
        output,
        Some(&section(metadata(name, hooks).as_bytes())),
        &[],
    )
}
