//! `--resume`: the choice of a checkpoint, and the check that it belongs to the same run.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use candle_core::Tensor;
use clap::Args;
use sconce_base::regular_file::read_at_most;

use super::output;
use crate::checkpoint::{self, Checkpoint, FORMAT, LATEST, Section, Store};
use crate::data::{self, DataFile};
use crate::diagnostic::Diagnostic;
use crate::launcher::{self, Launch};
use crate::run::Resume;
use crate::session::{self, HookPlan, Output, Prepared, StartFailure};
use crate::shell_word::shell_word;
use crate::task::{DataFacts, Task};
use sconce_base::nearest::nearest;

/// File in a run's directory that lists the files of its data with their hashes, as `b3sum --check` takes it.
pub(super) const DATA_LISTING: &str = "data.b3sums";

/// Size in bytes above which such a list is not read: some millions of files.
const LARGEST_LISTING: u64 = 1 << 30;

/// How a run starts.
#[derive(Debug, Args)]
pub(super) struct ResumeArgs {
    /// Resumes from a checkpoint of the output directory, by its tag, or of another place, by its
    /// path. Without either: from the one saved last.
    #[arg(long, value_name = "CHECKPOINT", num_args = 0..=1, default_missing_value = LATEST, group = "resuming")]
    pub(super) resume: Option<String>,
    /// Resumes from the checkpoint saved last, if the output directory has one, and begins otherwise: one command for a
    /// job that may be started again.
    #[arg(long, group = "resuming", conflicts_with_all = ["overwrite", "dry_run", "folds"])]
    resume_if_exists: bool,
    /// Resumes even if the run has changed since the checkpoint was saved; the result is then not
    /// bit-identical.
    #[arg(long, requires = "resuming")]
    pub(super) allow_changes: bool,
    /// Starts over in a directory with an earlier run's checkpoints, which are removed.
    #[arg(long, conflicts_with = "resume")]
    pub(super) overwrite: bool,
}

impl ResumeArgs {
    /// The checkpoint to resume from, of the run in this directory: its tag or path; none for a run from the beginning.
    pub(super) fn in_directory(&self, directory: &Path) -> Option<&str> {
        if self.resume_if_exists && !Store::of(directory).tags().is_empty() {
            return Some(LATEST);
        }
        self.resume.as_deref()
    }
}

/// Checkpoint to resume from, with everything that has changed since.
pub(super) struct ResumePoint {
    path: PathBuf,
    pub(super) checkpoint: Checkpoint,
    changes: Vec<String>,
}

impl ResumePoint {
    /// Reads the requested checkpoint and compares its run with this one. Data and parameters are
    /// compared later, once the task exists.
    pub(super) fn find(
        what: &str,
        store: &Store,
        manifest: &serde_json::Value,
        hooks: &[HookPlan],
    ) -> Result<ResumePoint, StartFailure> {
        let (path, checkpoint) = match meant(what, store)? {
            Meant::This(path) => {
                let checkpoint =
                    checkpoint::read(&path).map_err(|error| damaged(&error, &path, store))?;
                (path, checkpoint)
            }
            Meant::Latest(store) => newest(&store)?,
        };
        let changes = session::changes(&checkpoint, manifest, hooks);
        Ok(ResumePoint {
            path,
            checkpoint,
            changes,
        })
    }

    /// The checkpoint that the first rank has found, compared with this run.
    pub(super) fn of_first_rank(
        path: PathBuf,
        checkpoint: Checkpoint,
        manifest: &serde_json::Value,
        hooks: &[HookPlan],
    ) -> ResumePoint {
        let changes = session::changes(&checkpoint, manifest, hooks);
        ResumePoint {
            path,
            checkpoint,
            changes,
        }
    }

    /// Directory of the checkpoint.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds what has changed of the run's ranks.
    pub(super) fn with_changes(mut self, changes: Vec<String>) -> ResumePoint {
        self.changes.extend(changes);
        self
    }

    /// Describes how the files of the data have changed.
    fn file_changes(&self, is: &[DataFile]) -> Vec<String> {
        let was = &self.checkpoint.header.facts.files;
        if was.is_empty() && self.checkpoint.header.format < FORMAT {
            return Vec::new();
        }
        // Of an earlier segment of the run, in the directory that has its checkpoints.
        let store = Store::around(&self.path);
        let listing =
            (store.as_ref().and_then(|store| store.directory().parent())).and_then(|run| {
                let text = read_at_most(&run.join(DATA_LISTING), LARGEST_LISTING).ok()?;
                String::from_utf8(text).ok()
            });
        let was = data::with_listed_members(was, &listing.unwrap_or_default());
        data::file_changes(&was, is)
    }

