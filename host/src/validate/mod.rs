//! The conformance suite for plugin authors, run by `sconce validate`.
//!
//! Every test runs in its own process: this program's executable with a hidden subcommand. It only passes if
//! that process answers with the token it was given; after a crash, an exit, a hang or a panic the test has
//! failed, with the reason, and the next one begins. The tests of a group are in one file;
//! `docs/validating.md` lists them all.
//!
//! A test that needs a run plays one on a small `stage`: with the manifest, the plugin gates, the loop and
//! the checkpoints of a real run, and with a witness among the hooks.
//!
//! **Parts**
//! - `suite` selects the tests for a library and collects results; `process` starts that of a test with an `order`, and `child` is in it.
//! - `groups`: all tests; a `test` has a level and advice (`c_advice` for C), and is given a `subject`. `finding`: its result.
//! - `stage`: the small run.

mod c_advice;
mod child;
mod finding;
mod groups;
mod order;
mod process;
mod stage;
mod subject;
mod suite;
mod test;

pub(crate) use child::{COMMAND, answer};
pub use finding::{Finding, Verdict};
pub use groups::{groups, tests};
#[cfg(target_os = "linux")]
pub use suite::{Options, Suite, TestRun};
pub use test::{Test, TestGroup, TestLevel, TestScope};
