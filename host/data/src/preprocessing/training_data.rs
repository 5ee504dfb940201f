//! What a model was trained on: the files, and how their samples were divided.

use crate::csv::{RowsOf, SplitRows};
use crate::files::data_files::{ContentHash, DataFile, HashOf, PerPart, SplitRecord};

/// What the names of files begin and end with that have the hashes of a run's rows, beside its checkpoints.
const ROWS_START: &str = ".rows-";
const ROWS_END: &str = ".safetensors";

/// Whether a name is one of [`TrainingData::rows_name`].
pub fn is_rows_name(name: &str) -> bool {
    name.starts_with(ROWS_START) && name.ends_with(ROWS_END)
}

/// Files that the training's data were read from, and how their samples were divided; empty for a model that was kept
/// without them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrainingData {
    /// How the samples were divided.
    pub split: Option<SplitRecord>,
    /// The files; none for generated samples.
    pub files: Vec<DataFile>,
}

impl TrainingData {
    /// Describes data that were loaded: how their parts were drawn, if they were, the number of samples of each, and for a
    /// table the rows of each.
    pub(crate) fn new(
        drawn: Option<SplitRecord>,
        counts: PerPart<u64>,
        rows: Option<&SplitRows>,
        files: Vec<DataFile>,
    ) -> TrainingData {
        let mut split = SplitRecord {
            rows: counts,
            ..drawn.unwrap_or_default()
        };
        if let Some(rows) = rows {
            split.hash_of = Some(HashOf::Rows);
            split.hash = hashes(rows);
        }
        TrainingData {
            split: Some(split),
            files,
        }
    }

    /// Returns the file that the training read whose content is that of this one, if there is one.
    pub fn same_file(&self, file: &DataFile) -> Option<&DataFile> {
        self.files.iter().find(|known| known.hash == file.hash)
    }

    /// Returns the name of the file beside a run's checkpoints that has the hashes of the rows of each part: another for
    /// other rows. None if they were not kept.
    pub fn rows_name(&self) -> Option<String> {
        const DIGITS: usize = 16;
        let split = self.split.as_ref()?;
        if split.hash_of != Some(HashOf::Rows) {
            return None;
        }
        let PerPart { train, val, test } = split.hash;
        let parts = [train, val, test].map(|hash| hash.map(|hash| hash.digits()));
        let text = parts.map(Option::unwrap_or_default).join(" ");
        let mut digits = ContentHash::of(text.as_bytes()).digits();
        digits.truncate(DIGITS);
        Some(format!("{ROWS_START}{digits}{ROWS_END}"))
    }

    /// Whether these are the rows of its parts, as far as their hashes are known.
    pub(crate) fn has(&self, rows: &SplitRows) -> bool {
        let Some(split) = &self.split else {
            return true;
        };
        split.hash_of != Some(HashOf::Rows) || split.hash == hashes(rows)
    }
}

fn hashes(rows: &SplitRows) -> PerPart<ContentHash> {
    PerPart {
        train: rows.hash(RowsOf::Train),
        val: rows.hash(RowsOf::Val),
        test: rows.hash(RowsOf::Test),
    }
}
