//! Embeddings of tokens and of positions, each in one pass forward and one backward.

use std::ops::Range;

use candle_core::{CpuStorage, CustomOp2, DType, InplaceOp1, Layout, Result, Shape, Tensor, bail};

use crate::autograd::aside::{add_in_place, hand_over, hand_over_own};
use crate::autograd::tape::apply2;
use crate::composed;
use crate::kernels::fill::{Rows, Schedule, UninitRows, fill_parts};
use crate::kernels::{add_rows, region, zeros};
use crate::storage::{Number, cpu, for_floats, new_tensor, numbers, ready, stored};

/// Cost of an element in operations, from which the number of threads follows.
const EACH: usize = 8;

/// Rows of a table (tokens, width) selected by integers (…), `u32` or `i64`: (…, width).
pub fn embedding(table: &Tensor, tokens: &Tensor) -> Result<Tensor> {
    embedding_with(table, tokens, None)
}

/// As [`embedding`], where the row `padding` of the table gets no gradient.
pub fn embedding_with(table: &Tensor, tokens: &Tensor, padding: Option<u32>) -> Result<Tensor> {
    let dtype = tokens.dtype();
    if dtype != DType::U32 && dtype != DType::I64 {
        bail!("an embedding wants whole numbers, found {dtype:?}")
    }
    if composed::is_chosen(table) {
        return composed::embedding_with(table, tokens, padding);
    }
    apply2(&ready(table)?, &ready(tokens)?, EmbeddingOp { padding })
}

/// Adds the first `length` rows of a table (positions, width) to x (…, length, width).
///
/// There must be at least `length` positions.
pub fn add_positions(x: &Tensor, table: &Tensor) -> Result<Tensor> {
    if composed::is_chosen(x) {
        return composed::add_positions(x, table);
    }
    apply2(&ready(x)?, &ready(table)?, PositionsOp)
}

struct EmbeddingOp {
    /// Row of the table without a gradient.
    padding: Option<u32>,
}

/// Tokens as row indices of a table of `rows` rows; an error for any outside it.
fn row_indices(tokens: &CpuStorage, layout: &Layout, rows: usize) -> Result<Vec<usize>> {
    let index = |token: i64| match usize::try_from(token) {
        Ok(index) if index < rows => Ok(index),
        _ => bail!("an embedding of {rows} tokens was given the token {token}"),
    };
    if let CpuStorage::U32(_) = tokens {
        let tokens = numbers::<u32>(tokens, layout)?;
        tokens.iter().map(|&token| index(token.into())).collect()
    } else {
        let tokens = numbers::<i64>(tokens, layout)?;
        tokens.iter().map(|&token| index(token)).collect()
    }
}

impl CustomOp2 for EmbeddingOp {
    fn name(&self) -> &'static str {
        "embedding"
    }

    fn cpu_fwd(
        &self,
        table: &CpuStorage,
        table_layout: &Layout,
        tokens: &CpuStorage,
        tokens_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let &[rows, width] = table_layout.dims() else {
            bail!(
                "an embedding wants a table (tokens, width), found {:?}",
                table_layout.dims()
            )
        };
        let indices = row_indices(tokens, tokens_layout, rows)?;
        let mut shape = tokens_layout.dims().to_vec();
        shape.push(width);
        for_floats!(table, T => {
            let table = numbers::<T>(table, table_layout)?;
            let mut y = Vec::with_capacity(indices.len() * width);
            for index in indices {
                y.extend_from_slice(&table[index * width..(index + 1) * width]);
            }
            Ok((stored(y), shape.into()))
        })
    }

    fn bwd(
        &self,
        table: &Tensor,
        tokens: &Tensor,
        _y: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let gradient = ready(gradient)?;
        let (rows, width) = table.dims2()?;
        let (tokens_guard, tokens_layout) = tokens.storage_and_layout();
        let indices = row_indices(cpu(&tokens_guard)?, tokens_layout, rows)?;
        let (guard, layout) = gradient.storage_and_layout();
        let storage = cpu(&guard)?;
        let rows = TableRows::of(&indices, rows, self.padding);
        // Where the table is also the weight of a layer, most of its gradient is known, and a few rows are added to it.
        let add = AddRows {
            rows: &rows,
            gradient: (storage, layout),
        };
        if add_in_place(table, &add)? {
            return Ok((None, None));
        }
        let of_table = for_floats!(storage, T => {
            let of_table = rows.gradient(numbers::<T>(storage, layout)?, width);
            new_tensor(of_table, table.shape())?
        });
        Ok((hand_over_own(table, of_table), None))
    }
}

