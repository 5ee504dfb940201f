//! `sconce validate`: the conformance suite, for authors of plugins.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use crate::cli::plugins::new_plugin::standard_plugins;
use crate::cli::show::output;
use crate::diagnostic::Diagnostic;
use crate::exit;
use crate::plugin::trust;
use crate::printable;
use crate::shell_word::shell_word;
use crate::validate::{Options, Suite, Test, TestLevel, TestRun, Verdict, tests};
use sconce_base::nearest::nearest;
use sconce_base::patterns::Patterns;

/// Arguments of `sconce validate`.
#[derive(Debug, Args)]
pub(in crate::cli) struct ValidateArgs {
    /// Library of the plugin.
    #[arg(required_unless_present = "list")]
    library: Option<PathBuf>,
    /// Strictness: 1 to 10, or `basic` (3), `normal` (6), `strict` (10).
    #[arg(long, default_value = "normal", value_parser = TestLevel::parse)]
    level: TestLevel,
    /// Runs only tests whose names match, whatever their level: `state.*`. May be given several
    /// times.
    #[arg(long, value_name = "PATTERN")]
    only: Vec<String>,
    /// Skips the tests whose names match. May be given several times.
    #[arg(long, value_name = "PATTERN")]
    skip: Vec<String>,
    /// Tests only this hook of the plugin.
    #[arg(long, value_name = "NAME")]
    hook: Option<String>,
    /// Configuration of the hooks, as JSON or the path of a JSON file. Default: the minimum that the
    /// schema requires.
    #[arg(long, value_name = "JSON")]
    config: Option<String>,
    /// Seed of all random numbers. Default: a different one each time.
    #[arg(long)]
    seed: Option<u64>,
    /// Time limit of a test.
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    timeout: f64,
    /// Lists the tests of the level without running any.
    #[arg(long)]
    list: bool,
    /// Prints one JSON object.
    #[arg(long)]
    json: bool,
    /// Prints the facts of passed tests, too.
    #[arg(short, long)]
    verbose: bool,
}

/// Exit code if a test has failed.
const FAILED: u8 = exit::PLUGIN;

pub(in crate::cli) fn validate(arguments: &ValidateArgs) -> u8 {
    match try_validate(arguments) {
        Ok(code) => code,
        Err(problem) => {
            output::diagnostics(&[problem]);
            exit::USAGE
        }
    }
}

fn try_validate(arguments: &ValidateArgs) -> Result<u8, Diagnostic> {
    let options = options(arguments)?;
    if arguments.list {
        list(&options, arguments.json);
        return Ok(exit::DONE);
    }
    if let Err([problem, ..]) = trust::current() {
        return Err(problem.clone());
    }
    let library = arguments.library.clone().unwrap_or_default();
    if !library.is_file() {
        let problem = format!("there is no file `{}`", library.display());
        return Err(
            Diagnostic::new(problem).hint("name the library that cargo or the C compiler built")
        );
    }
    if library.extension().is_some_and(|suffix| suffix == "py") {
        return Err(python_file(&library));
    }
    let seed = options.seed;
    let suite = Suite::new(&library, options);
    if let (Some(hook), Ok(plugin)) = (&arguments.hook, suite.inspected())
        && plugin.hook(hook).is_none()
    {
        let names: Vec<&str> = plugin
            .metadata
            .hooks
            .iter()
            .map(|h| h.name.as_str())
            .collect();
        let problem = format!(
            "the plugin has no hook `{hook}`; it has {}",
            names.join(", ")
        );
        let near = nearest(hook, names.iter().copied());
        let hint = near.map(|near| format!("did you mean `{near}`?"));
        let problem = Diagnostic::new(problem);
        return Err(hint.into_iter().fold(problem, Diagnostic::hint));
    }
    let mut printer = Printer {
        is_quiet: arguments.json,
        is_verbose: arguments.verbose,
        has_colour: output::has_colour(),
        advice: match suite.inspected() {
            Ok(plugin) if plugin.metadata.is_c() => Test::advice_in_c,
            _ => |test| test.advice,
        },
        hook: None,
    };
    printer.begin(&suite, &library, seed);
    let mut runs = Vec::new();
    for (test, hook) in suite.cases() {
        let run = suite.run(test, &hook);
        let run = run.map_err(|error| {
            Diagnostic::new(format!("the test `{}` can't be run: {error}", test.name))
        })?;
        printer.show(&run);
        runs.push(run);
    }
    if arguments.json {
        output::json(&object(&suite, seed, &runs));
    } else {
        printer.end(&library, seed, arguments.config.as_deref(), &runs);
    }
    let has_failed = runs
        .iter()
        .any(|run| run.finding.verdict == Verdict::Failed);
    Ok(if has_failed { FAILED } else { exit::DONE })
}

