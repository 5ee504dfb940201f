//! `sconce.h` declares what the Rust types are.
//!
//! A file of assertions is generated from the types (`layouts`, `c_type`) and the numbers (`numbers`) and compiled with
//! the header as C99, C11 and C++11. C99 has no `_Static_assert`: a false assertion is an array of negative size.
//! Nothing can be left out on either side: all fields are destructured, and the names in the header and in the sources
//! are compared with those that are asserted.
#![cfg(unix)]
#![allow(
    clippy::expect_used,
    clippy::wildcard_imports,
    reason = "a test that finds its machine broken may say so by panicking; all types of the interface are meant"
)]

mod c_type;
mod compiler;
mod layouts;
mod numbers;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use sconce_plugin_api::abi::API_VERSION;
use sconce_plugin_api::ext::{DECLARATIONS, Declaration, KNOWN};

use compiler::{LANGUAGES, Language, compile, directory, has_compilers};
use layouts::layouts;
use numbers::{flags, numbers, statuses};

const HEADER: &str = include_str!("../../include/sconce.h");
const HEADER_PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/include/sconce.h");

/// Types of the host's that C has only pointers to, and `PluginRoot`, for which `CPlugin` stands in.
const WITHOUT_FIELDS: [&str; 2] = ["ErrorAbi", "PluginRoot"];
const OPAQUE: [&str; 3] = ["sconce_error", "sconce_bytes", "sconce_string"];

/// The assertions, as a file in C.
fn assertions() -> String {
    let mut text = "#include \"sconce.h\"\n\
        #define CHECK(name, holds) typedef char check_##name[(holds) ? 1 : -1];\n\
        #ifdef __cplusplus\nextern \"C\" {\n#endif\n"
        .to_owned();
    for layout in layouts() {
        text += &layout.assertions;
    }
    for (name, number) in numbers() {
        text.extend([
            "CHECK(",
            &name,
            "_number, ",
            &name,
            " == ",
            &number.to_string(),
            ")\n",
        ]);
    }
    text + "#ifdef __cplusplus\n}\n#endif\n"
}

/// Compiles the assertions with this header.
fn check(test: &str, header: &str, language: Language) -> Result<(), String> {
    let directory = directory(test);
    fs::write(directory.join("sconce.h"), header).expect("written");
    fs::write(directory.join("assertions.c"), assertions()).expect("written");
    compile(&directory, "assertions.c", language)
}

/// The tables of extensions in the header are those that their definitions make. `UPDATE_EXPECT=1` writes them.
#[test]
fn the_tables_are_those_of_the_definitions() {
    let mut header = HEADER.to_owned();
    for Declaration { id, text, .. } in DECLARATIONS {
        let define = format!(" \"{id}\"\n");
        let place = if let Some(place) = header.find(&define) {
            block(&header, place)
        } else {
            // A new one, behind the others.
            let place = header.find("/* ---- Transports");
            let place = place.expect("there are transports");
            header.insert(place, '\n');
            place..place
        };
        header.replace_range(place, text);
    }
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(HEADER_PATH, &header).expect("written");
        return;
    }
    let is_same = header == HEADER;
    assert!(
        is_same,
        "UPDATE_EXPECT=1 cargo test -p sconce-plugin-api --test c_header"
    );
}

/// Where an extension's table is: from the comment above the line with its identifier to the table's end.
fn block(header: &str, identifier: usize) -> std::ops::Range<usize> {
    let define = header[..identifier].rfind('\n').map_or(0, |end| end + 1);
    let comment = header[..define].rfind("\n/*").map_or(define, |end| end + 1);
    // A comment that is not the line's ends elsewhere.
    let is_its = header[comment..define].find("*/\n") == (define - comment).checked_sub(3);
    let begin = if is_its { comment } else { define };
    let end = header[define..].find("_table;\n").expect("a table ends");
    begin..define + end + "_table;\n".len()
}

#[test]
fn the_header_declares_what_the_types_are() {
    if !has_compilers() {
        return;
    }
    for language in LANGUAGES {
        let result = check("right", HEADER, language);
        assert_eq!(result, Ok(()), "{language:?}");
    }
}

