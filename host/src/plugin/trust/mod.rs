//! Signatures of plugins, and the keys that a user trusts.
//!
//! A plugin's signature is a file of minisign beside it, `LIBRARY.minisig`. It is verified over the bytes that are inspected,
//! and again over those that are loaded.
//!
//! **Parts.** `key`: public keys. `store`: `trust.json`. `signature`: the gate, and the states of a plugin: signed by a
//! trusted key, signed by an unknown key, or unsigned. A plugin that differs from what a trusted key signed is *altered* and
//! always refused.

mod key;
mod signature;
mod store;

use std::sync::OnceLock;

pub use key::{Key, KeyId};
pub(super) use signature::check;
pub(super) use signature::read;
pub use signature::{SignatureState, file_of};
pub use store::{TrustStore, TrustedKey, UnsignedPolicy, VARIABLE, file, is_name};

use crate::diagnostic::Diagnostic;
use crate::nearest::nearest;
use crate::plugin::Inspected;

impl TrustStore {
    /// The warning about a plugin that no trusted key has signed, if the user wants one.
    pub(crate) fn warning(&self, plugin: &Inspected) -> Option<Diagnostic> {
        let is_wanted = self.unsigned == UnsignedPolicy::Warn
            && !plugin.signature.is_trusted()
            && !self.excepts(&plugin.path);
        is_wanted.then(|| {
            let state = &plugin.signature;
            Diagnostic::warning(format!("the plugin `{}` is {state}", plugin.path.display()))
        })
    }
}

/// What to do where the key of this name has not signed a plugin.
pub(super) fn how_to_trust(name: &str) -> String {
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
