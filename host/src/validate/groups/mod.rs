//! The groups of tests, in the order in which they run: one file for each, and `asks`, `points` and `ranks`, which are tests of `lifecycle`.

mod asks;
mod config;
mod faults;
mod file;
mod lifecycle;
mod points;
mod purity;
mod ranks;
mod speed;
mod state;
mod values;

use super::test::{Test, TestGroup};

/// All groups, in the order in which they run.
pub fn groups() -> &'static [TestGroup] {
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
        assert!(names.len() > 40, "only {} tests", names.len());
    }
}