/// Rows of a table with the positions that have them.
struct TableRows {
    /// Number of rows of the table.
    rows: usize,
    /// Positions in the order of their rows, those of a row in their own.
    positions: Vec<u32>,
    /// For each row that has positions, its index and where they begin in `positions`.
    starts: Vec<(usize, usize)>,
}

impl TableRows {
    /// The positions of each row but the one without a gradient.
    fn of(indices: &[usize], rows: usize, padding: Option<u32>) -> TableRows {
        let has_gradient = |index: usize| padding.is_none_or(|padding| index != padding as usize);
        let mut positions: Vec<u32> = (0..indices.len() as u32).collect();
        positions.retain(|&position| has_gradient(indices[position as usize]));
        positions.sort_by_key(|&position| indices[position as usize]);
        let mut starts: Vec<(usize, usize)> = Vec::new();
        for (start, &position) in positions.iter().enumerate() {
            let row = indices[position as usize];
            if starts.last().is_none_or(|&(last, _)| last != row) {
                starts.push((row, start));
            }
        }
        TableRows {
            rows,
            positions,
            starts,
        }
    }

    /// Calls `add` for each row of a range that has positions, with its index and the sum of its gradients, in the order of
    /// the positions.
    fn sums<T: Number>(
        &self,
        own: &Range<usize>,
        (g, width): (&[T], usize),
        mut add: impl FnMut(usize, &[T]),
    ) {
        let first = self.starts.partition_point(|&(row, _)| row < own.start);
        let mut row_sum = vec![T::ZERO; width];
        for (index, &(row, start)) in self.starts.iter().enumerate().skip(first) {
            if row >= own.end {
                break;
            }
            let next = self.starts.get(index + 1);
            let end = next.map_or(self.positions.len(), |&(_, start)| start);
            row_sum.fill(T::ZERO);
            for &position in &self.positions[start..end] {
                let g = &g[position as usize * width..(position as usize + 1) * width];
                add_rows(&mut row_sum, g, width, 0);
            }
            add(row, &row_sum);
        }
    }

    /// The gradient of the whole table. Each thread has its own rows of it.
    fn gradient<T: Number>(&self, g: &[T], width: usize) -> Vec<T> {
        let schedule = self.schedule((self.positions.len() + self.rows) * width * EACH);
        fill_parts(schedule, UninitRows::new(self.rows, width), |own, slots| {
            let gradients = zeros(slots);
            self.sums(own, (g, width), |row, sum| {
                let start = (row - own.start) * width;
                gradients[start..start + width].copy_from_slice(sum);
            });
            gradients
        })
    }

    /// Adds to the gradient of the whole table.
    fn add_to<T: Number>(&self, table: &mut [T], g: &[T], width: usize) {
        let schedule = self.schedule(self.positions.len() * width * EACH);
        fill_parts(schedule, Rows::new(table, width), |own, table| {
            self.sums(own, (g, width), |row, sum| {
                let start = (row - own.start) * width;
                add_rows(&mut table[start..start + width], sum, width, 0);
            });
        });
    }

    fn schedule(&self, cost: usize) -> Schedule {
        Schedule::per_thread(region::parts(cost), self.rows, 1)
    }
}

/// Adds the gradients of an embedding's outputs to the table's, which is known in part.
struct AddRows<'a> {
    rows: &'a TableRows,
    gradient: (&'a CpuStorage, &'a Layout),
}

