//! Rotary position embeddings: tables of angles, and the positions of tokens.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use candle_core::{CpuStorage, DType, Result, bail};

use crate::storage::{Number, number};

/// Cosines and sines of the angles of rotary position embeddings (Su et al., 2021). Clones share them.
///
/// A pair of elements of a head, the i-th of its first half and of its second, is turned by an angle that is proportional to its
/// position. With fewer pairs than half of a head's elements, the halves are those of its first elements, and the others stay.
#[derive(Clone, Debug)]
pub struct RotaryTable(Arc<Angles>);

#[derive(Debug)]
struct Angles {
    /// Distinguishes tables.
    number: u64,
    positions: usize,
    /// Angle of each pair at position 1.
    steps: Vec<f64>,
    /// For each position, the cosines of all pairs and then the sines.
    single: OnceLock<CpuStorage>,
    double: OnceLock<CpuStorage>,
}

impl RotaryTable {
    /// Makes a table for positions below `positions`, from the angle of each pair at position 1. Equal tables in use are the same:
    /// all layers of a model share one.
    pub fn new(positions: usize, steps: Vec<f64>) -> RotaryTable {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        static IN_USE: Mutex<Vec<Weak<Angles>>> = Mutex::new(Vec::new());
        let mut in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        in_use.retain(|angles| angles.strong_count() > 0);
        let is_same = |angles: &Arc<Angles>| angles.positions == positions && angles.steps == steps;
        if let Some(same) = in_use.iter().filter_map(Weak::upgrade).find(is_same) {
            return RotaryTable(same);
        }
        let angles = Arc::new(Angles {
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            positions,
            steps,
            single: OnceLock::new(),
            double: OnceLock::new(),
        });
        in_use.push(Arc::downgrade(&angles));
        RotaryTable(angles)
    }

    /// Returns the number of positions.
    pub fn positions(&self) -> usize {
        self.0.positions
    }

    /// Returns the number of pairs.
    pub fn pairs(&self) -> usize {
        self.0.steps.len()
    }

    /// Cosines and sines (positions, pairs).
    pub fn tables(&self) -> [Vec<f32>; 2] {
        let of = |function: fn(f64) -> f64| {
            let positions = 0..self.0.positions;
            let angles = positions
                .flat_map(|position| self.0.steps.iter().map(move |step| position as f64 * step));
            angles.map(|angle| function(angle) as f32).collect()
        };
        [of(f64::cos), of(f64::sin)]
    }

    /// Its number, which no other table has.
    pub(crate) fn number(&self) -> u64 {
        self.0.number
    }

    /// For each position, the cosines of all pairs and then the sines, computed in `f64`.
    pub(crate) fn rows<T: Number>(&self) -> Result<&[T]> {
        let slot = match T::DTYPE {
            DType::F32 => &self.0.single,
            _ => &self.0.double,
        };
        let storage = slot.get_or_init(|| T::to_cpu_storage_owned(self.computed::<T>()));
        T::cpu_storage_as_slice(storage)
    }

    fn computed<T: Number>(&self) -> Vec<T> {
        let mut rows = Vec::with_capacity(self.0.positions * 2 * self.pairs());
        for position in 0..self.0.positions {
            let angles = || self.0.steps.iter().map(|step| position as f64 * step);
            rows.extend(angles().map(|angle| number::<T>(angle.cos())));
            rows.extend(angles().map(|angle| number::<T>(angle.sin())));
        }
        rows
    }
}

/// Positions of the tokens of a batch.
#[derive(Clone, Debug)]
pub enum TokenPositions {
    /// Those from a first one on, in each row.
    From(usize),
    /// A position for each token of (rows, length), row by row; `rows` is 1 or that of the batch.
    Each {
        /// Number of rows.
        rows: usize,
        /// The positions.
        positions: Arc<[u32]>,
    },
}

impl Default for TokenPositions {
    fn default() -> Self {
        TokenPositions::From(0)
    }
}

/// Rotation of vectors by their positions.
#[derive(Clone, Debug)]
pub struct Rotation {
    /// Angles.
    pub table: RotaryTable,
    /// Positions of the vectors.
    pub positions: TokenPositions,
}

impl Rotation {
    /// Checks that there are angles for all positions of (batch, length), and that heads are wide enough.
    pub(crate) fn check(&self, batch: usize, length: usize, each: usize) -> Result<()> {
        let pairs = self.table.pairs();
        if 2 * pairs > each {
            bail!("{pairs} pairs of elements to rotate in a head of {each}")
        }
        let last = match &self.positions {
            TokenPositions::From(first) => (first + length).saturating_sub(1),
            TokenPositions::Each { rows, positions } => {
                let is_right = *rows == 1 || *rows == batch;
                if !is_right || rows.checked_mul(length) != Some(positions.len()) {
                    bail!(
                        "{} positions of {rows} rows, for {batch} rows of {length} tokens",
                        positions.len()
                    )
                }
                positions.iter().max().map_or(0, |&last| last as usize)
            }
        };
        if length > 0 && last >= self.table.positions() {
            bail!(
                "a token at position {last}, for which there are no rotary angles: the first {} positions have some",
                self.table.positions()
            )
        }
        Ok(())
    }

    /// Positions of all tokens of one row, where all rows have the same, or of all rows.
    pub(crate) fn listed(&self, length: usize) -> (usize, Vec<u32>) {
        match &self.positions {
            TokenPositions::From(first) => {
                (1, (0..length).map(|index| (first + index) as u32).collect())
            }
            TokenPositions::Each { rows, positions } => (*rows, positions.to_vec()),
        }
    }
}
