//! The gradients of parameters past candle's store.
//!
//! For every gradient that an operation hands it, the store makes zeros and adds it to them: two more
//! passes over memory. Most parameters are used once, so the operations of this module lay their
//! gradients aside while a backward pass of ours runs, which puts them into the store at the end.
//! Everywhere else they hand them over as usual: candle's own `backward` is as complete.
//!
//! Of an activation that was used twice, as a residual is, one gradient is known before the other: an operation
//! that goes over it anyway can add to it, which spares the pass of an addition.

use std::cell::{Cell, RefCell};

use candle_core::backprop::GradStore;
use candle_core::{Result, Tensor, TensorId};

thread_local! {
    /// The parameters' gradients of the backward pass under way, if there is one.
    static ASIDE: RefCell<Option<Vec<(TensorId, Tensor)>>> = const { RefCell::new(None) };

    /// What is known already of the gradient of what the operation at hand was given.
    static BEFORE: Cell<Option<(TensorId, Tensor)>> = const { Cell::new(None) };
}

/// A backward pass under way. However it ends, also by a panic in an operation, the one around it goes on
/// as before: gradients laid aside for nobody, or offered to nobody, would be lost.
pub(super) struct Aside {
    outer: Option<Vec<(TensorId, Tensor)>>,
    outer_before: Option<(TensorId, Tensor)>,
}

impl Aside {
    pub(super) fn begin() -> Aside {
        Aside {
            outer: ASIDE.replace(Some(Vec::new())),
            outer_before: BEFORE.take(),
        }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        ASIDE.set(self.outer.take());
        BEFORE.set(self.outer_before.take());
    }
}

/// Adds what was laid aside to a store.
pub(super) fn bring_back(store: &mut GradStore) -> Result<()> {
    for (id, gradient) in ASIDE.take().unwrap_or_default() {
        let sum = match store.get_id(id) {
            Some(before) => before.add(&gradient)?,
            None => gradient,
        };
        store.insert_id(id, sum);
    }
    Ok(())
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

/// Offers an operation what is known of the gradient of a tensor, for it to be added to in the same pass over memory
/// in which the operation's own share is computed. What nobody takes is to be [taken back](take_before).
pub(super) fn offer_before(tensor: &Tensor, gradient: Tensor) {
    BEFORE.set(Some((tensor.id(), gradient)));
}

/// What is known of the gradient of this tensor: whoever takes it hands over the sum. Nothing outside of a pass of ours.
pub(super) fn take_before(tensor: &Tensor) -> Option<Tensor> {
    let (id, gradient) = BEFORE.take()?;
    if id == tensor.id() {
        return Some(gradient);
    }
    BEFORE.set(Some((id, gradient)));
    None
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Var};

    use super::*;

    #[test]
    fn a_pass_within_another_leaves_what_was_offered() -> Result<()> {
        let [x, y] = [1.0, 2.0].map(|number| Var::new(number, &Device::Cpu));
        let (x, y) = (x?, y?);
        let outer = Aside::begin();
        offer_before(&x, y.as_tensor().clone());
        let inner = Aside::begin();
        assert!(take_before(&x).is_none(), "it is the outer pass's");
        offer_before(&y, x.as_tensor().clone());
        drop(inner);
        assert!(take_before(&y).is_none(), "the inner pass is over");
        let found = take_before(&x).map(|found| found.to_scalar::<f64>());
        assert_eq!(found.transpose()?, Some(2.0));
        drop(outer);
        Ok(())
    }
}
