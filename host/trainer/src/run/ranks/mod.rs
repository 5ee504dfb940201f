//! A run on several ranks: what they share, compute together and agree on.

pub(in crate::run) mod divergence;
pub(in crate::run) mod ending;
pub(in crate::run) mod evaluation;
pub(in crate::run) mod settings;
pub(in crate::run) mod state;
pub(in crate::run) mod update;
pub(in crate::run) mod vote;
