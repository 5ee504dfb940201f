//! The suite from outside: which tests are run on a library, one process each, and what they found.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;

use super::finding::{Finding, skipped};
use super::list::tests;
use super::order::Order;
use super::process;
use super::test::{Level, Scope, Test};
use crate::patterns::Patterns;
use crate::plugin::{Inspected, Refusal, inspect};

/// What of the suite is run, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The strictness.
    pub level: Level,
    /// Only tests whose names match.
    pub only: Option<Patterns>,
    /// Not those whose names match.
    pub skip: Option<Patterns>,
    /// Only this hook.
    pub hook: Option<String>,
    /// The configuration of the hooks, instead of the least one.
    pub config: Option<Value>,
    /// The seed of everything random.
    pub seed: u64,
    /// How long a test may take.
    pub limit: Duration,
}

impl Options {
    /// Whether a test is run.
    pub fn takes(&self, test: &Test) -> bool {
        let matches = |patterns: &Option<Patterns>| {
            patterns
                .as_ref()
                .map(|patterns| patterns.matches(test.name))
        };
        // Whoever names a test wants it, whatever its level.
        let is_wanted = matches(&self.only).unwrap_or(test.level <= self.level.number());
        is_wanted && !matches(&self.skip).unwrap_or(false)
    }
}

/// A suite that is about to run on a library.
#[derive(Debug)]
pub struct Suite {
    library: PathBuf,
    options: Options,
    inspected: Result<Inspected, Refusal>,
}

/// A test that was run.
#[derive(Clone, Debug, Serialize)]
pub struct TestRun {
    /// The test's name.
    pub test: &'static str,
    /// The hook; empty for a test of the library.
    pub hook: String,
    /// What came of it.
    #[serde(flatten)]
    pub finding: Finding,
    /// How long it took.
    pub seconds: f64,
}

impl Suite {
    /// The suite for a library.
    pub fn new(library: &Path, options: Options) -> Suite {
        let library = std::path::absolute(library).unwrap_or_else(|_| library.to_owned());
        Suite {
            inspected: inspect(&library),
            library,
            options,
        }
    }

    /// What the library says of itself, or why the host refuses it.
    pub fn inspected(&self) -> Result<&Inspected, &Refusal> {
        self.inspected.as_ref()
    }

    /// The tests in their order, each with the hook that it is run on; an empty name for the library.
    pub fn cases(&self) -> Vec<(&'static Test, String)> {
        let taken = || tests().filter(|test| self.options.takes(test));
        let of = |scope| taken().filter(move |test| test.scope == scope);
        let mut cases: Vec<(&Test, String)> = of(Scope::Library)
            .map(|test| (test, String::new()))
            .collect();
        let hooks = self
            .inspected
            .iter()
            .flat_map(|plugin| &plugin.metadata.hooks);
        let is_meant = |name: &str| self.options.hook.as_ref().is_none_or(|only| only == name);
        for hook in hooks.filter(|hook| is_meant(&hook.name)) {
            cases.extend(of(Scope::Hook).map(|test| (test, hook.name.clone())));
        }
        cases
    }

    /// Runs one of the cases.
    ///
    /// # Errors
    ///
    /// Where no process or no directory can be had for it.
    pub fn run(&self, test: &'static Test, hook: &str) -> io::Result<TestRun> {
        let begin = Instant::now();
        let finding = match &self.inspected {
            // Only the file's own tests have something to say then.
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
        let order = Order {
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

/// A token that no library can know: of the keys that std's hash maps get from the system.
fn token() -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};

    let random = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", random(), random())
}
