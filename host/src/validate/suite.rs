//! Runs the suite: selects the tests for a library, runs each in its own process, collects results.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;

use super::finding::{Finding, skipped};
use super::groups::tests;
use super::order::TestOrder;
use super::process;
use super::test::{Test, TestLevel, TestScope};
use crate::plugin::{Inspected, PluginRefusal, inspect};
use sconce_base::patterns::Patterns;

/// Selection of tests, and settings for them.
#[derive(Clone, Debug)]
pub struct Options {
    /// Strictness level.
    pub level: TestLevel,
    /// If given, run only tests whose names match.
    pub only: Option<Patterns>,
    /// Skip tests whose names match.
    pub skip: Option<Patterns>,
    /// If given, test only this hook.
    pub hook: Option<String>,
    /// Configuration of the hooks, instead of the minimal one.
    pub config: Option<Value>,
    /// Seed of everything random.
    pub seed: u64,
    /// Time limit of a test.
    pub limit: Duration,
}

impl Options {
    /// Whether a test is selected.
    pub fn takes(&self, test: &Test) -> bool {
        let matches = |patterns: &Option<Patterns>| {
            patterns
                .as_ref()
                .map(|patterns| patterns.matches(test.name))
        };
        // A test selected by name runs whatever its level.
        let is_wanted = matches(&self.only).unwrap_or(test.level <= self.level.number());
        is_wanted && !matches(&self.skip).unwrap_or(false)
    }
}

/// A suite prepared for a library.
#[derive(Debug)]
pub struct Suite {
    library: PathBuf,
    options: Options,
    inspected: Result<Inspected, PluginRefusal>,
}

/// The result of one test.
#[derive(Clone, Debug, Serialize)]
pub struct TestRun {
    /// Name of the test.
    pub test: &'static str,
    /// Name of the hook; empty for a test of the library.
    pub hook: String,
    /// The finding.
    #[serde(flatten)]
    pub finding: Finding,
    /// Duration of the test.
    pub seconds: f64,
}

impl Suite {
    /// Prepares the suite for a library.
    pub fn new(library: &Path, options: Options) -> Suite {
        let library = std::path::absolute(library).unwrap_or_else(|_| library.to_owned());
        Suite {
            inspected: inspect(&library),
            library,
            options,
        }
    }

    /// The inspected library, or the reason why the host refuses it.
    pub fn inspected(&self) -> Result<&Inspected, &PluginRefusal> {
        self.inspected.as_ref()
    }

    /// The selected tests in order, each with the hook to run it on; an empty name for the library.
    pub fn cases(&self) -> Vec<(&'static Test, String)> {
        let taken = || tests().filter(|test| self.options.takes(test));
        let of = |scope| taken().filter(move |test| test.scope == scope);
        let mut cases: Vec<(&Test, String)> = of(TestScope::Library)
            .map(|test| (test, String::new()))
            .collect();
        let hooks = self
            .inspected
            .iter()
            .flat_map(|plugin| &plugin.metadata.hooks);
        let is_meant = |name: &str| self.options.hook.as_ref().is_none_or(|only| only == name);
        for hook in hooks.filter(|hook| is_meant(&hook.name)) {
            cases.extend(of(TestScope::Hook).map(|test| (test, hook.name.clone())));
        }
        cases
    }

    /// Runs one of the cases.
    ///
    /// # Errors
    ///
    /// If no process or directory can be created for it.
    pub fn run(&self, test: &'static Test, hook: &str) -> io::Result<TestRun> {
        let begin = Instant::now();
        let finding = match &self.inspected {
            // Then only the tests of the file itself are meaningful.
            Err(refusal) if !test.name.starts_with("file.") => {
                skipped(format!("the plugin is refused: {}", refusal.cause))
            }
            _ => self.in_a_process(test, hook)?,
        };
        Ok(TestRun {
            test: test.name,
            hook: hook.to_owned(),
            finding,
            seconds: begin.elapsed().as_secs_f64(),
        })
    }

    fn in_a_process(&self, test: &Test, hook: &str) -> io::Result<Finding> {
        let place = tempfile::Builder::new()
            .prefix("sconce-validate-")
            .tempdir()?;
        let order = TestOrder {
            token: token(),
            test: test.name.to_owned(),
            library: self.library.clone(),
            hook: hook.to_owned(),
            config: self.options.config.clone(),
            seed: self.options.seed,
            place: place.path().to_owned(),
        };
        process::run(&order, self.options.limit)
    }
}

/// A token that no library can know, from the random keys of the standard library's hash maps.
fn token() -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};

    let random = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", random(), random())
}