/// A hook in Python is validated as a configuration of the plugin that runs it.
fn python_file(file: &Path) -> Diagnostic {
    let plugin = format!("{DLL_PREFIX}sconce_plugin_python{DLL_SUFFIX}");
    let plugin = match standard_plugins() {
        Some(directory) => directory.join(plugin),
        None => PathBuf::from(plugin),
    };
    let config = json!({"file": file}).to_string();
    let problem = format!("`{}` is a Python file, not a library", file.display());
    Diagnostic::new(problem).hint(format!(
        "validate it with the plugin that runs it: `sconce validate {} --hook python --config {}`",
        shell_word(&plugin.to_string_lossy()),
        shell_word(&config)
    ))
}

fn options(arguments: &ValidateArgs) -> Result<Options, Diagnostic> {
    let limit = Duration::try_from_secs_f64(arguments.timeout).ok();
    let limit = limit.filter(|limit| !limit.is_zero()).ok_or_else(|| {
        let problem = format!("`--timeout {}` is not a time", arguments.timeout);
        Diagnostic::new(problem).hint("write seconds, as `--timeout 60`")
    })?;
    Ok(Options {
        level: arguments.level,
        only: patterns("--only", &arguments.only)?,
        skip: patterns("--skip", &arguments.skip)?,
        hook: arguments.hook.clone(),
        config: arguments.config.as_deref().map(config).transpose()?,
        seed: arguments.seed.unwrap_or_else(chance),
        limit,
    })
}

/// Returns a random seed, short enough to type again.
fn chance() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};

    RandomState::new().build_hasher().finish() % 100_000
}

fn patterns(flag: &str, written: &[String]) -> Result<Option<Patterns>, Diagnostic> {
    if written.is_empty() {
        return Ok(None);
    }
    let patterns = Patterns::new(written).map_err(Diagnostic::new)?;
    let Some(idle) = patterns.idle(tests().map(|test| test.name)) else {
        return Ok(Some(patterns));
    };
    let problem = Diagnostic::new(format!("`{flag} {idle}` matches no test"));
    Err(match nearest(idle, tests().map(|test| test.name)) {
        Some(near) => problem.hint(format!("did you mean `{near}`?")),
        None => problem.hint("`sconce validate --list --level strict` lists them all"),
    })
}

/// Parses JSON text, or a file of it.
fn config(text: &str) -> Result<Value, Diagnostic> {
    let told = |problem: String| Diagnostic::new(problem).hint("write an object: `{\"key\": 1}`");
    let content = if text.trim_start().starts_with('{') {
        text.to_owned()
    } else {
        fs_err::read_to_string(text).map_err(|error| told(error.to_string()))?
    };
    let value: Value = serde_json::from_str(&content)
        .map_err(|error| told(format!("`--config` is not valid JSON: {error}")))?;
    if value.is_object() {
        Ok(value)
    } else {
        Err(told("`--config` is not a JSON object".to_owned()))
    }
}

fn list(options: &Options, as_json: bool) {
    let taken: Vec<&Test> = tests().filter(|test| options.takes(test)).collect();
    if as_json {
        let object =
            |test: &&Test| json!({"test": test.name, "level": test.level, "about": test.about});
        let all: Vec<Value> = taken.iter().map(object).collect();
        output::json(&all);
        return;
    }
    let row = |test: &&Test| {
        vec![
            test.name.to_owned(),
            test.level.to_string(),
            test.about.to_owned(),
        ]
    };
    output::table(&taken.iter().map(row).collect::<Vec<_>>());
}

/// Returns all results as JSON.
fn object(suite: &Suite, seed: u64, runs: &[TestRun]) -> Value {
    let plugin = match suite.inspected() {
        Ok(plugin) => crate::cli::plugins::inspect::object(plugin),
        Err(refusal) => json!({"file": refusal.path, "refused": refusal.cause.to_string()}),
    };
    let counts: serde_json::Map<String, Value> = Verdict::ALL
        .map(|verdict| (verdict.name().to_owned(), json!(count(runs, verdict))))
        .into_iter()
        .collect();
    json!({
        "host": crate::version::HOST_VERSION,
        "plugin": plugin,
        "seed": seed,
        "tests": runs,
        "summary": counts,
    })
}

fn count(runs: &[TestRun], verdict: Verdict) -> usize {
    let is_of = |run: &&TestRun| run.finding.verdict == verdict;
    runs.iter().filter(is_of).count()
}

