//! Passes over collections of `f32` tensors on a GPU, in one launch each; see `host/ops/cuda/collections.cu`.

use candle_core::{CudaDevice, DType, Result, Tensor, bail};

use super::chunks::{Chunks, ChunksOfSlices};
use super::compilation::sources::Family;
use super::launch::{
    Argument, Grid, address_of, count_of_blocks, device_of, launch, uninitialised, uploaded,
};
use crate::options::{Change, Combination, Reduction, Slices};

/// Whether these tensors can be given to the passes of this module: contiguous `f32` on one GPU.
pub fn takes<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> bool {
    let mut tensors = tensors.into_iter();
    let Some(first) = tensors.next() else {
        return false;
    };
    let is_right = |tensor: &Tensor| tensor.dtype() == DType::F32 && tensor.is_contiguous();
    device_of(first).is_ok()
        && !crate::choice::is_requested()
        && is_right(first)
        && tensors.all(|tensor| tensor.device().same_device(first.device()) && is_right(tensor))
}

/// Reduces each slice of each tensor, as [`crate::vectors::reduce`]: one result per slice, in order, which stay on the device;
/// `None` without tensors.
pub fn reduce(tensors: &[(Tensor, Slices)], reduction: Reduction) -> Result<Option<Tensor>> {
    let Some(table) = Table::of(
        tensors
            .iter()
            .map(|(tensor, slices)| (tensor, None, *slices)),
    )?
    else {
        return Ok(None);
    };
    let chunks = ChunksOfSlices::of(&table.device, table.each.clone())?;
    let results = table.slices;
    let (code, order) = match reduction {
        Reduction::Powers(order) if (order - 2.0).abs() < f64::EPSILON => (0, order),
        Reduction::Powers(order) if (order - 1.0).abs() < f64::EPSILON => (1, order),
        Reduction::Powers(order) => (2, order),
        Reduction::Largest => (3, 0.0),
        Reduction::NotFinite => (4, 0.0),
        Reduction::NotANumber => (5, 0.0),
    };
    let device = &table.device;
    let parts = uninitialised(device, chunks.chunks.count.max(1), DType::F64)?;
    if chunks.chunks.count > 0 {
        launch(
            device,
            (Family::Collections, "reduce_chunks"),
            Grid::blocks(count_of_blocks(chunks.chunks.count, 1)?),
            &[
                Argument::Tensor(&table.vectors),
                Argument::Tensor(&chunks.chunks.table),
                Argument::U32(code),
                Argument::F64(order),
                Argument::Tensor(&parts),
            ],
        )?;
    }
    let output = uninitialised(device, results, DType::F64)?;
    launch(
        device,
        (Family::Collections, "join_parts"),
        Grid::blocks(count_of_blocks(results, 1)?),
        &[
            Argument::Tensor(&parts),
            Argument::Tensor(&chunks.starts),
            Argument::U32(code),
            Argument::Tensor(&output),
        ],
    )?;
    Ok(Some(output))
}

/// Changes all tensors in place, as [`crate::vectors::change`].
pub fn change(tensors: &[(Tensor, Slices)], change: Change<'_>) -> Result<()> {
    let Some(table) = Table::of(
        tensors
            .iter()
            .map(|(tensor, slices)| (tensor, None, *slices)),
    )?
    else {
        return Ok(());
    };
    let factors;
    let (kernel, arguments) = match change {
        Change::Scale(factor) => {
            factors = table.factors(vec![factor; table.slices])?;
            ("scale", vec![Argument::Tensor(&factors)])
        }
        Change::ScaleSlices(given) => {
            if given.len() < table.slices {
                bail!("{} factors for {} slices", given.len(), table.slices)
            }
            factors = table.factors(given[..table.slices].to_vec())?;
            ("scale", vec![Argument::Tensor(&factors)])
        }
        Change::Clamp(lower, upper) => (
            "clamp",
            vec![Argument::F32(lower as f32), Argument::F32(upper as f32)],
        ),
        Change::Fill(value) => ("fill", vec![Argument::F32(value as f32)]),
    };
    table.run(kernel, arguments)
}

/// Combines each tensor of `onto` with that of `from` at the same place, as [`crate::vectors::combine`].
pub fn combine(onto: &[Tensor], from: &[Tensor], combination: Combination) -> Result<()> {
    let lengths = onto.iter().map(Tensor::elem_count);
    if !lengths.eq(from.iter().map(Tensor::elem_count)) {
        bail!("tensors that are combined have different lengths")
    }
    let pairs = onto.iter().zip(from);
    let Some(table) = Table::of(pairs.map(|(onto, from)| (onto, Some(from), Slices::WHOLE)))?
    else {
        return Ok(());
    };
    let (code, weight) = match combination {
        Combination::Add(weight) => (0, weight),
        Combination::Blend(weight) => (1, weight),
        Combination::Multiply => (2, 0.0),
        Combination::Copy => (3, 0.0),
    };
    table.run(
        "combine",
        vec![Argument::U32(code), Argument::F32(weight as f32)],
    )
}

/// The tensors of a pass, as the kernels read them.
struct Table<'a> {
    device: CudaDevice,
    first: &'a Tensor,
    /// Length and slices of each.
    each: Vec<(usize, Slices)>,
    slices: usize,
    /// `Vector`s.
    vectors: Tensor,
}

impl<'a> Table<'a> {
    /// `None` of no tensors.
    fn of(
        tensors: impl Iterator<Item = (&'a Tensor, Option<&'a Tensor>, Slices)>,
    ) -> Result<Option<Table<'a>>> {
        let (mut words, mut each, mut slices, mut first) = (Vec::new(), Vec::new(), 0, None);
        for (tensor, others, of_tensor) in tensors {
            if !takes([tensor].into_iter().chain(others).chain(first)) {
                bail!("passes over collections take contiguous f32 tensors on one GPU")
            }
            first = first.or(Some(tensor));
            words.push(address_of(tensor)?);
            words.push(others.map(address_of).transpose()?.unwrap_or(0));
            words.push(tensor.elem_count() as u64);
            words.push(of_tensor.count() as u64 | (slices as u64) << 32);
            words.push(of_tensor.run() as u64);
            each.push((tensor.elem_count(), of_tensor));
            slices += of_tensor.count();
        }
        let Some(first) = first else {
            return Ok(None);
        };
        let device = device_of(first)?;
        let vectors = uploaded(&device, words)?;
        Ok(Some(Table {
            device,
            first,
            each,
            slices,
            vectors,
        }))
    }

    fn factors(&self, factors: Vec<f64>) -> Result<Tensor> {
        let count = factors.len();
        Tensor::from_vec(factors, count, self.first.device())
    }

    /// Launches a kernel that changes every element by itself.
    fn run(&self, kernel: &str, more: Vec<Argument<'_>>) -> Result<()> {
        let lengths = self.each.iter().map(|(length, _)| *length);
        let chunks = Chunks::of(&self.device, lengths.collect())?;
        if chunks.count == 0 {
            return Ok(());
        }
        let mut arguments = vec![
            Argument::Tensor(&self.vectors),
            Argument::Tensor(&chunks.table),
        ];
        arguments.extend(more);
        let grid = Grid::blocks(count_of_blocks(chunks.count, 1)?);
        launch(
            &self.device,
            (Family::Collections, kernel),
            grid,
            &arguments,
        )
    }
}
