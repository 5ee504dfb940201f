//! The recorded operation at which a variable's gradient is complete.
//!
//! A backward pass visits operations in reverse, so that the first one that uses a variable is the last to contribute to
//! its gradient, and to read its value. What shares a variable's memory counts as the variable.

use std::collections::{HashMap, HashSet};

use candle_core::Tensor;
use foldhash::fast::FixedState;

use super::memory::memory;
use super::{RecordedOperation, TAPE};

/// Indices of the operations that a backward pass visits last, by the address of an input's memory.
pub(super) struct LastUses(HashMap<usize, usize, FixedState>);

impl LastUses {
    /// The last uses in the backward pass from `loss`; `None` if it also depends on operations that are not recorded, such as
    /// candle's own, which may use a variable too.
    pub(super) fn of(loss: &Tensor, operations: &[RecordedOperation]) -> Option<LastUses> {
        let mut known = HashSet::with_capacity_and_hasher(operations.len(), FixedState::default());
        let mut last =
            HashMap::with_capacity_and_hasher(3 * operations.len(), FixedState::default());
        for (index, operation) in operations.iter().enumerate() {
            for input in operation.inputs() {
                if input.track_op() && !input.is_variable() && !known.contains(&input.id()) {
                    return None;
                }
            }
            for used in operation.inputs().iter().chain(&operation.inside) {
                last.entry(memory(used).0).or_insert(index);
            }
            known.insert(operation.made.id());
        }
        known.contains(&loss.id()).then_some(LastUses(last))
    }

    /// Whether the operation at `index` is the last that uses a variable.
    pub(super) fn is_last(&self, variable: &Tensor, index: usize) -> bool {
        self.0.get(&memory(variable).0) == Some(&index)
    }
}

