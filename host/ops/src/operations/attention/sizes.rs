//! Sizes of an attention operation, and where the elements of a head are.

use candle_core::{Layout, Result, bail};

use crate::kernels::{Matrix, region};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AttentionSizes {
    pub(super) batch: usize,
    pub(super) queries: usize,
    pub(super) keys: usize,
    /// Heads of queries.
    pub(super) heads: usize,
    /// Heads of keys and values.
    pub(super) kv_heads: usize,
    /// Width of a head.
    pub(super) each: usize,
}

/// A head of queries in a row of the batch, and the head of keys and values that serves it.
#[derive(Clone, Copy)]
pub(super) struct Head {
    pub(super) row: usize,
    pub(super) of_queries: usize,
    pub(super) of_keys: usize,
}

/// Where the elements of queries, keys or values are: those of a row's first position, heads side by side; the stride from one row of
/// the batch to the next, and from one position to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartLayout {
    pub(super) start: usize,
    pub(super) row_step: usize,
    pub(super) step: usize,
}

/// Queries, keys or values of all rows and heads.
#[derive(Clone, Copy)]
pub(super) struct Part<'a, T> {
    pub(super) numbers: &'a [T],
    pub(super) layout: PartLayout,
}

/// Those of one head: elements from its first position on, and the stride from one position to the next.
#[derive(Clone, Copy)]
pub(super) struct HeadPart<'a, T> {
    pub(super) numbers: &'a [T],
    pub(super) step: usize,
}

/// Start of a head's elements, and the stride from one position to the next.
///
/// Different heads, and the queries, keys and values of a head, have different elements at every position.
#[derive(Clone, Copy)]
pub(super) struct HeadLayout {
    pub(super) start: usize,
    pub(super) step: usize,
}

impl AttentionSizes {
    /// Sizes of queries, keys and values side by side, (batch, length, (heads + 2 · key heads) · width of a head).
    pub(super) fn packed(
        dims: &[usize],
        (heads, kv_heads): (usize, usize),
    ) -> Result<AttentionSizes> {
        let &[batch, length, all] = dims else {
            bail!("an attention wants (batch, length, 3 · width), found {dims:?}")
        };
        let both = heads.saturating_add(kv_heads.saturating_mul(2));
        if heads == 0 || all % both != 0 {
            bail!("an attention of {heads} heads and {kv_heads} of keys was given {dims:?}")
        }
        Ok(AttentionSizes {
            batch,
            queries: length,
            keys: length,
            heads,
            kv_heads,
            each: all / both,
        })
    }

    /// Sizes of queries, keys and values of their own, each (batch, positions, heads · width of a head).
    pub(super) fn separate(
        [q, k, v]: [&[usize]; 3],
        (heads, kv_heads): (usize, usize),
    ) -> Result<AttentionSizes> {
        if let (&[batch, queries, width], &[key_rows, keys, kv_width]) = (q, k)
            && heads > 0
            && width % heads == 0
            && key_rows == batch
            && kv_width == width / heads * kv_heads
            && k == v
        {
            return Ok(AttentionSizes {
                batch,
                queries,
                keys,
                heads,
                kv_heads,
                each: width / heads,
            });
        }
        bail!(
            "an attention of {heads} heads and {kv_heads} of keys was given queries {q:?}, keys {k:?} and values {v:?}"
        )
    }

    /// Number of heads of queries that a head of keys serves.
    pub(super) fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// A head of all heads of queries of the batch.
    pub(super) fn head(&self, index: usize) -> Head {
        let (row, head) = (index / self.heads, index % self.heads);
        Head {
            row,
            of_queries: head,
            of_keys: head / self.group(),
        }
    }

    /// The heads of queries that a head of all heads of keys of the batch serves.
    pub(super) fn served(&self, index: usize) -> impl Iterator<Item = Head> {
        let (row, kv_head) = (index / self.kv_heads, index % self.kv_heads);
        let group = self.group();
        (kv_head * group..(kv_head + 1) * group).map(move |head| Head {
            row,
            of_queries: head,
            of_keys: kv_head,
        })
    }

    /// Queries, keys and values within what has them side by side.
    pub(super) fn packed_layouts(&self) -> [PartLayout; 3] {
        let (width, kv_width) = (self.heads * self.each, self.kv_heads * self.each);
        let step = width + 2 * kv_width;
        [0, width, width + kv_width].map(|start| PartLayout {
            start,
            row_step: self.queries * step,
            step,
        })
    }

    /// Queries, keys and values in contiguous tensors of their own.
    pub(super) fn separate_layouts(&self) -> [PartLayout; 3] {
        let (width, kv_width) = (self.heads * self.each, self.kv_heads * self.each);
        let of = |count: usize, step: usize| PartLayout {
            start: 0,
            row_step: count * step,
            step,
        };
        [
            of(self.queries, width),
            of(self.keys, kv_width),
            of(self.keys, kv_width),
        ]
    }

    /// Outputs, or their gradients.
    pub(super) fn output_layout(&self) -> PartLayout {
        let [queries, ..] = self.separate_layouts();
        queries
    }

    /// Number of threads worth using for all heads.
    pub(super) fn parts(&self) -> usize {
        let products = 4 * self.queries * self.keys * self.each;
        region::parts(self.batch * self.heads * products)
    }
}

impl PartLayout {
    /// That of a tensor (batch, positions, width) whose last dimension is contiguous.
    pub(super) fn of(layout: &Layout) -> Result<PartLayout> {
        let &[row_step, step, 1] = layout.stride() else {
            bail!("an attention was given vectors that are not contiguous")
        };
        Ok(PartLayout {
            start: layout.start_offset(),
            row_step,
            step,
        })
    }

    /// That of a head of this width.
    pub(super) fn head(&self, row: usize, head: usize, each: usize) -> HeadLayout {
        HeadLayout {
            start: self.start + row * self.row_step + head * each,
            step: self.step,
        }
    }
}

impl<'a, T> Part<'a, T> {
    /// Those of a head of this width.
    pub(super) fn head(&self, row: usize, head: usize, each: usize) -> HeadPart<'a, T> {
        let HeadLayout { start, step } = self.layout.head(row, head, each);
        HeadPart {
            numbers: &self.numbers[start..],
            step,
        }
    }
}

impl<'a, T> HeadPart<'a, T> {
    /// Those from a position on.
    pub(super) fn from(&self, position: usize) -> &'a [T] {
        &self.numbers[position * self.step..]
    }

    /// As a matrix (positions, width of a head).
    pub(super) fn matrix(&self, positions: usize, each: usize) -> Matrix<'a, T> {
        Matrix::with_steps(self.numbers, positions, each, (self.step, 1))
    }
}
