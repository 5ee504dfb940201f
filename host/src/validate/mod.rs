//! The conformance suite for plugin authors, run by `sconce validate`.
//!
//! Every test runs in its own process: this program's executable with a hidden subcommand. It only passes if
//! that process answers with the token it was given; after a crash, an exit, a hang or a panic the test has
//! failed, with the reason, and the next one begins. The tests of a group are in one file;
//! `docs/validating.md` lists them all.
//!
//! A test that needs a run plays one on a small `stage`: with the manifest, the plugin gates, the loop and
//! the checkpoints of a real run, and with a witness among the hooks.

mod again;
mod c_advice;
mod child;
mod config;
mod configs;
mod faults;
mod file;
mod finding;
mod lifecycle;
mod list;
mod odd_task;
mod order;
mod points;
mod process;
mod purity;
mod ranks;
#[cfg_attr(target_os = "linux", expect(unsafe_code, reason = "limits on files"))]
mod resources;
mod speed;
mod stage;
mod state;
mod subject;
mod suite;
mod test;
mod trial;
mod values;
mod witness;

pub(crate) use child::{COMMAND, answer};
pub use finding::{Finding, Verdict};
pub use list::{groups, tests};
#[cfg(target_os = "linux")]
pub use suite::{Options, Suite, TestRun};
pub use test::{Test, TestGroup, TestLevel, TestScope};
