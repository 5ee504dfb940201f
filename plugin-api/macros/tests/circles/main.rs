//! No modules import each other in a circle, in any of the crates.
//!
//! Modules that lie within one are compared with each other, at every level: one of them leads to another if anything in it names
//! what anything in the other defines. A module and what lies within it count as one.
//!
//! It is a test of this crate, which parses Rust anyway: for any other the parser would be built a second time, and with it all that
//! procedural macros have a part in.
#![allow(
    clippy::expect_used,
    reason = "a test that finds its machine broken may say so by panicking"
)]

mod sources;

use std::fs;
use std::path::{Path, PathBuf};

use sources::Sources;

/// The crates' roots below a directory.
fn roots(directory: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(directory).expect("a directory").flatten();
    for path in entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
    {
        for root in ["lib.rs", "main.rs"].map(|name| path.join(name)) {
            if path.ends_with("src") && root.is_file() {
                found.push(root);
            }
        }
        if !path.ends_with("src") && !path.ends_with("target") {
            roots(&path, found);
        }
    }
}

#[test]
fn no_modules_import_each_other_in_a_circle() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for directory in ["host", "plugin-api", "plugins"] {
        roots(&workspace.join(directory), &mut found);
    }
    assert!(found.len() > 20, "{found:?}");
    let circles = found.iter().flat_map(|root| {
        let circles = Sources::read(root).circles().into_iter();
        circles.map(|circle| format!("{}: {circle}", root.display()))
    });
    let circles: Vec<String> = circles.collect();
    assert!(circles.is_empty(), "{}", circles.join("\n"));
}

#[test]
fn a_circle_is_found_through_imports_re_exports_and_files() {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("circles");
    let _ = fs::remove_dir_all(&place);
    let write = |name: &str, text: &str| {
        let path = place.join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(path, text).expect("written");
    };
    let circles = || Sources::read(&place.join("lib.rs")).circles();
    write(
        "lib.rs",
        "mod a;\nmod b { pub use inner::Two; mod inner { pub struct Two; } }\n",
    );
    // A module and its own parts, tests, and what is another crate's.
    write(
        "a/mod.rs",
        "mod part;\nuse crate::b::Two;\nuse std::fs;\npub struct One(Two, part::Part);\n\
         #[cfg(test)]\nmod tests { use crate::c::Three; }\n",
    );
    write(
        "a/part.rs",
        "use super::One;\npub struct Part(Option<Box<One>>);\n",
    );
    assert_eq!(circles(), Vec::<String>::new());
    write(
        "lib.rs",
        "mod a;\nmod b { pub use inner::Two; mod inner { pub struct Two; fn f() { let _ = crate::a::One; } } }\n",
    );
    let found = circles();
    let [circle] = found.as_slice() else {
        panic!("{found:?}");
    };
    for part in [
        "in ``: {\"a\", \"b\"}",
        "a names {\"Two\"} of b::inner",
        "b::inner names {\"One\"} of a",
    ] {
        assert!(circle.contains(part), "{circle}");
    }
    // Of two modules within a module.
    write("lib.rs", "mod a;\nmod b { pub struct Two; }\n");
    write("a/mod.rs", "mod part;\nmod other;\n");
    write(
        "a/part.rs",
        "use super::other::Other;\npub struct Part(Other);\n",
    );
    write(
        "a/other.rs",
        "pub struct Other;\nfn f(_: super::part::Part) {}\n",
    );
    assert!(
        circles()
            .concat()
            .starts_with("in `a`: {\"other\", \"part\"}"),
        "{:?}",
        circles()
    );
}
