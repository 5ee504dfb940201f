//! What a test is, and what can come of it.

use serde::{Deserialize, Serialize};

use super::subject::Subject;
use super::{config, faults, file, lifecycle, purity, speed, state, values};

/// A test of the suite.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    /// Its name, `group.what`.
    pub name: &'static str,
    /// What must hold, in one sentence.
    pub about: &'static str,
    /// What to do where it fails.
    pub advice: &'static str,
    /// The strictness from which on it is run, 1 to 10.
    pub level: u8,
    /// What it is run on.
    pub scope: Scope,
    pub(super) check: Check,
}

pub(super) type Check = fn(&Subject) -> Checked;

/// What a test answers; the error is the same, for an early end.
pub(super) type Checked = Result<Finding, Finding>;

/// What a test is run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Once on the library.
    Library,
    /// On each of its hooks.
    Hook,
}

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

/// How much is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level(u8);

impl Level {
    /// The levels with names: the file and a first run; what most authors want; everything.
    pub const NAMED: [(&'static str, u8); 3] = [("basic", 3), ("normal", 6), ("strict", 10)];

    /// The level of a number from 1 to 10, or of one of the names.
    ///
    /// # Errors
    ///
    /// A message that says what there is.
    pub fn parse(text: &str) -> Result<Level, String> {
        let named = Level::NAMED.iter().find(|(name, _)| *name == text);
        let number = named.map(|(_, number)| *number).or(text.parse().ok());
        number
            .filter(|number| (1..=10).contains(number))
            .map(Level)
            .ok_or_else(|| "expected a number from 1 to 10, `basic`, `normal` or `strict`".into())
    }

    /// From 1 to 10.
    pub fn number(self) -> u8 {
        self.0
    }
}

impl Default for Level {
    fn default() -> Level {
        Level(6)
    }
}

/// A group of tests.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// Its name, which its tests' names begin with.
    pub name: &'static str,
    /// What it is about.
    pub about: &'static str,
    /// Its tests.
    pub tests: &'static [Test],
}

/// All groups, in the order in which they run.
pub fn groups() -> &'static [Group] {
    &[
        file::GROUP,
        config::GROUP,
        lifecycle::GROUP,
        values::GROUP,
        state::GROUP,
        faults::GROUP,
        purity::GROUP,
        speed::GROUP,
    ]
}

/// All tests, in the order in which they run.
pub fn tests() -> impl Iterator<Item = &'static Test> {
    groups().iter().flat_map(|group| group.tests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_begin_with_the_group() {
        let mut names = Vec::new();
        for group in groups() {
            for test in group.tests {
                let rest = test.name.strip_prefix(group.name);
                assert!(rest.is_some_and(|rest| rest.starts_with('.')), "{test:?}");
                assert!((1..=10).contains(&test.level), "{test:?}");
                assert!(test.about.ends_with('.') && test.advice.ends_with('.'));
                assert!(!names.contains(&test.name), "{test:?}");
                names.push(test.name);
            }
        }
    }

    #[test]
    fn levels_have_names_and_bounds() {
        assert_eq!(Level::parse("basic").map(Level::number), Ok(3));
        assert_eq!(Level::parse("10").map(Level::number), Ok(10));
        assert_eq!(Level::parse("normal"), Ok(Level::default()));
        assert!(Level::parse("0").is_err() && Level::parse("lax").is_err());
    }
}
