//! The trust of the user who runs this process.

use std::sync::OnceLock;

use super::store::TrustStore;
use sconce_base::nearest::nearest;
use sconce_manifest::diagnostic::Diagnostic;

/// This process's trust: read once, since all plugins of a run are judged alike.
static CURRENT: OnceLock<Result<TrustStore, Vec<Diagnostic>>> = OnceLock::new();

/// The user's trust.
///
/// # Errors
///
/// As for [`TrustStore::load`].
pub fn current() -> Result<&'static TrustStore, &'static [Diagnostic]> {
    let loaded = CURRENT.get_or_init(TrustStore::load);
    loaded.as_ref().map_err(Vec::as_slice)
}

/// What to do where the key of this name has not signed a plugin.
pub(in crate::plugin) fn how_to_trust(name: &str) -> String {
    let names = current().map(TrustStore::names).unwrap_or_default();
    if names.contains(&name) {
        return format!(
            "get the plugin and its `.minisig` from `{name}`, or sign it with that key"
        );
    }
    match nearest(name, names) {
        Some(near) => format!("trust.json has no key `{name}`; did you mean `{near}`?"),
        None => format!("trust.json has no key `{name}`: add it by `sconce trust add {name} KEY`"),
    }
}