impl InplaceOp1 for AddRows<'_> {
    fn name(&self) -> &'static str {
        "add-rows"
    }

    fn cpu_fwd(&self, table: &mut CpuStorage, layout: &Layout) -> Result<()> {
        let (storage, gradient_layout) = self.gradient;
        let &[rows, width] = layout.dims() else {
            bail!("a table's gradient is {:?}", layout.dims())
        };
        let Some((start, end)) = layout.contiguous_offsets() else {
            bail!("a table's gradient is not contiguous")
        };
        if rows != self.rows.rows {
            bail!(
                "a table of {} rows has a gradient of {rows}",
                self.rows.rows
            )
        }
        match table {
            CpuStorage::F32(table) => {
                let g = numbers::<f32>(storage, gradient_layout)?;
                self.rows.add_to(&mut table[start..end], g, width);
            }
            CpuStorage::F64(table) => {
                let g = numbers::<f64>(storage, gradient_layout)?;
                self.rows.add_to(&mut table[start..end], g, width);
            }
            _ => bail!("a table's gradient has neither `f32` nor `f64`"),
        }
        Ok(())
    }
}

struct PositionsOp;

/// Number of elements of one sequence of `x`.
fn sequence(x: &[usize], table: &[usize]) -> Result<usize> {
    match (x, table) {
        (&[.., length, width], &[positions, wide]) if width == wide && length <= positions => {
            Ok(length * width)
        }
        _ => bail!("positions {table:?} want (…, length, width), found {x:?}"),
    }
}

