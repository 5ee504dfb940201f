//! Real data beside the checkout, for tests.

use std::path::{Path, PathBuf};

/// A file of `../shared/data`, if it is there. Where no test may be skipped, as in CI (`SCONCE_NO_SKIPS`), it must be.
#[expect(clippy::print_stderr, reason = "tests talk to whoever runs them")]
pub(crate) fn real_file(name: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let file = folder.join(name);
    if file.is_file() {
        return Some(file);
    }
    let why = format!("`{}` is not here", file.display());
    assert!(std::env::var_os("SCONCE_NO_SKIPS").is_none(), "{why}");
    eprintln!("skipped: {why}");
    None
}
