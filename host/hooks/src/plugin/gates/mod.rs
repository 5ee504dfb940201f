//! The gates that run none of a plugin's code, and what a plugin is refused for.
//!
//! **Parts**
//! - [`inspect()`] takes a file through them: `file`, a readable file; `structure`, an intact library for this machine; `section`, valid
//!   metadata; [`compatibility`], a matching ABI and processor; [`signature`], an unaltered one, by a key that the user trusts ([`trust`]).
//! - `fingerprint`: the gate for bytes that the manifest pins.
//! - [`refusal`]: all reasons for a refusal, with their messages and hints; those of a trial load are in [`trial_fault`].
//!
//! **Flow.** Each gate is given what the one before has found, and ends with its own [`Cause`](refusal::Cause).

pub mod compatibility;
pub(super) mod file;
mod fingerprint;
pub mod inspect;
pub mod refusal;
pub(super) mod section;
pub mod signature;
pub(super) mod structure;
pub mod trial_fault;
pub mod trust;