    /// Returns the state for the trainer to resume from.
    ///
    /// # Errors
    ///
    /// If something has changed without the user allowing it, or if the model's parameters differ.
    pub(super) fn resume(
        mut self,
        prepared: &Prepared,
        allowed: bool,
        warns: bool,
    ) -> Result<Resume, StartFailure> {
        let task = prepared.task.as_ref();
        let is = DataFacts::of(task);
        self.changes.extend(session::data_changes(
            &self.checkpoint.header.facts.data,
            &is,
        ));
        self.changes.extend(self.file_changes(&prepared.files));
        let device = task.parameters().device();
        let device = session::device_changes(&self.checkpoint.header.facts, device);
        self.changes.extend(device);
        let parameters = parameter_changes(&self.checkpoint, task);
        let path = self.path.display();
        if !parameters.is_empty() {
            let problem = format!(
                "the run can't resume from `{path}`, the model is another one:{}",
                list(parameters.iter().chain(&self.changes))
            );
            let hint = "to begin a new run with the weights that fit, name the checkpoint in the \
                        manifest's `weights` with `\"strict\": false`";
            return Err(StartFailure::usage(vec![
                Diagnostic::new(problem).hint(hint),
            ]));
        }
        // The first rank has the files.
        let missing = if warns { self.missing() } else { Vec::new() };
        if !missing.is_empty() && !allowed {
            return Err(self.refused_for(&missing));
        }
        self.changes.extend(missing);
        if !self.changes.is_empty() {
            let told = list(self.changes.iter());
            if !allowed {
                let problem = format!("the run can't resume from `{path}` bit for bit:{told}");
                let hint = "`--allow-changes` resumes all the same";
                return Err(StartFailure::usage(vec![
                    Diagnostic::new(problem).hint(hint),
                ]));
            }
            let warning = format!("the run resumes from `{path}`, not bit for bit:{told}");
            if warns {
                output::diagnostics(&[Diagnostic::warning(warning)]);
            }
        }
        if warns && !self.checkpoint.header.exact {
            let warning = format!(
                "`{path}` was saved when an error broke an iteration off: parameters and optimizer \
                 are as before it, but hooks and this epoch's metrics have seen a part of it"
            );
            output::diagnostics(&[Diagnostic::warning(warning)]);
        }
        Ok(Resume {
            is_changed: !self.changes.is_empty(),
            checkpoint: self.checkpoint,
            path: self.path,
        })
    }
}

impl ResumePoint {
    /// The checkpoints that hooks' states refer to and that are gone, or have been replaced without a trace.
    fn missing(&self) -> Vec<String> {
        let Some(store) = Store::around(&self.path) else {
            return Vec::new();
        };
        let references = self.checkpoint.references();
        let missing = references.filter(|(_, reference)| store.find(reference).is_none());
        missing
            .map(|(hook, reference)| {
                let tag = reference.tag();
                let found = match checkpoint::epoch_of(&store.path_of(tag)) {
                    Some(epoch) => format!("found is one of epoch {epoch}"),
                    None => "there is none".to_owned(),
                };
                format!(
                    "the hook `{hook}` refers to the checkpoint `{tag}` of epoch {}, update {}, SHA-256 {:.8}…; {found}",
                    reference.epoch(),
                    reference.update(),
                    reference.sha256()
                )
            })
            .collect()
    }

    fn refused_for(&self, missing: &[String]) -> StartFailure {
        let problem = format!(
            "the run can't resume from `{}`, its hooks' states refer to checkpoints that don't exist:{}",
            self.path.display(),
            list(missing.iter())
        );
        let other = Store::around(&self.path).and_then(|store| store.newest_consistent());
        let other = other.map_or_else(String::new, |tag| {
            format!("resume from `{tag}`, the newest one of which everything is there; or ")
        });
        let hint = format!(
            "{other}use `--allow-changes`, by which these hooks forget what is gone; or start over with `--overwrite`"
        );
        StartFailure::usage(vec![Diagnostic::new(problem).hint(hint)])
    }

    /// Whether the checkpoint `what` is outside of an output directory, so that a run resumed from it is a new one there.
    pub(super) fn is_elsewhere(what: &str, store: &Store) -> bool {
        match meant(what, store) {
            Ok(Meant::This(path)) => path.parent() != Some(store.directory()),
            Ok(Meant::Latest(other)) => other.directory() != store.directory(),
            Err(_) => false,
        }
    }