impl CustomOp2 for PositionsOp {
    fn name(&self) -> &'static str {
        "add-positions"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        table: &CpuStorage,
        table_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let size = sequence(x_layout.dims(), table_layout.dims())?;
        for_floats!(x, T => {
            let x = numbers::<T>(x, x_layout)?;
            let rows = &numbers::<T>(table, table_layout)?[..size];
            let mut y = x.to_vec();
            for y in y.chunks_exact_mut(size.max(1)) {
                add_rows(y, rows, size, 0);
            }
            Ok((stored(y), x_layout.shape().clone()))
        })
    }

    fn bwd(
        &self,
        x: &Tensor,
        table: &Tensor,
        _y: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let size = sequence(x.dims(), table.dims())?;
        let gradient = ready(gradient)?;
        let of_table = if table.track_op() {
            let (guard, layout) = gradient.storage_and_layout();
            let storage = cpu(&guard)?;
            for_floats!(storage, T => {
                let mut of_table = vec![<T as Number>::ZERO; table.elem_count()];
                let g = numbers::<T>(storage, layout)?;
                add_rows(&mut of_table[..size], g, size, 0);
                Some(new_tensor(of_table, table.shape())?)
            })
        } else {
            None
        };
        Ok((hand_over(x, gradient), hand_over(table, of_table)))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Var;

    use super::*;
    use crate::CrossEntropyTerms;

    #[test]
    fn rows_are_found_and_their_gradients_added_up() -> Result<()> {
        let device = crate::device::for_tests();
        let table = Var::new(&[[1.0_f32, 2.0], [3.0, 4.0], [5.0, 6.0]], &device)?;
        for tokens in [
            Tensor::new(&[[2_u32, 0], [2, 2]], &device)?,
            Tensor::new(&[[2_i64, 0], [2, 2]], &device)?,
        ] {
            let y = embedding(&table, &tokens)?;
            assert_eq!(
                y.to_vec3::<f32>()?,
                [[[5.0, 6.0], [1.0, 2.0]], [[5.0, 6.0], [5.0, 6.0]]]
            );
            let factors = Tensor::arange(1.0_f32, 9.0, &device)?.reshape((2, 2, 2))?;
            let gradients = (y * factors)?.sum_all()?.backward()?;
            let of_table = gradients.get(&table).expect("a gradient");
            assert_eq!(
                of_table.to_vec2::<f32>()?,
                [[3.0, 4.0], [0.0, 0.0], [13.0, 16.0]]
            );
        }
        if !device.is_cpu() {
            // A kernel can't return an error: there tokens are checked on the host, before they are copied.
            return Ok(());
        }
        let wrong = embedding(&table, &Tensor::new(&[3_u32], &device)?);
        let message = wrong.expect_err("there are three rows").to_string();
        assert!(
            message.contains("3 tokens was given the token 3"),
            "{message}"
        );
        assert!(embedding(&table, &Tensor::new(&[-1_i64], &device)?).is_err());
        assert!(embedding(&table, &Tensor::new(&[1.0_f32], &device)?).is_err());
        Ok(())
    }

    /// Gradients of a table that is also the weight of a linear layer, with a recording and without one.
    fn gradients_of_a_tied_table(
        table: &Var,
        padding: Option<u32>,
        is_recorded: bool,
    ) -> Result<Tensor> {
        let tokens = Tensor::new(&[3_u32, 0, 3, 6, 1, 3, 0], table.device())?;
        let targets = [0, 1, 2, 3, 4, 5, 6].map(Some);
        let recording = is_recorded.then(crate::record);
        let y = embedding_with(table, &tokens, padding)?;
        let logits = crate::linear(&y, table, None)?;
        let loss = crate::cross_entropy(&logits, &targets, CrossEntropyTerms::default(), 7.0)?;
        let gradients = if is_recorded {
            crate::backward(&loss, 1.0)?
        } else {
            loss.backward()?
        };
        drop(recording);
        Ok(gradients.get(table).expect("a gradient").clone())
    }

    #[test]
    fn rows_are_added_to_the_gradient_of_a_tied_weight() -> Result<()> {
        for (dtype, padding) in [
            (DType::F64, None),
            (DType::F64, Some(3)),
            (DType::F32, None),
        ] {
            let table = crate::normal_numbers(5, (7, 4))?.to_dtype(dtype)?;
            let table = Var::from_tensor(&table)?;
            let found = gradients_of_a_tied_table(&table, padding, true)?;
            let expected = gradients_of_a_tied_table(&table, padding, false)?;
            let numbers = |x: &Tensor| x.to_dtype(DType::F64)?.to_vec2::<f64>();
            assert_eq!(
                numbers(&found)?,
                numbers(&expected)?,
                "{dtype:?} {padding:?}"
            );
        }
        Ok(())
    }

    #[test]
    fn a_row_for_padding_gets_no_gradient() -> Result<()> {
        let device = crate::device::for_tests();
        let table = Var::new(&[[1.0_f32, 2.0], [3.0, 4.0]], &device)?;
        let tokens = Tensor::new(&[1_u32, 0, 1], &device)?;
        let y = embedding_with(&table, &tokens, Some(1))?;
        assert_eq!(y.to_vec2::<f32>()?, [[3.0, 4.0], [1.0, 2.0], [3.0, 4.0]]);
        let gradients = y.sqr()?.sum_all()?.backward()?;
        let of_table = gradients.get(&table).expect("a gradient");
        assert_eq!(of_table.to_vec2::<f32>()?, [[2.0, 4.0], [0.0, 0.0]]);
        Ok(())
    }

    #[test]
    fn positions_are_added_to_every_sequence() -> Result<()> {
        let device = crate::device::for_tests();
        let table = Var::new(&[[1.0_f64, 2.0], [3.0, 4.0], [5.0, 6.0]], &device)?;
        let x = Var::zeros((3, 2, 2), DType::F64, &device)?;
        let y = add_positions(&x, &table)?;
        assert_eq!(y.to_vec3::<f64>()?, [[[1.0, 2.0], [3.0, 4.0]]; 3]);
        let factors = Tensor::arange(0.0_f64, 12.0, &device)?.reshape((3, 2, 2))?;
        let gradients = (y * &factors)?.sum_all()?.backward()?;
        let of_table = gradients.get(&table).expect("a gradient");
        assert_eq!(
            of_table.to_vec2::<f64>()?,
            [[12.0, 15.0], [18.0, 21.0], [0.0, 0.0]]
        );
        let of_x = gradients.get(&x).expect("a gradient");
        assert_eq!(of_x.to_vec3::<f64>()?, factors.to_vec3::<f64>()?);
        assert!(add_positions(&Tensor::zeros((4, 2), DType::F64, &device)?, &table).is_err());
        Ok(())
    }
}
