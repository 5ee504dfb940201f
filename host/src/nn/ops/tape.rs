//! The backward pass, with the gradients of parameters past candle's store.
//!
//! For every gradient that an operation hands it, the store makes zeros and adds it to them: two more
//! passes over memory. Most parameters are used once, so the operations of this module lay their
//! gradients aside while [`backward`] runs, and it puts them into the store at the end. Everywhere else
//! they hand them over as usual: candle's own `backward` is as complete.

use std::cell::RefCell;

use candle_core::backprop::GradStore;
use candle_core::{Result, Tensor, TensorId};

thread_local! {
    /// The parameters' gradients of the backward pass under way, if there is one.
    static ASIDE: RefCell<Option<Vec<(TensorId, Tensor)>>> = const { RefCell::new(None) };
}

/// All gradients of a scalar.
pub fn backward(loss: &Tensor) -> Result<GradStore> {
    let _pass = Pass::begin();
    let mut store = loss.backward()?;
    for (id, gradient) in ASIDE.take().unwrap_or_default() {
        let sum = match store.get_id(id) {
            Some(before) => before.add(&gradient)?,
            None => gradient,
        };
        store.insert_id(id, sum);
    }
    Ok(store)
}

/// A backward pass under way. However it ends, also by a panic in an operation, the one around it goes on
/// as before: gradients laid aside for nobody would be lost.
struct Pass {
    outer: Option<Vec<(TensorId, Tensor)>>,
}

impl Pass {
    fn begin() -> Pass {
        Pass {
            outer: ASIDE.replace(Some(Vec::new())),
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        ASIDE.set(self.outer.take());
    }
}

/// The gradient of a tensor, where it is wanted, as an operation returns it: laid aside where it is a
/// parameter's and there is a pass that asks for it afterwards.
pub(super) fn hand_over(tensor: &Tensor, gradient: impl Into<Option<Tensor>>) -> Option<Tensor> {
    let gradient = gradient.into()?;
    if !tensor.is_variable() {
        return Some(gradient);
    }
    ASIDE.with_borrow_mut(|aside| match aside {
        Some(aside) => {
            aside.push((tensor.id(), gradient));
            None
        }
        None => Some(gradient),
    })
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Var};

    use super::super::linear;
    use super::*;

    #[test]
    fn gradients_are_those_of_candles_own_pass() {
        let var = |values: &[f64], shape: (usize, usize)| {
            let tensor = Tensor::from_slice(values, shape, &Device::Cpu).expect("a tensor");
            Var::from_tensor(&tensor).expect("a variable")
        };
        let x = var(&[0.5, -1.0, 2.0, 0.1], (2, 2));
        let weight = var(&[1.0, 2.0, -0.5, 0.3], (2, 2));
        let bias = Var::new(&[0.1, 0.2], &Device::Cpu).expect("a variable");
        // Each is used twice, once by an operation of candle's.
        let loss = || {
            let y = linear(&x, &weight, Some(&bias))?;
            let y = linear(&y, &weight, None)?.add(&x.matmul(&weight)?)?;
            y.broadcast_mul(&bias)?.sqr()?.sum_all()
        };
        let loss = loss().expect("a loss");
        let (ours, theirs) = (backward(&loss), loss.backward());
        let (ours, theirs) = (ours.expect("gradients"), theirs.expect("gradients"));
        for var in [&x, &weight, &bias] {
            let numbers = |store: &GradStore| -> Vec<f64> {
                let gradient = store.get(var).expect("a gradient");
                let flat = gradient.flatten_all().expect("flat");
                flat.to_vec1().expect("numbers")
            };
            for (one, other) in numbers(&ours).iter().zip(numbers(&theirs)) {
                assert!((one - other).abs() < 1e-12 * other.abs().max(1.0));
            }
        }
    }

    #[test]
    fn a_pass_that_panics_leaves_candles_own_complete() {
        struct Cursed;

        impl candle_core::CustomOp1 for Cursed {
            fn name(&self) -> &'static str {
                "cursed"
            }

            fn cpu_fwd(
                &self,
                storage: &candle_core::CpuStorage,
                layout: &candle_core::Layout,
            ) -> Result<(candle_core::CpuStorage, candle_core::Shape)> {
                Ok((storage.clone(), layout.shape().clone()))
            }

            fn bwd(&self, _x: &Tensor, _y: &Tensor, _gradient: &Tensor) -> Result<Option<Tensor>> {
                panic!("cursed")
            }
        }

        let x = Var::new(&[[1.0, 2.0]], &Device::Cpu).expect("a variable");
        let weight = Var::new(&[[0.5, -1.0]], &Device::Cpu).expect("a variable");
        let y = linear(&x, &weight, None).expect("outputs");
        let cursed = y.apply_op1(Cursed).and_then(|y| y.sum_all());
        let cursed = cursed.expect("a loss");
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| backward(&cursed)));
        assert!(panicked.is_err());
        let store = y.sum_all().and_then(|loss| loss.backward());
        assert!(store.expect("gradients").get(&weight).is_some());
    }
}
