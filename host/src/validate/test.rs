//! Tests, their groups and levels.

use super::c_advice::c_advice;
use super::finding::Checked;
use super::subject::Subject;

/// A test of the suite.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    /// Name of the test, `group.what`.
    pub name: &'static str,
    /// The requirement, in one sentence.
    pub about: &'static str,
    /// Advice for a failure.
    pub advice: &'static str,
    /// The lowest strictness level, 1 to 10, at which it is run.
    pub level: u8,
    /// The subject that it is run on.
    pub scope: TestScope,
    pub(super) check: Check,
}

impl Test {
    /// Advice for a failure of a plugin in C or C++.
    pub fn advice_in_c(&self) -> &'static str {
        c_advice(self.name).unwrap_or(self.advice)
    }
}

pub(super) type Check = fn(&Subject) -> Checked;

/// The subject of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestScope {
    /// The library, once.
    Library,
    /// Each of its hooks.
    Hook,
}

/// Strictness level of the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestLevel(u8);

impl TestLevel {
    /// The named levels: the file and a first run; what most authors want; everything.
    pub const NAMED: [(&'static str, u8); 3] = [("basic", 3), ("normal", 6), ("strict", 10)];

    /// Parses a number from 1 to 10, or one of the names.
    ///
    /// # Errors
    ///
    /// If the text is neither, with the possible values.
    pub fn parse(text: &str) -> Result<TestLevel, String> {
        let named = TestLevel::NAMED.iter().find(|(name, _)| *name == text);
        let number = named.map(|(_, number)| *number).or(text.parse().ok());
        number
            .filter(|number| (1..=10).contains(number))
            .map(TestLevel)
            .ok_or_else(|| "expected a number from 1 to 10, `basic`, `normal` or `strict`".into())
    }

    /// The level as a number from 1 to 10.
    pub fn number(self) -> u8 {
        self.0
    }
}

impl Default for TestLevel {
    fn default() -> TestLevel {
        TestLevel(6)
    }
}

/// A group of tests.
#[derive(Clone, Copy, Debug)]
pub struct TestGroup {
    /// Name of the group, with which its tests' names begin.
    pub name: &'static str,
    /// The subject of the group.
    pub about: &'static str,
    /// Its tests.
    pub tests: &'static [Test],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_names_and_bounds() {
        assert_eq!(TestLevel::parse("basic").map(TestLevel::number), Ok(3));
        assert_eq!(TestLevel::parse("10").map(TestLevel::number), Ok(10));
        assert_eq!(TestLevel::parse("normal"), Ok(TestLevel::default()));
        assert!(TestLevel::parse("0").is_err() && TestLevel::parse("lax").is_err());
    }
}
