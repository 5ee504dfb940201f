//! Tests of what is left out, and that nothing else changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Var};

use super::*;
use crate::autograd::tape::apply1;
use crate::{backward, linear, normal_numbers, record};

/// The identity; counts its backward passes.
struct Counted(Arc<AtomicUsize>);

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
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Some(gradient.clone()))
    }
}

#[test]
fn nothing_below_the_first_trained_parameter_is_differentiated() {
    let numbers = |seed, shape: (usize, usize)| normal_numbers(seed, shape).expect("numbers");
    let var = |seed| Var::from_tensor(&numbers(seed, (3, 3))).expect("a variable");
    let (body, head) = (var(1), var(2));
    let x = numbers(3, (2, 3));
    let run = |held: &[&Tensor], by_candle: bool| -> Result<[usize; 3]> {
        let counts: [Arc<AtomicUsize>; 3] = std::array::from_fn(|_| Arc::default());
        let counted = |x: &Tensor, index: usize| apply1(x, Counted(Arc::clone(&counts[index])));
        let _recording = record();
        let _held = hold(held.iter().copied());
        let y = if by_candle {
            x.matmul(&body.t()?)?
        } else {
            linear(&x, &body, None)?
        };
        let y = counted(&y, 0)?;
        let y = counted(&linear(&y, &head, None)?, 1)?;
        let y = counted(&linear(&y, &body, None)?, 2)?;
        let gradients = backward(&y.sum_all()?, 1.0)?;
        let is_held = |var: &Var| held.iter().any(|tensor| tensor.id() == var.id());
        for var in [&body, &head] {
            assert_eq!(gradients.get(var).is_some(), !is_held(var));
        }
        Ok(counts.map(|count| count.load(Ordering::Relaxed)))
    };
    for by_candle in [false, true] {
        assert_eq!(run(&[], by_candle).expect("a pass"), [1, 1, 1]);
        assert_eq!(run(&[&body], by_candle).expect("a pass"), [0, 1, 1]);
        assert_eq!(run(&[&body, &head], by_candle).expect("a pass"), [0, 0, 0]);
        assert_eq!(run(&[&head], by_candle).expect("a pass"), [1, 1, 1]);
    }
}
