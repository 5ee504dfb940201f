//! Which keys a query of an attention sees: an interval.

use std::sync::Arc;

use candle_core::{Result, bail};

/// Keys that the queries of an attention see.
#[derive(Clone, Debug, Default)]
pub enum VisibleKeys {
    /// All of them.
    #[default]
    All,
    /// Those up to the query's own position, the last query's being the last key's: query `i` sees the keys `0 ..= i + keys −
    /// queries`.
    Causal,
    /// An interval for each query.
    Each(KeyIntervals),
}

/// An interval of visible keys, `[begin, end)`, for each query: of each row of a batch, or the same for all rows.
///
/// A query with an empty interval gives zeros, and no gradient.
#[derive(Clone, Debug)]
pub struct KeyIntervals {
    rows: usize,
    queries: usize,
    intervals: Arc<[[u32; 2]]>,
}

impl KeyIntervals {
    /// Takes the intervals of (rows, queries), row by row; `rows` is 1 or that of the batch.
    ///
    /// # Errors
    ///
    /// If there are not as many, or one ends before it begins.
    pub fn new(rows: usize, queries: usize, intervals: Vec<[u32; 2]>) -> Result<KeyIntervals> {
        if rows.checked_mul(queries) != Some(intervals.len()) {
            bail!(
                "{} intervals of keys for {rows} rows of {queries} queries",
                intervals.len()
            )
        }
        if let Some([begin, end]) = intervals.iter().find(|[begin, end]| begin > end) {
            bail!("an interval of keys from {begin} to {end}")
        }
        Ok(KeyIntervals {
            rows,
            queries,
            intervals: intervals.into(),
        })
    }

    /// Returns the number of rows: 1, or that of the batch.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the intervals of a row's queries.
    pub(crate) fn row(&self, row: usize) -> &[[u32; 2]] {
        let start = if self.rows == 1 {
            0
        } else {
            row * self.queries
        };
        &self.intervals[start..start + self.queries]
    }
}

impl VisibleKeys {
    /// Checks that there are intervals for (batch, queries), which lie within the keys.
    pub(super) fn check(&self, [batch, queries, keys]: [usize; 3]) -> Result<()> {
        let VisibleKeys::Each(each) = self else {
            return Ok(());
        };
        if each.queries != queries || each.rows != 1 && each.rows != batch {
            bail!(
                "intervals of keys for {} rows of {} queries, in an attention of {batch} rows of {queries}",
                each.rows,
                each.queries
            )
        }
        match each.intervals.iter().find(|[_, end]| *end as usize > keys) {
            Some([begin, end]) => bail!("an interval of keys from {begin} to {end} of {keys}"),
            None => Ok(()),
        }
    }

    /// The keys visible to a query of a row, of this many queries and keys.
    #[inline(always)]
    pub(crate) fn of(
        &self,
        row: usize,
        query: usize,
        (queries, keys): (usize, usize),
    ) -> (usize, usize) {
        match self {
            VisibleKeys::All => (0, keys),
            VisibleKeys::Causal => (0, (query + 1 + keys).saturating_sub(queries).min(keys)),
            VisibleKeys::Each(each) => {
                let [begin, end] = each.row(row)[query];
                (begin as usize, end as usize)
            }
        }
    }
}
