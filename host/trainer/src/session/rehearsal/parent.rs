//! The parent of a rehearsal: starts a child, and collects the result of each hook.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use super::apart;
use super::{COMMAND, OrderedHook, RehearsalOrder, Rehearsed, Word};
use crate::diagnostic::{Diagnostic, shortened};
use crate::manifest::Manifest;
use crate::plugin::entry_error::EntryError;
use crate::session::StartFailure;
use crate::subprocess::{self, ending, last_lines, watch};
use sconce_hooks::planning::{HookPlan, not_created};

/// Creates the hooks in a child process, and returns what they have said.
///
/// # Errors
///
/// All hooks that fail or end the process, with the same messages as in a run.
pub fn rehearse(
    plans: &[HookPlan],
    manifest: &Manifest,
    expected_plan: &str,
) -> Result<Rehearsed, StartFailure> {
    let mut found = RehearsalFindings::default();
    let mut next = 0;
    while next < plans.len() {
        let rest = plans.get(next..).unwrap_or_default();
        if let Some(plan) = rest.first().filter(|plan| plan.is_isolated()) {
            match apart::rehearse(plan, manifest, expected_plan) {
                Ok(said) => found.add(said),
                Err(problem) => found.problems.push(problem),
            }
            next += 1;
            continue;
        }
        let isolated = rest.iter().position(HookPlan::is_isolated);
        let rest = rest
            .get(..isolated.unwrap_or(rest.len()))
            .unwrap_or_default();
        match attempt(rest, manifest, expected_plan) {
            Ok(attempt) => next += found.take(&attempt, rest, manifest),
            Err(error) => {
                let warning = format!(
                    "the hooks are not created here, in another process, which can't be started: {error}"
                );
                found.said.warnings.push(Diagnostic::warning(warning));
                break;
            }
        }
    }
    if found.problems.is_empty() {
        Ok(found.said)
    } else {
        let mut all = found.said.warnings;
        all.extend(found.problems);
        Err(StartFailure::plugin(all))
    }
}

/// Output of one child.
struct Attempt {
    words: Vec<Word>,
    status: Option<ExitStatus>,
    limit: Duration,
    errors: String,
}

fn attempt(plans: &[HookPlan], manifest: &Manifest, expected_plan: &str) -> io::Result<Attempt> {
    let place = tempfile::Builder::new().prefix("sconce-check-").tempdir()?;
    let directory = place.path().join("run");
    std::fs::create_dir(&directory)?;
    let order = RehearsalOrder {
        answer: place.path().join("answer.jsonl"),
        directory,
        manifest: manifest.resolved().to_string(),
        plan: expected_plan.to_owned(),
        seed: manifest.seed,
        hooks: plans.iter().map(ordered).collect(),
    };
    let limit = limit(manifest);
    let errors = place.path().join("stderr.txt");
    let mut command = subprocess::command()?;
    command
        .arg(COMMAND)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(File::create(&errors)?);
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // If the child has already ended, its exit status gives the reason.
        drop(input.write_all(serde_json::to_string(&order)?.as_bytes()));
    }
    let status = watch(&mut child, limit)?;
    let text = std::fs::read_to_string(&order.answer).unwrap_or_default();
    let words = text.lines();
    Ok(Attempt {
        words: words
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect(),
        status,
        limit,
        errors: String::from_utf8_lossy(&std::fs::read(&errors).unwrap_or_default()).into_owned(),
    })
}

/// Time limit for creating all hooks. It is the limit of a call, or else of a slow call, plus that of a trial
/// load.
fn limit(manifest: &Manifest) -> Duration {
    let limits = &manifest.limits;
    let call = limits.call_limit().unwrap_or(limits.slow_call_limit());
    // The libraries are opened in the child too.
    call.saturating_add(limits.load_limit())
}

fn ordered(plan: &HookPlan) -> OrderedHook {
    OrderedHook {
        name: plan.spec.name.clone(),
        kind: plan.kind.clone(),
        library: plan.spec.library.clone(),
        file: as_seen_from_outside(&plan.file),
        config: plan.config.to_string(),
    }
}

/// Path of a file of this process under which its child can open it.
fn as_seen_from_outside(file: &Path) -> PathBuf {
    match file.strip_prefix("/proc/self") {
        Ok(rest) => Path::new("/proc")
            .join(std::process::id().to_string())
            .join(rest),
        Err(_) => file.to_owned(),
    }
}

/// Results for the hooks so far.
#[derive(Default)]
struct RehearsalFindings {
    said: Rehearsed,
    problems: Vec<Diagnostic>,
}

impl RehearsalFindings {
    fn add(&mut self, said: Rehearsed) {
        self.said.warnings.extend(said.warnings);
        self.said.declared.extend(said.declared);
    }

    /// Adds a child's results; returns the number of hooks that it processed, at least one.
    fn take(&mut self, attempt: &Attempt, plans: &[HookPlan], manifest: &Manifest) -> usize {
        let mut under_way = 0;
        for word in &attempt.words {
            match word {
                Word::Begins(hook) => under_way = *hook,
                Word::Created(_) => {}
                Word::Publishes(metric) => self.said.declared.push(metric.clone()),
                Word::Warns { hook, message } => {
                    if let Some(plan) = plans.get(*hook) {
                        let text = format!("hook `{}`: {message}", plan.spec.name);
                        let place = manifest.place(&plan.json_path);
                        self.said.warnings.push(Diagnostic::warning(text).at(place));
                    }
                }
                Word::Refused {
                    hook,
                    status,
                    message,
                    place,
                } => {
                    if let Some(plan) = plans.get(*hook) {
                        let error = EntryError {
                            status: *status,
                            message: message.clone(),
                            place: place.clone(),
                        };
                        self.problems
                            .push(not_created(plan, error, &manifest.hook_list()));
                    }
                }
                Word::Done => return plans.len(),
            }
        }
        if let Some(plan) = plans.get(under_way) {
            self.problems.push(ended(plan, attempt, manifest));
        }
        under_way + 1
    }
}

/// The error of a hook whose creation ended the process.
fn ended(plan: &HookPlan, attempt: &Attempt, manifest: &Manifest) -> Diagnostic {
    let how = ending(attempt.status, attempt.limit);
    let mut text = format!("hook `{}`: {how} when it was created", plan.spec.name);
    for line in last_lines(&attempt.errors) {
        text = format!("{text}\n  | {}", shortened(line));
    }
    text = format!("{text}\n  in plugin {}", plan.spec.library.display());
    Diagnostic::new(text).at(manifest.place(&plan.json_path))
}
