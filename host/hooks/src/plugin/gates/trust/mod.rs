//! Signatures of plugins, and the keys that a user trusts.
//!
//! A plugin's signature is a file of minisign beside it, `LIBRARY.minisig`. It is verified over the bytes that are inspected,
//! and again over those that are loaded, by the gate `signature`.
//!
//! **Parts.** `key`: public keys. `store`: `trust.json`; `current`: this process's. `state`: who has signed a plugin.
//!
//! **States** of a plugin: signed by a trusted key, signed by an unknown key, or unsigned. One that differs from what a
//! trusted key signed is *altered* and always refused.

mod current;
mod key;
mod state;
mod store;

pub use current::current;
pub(super) use current::how_to_trust;
pub use key::{Key, KeyId};
pub use state::SignatureState;
pub use store::{TrustStore, TrustedKey, UnsignedPolicy, VARIABLE, file, is_name};
