//! Passes over pieces of gradients on a GPU, in one launch each; see `host/ops/cuda/pieces.cu`.

use candle_core::{DType, Device, Result, Shape, Tensor, bail};

use super::chunks::Chunks;
use super::compilation::sources::Family;
use super::launch::{
    Argument, Grid, address_of, count_of_blocks, device_of, launch, uninitialised, uploaded,
};
use crate::options::{AddedRange, Part};

/// As [`crate::pieces::undefined`].
pub(crate) fn undefined(shape: Shape, dtype: DType, device: &Device) -> Result<Tensor> {
    let Device::Cuda(device) = device else {
        bail!("pieces of gradients are on a GPU");
    };
    uninitialised(device, shape, dtype)
}

/// As [`crate::pieces::copy`].
pub(crate) fn copy(parts: &[Part<'_>]) -> Result<()> {
    let parts: Vec<&Part<'_>> = parts.iter().filter(|part| part.length > 0).collect();
    let Some(first) = parts.first() else {
        return Ok(());
    };
    let types = |part: &Part<'_>| (part.from.dtype(), part.to.dtype());
    let kernel = match types(first) {
        (DType::F32, DType::F32) => "copy_f32",
        (DType::F64, DType::F64) => "copy_f64",
        (DType::BF16, DType::BF16) => "copy_bf16",
        (DType::F32, DType::BF16) => "copy_f32_to_bf16",
        (DType::BF16, DType::F32) => "copy_bf16_to_f32",
        (from, to) => bail!("no kernel copies {} to {}", from.as_str(), to.as_str()),
    };
    let device = device_of(first.from)?;
    let mut words = Vec::with_capacity(parts.len() * 2);
    for part in &parts {
        if types(part) != types(first) {
            bail!("parts that are copied in one launch have different types");
        }
        words.push(within(part.from, part.from_at, part.length, first.from)?);
        words.push(within(part.to, part.to_at, part.length, first.from)?);
    }
    let chunks = Chunks::of(&device, parts.iter().map(|part| part.length).collect())?;
    let table = uploaded(&device, words)?;
    launch(
        &device,
        (Family::Pieces, kernel),
        Grid::blocks(count_of_blocks(chunks.count, 1)?),
        &[Argument::Tensor(&table), Argument::Tensor(&chunks.table)],
    )
}

/// The address of an element of a tensor from which on `length` are used, on the device of another tensor.
fn within(tensor: &Tensor, at: usize, length: usize, other: &Tensor) -> Result<u64> {
    let is_within = at
        .checked_add(length)
        .is_some_and(|end| end <= tensor.elem_count());
    if !is_within || !tensor.device().same_device(other.device()) {
        bail!(
            "{length} elements from {at} on are not within a tensor of {} on this device",
            tensor.elem_count()
        );
    }
    Ok(address_of(tensor)? + (at * tensor.dtype().size_in_bytes()) as u64)
}

/// As [`crate::pieces::add`].
pub(crate) fn add(data: &Tensor, length: usize, ranges: &[AddedRange]) -> Result<()> {
    let kernel = match data.dtype() {
        DType::F32 => "add_f32",
        DType::F64 => "add_f64",
        other => bail!("no kernel adds gradients of {}", other.as_str()),
    };
    let is_work = |range: &&AddedRange| !range.range.is_empty() && !range.additions.is_empty();
    let ranges: Vec<&AddedRange> = ranges.iter().filter(is_work).collect();
    if ranges.is_empty() {
        return Ok(());
    }
    let nodes = data.elem_count() / length.max(1);
    let (mut of_ranges, mut of_additions) = (Vec::new(), Vec::new());
    for AddedRange { range, additions } in &ranges {
        let first = (of_additions.len() / 2) as u64;
        for addition in additions {
            if addition.sum >= addition.added || addition.added >= nodes {
                bail!(
                    "node {} can't be added to node {} of {nodes}",
                    addition.added,
                    addition.sum
                );
            }
            of_additions.push(addition.sum as u64 | (addition.added as u64) << 32);
            of_additions.push(u64::from(addition.is_first));
        }
        if range.end > length {
            bail!("elements {range:?} are not within nodes of {length}");
        }
        of_ranges.push(range.start as u64);
        of_ranges.push(first | ((of_additions.len() / 2) as u64) << 32);
    }
    let device = device_of(data)?;
    let lengths = ranges.iter().map(|range| range.range.len());
    let chunks = Chunks::of(&device, lengths.collect())?;
    let of_ranges = uploaded(&device, of_ranges)?;
    let of_additions = uploaded(&device, of_additions)?;
    launch(
        &device,
        (Family::Pieces, kernel),
        Grid::blocks(count_of_blocks(chunks.count, 1)?),
        &[
            Argument::Tensor(data),
            Argument::U64(length as u64),
            Argument::Tensor(&of_ranges),
            Argument::Tensor(&of_additions),
            Argument::Tensor(&chunks.table),
        ],
    )
}
