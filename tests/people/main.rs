//! What people do around their runs and hooks. Each module is one topic:
//!
//! | module | what must hold |
//! |---|---|
//! | `commands` | `runs`, `compare`, `env`, `schema`, completions and manual say what is so |
//! | `first_looks` | a part of the data, a dry run, quiet and loud runs |
//! | `kit` | a run scripted by `sconce_plugin_api::testing` is called as a real one |
//! | `scaffolds` | what `new-plugin` and `new-run` write builds, passes its tests and runs |
#![allow(
    clippy::too_many_lines,
    reason = "tables of cases read best as they are"
)]
#![allow(
    clippy::expect_used,
    reason = "a test that finds its machine broken may say so by panicking"
)]

mod commands;
mod first_looks;
mod kit;
mod scaffolds;
