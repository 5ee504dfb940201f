//! A run's output directory: created, checked for use, and locked by one run at a time.

mod lock;

use std::io;
use std::path::{Path, PathBuf};

use super::StartFailure;
use crate::checkpoint::Store;
use crate::diagnostic::Diagnostic;
use crate::model_directory::MODEL;
use lock::{Holder, Lock};
use sconce_base::held_directory::{HeldDirectory, PART};

/// Whether another process runs in this output directory.
pub fn is_in_use(directory: &Path) -> bool {
    Lock::is_held(directory)
}

/// An output directory that only this process writes to while this value lives.
#[derive(Debug)]
pub struct Output {
    /// Absolute path of the directory.
    pub path: PathBuf,
    /// The checkpoints in it.
    pub store: Store,
    _lock: Lock,
}

impl Output {
    /// Creates the directory if it is missing, and takes its lock. Files left unfinished by killed processes
    /// are removed.
    ///
    /// # Errors
    ///
    /// If it can't be created or written to, or is in use by another run.
    pub fn open(directory: &Path) -> Result<Output, StartFailure> {
        make(directory)?;
        let path =
            fs_err::canonicalize(directory).map_err(|error| cant_be_used(directory, &error))?;
        if path.to_str().is_none() {
            let problem = format!(
                "the output directory `{}` has a name that is not UTF-8, which hooks can't be given",
                path.display()
            );
            return Err(usage(problem, OTHER));
        }
        let lock = Lock::take(&path).map_err(|refusal| match refusal {
            lock::LockRefusal::Held(holder) => in_use(&path, &holder),
            lock::LockRefusal::System(error) => cant_be_used(&path, &error),
        })?;
        let store = Store::of(&path).holding();
        store
            .recover()
            .map_err(|error| cant_be_used(&path, &error))?;
        clear_parts(store.run_directory());
        Ok(Output {
            path,
            store,
            _lock: lock,
        })
    }

    /// Checks whether a new run could use the directory, without creating anything. Returns what the user
    /// would have to decide.
    ///
    /// # Errors
    ///
    /// If it can't be created.
    pub fn look(directory: &Path) -> Result<Vec<Diagnostic>, StartFailure> {
        refuse_file(directory)?;
        try_to_write(directory)?;
        let tags = Store::of(directory).tags();
        if tags.is_empty() {
            return Ok(Vec::new());
        }
        Ok(vec![
            Diagnostic::warning(earlier(directory, &tags)).hint(EARLIER),
        ])
    }

    /// Opens a directory created by an earlier run.
    ///
    /// # Errors
    ///
    /// As for [`open`](Output::open), and if it does not exist.
    pub fn open_existing(directory: &Path) -> Result<Output, StartFailure> {
        if !directory.exists() {
            let problem = format!(
                "the output directory `{}` is not there: there is nothing to resume from",
                directory.display()
            );
            return Err(usage(
                problem,
                "without `--resume` the run starts from the beginning",
            ));
        }
        Output::open(directory)
    }

    /// Makes sure that a run resumed from another run's checkpoint does not mix with an earlier one here.
    ///
    /// # Errors
    ///
    /// If there are checkpoints.
    pub fn refuse_others_checkpoints(&self) -> Result<(), StartFailure> {
        let tags = self.store.tags();
        // A run has at least one of these. Without, a process was killed while it brought another's checkpoint.
        let is_run = self.store.latest().is_some() || self.path.join("manifest.json").exists();
        if tags.is_empty() || !is_run {
            return Ok(());
        }
        let hint = "go on with that run by `--resume` alone or with a tag of its own, or choose another directory by \
                    `--output` for a run from the other checkpoint";
        Err(usage(earlier(&self.path, &tags), hint))
    }

    /// Makes sure that a new run does not replace another run's checkpoints. If the user asks for that, they
    /// are removed.
    ///
    /// # Errors
    ///
    /// If there are any, or they can't be removed.
    pub fn begin(&self, overwrite: bool) -> Result<(), StartFailure> {
        let tags = self.store.tags();
        if !tags.is_empty() && !overwrite {
            return Err(usage(earlier(&self.path, &tags), EARLIER));
        }
        if overwrite {
            let cleared = self.store.clear();
            cleared.map_err(|error| cant_be_used(&self.path, &error))?;
        }
        self.forget_end()
    }

