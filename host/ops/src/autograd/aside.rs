//! Parameter gradients that bypass candle's gradient store.
//!
//! For every gradient that an operation returns, the store allocates zeros and adds it to them: two more passes over
//! memory. Most parameters are used once, so this crate's operations set their gradients aside while its own backward
//! pass runs, which hands them out once they are complete, or puts them into the store at the end. Everywhere else they
//! return them as usual, so candle's own `backward` is as complete.
//!
//! Of an activation that is used twice, as in a residual connection, one gradient is known before the other: an
//! operation that writes the other one anyway can add to it, which saves a pass for the addition.

use std::cell::{Cell, RefCell};

use candle_core::backprop::GradStore;
use candle_core::{InplaceOp1, Result, Tensor, TensorId};

use super::sum::sum;

thread_local! {
    /// Gradients of variables in the backward pass in progress, if there is one.
    static ASIDE: RefCell<Option<Vec<AsideGradient>>> = const { RefCell::new(None) };

    /// Gradient already known for the current operation's first input.
    static BEFORE: Cell<Option<(TensorId, Tensor)>> = const { Cell::new(None) };
}

/// A gradient that was set aside.
struct AsideGradient {
    variable: Tensor,
    gradient: Tensor,
    /// Whether nothing else has the gradient's memory, so that it can be added to in place.
    is_own: bool,
}

/// A backward pass in progress; restores the state of the enclosing one when dropped.
///
/// It does so even if an operation panics: gradients set aside or offered for a pass that is over would be lost.
pub(crate) struct Aside {
    outer: Option<Vec<AsideGradient>>,
    outer_before: Option<(TensorId, Tensor)>,
}

impl Aside {
    pub(crate) fn begin() -> Aside {
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

/// Whether a backward pass of this crate is in progress, which collects gradients set aside.
pub(crate) fn is_collecting() -> bool {
    ASIDE.with_borrow(Option::is_some)
}

/// Adds the gradients set aside to a store.
pub(crate) fn bring_back(store: &mut GradStore) -> Result<()> {
    for aside in ASIDE.take().unwrap_or_default() {
        let AsideGradient {
            variable, gradient, ..
        } = aside;
        let sum = match store.get(&variable) {
            Some(before) => before.add(&gradient)?,
            None => gradient,
        };
        store.insert(&variable, sum);
    }
    Ok(())
}

/// Takes out the variables for which `is_complete` holds, each with the sum of its gradients.
pub(crate) fn take_complete(
    is_complete: impl Fn(&Tensor) -> bool,
) -> Result<Vec<(Tensor, Tensor)>> {
    let complete: Vec<AsideGradient> = ASIDE.with_borrow_mut(|aside| {
        let aside = aside.iter_mut();
        aside
            .flat_map(|aside| aside.extract_if(.., |aside| is_complete(&aside.variable)))
            .collect()
    });
    let mut sums: Vec<(Tensor, Tensor)> = Vec::with_capacity(complete.len());
    for aside in complete {
        let AsideGradient {
            variable, gradient, ..
        } = aside;
        // In the order in which they would be added to a store.
        match sums
            .iter_mut()
            .find(|(known, _)| known.id() == variable.id())
        {
            Some((_, before)) => *before = sum(before, &gradient)?,
            None => sums.push((variable, gradient)),
        }
    }
    Ok(sums)
}

/// The gradient of a tensor, if wanted, as an operation returns it.
///
/// A parameter's is set aside instead if a pass of this crate is in progress, which collects it at the end.
pub(crate) fn hand_over(tensor: &Tensor, gradient: impl Into<Option<Tensor>>) -> Option<Tensor> {
    hand_over_as(false, tensor, gradient.into()?)
}

/// As [`hand_over`], of a gradient whose memory nothing else has: a later operation may [add to it](add_in_place).
pub(crate) fn hand_over_own(
    tensor: &Tensor,
    gradient: impl Into<Option<Tensor>>,
) -> Option<Tensor> {
    hand_over_as(true, tensor, gradient.into()?)
}

fn hand_over_as(is_own: bool, tensor: &Tensor, gradient: Tensor) -> Option<Tensor> {
    if !tensor.is_variable() {
        return Some(gradient);
    }
    ASIDE.with_borrow_mut(|aside| match aside {
        Some(aside) => {
            aside.push(AsideGradient {
                variable: tensor.clone(),
                gradient,
                is_own,
            });
            None
        }
        None => Some(gradient),
    })
}

/// Has `add` add to the memory of the gradient of a variable that was set aside last, if nothing else has that; says whether
/// it did.
///
/// What changes a few rows of a large gradient needs no gradient of the same size then.
pub(crate) fn add_in_place(variable: &Tensor, add: &impl InplaceOp1) -> Result<bool> {
    ASIDE.with_borrow(|aside| {
        let of_variable = |aside: &&AsideGradient| aside.variable.id() == variable.id();
        let last = aside.iter().flatten().rfind(of_variable);
        let Some(found) = last.filter(|aside| aside.is_own) else {
            return Ok(false);
        };
        found.gradient.inplace_op1(add)?;
        Ok(true)
    })
}

/// Offers the known gradient of a tensor to the operation that computes the rest of it.
///
/// The operation can add to it in the same pass over memory. A gradient not taken must be [taken back](take_before).
pub(crate) fn offer_before(tensor: &Tensor, gradient: Tensor) {
    BEFORE.set(Some((tensor.id(), gradient)));
}

/// Takes the known gradient of this tensor; the taker hands over the sum. `None` outside this crate's pass.
pub(crate) fn take_before(tensor: &Tensor) -> Option<Tensor> {
    let (id, gradient) = BEFORE.take()?;
    if id == tensor.id() {
        return Some(gradient);
    }
    BEFORE.set(Some((id, gradient)));
    None
}

#[cfg(test)]
mod tests {
    use candle_core::Var;

    use super::*;

    #[test]
    fn a_pass_within_another_leaves_what_was_offered() -> Result<()> {
        let [x, y] = [1.0, 2.0].map(|number| Var::new(number, &crate::device::for_tests()));
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
