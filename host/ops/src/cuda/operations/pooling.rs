//! Pooling by `host/ops/cuda/pooling.cu`.

use std::sync::Arc;

use candle_core::{CudaDevice, DType, Device, Result, Tensor};

use crate::autograd::custom_gradient::custom_gradient;
use crate::cuda::compilation::sources::Family;
use crate::cuda::launch::{Argument, Grid, device_of, launch, suffix, uninitialised};
use crate::options::{PoolKind, Windows};
use crate::storage::tables::Tables;

/// Pools the last two dimensions, or `None` where the kernels don't take the tensor.
pub(crate) fn pool2d(
    x: &Tensor,
    kind: PoolKind,
    down: &Windows,
    across: &Windows,
) -> Result<Option<Tensor>> {
    let &[ref leading @ .., height, width] = x.dims() else {
        return Ok(None);
    };
    let shape = [leading, &[down.count(), across.count()]].concat();
    let outputs: usize = shape.iter().product();
    if !crate::cuda::takes(x) || outputs == 0 || x.elem_count().max(outputs) >= 1 << 31 {
        return Ok(None);
    }
    let x = x.contiguous()?;
    let key = (down.clone(), across.clone(), height, width);
    let pool = Pool {
        device: device_of(&x)?,
        tables: TABLES.get(key, x.device(), |_| {
            PoolTables::of((down, height), (across, width), x.device())
        })?,
        sizes: [height, width, down.count(), across.count()],
    };
    let y = uninitialised(&pool.device, shape, x.dtype())?;
    let chosen = match kind {
        PoolKind::Max => Some(uninitialised(&pool.device, y.shape(), DType::U32)?),
        PoolKind::Mean => None,
    };
    let kernel = match kind {
        PoolKind::Max => "max_pool",
        PoolKind::Mean => "mean_pool",
    };
    let mut tensors = vec![Argument::Tensor(&x), Argument::Tensor(&y)];
    tensors.extend(chosen.as_ref().map(Argument::Tensor));
    pool.launch(
        kernel,
        &y,
        tensors,
        [&pool.tables.down, &pool.tables.across],
    )?;
    let y = custom_gradient([&x], y, move |[x], gradient, _| {
        let gradient = gradient.to_dtype(x.dtype())?.contiguous()?;
        let of_x = uninitialised(&pool.device, x.shape(), x.dtype())?;
        let tables = &pool.tables;
        let tensors = vec![
            Argument::Tensor(&gradient),
            chosen.as_ref().map_or(Argument::None, Argument::Tensor),
            Argument::Tensor(&tables.sizes),
            Argument::Tensor(&of_x),
        ];
        let covers = [&tables.covers_down, &tables.covers_across];
        pool.launch("pool_gradient", &of_x, tensors, covers)?;
        Ok([Some(of_x)])
    })?;
    Ok(Some(y))
}

/// A pooling of planes.
struct Pool {
    device: CudaDevice,
    tables: Arc<PoolTables>,
    /// Height and width of a plane; windows down and across.
    sizes: [usize; 4],
}

impl Pool {
    /// Launches a kernel with a thread for each element of what it writes.
    fn launch<'a>(
        &self,
        kernel: &str,
        written: &Tensor,
        mut arguments: Vec<Argument<'a>>,
        [down, across]: [&'a Tensor; 2],
    ) -> Result<()> {
        let count = written.elem_count();
        arguments.push(Argument::U32(count as u32));
        arguments.push(Argument::Tensor(down));
        arguments.push(Argument::Tensor(across));
        arguments.extend(self.sizes.map(|size| Argument::U32(size as u32)));
        let kernel = format!("{kernel}_{}", suffix(written)?);
        let grid = Grid::threads(count)?;
        launch(&self.device, (Family::Pooling, &kernel), grid, &arguments)
    }
}

/// What the kernels know of windows, in `u32`.
struct PoolTables {
    /// Start, end and size with padding of each window: (windows, 3).
    down: Tensor,
    across: Tensor,
    /// The first window that each row or column of pixels is in, and the one after the last: (pixels, 2).
    covers_down: Tensor,
    covers_across: Tensor,
    /// Sizes with padding, of windows down, then across.
    sizes: Tensor,
}

static TABLES: Tables<(Windows, Windows, usize, usize), PoolTables> = Tables::new();

impl PoolTables {
    /// Of the windows along both dimensions, with these lengths.
    fn of(
        (down, height): (&Windows, usize),
        (across, width): (&Windows, usize),
        device: &Device,
    ) -> Result<PoolTables> {
        let spans = |windows: &Windows| {
            let numbers = windows
                .spans()
                .flat_map(|(start, end, size)| [start, end, size]);
            table(numbers, device)
        };
        let covers = |windows: &Windows, length: usize| {
            let of_pixel = |pixel: usize| {
                let is_in =
                    |(start, end, _): &(usize, usize, usize)| *start <= pixel && pixel < *end;
                let mut inside = (windows.spans().enumerate()).filter(|(_, span)| is_in(span));
                let first = inside.next().map_or(0, |(window, _)| window);
                let last = inside.last().map(|(window, _)| window);
                match windows.spans().nth(first).filter(is_in) {
                    Some(_) => [first, last.unwrap_or(first) + 1],
                    None => [0, 0],
                }
            };
            table((0..length).flat_map(of_pixel), device)
        };
        let sizes = down.spans().chain(across.spans()).map(|(_, _, size)| size);
        Ok(PoolTables {
            down: spans(down)?,
            across: spans(across)?,
            covers_down: covers(down, height)?,
            covers_across: covers(across, width)?,
            sizes: table(sizes, device)?,
        })
    }
}

fn table(numbers: impl Iterator<Item = usize>, device: &Device) -> Result<Tensor> {
    Tensor::new(
        numbers.map(|number| number as u32).collect::<Vec<u32>>(),
        device,
    )
}
