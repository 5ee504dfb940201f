//! The files by which `sconce reload` asks a run, and is answered.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::run::ReloadResult;
use sconce_base::files;

/// A request in a run's directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadRequest {
    /// What identifies it in the answer.
    pub id: String,
    /// Name of the hook; all hooks if there is none.
    pub hook: Option<String>,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadAnswer {
    /// Of the request.
    pub(crate) id: String,
    /// What became of each hook.
    pub results: Vec<ReloadResult>,
}

/// The most bytes of either file: the directory may be another user's.
const LARGEST: u64 = 1 << 20;

fn request_path(run: &Path) -> PathBuf {
    run.join("reload.request.json")
}

fn answer_path(run: &Path) -> PathBuf {
    run.join("reload.answer.json")
}

/// Asks the run in a directory.
///
/// # Errors
///
/// If the request can't be written.
pub fn ask(run: &Path, request: &ReloadRequest) -> std::io::Result<()> {
    drop(std::fs::remove_file(answer_path(run)));
    write(&request_path(run), request)
}

/// Takes the request from a run's directory, if there is one.
pub(super) fn take(run: &Path) -> Option<ReloadRequest> {
    let path = request_path(run);
    let request = read(&path);
    if request.is_some() {
        drop(std::fs::remove_file(&path));
    }
    request
}

/// Answers a request.
pub(super) fn answer(run: &Path, answer: &ReloadAnswer) {
    // Who waits for it gives up after a while.
    drop(write(&answer_path(run), answer));
}

/// The answer to the request with this ID, once it is there.
pub fn answered(run: &Path, id: &str) -> Option<ReloadAnswer> {
    read::<ReloadAnswer>(&answer_path(run)).filter(|answer| answer.id == id)
}

fn write(path: &Path, what: &impl Serialize) -> std::io::Result<()> {
    let text = serde_json::to_string(what)?;
    files::write_atomically(path, text.as_bytes())
}

fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> Option<T> {
    let metadata = std::fs::symlink_metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > LARGEST {
        return None;
    }
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_taken_once_and_an_answer_is_to_its_request() {
        let run = tempfile::tempdir().expect("a directory");
        assert_eq!(take(run.path()), None);
        let request = ReloadRequest {
            id: "7".to_owned(),
            hook: None,
        };
        ask(run.path(), &request).expect("it is written");
        assert_eq!(take(run.path()), Some(request));
        assert_eq!(take(run.path()), None);
        let results = Vec::new();
        let id = "7".to_owned();
        answer(run.path(), &ReloadAnswer { id, results });
        assert!(answered(run.path(), "7").is_some());
        assert!(answered(run.path(), "8").is_none());
    }
}