/// Prints results as they arrive.
struct Printer {
    is_quiet: bool,
    is_verbose: bool,
    has_colour: bool,
    /// The advice for a failure, in the plugin's language.
    advice: fn(&Test) -> &'static str,
    /// Hook whose results are being printed.
    hook: Option<String>,
}

impl Printer {
    fn begin(&self, suite: &Suite, library: &std::path::Path, seed: u64) {
        if self.is_quiet {
            return;
        }
        let what = match suite.inspected() {
            Ok(plugin) => format!("{} {}", plugin.metadata.name, plugin.metadata.version),
            Err(_) => "not a plugin for this host".to_owned(),
        };
        output::line(&format!("{what} in {}, seed {seed}", library.display()));
    }

    fn show(&mut self, run: &TestRun) {
        if self.is_quiet {
            return;
        }
        if self.hook.as_ref() != Some(&run.hook) {
            let title = match run.hook.as_str() {
                "" => "the library".to_owned(),
                hook => format!("hook `{hook}`"),
            };
            output::line("");
            output::line(&title);
            self.hook = Some(run.hook.clone());
        }
        let verdict = run.finding.verdict;
        let name = format!("{:8}", verdict.name());
        let mut text = format!("  {} {:26}", self.coloured(verdict, &name), run.test);
        let is_told = self.is_verbose || verdict != Verdict::Passed;
        let facts = printable::lines(&run.finding.facts);
        let mut facts = facts.lines();
        if is_told {
            let first = facts.next().unwrap_or_default();
            let _ = write!(text, " {first}");
            for line in facts {
                let _ = write!(text, "\n  {:35} {line}", "");
            }
        }
        if self.is_verbose {
            let _ = write!(text, "  ({:.2} s)", run.seconds);
        }
        output::styled(text.trim_end());
    }

    fn coloured(&self, verdict: Verdict, text: &str) -> String {
        if !self.has_colour {
            return text.to_owned();
        }
        let colour = match verdict {
            Verdict::Passed => 32,
            Verdict::Skipped => 36,
            Verdict::Warning => 33,
            Verdict::Failed => 31,
        };
        format!("\x1b[{colour}m{text}\x1b[0m")
    }

    /// Prints the totals, and advice about failures and warnings.
    fn end(&self, library: &std::path::Path, seed: u64, config: Option<&str>, runs: &[TestRun]) {
        let sums: Vec<String> = Verdict::ALL
            .into_iter()
            .map(|verdict| (verdict, count(runs, verdict)))
            .map(|(verdict, count)| {
                let text = format!("{count} {}", verdict.name());
                if count > 0 {
                    self.coloured(verdict, &text)
                } else {
                    text
                }
            })
            .collect();
        output::styled(&format!("\n{} tests: {}", runs.len(), sums.join(", ")));
        let bad = [Verdict::Failed, Verdict::Warning];
        let bad = |run: &&TestRun| bad.contains(&run.finding.verdict);
        let refused = |run: &&TestRun| config.is_none() && run.finding.has_no_hook();
        if !runs.iter().any(|run| bad(&run) || refused(&run)) {
            return;
        }
        output::block("\nwhat to do:");
        let mut hooks: Vec<&str> = runs.iter().filter(refused).map(|run| &*run.hook).collect();
        hooks.dedup();
        for hook in hooks {
            output::line(&format!(
                "  the hook `{hook}` refuses the configuration that was made up for it: give one with `--config`"
            ));
            output::line(&format!(
                "    again: sconce validate {} --hook {} --config '{{…}}' --seed {seed}",
                shell_word(&library.to_string_lossy()),
                shell_word(hook)
            ));
        }
        for test in tests() {
            let of_test = || runs.iter().filter(bad).filter(|run| run.test == test.name);
            let Some(first) = of_test().next() else {
                continue;
            };
            let hooks: Vec<&str> = of_test().map(|run| run.hook.as_str()).collect();
            let on = match hooks.as_slice() {
                [""] => String::new(),
                hooks => format!(" ({})", hooks.join(", ")),
            };
            let advice = (self.advice)(test);
            output::line(&format!("  {}{on}: {advice}", test.name));
            let hook = match first.hook.as_str() {
                "" => String::new(),
                hook => format!(" --hook {}", shell_word(hook)),
            };
            let config = match config {
                Some(config) => format!(" --config {}", shell_word(config)),
                None => String::new(),
            };
            output::line(&format!(
                "    again: sconce validate {} --only {}{hook}{config} --seed {seed}",
                shell_word(&library.to_string_lossy()),
                test.name
            ));
        }
    }
}
