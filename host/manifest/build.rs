//! Finds the pages of the documentation whose tables messages quote: in a checkout they lie above this crate; in a package, which
//! holds no file from outside of its directory, in `carried`, where `.ci/release` has put them.

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let own = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let packaged = own.join("carried");
    let root = if packaged.is_dir() {
        packaged
    } else {
        own.join("../..")
    };
    println!("cargo:rustc-env=SCONCE_CARRIED={}", root.display());
}
