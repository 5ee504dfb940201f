//! The process of one test: reads its order from standard input, runs the test, writes an answer.

use std::io::Read;

use serde::{Deserialize, Serialize};

use super::finding::Finding;
use super::groups::tests;
use super::order::TestOrder;
use super::subject::Subject;
use crate::exit;
use sconce_base::files;

/// The hidden subcommand.
pub(crate) const COMMAND: &str = "validate-test";

/// Name of the answer file in the test's directory.
pub(super) const ANSWER: &str = "answer.json";

/// The result of a test process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Answer {
    /// The token from the order.
    pub(super) token: String,
    #[serde(flatten)]
    pub(super) finding: Finding,
}

/// Entry point of the hidden subcommand: runs one test.
pub(crate) fn answer() -> u8 {
    match try_answer() {
        Ok(()) => exit::DONE,
        Err(error) => {
            crate::screen::message(&format!("the test can't be run: {error}\n"));
            exit::USAGE
        }
    }
}

fn try_answer() -> std::io::Result<()> {
    let mut told = String::new();
    std::io::stdin().read_to_string(&mut told)?;
    let order: TestOrder = serde_json::from_str(&told)?;
    #[cfg(target_os = "linux")]
    crate::expendable::settle_in();
    let test = tests().find(|test| test.name == order.test);
    let test = test.ok_or_else(|| std::io::Error::other("there is no such test"))?;
    let answer = order.place.join(ANSWER);
    let finding = (test.check)(&Subject::of(&order));
    let told = Answer {
        token: order.token,
        finding: finding.unwrap_or_else(|finding| finding),
    };
    files::write_atomically(&answer, serde_json::to_string(&told)?.as_bytes())
}
