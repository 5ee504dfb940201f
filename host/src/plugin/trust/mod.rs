//! Signatures of plugins, and the keys that a user trusts.
//!
//! A plugin's signature is a file of minisign beside it, `LIBRARY.minisig`. It is verified over the bytes that are inspected,
//! and again over those that are loaded.
//!
//! **Parts.** `key`: public keys. `store`: `trust.json`; `current`: this process's. `signature`: the gate.
//!
//! **States** of a plugin: signed by a trusted key, signed by an unknown key, or unsigned. One that differs from what a
//! trusted key signed is *altered* and always refused.

mod current;
mod key;
mod signature;
mod state;
mod store;

pub use current::current;
pub(super) use current::how_to_trust;
pub use key::{Key, KeyId};
#[cfg(target_os = "linux")]
pub(crate) use signature::are_demanded;
pub use signature::file_of;
pub(super) use signature::{check, check_dependencies, is_demanded, read};
pub use state::SignatureState;
pub use store::{TrustStore, TrustedKey, UnsignedPolicy, VARIABLE, file, is_name};