    /// Removes the record of an earlier run's end, and its model.
    ///
    /// # Errors
    ///
    /// If they can't be removed.
    pub fn forget_end(&self) -> Result<(), StartFailure> {
        let run = self.store.run_directory();
        let record = run.remove(&self.path.join("run.json"));
        let model = run.remove(&self.path.join(MODEL));
        for removed in [record, model] {
            match removed {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(cant_be_used(&self.path, &error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Removes temporary files and models left by killed processes.
fn clear_parts(run: &HeldDirectory) {
    let entries = std::fs::read_dir(run.path());
    for entry in entries.into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_model = name
            .strip_prefix('.')
            .and_then(|name| name.strip_prefix(MODEL))
            .is_some_and(|rest| rest.starts_with(".new-") || rest.starts_with(".old-"));
        if is_model || (name.starts_with('.') && name.ends_with(PART)) {
            // If it stays, the next one of this name takes its place.
            drop(run.remove(&entry.path()));
        }
    }
}

const OTHER: &str = "choose another directory by `--output` or the manifest's `output`";

/// Hint about the checkpoints of an earlier run.
const EARLIER: &str = "go on with that run by `--resume`, remove its checkpoints by \
                       `--overwrite`, or choose another directory by `--output`";

fn earlier(directory: &Path, tags: &[String]) -> String {
    let tags: Vec<String> = tags.iter().map(|tag| format!("`{tag}`")).collect();
    format!(
        "the output directory `{}` has the checkpoints of an earlier run: {}",
        directory.display(),
        tags.join(", ")
    )
}

fn make(directory: &Path) -> Result<(), StartFailure> {
    refuse_file(directory)?;
    fs_err::create_dir_all(directory).map_err(|error| cant_be_used(directory, &error))
}

/// Rejects a path that is a file, or leads through one.
fn refuse_file(directory: &Path) -> Result<(), StartFailure> {
    let in_the_way = directory.ancestors().find(|path| path.is_file());
    if let Some(file) = in_the_way {
        let problem = format!(
            "the output directory `{}` can't be made: `{}` is a file",
            directory.display(),
            file.display()
        );
        return Err(usage(problem, OTHER));
    }
    Ok(())
}

/// Makes a directory where the output directory is, or would be, and removes it.
fn try_to_write(directory: &Path) -> Result<(), StartFailure> {
    // Such as a name that is too long for the file system.
    if let Err(error) = directory.metadata()
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(cant_be_used(directory, &error));
    }
    let mut existing = directory.ancestors().filter(|path| path.is_dir());
    // All parts of a relative path may be missing: then it begins here.
    let place = existing.next().unwrap_or(Path::new("."));
    let made = tempfile::Builder::new()
        .prefix(".sconce-check-")
        .tempdir_in(place);
    made.and_then(tempfile::TempDir::close)
        .map_err(|error| cant_be_used(directory, &error))
}

fn cant_be_used(directory: &Path, error: &io::Error) -> StartFailure {
    let problem = format!(
        "the output directory `{}` can't be written to: {error}",
        directory.display()
    );
    usage(problem, OTHER)
}

fn in_use(directory: &Path, holder: &Holder) -> StartFailure {
    let problem = format!(
        "the output directory `{}` is in use by another run: {holder}",
        directory.display()
    );
    usage(
        problem,
        "wait for its end, or choose another directory by `--output`",
    )
}

fn usage(problem: String, hint: &str) -> StartFailure {
    StartFailure::usage(vec![Diagnostic::new(problem).hint(hint)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(result: Result<Output, StartFailure>) -> String {
        let failure = result.expect_err("refused");
        assert_eq!(failure.code, crate::exit::USAGE);
        format!("{:?}", failure.diagnostics)
    }

    #[test]
    fn a_directory_is_one_runs_and_what_cant_be_one_is_reported() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("runs/a");
        let first = Output::open(&path).expect("free");
        let told = refusal(Output::open(&path));
        let process = format!("process {}", std::process::id());
        assert!(
            told.contains("is in use by another run") && told.contains(&process),
            "{told}"
        );
        drop(first);
        drop(Output::open(&path).expect("free again"));

        let file = place.path().join("file");
        fs_err::write(&file, "x").expect("written");
        for path in [file.clone(), file.join("below")] {
            let told = refusal(Output::open(&path));
            assert!(told.contains("file` is a file"), "{told}");
        }
        let long = place.path().join("x".repeat(300));
        let told = refusal(Output::open(&long));
        assert!(
            told.contains("can't be written to") && told.contains("--output"),
            "{told}"
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_name_that_is_no_text_is_refused() {
        use std::os::unix::ffi::OsStrExt;
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join(std::ffi::OsStr::from_bytes(b"a\xff"));
        let told = refusal(Output::open(&path));
        assert!(told.contains("not UTF-8"), "{told}");
    }

    #[test]
    fn checkpoints_of_an_earlier_run_are_not_replaced_unasked() {
        let place = tempfile::tempdir().expect("a directory");
        let output = Output::open(place.path()).expect("free");
        output.begin(false).expect("nothing there");
        let checkpoint = output.store.path_of("last");
        fs_err::create_dir_all(&checkpoint).expect("made");
        fs_err::write(place.path().join("run.json"), "{}").expect("written");
        output.begin(false).expect("nothing whole there");
        assert!(!place.path().join("run.json").exists());
        let index = r#"{"format": 1, "host": "sconce 0", "files": []}"#;
        fs_err::write(checkpoint.join("index.json"), index).expect("written");
        let told = format!(
            "{:?}",
            output.begin(false).expect_err("refused").diagnostics
        );
        for words in ["`last`", "--resume", "--overwrite"] {
            assert!(told.contains(words), "{told}");
        }
        output.begin(true).expect("removed");
        assert!(!checkpoint.exists());
    }
}
