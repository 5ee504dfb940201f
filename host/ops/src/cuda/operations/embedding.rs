//! The gradient of an embedding by `host/ops/cuda/embedding.cu`; the rows are selected by candle.

use candle_core::{CudaDevice, DType, Result, Tensor};

use crate::autograd::custom_gradient::custom_gradient;
use crate::cuda::compilation::sources::Family;
use crate::cuda::launch::{
    Argument, Grid, count_of_blocks, device_of, launch, suffix, uninitialised,
};

/// Rows of a table (tokens, width) selected by integers, or `None` where the kernels don't take the table.
pub(crate) fn embedding(table: &Tensor, tokens: &Tensor) -> Result<Option<Tensor>> {
    if !crate::cuda::takes(table) || table.dtype() != DType::F32 || tokens.elem_count() == 0 {
        return Ok(None);
    }
    let table = table.contiguous()?;
    let (rows, width) = table.dims2()?;
    let device = device_of(&table)?;
    let flat = tokens.detach().flatten_all()?.contiguous()?;
    let mut shape = tokens.dims().to_vec();
    shape.push(width);
    let y = table.detach().index_select(&flat, 0)?.reshape(shape)?;
    let tokens = flat.to_dtype(DType::I64)?;
    let y = custom_gradient([&table], y, move |[_], gradient, _| {
        let gradient = gradient.contiguous()?;
        Ok([Some(of_table(&device, &tokens, &gradient, rows, width)?)])
    })?;
    Ok(Some(y))
}

/// Rows of the table that a block of the kernel owns, and columns.
const ROWS: usize = 32;
const COLUMNS: usize = 128;

fn of_table(
    device: &CudaDevice,
    tokens: &Tensor,
    gradient: &Tensor,
    rows: usize,
    width: usize,
) -> Result<Tensor> {
    let positions = tokens.elem_count();
    // A table of few rows has few blocks: then the positions are divided too.
    let segments = if rows * width <= 1 << 18 {
        positions.div_ceil(1024).min(16)
    } else {
        1
    };
    let positions_each = positions.div_ceil(segments);
    let parts = uninitialised(device, (segments, rows, width), DType::F32)?;
    launch(
        device,
        (
            Family::Embedding,
            &format!("table_gradient_{}", suffix(gradient)?),
        ),
        Grid {
            blocks: (
                count_of_blocks(rows, ROWS)?,
                count_of_blocks(width, COLUMNS)?,
                segments as u32,
            ),
            threads: (COLUMNS as u32, 1, 1),
            shared: 0,
        },
        &[
            Argument::Tensor(tokens),
            Argument::Tensor(gradient),
            Argument::Tensor(&parts),
            Argument::U64(positions as u64),
            Argument::U32(rows as u32),
            Argument::U32(width as u32),
            Argument::U64(positions_each as u64),
        ],
    )?;
    if segments == 1 {
        return parts.get(0);
    }
    let sums = uninitialised(device, (rows, width), DType::F32)?;
    launch(
        device,
        (Family::Embedding, "join_tables"),
        Grid::threads(rows * width)?,
        &[
            Argument::Tensor(&parts),
            Argument::Tensor(&sums),
            Argument::U32(segments as u32),
            Argument::U64((rows * width) as u64),
        ],
    )?;
    Ok(sums)
}
