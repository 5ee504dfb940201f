//! What a run leaves, compared with an undisturbed run's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

/// Files that say how a run went, not what it made.
const RECORDS: [&str; 4] = ["run.json", "run.lock", "crash.json", "crash.txt"];

/// Files whose contents depend on times, or on how often the run was started; they must be there.
const VARYING: [&str; 3] = ["report.html", "training-trace.json", "profile.jsonl"];

/// The name of a hook whose state has the number of starts: a resumed run begins another file of events.
const COUNTS_STARTS: &[u8] = b"\"tensorboard\"";

/// Checkpoints that the host saves where a run ends early: they stay.
const ENDED: [&str; 2] = ["checkpoints/failed/", "checkpoints/interrupted/"];

/// A link to the checkpoint saved last, or where there are no links, a file with its tag.
const LATEST: &str = "checkpoints/latest";

/// The weights that a run ends with.
const WEIGHTS: &str = "weights.safetensors";

/// Endings of names that only an interrupted save leaves.
const UNFINISHED: [&str; 3] = [".part", ".new-", ".old-"];

/// A run's files by relative path, without hidden ones.
pub(super) struct Tables {
    files: BTreeMap<String, Vec<u8>>,
    /// Temporary files and directories.
    unfinished: BTreeSet<String>,
}

/// How what a run leaves differs.
#[derive(Debug, Default)]
pub(super) struct Difference {
    pub(super) weights: bool,
    /// Files that are missing or have other contents.
    pub(super) files: Vec<String>,
    /// Files that shouldn't be there.
    pub(super) extra: Vec<String>,
    /// Temporary files and directories, which the next start in the directory removes.
    pub(super) unfinished: Vec<String>,
}

impl Tables {
    pub(super) fn of(directory: &Path) -> io::Result<Tables> {
        let mut tables = Tables {
            files: BTreeMap::new(),
            unfinished: BTreeSet::new(),
        };
        tables.add(directory, "")?;
        Ok(tables)
    }

    fn add(&mut self, directory: &Path, at: &str) -> io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let place = format!("{at}{name}");
            if name.starts_with('.') {
                if UNFINISHED.iter().any(|mark| name.contains(mark)) {
                    self.unfinished.insert(place);
                }
            } else if place == LATEST {
                let tag = fs::read_link(entry.path()).map(|tag| tag.display().to_string());
                let tag = tag.or_else(|_| fs::read_to_string(entry.path()))?;
                let target = format!("checkpoints/{}/", tag.trim());
                // A run that ended early and had nothing left to train: that checkpoint was saved last, and is as good.
                let is_ended = ENDED.contains(&target.as_str());
                self.files
                    .insert(place, if is_ended { Vec::new() } else { target.into() });
            } else if entry.path().is_dir() {
                self.add(&entry.path(), &format!("{place}/"))?;
            } else if !RECORDS.contains(&place.as_str()) {
                self.files.insert(place, fs::read(entry.path())?);
            }
        }
        Ok(())
    }

    /// Compares with what an undisturbed run left, `self`. Where a second undisturbed run, `twin`, left other bytes, they
    /// are times: only the texts around numbers must be the same, and if not even they are, the names. Of such files in
    /// checkpoints the names suffice: they have states of all hooks, with times.
    pub(super) fn compare(&self, twin: &Tables, found: &Tables) -> Difference {
        let mut difference = Difference::default();
        for (name, expected) in &self.files {
            let Some(again) = twin.files.get(name) else {
                continue;
            };
            let Some(bytes) = found.files.get(name) else {
                difference.files.push(format!("{name} is missing"));
                continue;
            };
            let is_same = if expected == again {
                bytes == expected
            } else {
                name.starts_with("checkpoints/")
                    || shape(expected) != shape(again)
                    || shape(bytes) == shape(expected)
            };
            let counts_starts = || {
                let mut windows = expected.windows(COUNTS_STARTS.len());
                name.ends_with("/hooks.json") && windows.any(|window| window == COUNTS_STARTS)
            };
            let is_same = is_same
                || VARYING.contains(&name.as_str())
                || name == LATEST && bytes.is_empty()
                || counts_starts();
            if !is_same {
                difference.files.push(name.clone());
            }
        }
        difference.weights = self.files.get(WEIGHTS) != found.files.get(WEIGHTS);
        let names: BTreeSet<_> = self
            .files
            .keys()
            .map(|name| shape(name.as_bytes()))
            .collect();
        let is_known = |name: &String| {
            ENDED.iter().any(|ended| name.starts_with(ended))
                || names.contains(&shape(name.as_bytes()))
        };
        let unknown = found.files.keys().filter(|name| !is_known(name));
        difference.extra = unknown.cloned().collect();
        difference.unfinished = found.unfinished.iter().cloned().collect();
        difference
    }
}

/// Bytes without all that numbers have.
pub(super) fn shape(bytes: &[u8]) -> Vec<u8> {
    let is_of_number = |byte: &u8| byte.is_ascii_digit() || b".+-e".contains(byte);
    let kept = bytes.iter().filter(|byte| !is_of_number(byte));
    kept.copied().collect()
}
