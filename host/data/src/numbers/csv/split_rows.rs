//! Which rows of a table were trained on, validated with and tested with, by the hash of each: they are found again in a
//! file with more rows, or in another order.

use std::collections::{HashMap, HashSet};

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

use super::table::Table;
use crate::error::PreprocessingError;
use crate::error::printable::printable;
use crate::files::data_files::ContentHash;
use crate::split::Parts;

/// Name of the file.
pub const ROWS: &str = "rows.safetensors";

/// Size in bytes of a row's hash.
const SIZE: usize = 16;

/// Hash of a row: the start of the BLAKE3 hash of its fields, each after its length, and, if rows before it are equal, of
/// their number.
pub(super) type RowHash = [u8; SIZE];

/// Most rows of a table whose hashes are kept.
pub(super) const MOST_ROWS: usize = 1 << 20;

/// Size in bytes of the largest file of them: of three tables, with a header.
pub const LARGEST_ROWS: u64 = (3 * MOST_ROWS * SIZE + (1 << 16)) as u64;

/// Rows of a table to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsOf {
    /// Those that were trained on.
    Train,
    /// Those of the validation.
    Val,
    /// Those of the test.
    Test,
    /// Those of no part.
    New,
}

impl RowsOf {
    /// Says what a row of them is, for messages.
    pub(super) fn described(self) -> &'static str {
        match self {
            RowsOf::Train => "one that the model was trained on",
            RowsOf::Val => "one of the training's validation",
            RowsOf::Test => "one of the training's test",
            RowsOf::New => "new: all of them were in the training's table",
        }
    }
}

/// Parts that have rows, with their names in the file.
const PARTS: [(RowsOf, &str); 3] = [
    (RowsOf::Train, "train"),
    (RowsOf::Val, "val"),
    (RowsOf::Test, "test"),
];

/// Hashes of the rows of each part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SplitRows([Vec<RowHash>; PARTS.len()]);

impl SplitRows {
    /// Takes those of the parts of a table, whose used rows have these hashes.
    pub(super) fn new(rows: &[RowHash], parts: &Parts) -> SplitRows {
        let of = |indices: &Vec<u32>| {
            let hashes = indices.iter().filter_map(|&row| rows.get(row as usize));
            hashes.copied().collect()
        };
        let parts = [&parts.train, &parts.val, &parts.test];
        SplitRows(parts.map(of))
    }

    /// Sets the rows of a part that has a file of its own.
    pub(super) fn set(&mut self, part: RowsOf, rows: &[RowHash]) {
        let parts = self.0.iter_mut().zip(PARTS);
        for (hashes, _) in parts.filter(|(_, (known, _))| *known == part) {
            rows.clone_into(hashes);
        }
    }

    /// Returns the number of rows of a part.
    pub(super) fn count(&self, part: RowsOf) -> usize {
        self.of(part).count()
    }

    /// Returns the indices of those of these rows that are of a part, or of none, in order.
    pub(super) fn select(&self, rows: &[RowHash], part: RowsOf) -> Vec<usize> {
        let is_new = part == RowsOf::New;
        let known: HashSet<&RowHash> = if is_new {
            self.0.iter().flatten().collect()
        } else {
            self.of(part).collect()
        };
        let rows = rows.iter().enumerate();
        let selected = rows.filter(|(_, hash)| known.contains(hash) != is_new);
        selected.map(|(row, _)| row).collect()
    }

    /// Returns the hash of the rows of a part, whatever their order; none if there are none.
    pub(crate) fn hash(&self, part: RowsOf) -> Option<ContentHash> {
        let mut rows: Vec<RowHash> = self.of(part).copied().collect();
        rows.sort_unstable();
        (!rows.is_empty()).then(|| ContentHash::of(rows.as_flattened()))
    }

    fn of(&self, part: RowsOf) -> impl Iterator<Item = &RowHash> {
        let parts = self.0.iter().zip(PARTS);
        let part = parts.filter(move |(_, (known, _))| *known == part);
        part.flat_map(|(hashes, _)| hashes)
    }

    /// Returns the content of their file: for each part a tensor of bytes, (rows, 16).
    pub fn to_bytes(&self) -> Vec<u8> {
        let parts = self.0.iter().zip(PARTS);
        let tensors = parts.filter_map(|(hashes, (_, name))| {
            let view = TensorView::new(Dtype::U8, vec![hashes.len(), SIZE], hashes.as_flattened());
            Some((name, view.ok()?))
        });
        // The views have the sizes of their data.
        safetensors::serialize(tensors, None).unwrap_or_default()
    }

    /// Reads what [`to_bytes`](SplitRows::to_bytes) has written.
    ///
    /// # Errors
    ///
    /// If it is not such a file.
    pub fn from_bytes(bytes: &[u8]) -> Result<SplitRows, PreprocessingError> {
        let invalid = |problem: String| PreprocessingError::Invalid {
            name: ROWS,
            path: String::new(),
            problem,
        };
        let tensors = SafeTensors::deserialize(bytes)
            .map_err(|error| invalid(printable(&error.to_string())))?;
        let mut rows = SplitRows::default();
        for (hashes, (_, name)) in rows.0.iter_mut().zip(PARTS) {
            let found = tensors.tensor(name);
            let found = found.map_err(|error| invalid(printable(&error.to_string())))?;
            if found.dtype() != Dtype::U8 || !matches!(found.shape(), [_, SIZE]) {
                return Err(invalid(format!(
                    "`{name}` is not of bytes, {SIZE} for each row"
                )));
            }
            let (whole, _) = found.data().as_chunks();
            *hashes = whole.to_vec();
        }
        Ok(rows)
    }
}

/// Hashes rows of a table, by the fields at these places.
pub(super) fn row_hashes(
    table: &Table,
    places: &[usize],
    rows: impl Iterator<Item = usize>,
) -> Vec<RowHash> {
    let mut seen: HashMap<RowHash, u64> = HashMap::new();
    let mut fields = Vec::new();
    let hash_of = |row| {
        fields.clear();
        for &place in places {
            let field = table.field(row, place);
            fields.extend((field.len() as u64).to_le_bytes());
            fields.extend(field.as_bytes());
        }
        let hash = start_of_hash(&fields);
        let equal = seen.entry(hash).or_default();
        *equal += 1;
        match *equal {
            1 => hash,
            // Equal rows are told apart by their number.
            equal => start_of_hash(&[hash.as_slice(), &equal.to_le_bytes()].concat()),
        }
    };
    rows.map(hash_of).collect()
}

fn start_of_hash(bytes: &[u8]) -> RowHash {
    let mut start = RowHash::default();
    let hash = blake3::hash(bytes);
    start.copy_from_slice(hash.as_bytes().split_at(SIZE).0);
    start
}