    /// Brings the checkpoint to the directory of the new run, with everything that its hooks' states refer to.
    ///
    /// # Errors
    ///
    /// If that run has checkpoints of its own, or something can't be copied.
    pub(super) fn bring(resume: &mut Resume, output: &Output) -> Result<(), StartFailure> {
        let store = &output.store;
        let is_inside = |path: &Path| path.parent() == Some(store.directory());
        if is_inside(&resume.path) {
            return Ok(());
        }
        output.refuse_others_checkpoints()?;
        let tag = resume.checkpoint.header.tag.clone();
        store.bring(&resume.path, &tag).map_err(|error| {
            let problem = format!(
                "the checkpoint `{}` can't be brought to `{}`: {error}",
                resume.path.display(),
                output.path.display()
            );
            StartFailure::usage(vec![Diagnostic::new(problem)])
        })?;
        resume.path = store.path_of(&tag);
        Ok(())
    }
}

/// Which checkpoint was requested.
enum Meant {
    /// Exactly the one in this directory.
    This(PathBuf),
    /// The last one saved by a run.
    Latest(Store),
}

/// Reads the last saved checkpoint: the one that `latest` points to or, if that is missing or damaged, the newest
/// complete one, with a warning.
fn newest(store: &Store) -> Result<(PathBuf, Checkpoint), StartFailure> {
    let latest = store.latest();
    let reason = match &latest {
        Some(tag) => {
            let path = store.path_of(tag);
            match checkpoint::read(&path) {
                Ok(checkpoint) => return Ok((path, checkpoint)),
                Err(error) => error,
            }
        }
        None => checkpoint::CheckpointError::Missing {
            path: store.directory().join(LATEST),
        },
    };
    let others = store.newest_first();
    let others = others.iter().filter(|tag| Some(*tag) != latest.as_ref());
    for tag in others {
        let path = store.path_of(tag);
        let Ok(checkpoint) = checkpoint::read(&path) else {
            continue;
        };
        let warning = format!("{reason}; the run resumes from `{tag}`, the newest complete one");
        let hint = "another one can be named: `--resume TAG`";
        output::diagnostics(&[Diagnostic::warning(warning).hint(hint)]);
        return Ok((path, checkpoint));
    }
    match latest {
        Some(tag) => Err(damaged(&reason, &store.path_of(&tag), store)),
        None => Err(nothing(store)),
    }
}

fn damaged(error: &checkpoint::CheckpointError, path: &Path, store: &Store) -> StartFailure {
    let others = store.tags();
    let others: Vec<&String> = (others.iter())
        .filter(|tag| store.path_of(tag) != path)
        .collect();
    let problem = Diagnostic::new(error.to_string());
    StartFailure::usage(vec![match others.as_slice() {
        [] => problem,
        others => problem.hint(format!("other checkpoints: {}", quoted(others))),
    }])
}

fn nothing(store: &Store) -> StartFailure {
    let problem = format!(
        "there is no checkpoint in `{}`",
        store.directory().display()
    );
    let hint = "without `--resume` a new run begins";
    StartFailure::usage(vec![Diagnostic::new(problem).hint(hint)])
}

/// Resolves a tag, a path, or nothing to a checkpoint.
fn meant(what: &str, store: &Store) -> Result<Meant, StartFailure> {
    if what == LATEST {
        return Ok(Meant::Latest(store.clone()));
    }
    let path = Path::new(what);
    let is_tag = path.components().count() == 1;
    if is_tag && store.path_of(what).is_dir() {
        return Ok(Meant::This(store.path_of(what)));
    }
    if path.is_dir() {
        let path = fs_err::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        // A run's output directory means its latest checkpoint.
        let other = Store::of(&path);
        return Ok(if other.directory().is_dir() {
            Meant::Latest(other)
        } else {
            Meant::This(path)
        });
    }
    let tags = store.tags();
    if tags.is_empty() {
        return Err(nothing(store));
    }
    let problem = format!(
        "there is no checkpoint `{what}` in `{}`, and no such directory",
        store.directory().display()
    );
    let near = nearest(what, tags.iter().map(String::as_str));
    let all: Vec<&String> = tags.iter().collect();
    let hint = match near {
        Some(near) => format!("did you mean `{near}`? There are {}", quoted(&all)),
        None => format!("there are {}", quoted(&all)),
    };
    Err(StartFailure::usage(vec![
        Diagnostic::new(problem).hint(hint),
    ]))
}