#[test]
fn a_header_with_a_mistake_is_found() {
    if !has_compilers() {
        return;
    }
    let mistakes = [
        (
            "two fields of the same type are swapped",
            "uint64_t epoch; ",
            "uint64_t epochs; ",
        ),
        (
            "two functions of the same type are swapped",
            "(*elapsed_seconds)",
            "(*remaining_seconds)",
        ),
        (
            "a field has another type of the same size",
            "double loss; ",
            "uint64_t loss; ",
        ),
        (
            "a field has another sign",
            "int32_t device_id;",
            "uint32_t device_id;",
        ),
        (
            "a field is missing",
            "  uint16_t type_lanes; /* always 1 */\n",
            "",
        ),
        (
            "a field too many",
            "  double value;\n} sconce_metric;",
            "  double value, more;\n} sconce_metric;",
        ),
        (
            "an argument is missing",
            "(void *instance, uint32_t point, const sconce_view",
            "(void *instance, const sconce_view",
        ),
        (
            "an argument has another type",
            "sconce_text pointer, double *value",
            "sconce_text pointer, float *value",
        ),
        (
            "a result has another type",
            "void (*append)",
            "uint32_t (*append)",
        ),
        (
            "a number is another one",
            "#define SCONCE_VAL 1u",
            "#define SCONCE_VAL 3u",
        ),
        ("a number is missing", "#define SCONCE_AFTER_ITER 8\n", ""),
    ];
    for (what, from, to) in mistakes {
        // Both names of a swap are in the header.
        let header = if what.ends_with("swapped") {
            assert!(HEADER.contains(from) && HEADER.contains(to), "{what}");
            HEADER
                .replace(from, "\0")
                .replace(to, from)
                .replace('\0', to)
        } else {
            assert!(HEADER.contains(from), "{what}");
            HEADER.replacen(from, to, 1)
        };
        for language in LANGUAGES {
            assert!(
                check("wrong", &header, language).is_err(),
                "{what}, {language:?}"
            );
        }
    }
}

/// Words that follow `before` in a text, up to a character that is not part of a name.
fn words_after<'a>(text: &'a str, before: &str) -> BTreeSet<&'a str> {
    let rests = text.split(before).skip(1);
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    rests
        .map(|rest| rest.split(|c| !is_part(c)).next().unwrap_or_default())
        .collect()
}

/// The sources of these folders of the crate and of those within them, one after the other.
fn sources(folders: &[&str]) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    folders
        .iter()
        .map(|folder| sources_of(&root.join(folder)))
        .collect()
}

fn sources_of(folder: &Path) -> String {
    let entries = fs::read_dir(folder).expect("a folder of the crate");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let is_source = |path: &Path| path.extension().is_some_and(|suffix| suffix == "rs");
    paths
        .map(|path| {
            if path.is_dir() {
                sources_of(&path)
            } else if is_source(&path) {
                fs::read_to_string(path).expect("a source")
            } else {
                String::new()
            }
        })
        .collect()
}

#[test]
fn no_type_is_left_out() {
    let asserted: BTreeSet<String> = layouts().into_iter().map(|layout| layout.rust).collect();
    let mut in_rust = BTreeSet::new();
    for item in sources(&["abi", "ext"]).split("#[repr(C)]").skip(1) {
        let name = item.split("pub struct ").nth(1).expect("a type");
        in_rust.extend(name.split_whitespace().next().map(str::to_owned));
    }
    // The tables that `#[extension]` makes of traits.
    for item in sources(&["ext"]).split("#[extension(").skip(1) {
        let name = item.split("pub trait ").nth(1).expect("a trait");
        in_rust.extend(
            name.split_whitespace()
                .next()
                .map(|name| format!("{name}Table")),
        );
    }
    for name in WITHOUT_FIELDS {
        assert!(in_rust.remove(name), "{name}");
    }
    assert_eq!(in_rust, asserted);

    let declared: BTreeSet<&str> = words_after(HEADER, "typedef struct ");
    let layouts = layouts();
    let known = layouts.iter().map(|layout| &*layout.c).chain(OPAQUE);
    assert_eq!(declared, known.collect());
}

