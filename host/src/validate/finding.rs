//! What came of a test.

use serde::{Deserialize, Serialize};

/// What a test answers; the error is the same, for an early end.
pub(super) type Checked = Result<Finding, Finding>;

/// What came of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It holds.
    Passed,
    /// It could not be tried, or means nothing here.
    Skipped,
    /// It holds, but something is not as it should be.
    Warning,
    /// It does not hold.
    Failed,
}

impl Verdict {
    /// All of them, from good to bad.
    pub const ALL: [Verdict; 4] = [
        Verdict::Passed,
        Verdict::Skipped,
        Verdict::Warning,
        Verdict::Failed,
    ];

    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Passed => "passed",
            Verdict::Skipped => "skipped",
            Verdict::Warning => "warning",
            Verdict::Failed => "failed",
        }
    }
}

/// What came of a test, and the facts behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What came of it.
    pub verdict: Verdict,
    /// Numbers, reasons, messages; may have several lines, may be empty.
    pub facts: String,
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

/// Passed where there are no problems, else `verdict` with all of them.
pub(super) fn unless(problems: &[String], verdict: Verdict, facts: impl Into<String>) -> Finding {
    if problems.is_empty() {
        return passed(facts);
    }
    finding(verdict, problems.join("\n"))
}
