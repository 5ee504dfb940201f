//! What a test is, and what can come of it.

use super::finding::Checked;
use super::subject::Subject;

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

/// What a test is run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Once on the library.
    Library,
    /// On each of its hooks.
    Hook,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_names_and_bounds() {
        assert_eq!(Level::parse("basic").map(Level::number), Ok(3));
        assert_eq!(Level::parse("10").map(Level::number), Ok(10));
        assert_eq!(Level::parse("normal"), Ok(Level::default()));
        assert!(Level::parse("0").is_err() && Level::parse("lax").is_err());
    }
}