#[test]
fn no_number_is_left_out() {
    let names: BTreeSet<String> = numbers().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), numbers().len(), "every name is defined once");
    let defined: BTreeSet<String> = HEADER
        .lines()
        .filter_map(|line| line.strip_prefix("#define ")?.split_once(' '))
        .filter(|(_, value)| value.starts_with(|c: char| c.is_ascii_digit()))
        .map(|(name, _)| name.to_owned())
        .collect();
    assert_eq!(defined, names);

    let text = sources(&["abi", "ext"]);
    let in_rust = |ending: &str| {
        let constants = text.split("pub const ").skip(1);
        let names = constants.filter_map(|item| item.split_once(ending));
        let names =
            names.filter(|(name, _)| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'));
        names.map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(
        in_rust(": Status ="),
        statuses().map(|(name, _)| name).collect::<Vec<_>>()
    );
    let flags: Vec<_> = flags().map(|(name, _)| name).collect();
    let in_rust = in_rust(": u64 =");
    assert_eq!(in_rust.len(), flags.len(), "{in_rust:?}");
    for name in in_rust {
        assert!(flags.iter().any(|flag| flag.ends_with(name)), "{name}");
    }
}

#[test]
fn the_extensions_and_the_version_are_those_of_the_crate() {
    let texts = HEADER.lines().filter_map(|line| {
        let (name, value) = line.strip_prefix("#define ")?.split_once(' ')?;
        Some((name, value.strip_prefix('"')?.strip_suffix('"')?))
    });
    let texts: Vec<_> = texts.collect();
    let extensions = texts.iter().filter(|(name, _)| name.ends_with("_ID"));
    let extensions: BTreeSet<&str> = extensions.map(|(_, id)| *id).collect();
    assert_eq!(extensions, KNOWN.into());
    assert!(
        texts.contains(&("SCONCE_API_VERSION", API_VERSION)),
        "{texts:?}"
    );
}

/// The header for C++ compiles, with a hook of it.
#[test]
fn the_header_for_cpp_compiles() {
    if !has_compilers() {
        return;
    }
    let directory = directory("cpp");
    fs::write(directory.join("sconce.h"), HEADER).expect("written");
    fs::write(
        directory.join("sconce.hpp"),
        include_str!("../../include/sconce.hpp"),
    )
    .expect("written");
    fs::write(directory.join("hook.cpp"), CPP).expect("written");
    for standard in ["c++11", "c++17"] {
        let result = compile(&directory, "hook.cpp", ("c++", "c++", standard));
        assert_eq!(result, Ok(()), "{standard}");
    }
}

const CPP: &str = r#"
#include "sconce.hpp"
SCONCE_PLUGIN("p", "0.1.0", "A test.",
              SCONCE_HOOK("h", "A test.", 30, SCONCE_AT(AFTER_ITER, "after_iter"), SCONCE_JSON({"type": "object"})
                          SCONCE_ASKS(SCONCE_NAME("stop") "," SCONCE_NAME("freeze")) SCONCE_READS(SCONCE_NAME("loss"))));
class H : public sconce::hook {
 public:
  explicit H(const sconce::setup &setup) : every_(setup.number("/every", 1)), name_(setup.string("/name", "n")) {
    if (setup.boolean("/off", false)) throw sconce::config_error("off", "it is off");
    epochs_ = setup.manifest().number("/train/epochs", 0);
  }
  void call(const sconce::task &task) override {
    if (task.point() != SCONCE_AFTER_ITER) throw sconce::unknown_point();
    task.for_each_tensor(SCONCE_PARAMETERS, false, [](const sconce_tensor &) {});
    task.publish(name_, every_ + epochs_);
  }
 private:
  double every_;
  double epochs_ = 0;
  std::string name_;
};
SCONCE_EXPORT_KINDS(sconce::kind<H>("h"));
"#;
