//! What metrics of logits are made of, by `host/ops/cuda/measures.cu`.

use candle_core::{CudaDevice, DType, Result, Tensor, bail};

use crate::cuda::compilation::sources::Family;
use crate::cuda::launch::{Argument, Grid, device_of, launch, suffix, uninitialised};

/// How many rows of logits (rows, classes) have their target, of `u32` on the same device, among the `k` largest, and how many rows
/// count: an `f64` vector of two, which stays on the device. A row whose target is `ignored` doesn't count. `None` where the kernels
/// don't take the logits.
pub(crate) fn hits(
    logits: &Tensor,
    targets: &Tensor,
    k: usize,
    ignored: Option<u32>,
) -> Result<Option<Tensor>> {
    let Some(rows) = Rows::of(logits, targets, ignored)? else {
        return Ok(None);
    };
    let (hits, counted) = (rows.column(DType::F64)?, rows.column(DType::F64)?);
    launch(
        &rows.device,
        (
            Family::Measures,
            &format!("row_hits_{}", suffix(&rows.logits)?),
        ),
        Grid::rows(rows.count, rows.classes)?,
        &[
            Argument::Tensor(&rows.logits),
            Argument::Tensor(&rows.targets),
            Argument::U64(rows.ignored),
            Argument::U32(u32::try_from(k).unwrap_or(u32::MAX)),
            Argument::Tensor(&hits),
            Argument::Tensor(&counted),
            Argument::U64(rows.count as u64),
            Argument::U32(rows.classes as u32),
        ],
    )?;
    rows.sums(&hits, &counted).map(Some)
}

/// The sum of the cross entropies of the rows that count, and their number; as [`hits`].
pub(crate) fn cross_entropies(
    logits: &Tensor,
    targets: &Tensor,
    ignored: Option<u32>,
) -> Result<Option<Tensor>> {
    let Some(rows) = Rows::of(logits, targets, ignored)? else {
        return Ok(None);
    };
    let (losses, counted) = (rows.column(DType::F64)?, rows.column(DType::F64)?);
    let log_sums = rows.column(DType::F32)?;
    launch(
        &rows.device,
        (
            Family::Softmax,
            &format!("row_losses_{}", suffix(&rows.logits)?),
        ),
        Grid::rows(rows.count, rows.classes)?,
        &[
            Argument::Tensor(&rows.logits),
            Argument::Tensor(&rows.targets),
            // Neither class weights nor smoothing: the weight of a row that counts is 1.
            Argument::None,
            Argument::U64(rows.ignored),
            Argument::F32(1.0),
            Argument::F32(0.0),
            Argument::Tensor(&losses),
            Argument::Tensor(&log_sums),
            Argument::Tensor(&counted),
            Argument::U64(rows.count as u64),
            Argument::U32(rows.classes as u32),
        ],
    )?;
    rows.sums(&losses, &counted).map(Some)
}

/// Logits with their targets.
struct Rows {
    device: CudaDevice,
    logits: Tensor,
    targets: Tensor,
    /// 2³² where no target is ignored.
    ignored: u64,
    count: usize,
    classes: usize,
}

impl Rows {
    fn of(logits: &Tensor, targets: &Tensor, ignored: Option<u32>) -> Result<Option<Rows>> {
        if !crate::cuda::takes(logits) || targets.dtype() != DType::U32 {
            return Ok(None);
        }
        let (count, classes) = logits.dims2()?;
        if targets.elem_count() != count {
            bail!(
                "{count} rows of logits, but {} targets",
                targets.elem_count()
            )
        }
        Ok(Some(Rows {
            device: device_of(logits)?,
            logits: logits.detach().contiguous()?,
            targets: targets.detach().contiguous()?,
            ignored: ignored.map_or(1 << 32, u64::from),
            count,
            classes,
        }))
    }

    /// An element for each row, to be written.
    fn column(&self, dtype: DType) -> Result<Tensor> {
        uninitialised(&self.device, self.count, dtype)
    }

    fn sums(&self, values: &Tensor, counted: &Tensor) -> Result<Tensor> {
        let sums = uninitialised(&self.device, 2, DType::F64)?;
        launch(
            &self.device,
            (Family::Measures, "sum_rows"),
            Grid::blocks(1),
            &[
                Argument::Tensor(values),
                Argument::Tensor(counted),
                Argument::U64(self.count as u64),
                Argument::Tensor(&sums),
            ],
        )?;
        Ok(sums)
    }
}
