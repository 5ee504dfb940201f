//! Which positions of a batch's sequences may see each other, and what their numbers are.

use std::sync::Arc;

use candle_core::{Result, bail};

/// Which positions of a batch's sequences may see each other, and what their numbers are: for padding, and for several documents
/// in a row. What attention's own `causal` and `window` hide stays hidden. Clones share it.
#[derive(Clone, Debug)]
pub struct Visibility(Arc<Tokens>);

#[derive(Debug)]
struct Tokens {
    rows: usize,
    length: usize,
    /// For each token, row by row, the positions that it may see, `[begin, end)`.
    spans: Vec<[u32; 2]>,
    /// For each token, its number for position embeddings.
    positions: Arc<[u32]>,
}

impl Visibility {
    /// Rows with padding behind their sequences, whose lengths these are, all at most `length`. Padding sees nothing and isn't
    /// seen.
    ///
    /// # Errors
    ///
    /// If a sequence is longer than `length`.
    pub fn of_lengths(lengths: &[usize], length: usize) -> Result<Visibility> {
        let tokens = |&own: &usize| {
            (0..length).map(move |index| {
                if index < own {
                    ([0, own as u32], index as u32)
                } else {
                    ([0, 0], index as u32)
                }
            })
        };
        match lengths.iter().find(|own| **own > length) {
            Some(own) => bail!("a sequence of {own} tokens in a row of {length}"),
            None => Visibility::new(lengths.len(), length, lengths.iter().flat_map(tokens)),
        }
    }

    /// Rows with padding in front of their sequences, which begin here and end with the row; their positions count from there.
    ///
    /// # Errors
    ///
    /// If a sequence begins behind its row.
    pub fn of_starts(starts: &[usize], length: usize) -> Result<Visibility> {
        let tokens = |&start: &usize| {
            (0..length).map(move |index| match index.checked_sub(start) {
                Some(position) => ([start as u32, length as u32], position as u32),
                None => ([0, 0], 0),
            })
        };
        match starts.iter().find(|start| **start > length) {
            Some(start) => bail!("a sequence that begins at {start} in a row of {length} tokens"),
            None => Visibility::new(starts.len(), length, starts.iter().flat_map(tokens)),
        }
    }

    /// Rows of several documents each, which begin at these positions, in order, the first at 0 whether it is listed or not. Tokens
    /// see those of their own document, whose positions count from its start.
    ///
    /// # Errors
    ///
    /// If starts are not in order, or lie behind the row.
    pub fn of_documents(starts: &[Vec<usize>], length: usize) -> Result<Visibility> {
        let mut tokens = Vec::with_capacity(starts.len() * length);
        for starts in starts {
            let bounds: Vec<usize> = [0].iter().chain(starts).chain([&length]).copied().collect();
            if !bounds.is_sorted() {
                bail!("documents that begin at {starts:?}, in a row of {length} tokens")
            }
            for pair in bounds.windows(2) {
                let &[begin, end] = pair else { continue };
                let span = [begin as u32, end as u32];
                tokens.extend((begin..end).map(|index| (span, (index - begin) as u32)));
            }
        }
        Visibility::new(starts.len(), length, tokens)
    }

    /// Takes for each token of (rows, length), row by row, the positions of its row that it may see, `[begin, end)`, and its number for
    /// position embeddings.
    ///
    /// # Errors
    ///
    /// If there are not as many, or an interval is not one within the row.
    pub fn new(
        rows: usize,
        length: usize,
        tokens: impl IntoIterator<Item = ([u32; 2], u32)>,
    ) -> Result<Visibility> {
        let (spans, positions): (Vec<_>, Vec<_>) = tokens.into_iter().unzip();
        if rows.checked_mul(length) != Some(spans.len()) {
            bail!(
                "visible positions of {} tokens, for {rows} rows of {length}",
                spans.len()
            )
        }
        let is_wrong = |[begin, end]: &&[u32; 2]| begin > end || *end as usize > length;
        if let Some([begin, end]) = spans.iter().find(is_wrong) {
            bail!("visible positions from {begin} to {end} in a row of {length} tokens")
        }
        Ok(Visibility(Arc::new(Tokens {
            rows,
            length,
            spans,
            positions: positions.into(),
        })))
    }

    /// For each row the index of its last token that sees anything, among those of all rows; that of its last token, where none does.
    pub(crate) fn last_tokens(&self) -> impl Iterator<Item = usize> {
        let length = self.0.length.max(1);
        let last = move |(row, spans): (usize, &[[u32; 2]])| {
            let seeing = spans.iter().rposition(|[begin, end]| begin < end);
            row * length + seeing.unwrap_or(length - 1)
        };
        self.0.spans.chunks_exact(length).enumerate().map(last)
    }

    /// Checks that it is that of (rows, length).
    pub(crate) fn check(&self, rows: usize, length: usize) -> Result<()> {
        if (self.0.rows, self.0.length) != (rows, length) {
            bail!(
                "visible positions of {} rows of {} tokens, in a layer that is given {rows} of {length}",
                self.0.rows,
                self.0.length
            )
        }
        Ok(())
    }

    /// Positions that a token may see.
    pub(crate) fn span(&self, row: usize, index: usize) -> (usize, usize) {
        let [begin, end] = self.0.spans[row * self.0.length + index];
        (begin as usize, end as usize)
    }

    /// Numbers of all tokens, row by row.
    pub(crate) fn positions(&self) -> &Arc<[u32]> {
        &self.0.positions
    }
}