/// Describes how the model's parameters differ from those of a checkpoint.
fn parameter_changes(checkpoint: &Checkpoint, task: &dyn Task) -> Vec<String> {
    const MOST: usize = 8;
    let mut found = Vec::new();
    let parameters = task.parameters();
    let saved: HashMap<&str, &Tensor> = checkpoint.under(Section::Parameters).collect();
    for parameter in parameters.iter() {
        let name = parameter.name();
        match saved.get(name) {
            None => found.push(format!("the checkpoint has no parameter `{name}`")),
            Some(tensor) if tensor.dims() != parameter.tensor().dims() => found.push(format!(
                "`{name}` had the shape {:?}, now {:?}",
                tensor.dims(),
                parameter.tensor().dims()
            )),
            Some(_) => {}
        }
    }
    for (name, _) in checkpoint.under(Section::Parameters) {
        if parameters.get(name).is_err() {
            found.push(format!("the model has no parameter `{name}` any more"));
        }
    }
    if found.len() > MOST {
        let more = found.len() - MOST;
        found.truncate(MOST);
        found.push(format!("and {more} more"));
    }
    found
}

pub(super) fn list<'a>(lines: impl Iterator<Item = &'a String>) -> String {
    lines.fold(String::new(), |text, line| format!("{text}\n  - {line}"))
}

fn quoted(tags: &[&String]) -> String {
    let tags: Vec<String> = tags.iter().map(|tag| format!("`{tag}`")).collect();
    tags.join(", ")
}

/// Returns the command line that resumes this process's run from its checkpoint at `path`.
pub(super) fn command(path: &Path, store: &Store) -> String {
    let name = match path.strip_prefix(store.directory()) {
        Ok(tag)
            if store
                .latest()
                .is_some_and(|latest| Path::new(&latest) == tag) =>
        {
            None
        }
        Ok(tag) => Some(tag.display().to_string()),
        Err(_) => Some(path.display().to_string()),
    };
    let mut words = words_of_run();
    words.push("--resume".to_owned());
    words.extend(name);
    in_one_line(&words)
}

/// Returns the command line that goes on with this process's runs from their last checkpoints.
pub(super) fn command_for_all() -> String {
    let mut words = own_words();
    words.push("--resume".to_owned());
    in_one_line(&words)
}

/// The command line that has begun this process's run, without how the run starts: that of `sconce launch` if it has started
/// this process; with the launcher and its number of processes in front if another has.
fn words_of_run() -> Vec<String> {
    let by_launch = std::env::var(launcher::WORDS).ok();
    if let Some(words) = by_launch.and_then(|words| serde_json::from_str(&words).ok()) {
        return words;
    }
    let launch = Launch::of_this_process().filter(|launch| launch.size > 1);
    let launch = launch
        .into_iter()
        .flat_map(|Launch { launcher, size, .. }| {
            [launcher.to_string(), "-n".to_owned(), size.to_string()]
        });
    launch.chain(own_words()).collect()
}

/// This process's command line, without how its run starts.
pub(super) fn own_words() -> Vec<String> {
    without_resume(all_own_words())
}

/// This process's command line.
pub(super) fn all_own_words() -> impl Iterator<Item = String> {
    std::env::args_os().map(|part| part.to_string_lossy().into_owned())
}

/// The words as a shell takes them.
fn in_one_line(words: &[String]) -> String {
    let words: Vec<_> = words.iter().map(|word| shell_word(word)).collect();
    words.join(" ")
}

/// Removes the words of [`ResumeArgs`] from a command line.
pub(super) fn without_resume(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let mut words = Vec::new();
    let mut arguments = arguments.peekable();
    // The program, the command and the manifest are never values of an option.
    while let Some(word) = arguments.next() {
        match word.as_str() {
            "--resume" => {
                arguments.next_if(|next| !next.starts_with('-'));
            }
            "--overwrite" | "--allow-changes" | "--resume-if-exists" => {}
            _ if word.starts_with("--resume=") => {}
            _ => words.push(word),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_reported_as_a_shell_takes_it() {
        let given =
            "sconce run a.json --resume last --set model.hidden=[8] --overwrite --allow-changes";
        let words = without_resume(given.split(' ').map(str::to_owned));
        assert_eq!(
            in_one_line(&words),
            "sconce run a.json --set 'model.hidden=[8]'"
        );
        let words = without_resume(
            ["run", "--resume", "--set", "a=1"]
                .map(str::to_owned)
                .into_iter(),
        );
        assert_eq!(words, ["run", "--set", "a=1"]);
    }
}
