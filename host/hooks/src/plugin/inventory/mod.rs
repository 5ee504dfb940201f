//! The plugins on this machine.
//!
//! **Parts**
//! - [`search`]: the directories, and what is found there; [`resolve`]: the plugin that provides a hook.
//! - [`catalogue`]: all hooks with their schemas. [`install`]: a plugin is put where it is found by default.

pub mod catalogue;
pub mod install;
pub mod resolve;
pub mod search;
