//! What people do around their runs and hooks. Each module is one topic:
//!
//! | module | what must hold |
//! |---|---|
//! | `blocks` | the pieces of manifests in the pages are right |
//! | `book` | every page of the documentation is in the book |
//! | `commands` | `runs`, `compare`, `env`, `schema`, completions and manual say what is so |
//! | `first_looks` | a part of the data, a dry run, quiet and loud runs |
//! | `installing` | installed plugins are found without being named, and named ones come first |
//! | `launching` | `launch` and `team`: ranks find each other, and end together |
//! | `live_view` | `run --ui` trains the same bits, does what keys ask, and gives the terminal back |
//! | `layers` | manifests over manifests, and the environment |
//! | `printing` | what can't be printed is reported, and no text from outside steers the terminal |
//! | `readme` | the commands of the README and of the first pages do what is said of them |
//! | `validate` | the conformance suite: good plugins pass, bad ones fail where they should |
//! | `kit` | a run scripted by `sconce_plugin_testing` is called as a real one |
//! | `new_runs` | what `new-run` writes for data of each kind passes the check and trains |
//! | `tutorials` | what the tutorials say to do can be done, and prints what they say |
//! | `scaffolds` | what `new-plugin` writes builds, passes its tests and runs |
#![allow(
    clippy::too_many_lines,
    reason = "tables of cases read best as they are"
)]
#![allow(
    clippy::expect_used,
    reason = "a test that finds its machine broken may say so by panicking"
)]

mod blocks;
mod book;
mod commands;
mod first_looks;
mod installing;
mod kit;
mod launching;
mod layers;
mod live_view;
mod new_runs;
mod printing;
mod readme;
mod scaffolds;
mod tutorials;
mod validate;
