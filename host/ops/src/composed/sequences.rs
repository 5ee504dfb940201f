//! Embeddings, positions and sequences.

use candle_core::{DType, Result, Tensor, bail};

use super::of;
use crate::autocast::{promoted, widened};

/// Rows of a table (tokens, width) selected by integers.
pub(crate) fn embedding(table: &Tensor, tokens: &Tensor) -> Result<Tensor> {
    own_kernel!(crate::cuda::embedding::embedding(table, tokens));
    of([table], |[table]| {
        let mut shape = tokens.dims().to_vec();
        shape.push(table.dim(1)?);
        let tokens = tokens.flatten_all()?.contiguous()?;
        // On another device each look at the numbers would wait for it.
        if tokens.device().is_cpu() {
            check(&tokens, table.dim(0)?)?;
        }
        table.index_select(&tokens, 0)?.reshape(shape)
    })
}

/// An error for a token that a table of `rows` rows has no row for.
fn check(tokens: &Tensor, rows: usize) -> Result<()> {
    let tokens = tokens.to_dtype(DType::I64)?.to_vec1::<i64>()?;
    let is_known = |token: i64| usize::try_from(token).is_ok_and(|row| row < rows);
    match tokens.into_iter().find(|token| !is_known(*token)) {
        Some(token) => bail!("an embedding of {rows} tokens was given the token {token}"),
        None => Ok(()),
    }
}

/// Adds the first rows of a table (positions, width) to x (…, length, width).
pub(crate) fn add_positions(x: &Tensor, table: &Tensor) -> Result<Tensor> {
    of([x, table], |[x, table]| {
        let length = x.dim(candle_core::D::Minus2)?;
        let table = table.narrow(0, 0, length)?;
        let (x, table) = promoted(x, &table)?;
        x.broadcast_add(&table)
    })
}

/// Swaps the last two dimensions.
pub(crate) fn transpose(x: &Tensor) -> Result<Tensor> {
    of([x], |[x]| x.t()?.contiguous())
}

/// Mean over the positions of (batch, length, width).
pub(crate) fn mean_positions(x: &Tensor) -> Result<Tensor> {
    of([x], |[x]| {
        if x.dim(1)? == 0 {
            bail!("there are no positions for a mean")
        }
        widened(x)?.mean(1)
    })
}