/// Adds variables that the last recorded operation, which gave `made`, uses besides its inputs.
pub(crate) fn uses(made: &Tensor, variables: Vec<Tensor>) {
    TAPE.with_borrow_mut(|tape| {
        let last = tape.as_mut().and_then(|tape| tape.last_mut());
        if let Some(operation) = last.filter(|operation| operation.made.id() == made.id()) {
            operation.inside = variables;
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Var};

    use super::super::{apply1, backward, backward_giving, record};
    use crate::{add, linear, recomputed, relu, reshape};

    use super::*;

    fn var(values: &[f32]) -> Result<Var> {
        Var::from_tensor(&Tensor::from_slice(
            values,
            (1, 2),
            &crate::device::for_tests(),
        )?)
    }

    fn values(tensor: &Tensor) -> Result<Vec<f32>> {
        tensor.flatten_all()?.to_vec1()
    }

    /// The variables given by the pass, in order, and those whose gradients are in the store; asserts that all
    /// gradients are those of [`backward`].
    fn run(
        variables: &[&Var],
        loss: impl Fn() -> Result<Tensor>,
    ) -> Result<(Vec<usize>, Vec<usize>)> {
        let recording = record();
        let expected = backward(&loss()?, 2.0)?;
        drop(recording);
        let (mut given, recording) = (Vec::new(), record());
        let store = backward_giving(loss()?, 2.0, |variable, gradient| {
            let index = variables
                .iter()
                .position(|known| known.id() == variable.id());
            let index = index.expect("a known variable");
            assert_eq!(
                values(&gradient)?,
                values(expected.get(variable).expect("one"))?
            );
            given.push(index);
            // The value is not read any more.
            variables[index].set(&variable.affine(0.0, f64::NAN)?)?;
            Ok(None)
        })?;
        drop(recording);
        let mut kept = Vec::new();
        for (index, variable) in variables.iter().enumerate() {
            if let Some(gradient) = store.get(variable) {
                assert_eq!(
                    values(gradient)?,
                    values(expected.get(variable).expect("one"))?
                );
                kept.push(index);
            }
        }
        Ok((given, kept))
    }

    #[test]
    fn a_gradient_is_given_once_all_uses_of_its_variable_were_visited() -> Result<()> {
        let (x, w) = (var(&[1.0, -2.0])?, var(&[0.5, 3.0])?);
        let square = Tensor::from_slice(
            &[1.0_f32, 2.0, 0.5, -1.0],
            (2, 2),
            &crate::device::for_tests(),
        )?;
        let shared = Var::from_tensor(&square)?;
        // `shared` is used twice, `w` once and before the other use of `shared`.
        let found = run(&[&x, &w, &shared], || {
            let y = linear(&x, &shared, None)?;
            let y = linear(&relu(&add(&y, &w)?)?, &shared, None)?;
            reshape(&linear(&y, &Tensor::ones_like(&w)?, None)?, ())
        })?;
        assert_eq!(found, (vec![1, 2, 0], vec![]));
        Ok(())
    }

    #[test]
    fn what_shares_a_variables_memory_delays_its_gradient() -> Result<()> {
        let (x, w) = (var(&[1.0, -2.0])?, var(&[0.5, 3.0])?);
        let found = run(&[&x, &w], || {
            // Read in the backward pass, after the last operation through which `w` has a gradient.
            let y = linear(&x, &w.detach(), None)?;
            reshape(
                &linear(&reshape(&y, (1, 1))?, &reshape(&w, (2, 1))?, None)?,
                (1, 2),
            )
            .and_then(|y| reshape(&linear(&y, &Tensor::ones_like(&w)?, None)?, ()))
        })?;
        assert_eq!(found.1, Vec::<usize>::new());
        assert_eq!(found.0.len(), 2);
        Ok(())
    }

    #[test]
    fn with_an_operation_of_candles_all_gradients_are_in_the_store() -> Result<()> {
        let (x, w) = (var(&[1.0, -2.0])?, var(&[0.5, 3.0])?);
        let found = run(&[&x, &w], || linear(&x.sqr()?, &w, None)?.sum_all())?;
        assert_eq!(found, (vec![], vec![0, 1]));
        let found = run(&[&x, &w], || reshape(&linear(&x.sqr()?, &w, None)?, ()))?;
        assert_eq!(found, (vec![], vec![0, 1]));
        Ok(())
    }

    #[test]
    fn variables_in_a_recomputed_block_are_given_when_the_block_is_over() -> Result<()> {
        let (x, w) = (var(&[1.0, -2.0])?, var(&[0.5, 3.0])?);
        let parameters = [w.as_tensor().clone()];
        let found = run(&[&x, &w], || {
            let (one, other) = (w.as_tensor().clone(), w.as_tensor().clone());
            let y = recomputed(
                &x,
                &parameters,
                move |x| linear(x, &one, None),
                move |x| linear(x, &other, None),
            )?;
            reshape(&y, ())
        })?;
        assert_eq!(found.1, Vec::<usize>::new());
        assert_eq!(found.0.len(), 2);
        Ok(())
    }

    /// An identity that is counted while it is alive.
    struct Counted {
        _count: Arc<()>,
    }

    impl CustomOp1 for Counted {
        fn name(&self) -> &'static str {
            "counted"
        }

        fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
            Ok((storage.clone(), layout.shape().clone()))
        }

        #[cfg(feature = "cuda")]
        fn cuda_fwd(
            &self,
            storage: &candle_core::CudaStorage,
            layout: &Layout,
        ) -> Result<(candle_core::CudaStorage, Shape)> {
            crate::copied(storage, layout)
        }

        fn bwd(&self, _x: &Tensor, _y: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
            Ok(Some(gradient.clone()))
        }
    }

    #[test]
    fn operations_are_dropped_as_the_pass_proceeds() -> Result<()> {
        let (x, w) = (var(&[1.0, -2.0])?, var(&[0.5, 3.0])?);
        let (alive, _recording) = (Arc::new(()), record());
        let y = apply1(
            &add(&x, &w)?,
            Counted {
                _count: Arc::clone(&alive),
            },
        )?;
        let loss = reshape(&linear(&y, &Tensor::ones_like(&w)?, None)?, ())?;
        drop(y);
        assert_eq!(Arc::strong_count(&alive), 2);
        let mut given = 0;
        backward_giving(loss, 1.0, |_, _| {
            assert_eq!(Arc::strong_count(&alive), 1, "it was visited before");
            given += 1;
            Ok(None)
        })?;
        assert_eq!(given, 2);
        Ok(())
    }
}
