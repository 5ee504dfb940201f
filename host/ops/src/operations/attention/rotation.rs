//! Rotary position embeddings: vectors turned by the angles of their positions.

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor, bail};

use super::sizes::HeadPart;
use crate::autograd::tape::apply1;
use crate::kernels::fill::{Schedule, UninitRows, fill_parts};
use crate::kernels::{region, write_all, write_rows};
use crate::options::Rotation;
use crate::storage::{Number, for_floats, numbers, ready, stored};
use crate::{composed, vectorised};

vectorised! {
    /// Turns pairs of elements, of the two halves of the first 2 · pairs ones, by angles of these cosines and sines, the latter
    /// times `sign`.
    fn turn<T: Number>(vector: &mut [T], cosines: &[T], sines: &[T], sign: T) {
        let (first, rest) = vector.split_at_mut(cosines.len());
        let pairs = first.iter_mut().zip(rest).zip(cosines.iter().zip(sines));
        for ((x, y), (&cosine, &sine)) in pairs {
            let sine = sine * sign;
            (*x, *y) = (*x * cosine - *y * sine, *y * cosine + *x * sine);
        }
    }
}

/// Angles for the positions of a batch.
pub(super) struct Turning<'t, T> {
    table: &'t [T],
    pairs: usize,
    length: usize,
    /// Positions of one row, or of all rows.
    positions: Vec<u32>,
    rows: usize,
}

impl<'t, T: Number> Turning<'t, T> {
    /// Those of a rotation that has been checked, for rows of this length.
    pub(super) fn of(rotation: &'t Rotation, length: usize) -> Result<Turning<'t, T>> {
        let (rows, positions) = rotation.listed(length);
        Ok(Turning {
            table: rotation.table.rows::<T>()?,
            pairs: rotation.table.pairs(),
            length,
            positions,
            rows,
        })
    }

    /// Turns a head's vector at an index of a row, forwards or back.
    pub(super) fn turn(&self, vector: &mut [T], row: usize, index: usize, is_back: bool) {
        let row = if self.rows == 1 { 0 } else { row };
        let position = self.positions[row * self.length + index] as usize;
        let angles = &self.table[position * 2 * self.pairs..][..2 * self.pairs];
        let (cosines, sines) = angles.split_at(self.pairs);
        let sign = if is_back { -T::one() } else { T::one() };
        turn(vector, cosines, sines, sign);
    }

    /// A head's vectors, turned, in this memory.
    pub(super) fn turned<'a>(
        &self,
        part: HeadPart<'_, T>,
        row: usize,
        each: usize,
        memory: &'a mut Vec<T>,
    ) -> HeadPart<'a, T> {
        memory.resize(self.length * each, T::ZERO);
        for (index, to) in memory.chunks_exact_mut(each).enumerate() {
            to.copy_from_slice(&part.from(index)[..each]);
            self.turn(to, row, index, false);
        }
        HeadPart {
            numbers: memory,
            step: each,
        }
    }
}

/// Turns vectors (batch, length, heads · width of a head) by the angles of their positions, each head by the same.
///
/// # Errors
///
/// If a position has no angles, or heads are narrower than what is turned.
pub fn rotated(x: &Tensor, heads: usize, rotation: &Rotation) -> Result<Tensor> {
    let (batch, length, width) = x.dims3()?;
    if heads == 0 || width % heads != 0 {
        bail!("{heads} heads to rotate in {:?}", x.dims())
    }
    rotation.check(batch, length, width / heads)?;
    if composed::is_chosen(x) {
        return composed::rotated(x, heads, rotation);
    }
    let op = RotateOp {
        each: width / heads,
        rotation: rotation.clone(),
        is_back: false,
    };
    apply1(&ready(x)?, op)
}

struct RotateOp {
    each: usize,
    rotation: Rotation,
    is_back: bool,
}

/// Cost of an element in operations, from which the number of threads follows.
const COST: usize = 4;

impl CustomOp1 for RotateOp {
    fn name(&self) -> &'static str {
        "rotated"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (batch, length, width) = layout.shape().dims3()?;
        for_floats!(storage, T => {
            let x = numbers::<T>(storage, layout)?;
            let turning = Turning::<T>::of(&self.rotation, length)?;
            let schedule = Schedule::stealing(region::parts(COST * x.len()), batch * length, 1);
            let memory = UninitRows::new(batch * length, width);
            let y = fill_parts(schedule, memory, |rows, slots| {
                write_rows(slots, rows, |index, slots| {
                    let y = write_all(slots, x[index * width..][..width].iter().copied());
                    for head in y.chunks_exact_mut(self.each) {
                        turning.turn(head, index / length, index % length, self.is_back);
                    }
                    y
                })
            });
            Ok((stored(y), layout.shape().clone()))
        })
    }

    fn bwd(&self, _x: &Tensor, _y: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        let back = RotateOp {
            each: self.each,
            rotation: self.rotation.clone(),
            is_back: !self.is_back,
        };
        Ok(Some(ready(gradient)?.apply_op1_no_bwd(&back)?))
    }
}
