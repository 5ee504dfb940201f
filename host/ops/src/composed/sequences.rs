//! Embeddings, positions and sequences.

use candle_core::{D, DType, Result, Tensor, bail};

use super::cast::{promoted, widened};
use super::of;
use crate::autograd::custom_gradient::custom_gradient;
use crate::choice::has_kernels;

/// Rows of a table (tokens, width) selected by integers, of which one gets no gradient.
pub(crate) fn embedding_with(
    table: &Tensor,
    tokens: &Tensor,
    padding: Option<u32>,
) -> Result<Tensor> {
    let rows = embedding(table, tokens)?;
    let Some(padding) = padding else {
        return Ok(rows);
    };
    // As many rows without a gradient, of which those of the padding are taken.
    let is_padding = tokens.eq(padding)?.unsqueeze(D::Minus1)?;
    let is_padding = is_padding.broadcast_as(rows.shape())?.contiguous()?;
    let y = is_padding.where_cond(&rows.detach(), &rows.detach())?;
    custom_gradient([&rows], y, move |[rows], gradient, _| {
        let zeros = rows.zeros_like()?.to_dtype(gradient.dtype())?;
        Ok([Some(is_padding.where_cond(&zeros, gradient)?)])
    })
}

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
    let length = x.dim(D::Minus2)?;
    let sum = |[x, table]: [&Tensor; 2]| {
        let table = table.narrow(0, 0, length)?;
        let (x, table) = promoted(x, &table)?;
        x.broadcast_add(&table)
    };
    if !has_kernels(x) {
        return of([x, table], sum);
    }
    let y = sum([&x.detach(), &table.detach()])?;
    custom_gradient(
        [x, table],
        y,
        move |[x, table], gradient, [of_x, of_table]| {
            let sums = || {
                let (rows, width) = table.dims2()?;
                let sums = widened(gradient)?.reshape(((), length, width))?.sum(0)?;
                let sums = sums.pad_with_zeros(0, 0, rows - length)?;
                sums.to_dtype(table.dtype())
            };
            Ok([
                of_x.then(|| gradient.to_dtype(x.dtype())).transpose()?,
                of_table.then(sums).transpose()?,
            ])
        },
    )
}

/// Swaps the last two dimensions.
pub(crate) fn transpose(x: &Tensor) -> Result<Tensor> {
    if !has_kernels(x) {
        return of([x], |[x]| x.t()?.contiguous());
    }
    custom_gradient(
        [x],
        x.detach().t()?.force_contiguous()?,
        |_, gradient, _| Ok([Some(gradient.t()?.contiguous()?)]),
    )
}

/// Mean over the positions of (batch, length, width).
pub(crate) fn mean_positions(x: &Tensor) -> Result<Tensor> {
    let length = x.dim(1)?;
    if length == 0 {
        bail!("there are no positions for a mean")
    }
    let mean = |[x]: [&Tensor; 1]| widened(x)?.mean(1);
    if !has_kernels(x) {
        return of([x], mean);
    }
    custom_gradient([x], mean([&x.detach()])?, move |[x], gradient, _| {
        let each = (gradient / length as f64)?.to_dtype(x.dtype())?;
        let of_x = each.unsqueeze(1)?.broadcast_as(x.shape())?.contiguous()?;
        Ok([Some(of_x)])
    })
}
