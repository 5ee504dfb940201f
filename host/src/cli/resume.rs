//! `--resume` and its relatives: how a run starts, and the command line that goes on with it.

use std::path::Path;

use clap::Args;

use crate::checkpoint::{LATEST, Store};
use crate::launcher::{self, Launch};
use crate::shell_word::shell_word;

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
    pub(in crate::cli) fn in_directory(&self, directory: &Path) -> Option<&str> {
        if self.resume_if_exists && !Store::of(directory).tags().is_empty() {
            return Some(LATEST);
        }
        self.resume.as_deref()
    }
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

/// This process's command line, without how its run starts and where it pauses.
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
            // It would end at once.
            "--until" => drop(arguments.next()),
            "--overwrite" | "--allow-changes" | "--resume-if-exists" => {}
            _ if word.starts_with("--resume=") || word.starts_with("--until=") => {}
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
        let given = "sconce run a.json --resume last --set model.hidden=[8] --overwrite --until 2 --allow-changes";
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
