//! Builds layers that make images smaller or larger: pooling and upsampling.

use super::convolutions::at_least_one;
use super::made::{Made, made};
use super::problem::{LayerProblem, no_room, wants};
use crate::layers::{Pool2d, Upsample};
use crate::ops::{PoolKind, Upsampling};
use crate::{AdaptivePoolConfig, PoolConfig, Signal, UpsampleConfig, UpsampleMode};

pub(super) fn adaptive(
    kind: PoolKind,
    config: &AdaptivePoolConfig,
    input: &Signal,
) -> Result<Made, LayerProblem> {
    let size = config.size.pair();
    pool(input, Pool2d::Adaptive { kind, size })
}

pub(super) fn sliding(
    kind: PoolKind,
    config: &PoolConfig,
    input: &Signal,
) -> Result<Made, LayerProblem> {
    let stride = at_least_one("stride", config.stride.unwrap_or(config.kernel))?;
    let kernel = at_least_one("kernel", config.kernel)?;
    let padding = config.padding.pair();
    if padding.0 > kernel.0 / 2 || padding.1 > kernel.1 / 2 {
        return Err(LayerProblem::new(format!(
            "has a padding of {padding:?}; it may be half of the window {kernel:?} at most"
        )));
    }
    pool(
        input,
        Pool2d::Sliding {
            kind,
            kernel,
            stride,
            padding,
        },
    )
}

fn pool(input: &Signal, pool: Pool2d) -> Result<Made, LayerProblem> {
    let &[channels, height, width] = &input.shape[..] else {
        return Err(wants("images (channels, height, width)", input));
    };
    let (Pool2d::Sliding { kernel, .. } | Pool2d::Adaptive { size: kernel, .. }) = pool;
    let (down, across) = pool
        .windows(height, width)
        .ok_or_else(|| no_room(input, kernel))?;
    let output = Signal::numbers([channels, down.count(), across.count()]);
    Ok(made(pool, output))
}

pub(super) fn upsample(config: &UpsampleConfig, input: &Signal) -> Result<Made, LayerProblem> {
    let &[channels, height, width] = &input.shape[..] else {
        return Err(wants("images (channels, height, width)", input));
    };
    let factors = at_least_one("factor", config.factor)?;
    let kind = match config.mode {
        UpsampleMode::Nearest => Upsampling::Nearest,
        UpsampleMode::Bilinear => Upsampling::Bilinear,
    };
    let sizes = (
        height.saturating_mul(factors.0),
        width.saturating_mul(factors.1),
    );
    let output = Signal::numbers([channels, sizes.0, sizes.1]);
    Ok(made(Upsample { factors, kind }, output))
}
