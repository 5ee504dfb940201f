//! Plugins in C and C++: a source file, the headers embedded in this program, a `Makefile`.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};

use super::files::{check_empty, write_files};
use super::{NewPlugin, NewPluginArgs, names, this_program};
use crate::cli::plugins::header;
use crate::diagnostic::Diagnostic;
use crate::shell_word::shell_word;

/// What differs between the two languages.
pub(super) struct CFamily {
    /// Suffix of source files.
    suffix: &'static str,
    source: &'static str,
    makefile: &'static str,
    headers: &'static [(&'static str, &'static str)],
}

pub(super) const C: CFamily = CFamily {
    suffix: ".c",
    source: include_str!("template/c/hook.c.txt"),
    makefile: include_str!("template/c/Makefile.txt"),
    headers: &[("sconce.h", header::C)],
};

pub(super) const CPP: CFamily = CFamily {
    suffix: ".cpp",
    source: include_str!("template/cpp/hook.cpp.txt"),
    makefile: include_str!("template/cpp/Makefile.txt"),
    headers: &[("sconce.h", header::C), ("sconce.hpp", header::CPP)],
};

/// Files that are the same in both languages.
const SHARED: [(&str, &str); 3] = [
    ("README.md", include_str!("template/c/README.md.txt")),
    (".gitignore", include_str!("template/c/gitignore.txt")),
    ("test.sh", include_str!("template/c/test.sh.txt")),
];

/// Linker options by which a library has its own copy of the C++ library, and keeps it to itself.
const OWN_CPP_LIBRARY: &str = if cfg!(target_os = "linux") {
    "-static-libstdc++ -static-libgcc -Wl,--exclude-libs,ALL"
} else {
    ""
};

/// Writes a plugin.
///
/// # Errors
///
/// If an option is only for Rust, or files can't be written.
pub(super) fn write(
    family: &CFamily,
    arguments: &NewPluginArgs,
    target: &NewPlugin<'_>,
) -> Result<(), Diagnostic> {
    let for_rust = [
        ("--api", arguments.api.is_some()),
        ("--vendor", arguments.vendor),
        ("--offline", arguments.offline),
    ];
    if let Some((option, _)) = for_rust.iter().find(|(_, is_given)| *is_given) {
        return Err(
            Diagnostic::new(format!("`{option}` is for plugins in Rust")).hint(
                "leave it out: a plugin in C needs only the header, which is written beside it",
            ),
        );
    }
    check_empty(target.directory)?;
    let files = files(family, target);
    write_files(target.directory, &files)?;
    target.print(&files, &[], &["make", "make test"]);
    Ok(())
}

fn files(family: &CFamily, target: &NewPlugin<'_>) -> Vec<(String, String)> {
    let source = format!("{}{}", target.name, family.suffix);
    let headers = family.headers.iter().map(|(name, _)| format!("`{name}`"));
    let sconce = this_program();
    let words = [
        ("{name}", target.name.to_owned()),
        ("{hook}", target.hook.to_owned()),
        ("{type}", names::type_of(target.hook)),
        ("{source}", source.clone()),
        (
            "{library}",
            format!("{DLL_PREFIX}{}{DLL_SUFFIX}", target.name),
        ),
        ("{headers}", headers.collect::<Vec<_>>().join(" and ")),
        ("{link}", OWN_CPP_LIBRARY.to_owned()),
        ("{sconce}", shell_word(&sconce).into_owned()),
        ("{version}", env!("CARGO_PKG_VERSION").to_owned()),
    ];
    let fill = |template: &str| {
        words
            .iter()
            .fold(template.to_owned(), |text, (word, value)| {
                text.replace(word, value)
            })
    };
    let mut files = vec![(source, fill(family.source))];
    files.push(("Makefile".to_owned(), fill(family.makefile)));
    files.extend(SHARED.map(|(name, template)| (name.to_owned(), fill(template))));
    // The headers as they are: they have braces of their own.
    let headers = family.headers.iter();
    files.extend(headers.map(|&(name, text)| (name.to_owned(), text.to_owned())));
    let (name, run) = target.manifest(".");
    files.push((name.to_owned(), run));
    files
}
