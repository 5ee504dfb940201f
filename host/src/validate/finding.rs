//! Results of tests.

use serde::{Deserialize, Serialize};

/// Result of a test; the error has the same type, for an early return.
pub(super) type Checked = Result<Finding, Finding>;

/// Verdict of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The requirement holds.
    Passed,
    /// The test could not be run, or does not apply.
    Skipped,
    /// The requirement holds, but something is not as it should be.
    Warning,
    /// The requirement does not hold.
    Failed,
}

impl Verdict {
    /// All verdicts, from good to bad.
    pub const ALL: [Verdict; 4] = [
        Verdict::Passed,
        Verdict::Skipped,
        Verdict::Warning,
        Verdict::Failed,
    ];

    /// Name of the verdict in results.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Passed => "passed",
            Verdict::Skipped => "skipped",
            Verdict::Warning => "warning",
            Verdict::Failed => "failed",
        }
    }
}

/// Verdict of a test, with the facts behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The verdict.
    pub verdict: Verdict,
    /// Numbers, reasons or messages; may have several lines or be empty.
    pub facts: String,
}

/// How the facts of a skipped test begin whose hook refused its configuration.
pub(super) const NOT_CREATED: &str = "it is not created";
pub(super) const NO_RUN: &str = "there is no run";

impl Finding {
    /// Whether the test was skipped because the hook was not created.
    pub fn has_no_hook(&self) -> bool {
        let begins = [NOT_CREATED, NO_RUN];
        self.verdict == Verdict::Skipped && begins.iter().any(|begin| self.facts.starts_with(begin))
    }
}

pub(super) fn passed(facts: impl Into<String>) -> Finding {
    finding(Verdict::Passed, facts)
}

pub(super) fn skipped(reason: impl Into<String>) -> Finding {
    finding(Verdict::Skipped, reason)
}

pub(super) fn warning(facts: impl Into<String>) -> Finding {
    finding(Verdict::Warning, facts)
}

pub(super) fn failed(facts: impl Into<String>) -> Finding {
    finding(Verdict::Failed, facts)
}

fn finding(verdict: Verdict, facts: impl Into<String>) -> Finding {
    Finding {
        verdict,
        facts: facts.into(),
    }
}

/// Passed if there are no problems, else `verdict` with all of them.
pub(super) fn unless(problems: &[String], verdict: Verdict, facts: impl Into<String>) -> Finding {
    if problems.is_empty() {
        return passed(facts);
    }
    finding(verdict, problems.join("\n"))
}
