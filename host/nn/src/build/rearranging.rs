//! Builds layers that rearrange elements, or leave some out.

use super::made::{Made, made};
use super::problem::{LayerProblem, rows, wants};
use crate::layers::{Rearrangement, SelectPosition};
use crate::shapes::product;
use crate::{NamedPosition, SelectedPosition, Signal, TransposeConfig};

pub(super) fn reshape(input: &Signal, shape: Vec<usize>) -> Result<Made, LayerProblem> {
    let count = product(&shape);
    if count != input.count() {
        return Err(LayerProblem::new(format!(
            "makes {shape:?}, {count} numbers, of {input}, {} numbers",
            input.count()
        )));
    }
    let output = Signal {
        shape: shape.clone(),
        ..input.clone()
    };
    Ok(made(Rearrangement::Reshape(shape), output))
}

/// The layer from channels to positions: the dimensions after the channels become one, in front of them.
pub(super) fn positions(input: &Signal) -> Result<Made, LayerProblem> {
    let (channels, length) = match input.shape[..] {
        [channels, height, width] => (channels, height * width),
        [channels, length] => (channels, length),
        _ => {
            let what = "images (channels, height, width) or sequences (channels, length)";
            return Err(wants(what, input));
        }
    };
    let layer = Rearrangement::Positions { channels, length };
    Ok(made(layer, Signal::numbers([length, channels])))
}

pub(super) fn transpose(input: &Signal, config: &TransposeConfig) -> Result<Made, LayerProblem> {
    let rank = input.shape.len();
    if rank < 2 {
        return Err(wants("at least two dimensions", input));
    }
    let axes = config.axes.clone().unwrap_or_else(|| {
        let mut axes: Vec<usize> = (0..rank).collect();
        axes.swap(rank - 2, rank - 1);
        axes
    });
    let mut sorted = axes.clone();
    sorted.sort_unstable();
    if !sorted.iter().copied().eq(0..rank) {
        return Err(LayerProblem::new(format!(
            "has `axes` {axes:?}, its input is {input}: each of its {rank} dimensions must be named once, from 0"
        )));
    }
    let sizes = axes
        .iter()
        .filter_map(|&axis| input.shape.get(axis).copied());
    let output = Signal::numbers(sizes.collect::<Vec<_>>());
    Ok(made(Rearrangement::Transpose(axes), output))
}

pub(super) fn select(input: &Signal, at: SelectedPosition) -> Result<Made, LayerProblem> {
    let (length, width) = rows(input)?;
    if let SelectedPosition::Index(index) = at
        && index >= length
    {
        return Err(LayerProblem::new(format!(
            "selects position {index}, its input is {input}: positions are from 0 to {}",
            length.saturating_sub(1)
        )));
    }
    let layer = match at {
        SelectedPosition::Index(index) => SelectPosition::At(index),
        SelectedPosition::Named(NamedPosition::Last) => SelectPosition::Last,
    };
    Ok(made(layer, Signal::numbers([width])))
}
