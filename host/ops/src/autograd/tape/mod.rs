//! The backward pass over this crate's operations without candle's gradient store.
//!
//! candle's `backward` allocates zeros of every activation's size and adds the gradient to them. During a
//! [recording](record), this crate's operations are kept in their order, and [`backward`] walks them in reverse,
//! handing each gradient on as it is. Where an operation of candle's comes in between, candle's own pass continues from
//! there, started with the gradients found so far. It does no harm if both passes visit an operation, as gradients add
//! up.

mod last_uses;
mod memory;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::marker::PhantomData;
use std::sync::Arc;

use candle_core::backprop::GradStore;
use candle_core::{
    CpuStorage, CustomOp1, CustomOp2, CustomOp3, Layout, Result, Shape, Tensor, TensorId,
};
use foldhash::fast::FixedState;

pub(crate) use last_uses::uses;
pub use memory::{keeps, recorded_bytes};

use super::aside::{Aside, bring_back, hand_over, offer_before, take_before, take_complete};
use super::constants::{self, seen};
use super::sum::sum;
use last_uses::LastUses;

type Op1 = Arc<Box<dyn CustomOp1 + Send + Sync>>;
type Op2 = Arc<Box<dyn CustomOp2 + Send + Sync>>;
type Op3 = Arc<Box<dyn CustomOp3 + Send + Sync>>;

thread_local! {
    /// The operations since the recording began, if one is active.
    static TAPE: RefCell<Option<Vec<RecordedOperation>>> = const { RefCell::new(None) };
}

/// A recorded operation: its output and its inputs.
struct RecordedOperation {
    made: Tensor,
    of: Of,
    /// Bytes that the operation keeps beside its inputs and its output.
    beside: usize,
    /// Variables that the operation uses besides its inputs.
    inside: Vec<Tensor>,
}

enum Of {
    One(Tensor, Op1),
    Two([Tensor; 2], Op2),
    Three([Tensor; 3], Op3),
    /// The same elements in another shape.
    Reshaped(Tensor),
}

impl RecordedOperation {
    /// The first input of the operation.
    fn input(&self) -> &Tensor {
        match &self.of {
            Of::One(x, _) | Of::Two([x, ..], _) | Of::Three([x, ..], _) | Of::Reshaped(x) => x,
        }
    }

    /// All inputs of the operation.
    fn inputs(&self) -> &[Tensor] {
        match &self.of {
            Of::One(x, _) | Of::Reshaped(x) => std::slice::from_ref(x),
            Of::Two(both, _) => both,
            Of::Three(all, _) => all,
        }
    }

    /// Calls `give(tensor, gradient)` for each input whose gradient is wanted.
    fn backward(
        &self,
        gradient: &Tensor,
        mut give: impl FnMut(&Tensor, Tensor) -> Result<()>,
    ) -> Result<()> {
        let made = &self.made;
        let mut give = |tensor: &Tensor, gradient: Option<Tensor>| match gradient {
            Some(gradient) if tensor.track_op() => give(tensor, gradient),
            _ => Ok(()),
        };
        match &self.of {
            Of::One(x, op) => give(x, op.bwd(x, made, gradient)?),
            Of::Two([x, y], op) => {
                let (of_x, of_y) = op.bwd(x, y, made, gradient)?;
                give(x, of_x)?;
                give(y, of_y)
            }
            Of::Three([x, y, z], op) => {
                let (of_x, of_y, of_z) = op.bwd(x, y, z, made, gradient)?;
                give(x, of_x)?;
                give(y, of_y)?;
                give(z, of_z)
            }
            Of::Reshaped(x) => give(x, Some(gradient.reshape(x.dims())?)),
        }
    }
}

/// Records operations of this thread until it is dropped: one forward pass and its [`backward`].
#[derive(Debug)]
#[must_use = "operations are recorded as long as it lives"]
pub struct Recording {
    outer: OuterRecording,
    /// Makes it `!Send`: it belongs to its thread.
    thread: PhantomData<*const ()>,
}

/// Operations of the enclosing recording, if there is one.
struct OuterRecording(Option<Vec<RecordedOperation>>);

impl std::fmt::Debug for OuterRecording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} operations", self.0.as_ref().map_or(0, Vec::len))
    }
}

/// Starts a recording, so that [`backward`] can bypass candle's gradient store.
///
/// ```
/// use candle_core::{Device, Var};
/// use sconce_ops as ops;
///
/// # fn main() -> candle_core::Result<()> {
/// let weight = Var::new(&[[1.0_f32, -2.0]], &Device::Cpu)?;
/// let x = Var::new(&[[3.0_f32, 4.0]], &Device::Cpu)?;
/// let recording = ops::record();
/// let y = ops::relu(&ops::linear(&x, &weight, None)?)?;
/// let gradients = ops::backward(&y.sum_all()?, 1.0)?;
/// drop(recording);
/// // 3 · 1 − 4 · 2 is below zero.
/// let of_weight = gradients.get(&weight).expect("a gradient");
/// assert_eq!(of_weight.to_vec2::<f32>()?, [[0.0, 0.0]]);
/// # Ok(())
/// # }
/// ```
pub fn record() -> Recording {
    Recording {
        outer: OuterRecording(TAPE.replace(Some(Vec::new()))),
        thread: PhantomData,
    }
}

/// Whether operations of this thread are being recorded.
pub(crate) fn is_recording() -> bool {
    TAPE.with_borrow(Option::is_some)
}

/// Records nothing until it is dropped, and continues the recording in progress then.
pub(crate) fn pause() -> Recording {
    Recording {
        outer: OuterRecording(TAPE.take()),
        thread: PhantomData,
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        TAPE.set(self.outer.0.take());
    }
}

/// Outputs of this crate's operations since the recording began.
pub fn recorded() -> HashSet<TensorId> {
    TAPE.with_borrow(|tape| {
        let entries = tape.iter().flatten();
        entries.map(|entry| entry.made.id()).collect()
    })
}

/// Adds an operation to the tape, if one is active and the output has a gradient.
fn note(made: &Tensor, of: impl FnOnce() -> Of) {
    if !made.track_op() {
        return;
    }
    constants::made(made);
    TAPE.with_borrow_mut(|tape| {
        if let Some(tape) = tape {
            let (made, of) = (made.clone(), of());
            tape.push(RecordedOperation {
                made,
                of,
                beside: 0,
                inside: Vec::new(),
            });
        }
    });
}

/// Applies an operation to one tensor, and records it.
pub fn apply1(x: &Tensor, op: impl CustomOp1 + Send + Sync + 'static) -> Result<Tensor> {
    let op: Op1 = Arc::new(Box::new(op));
    let x = &*seen(x);
    let made = x.apply_op1_arc(Arc::clone(&op))?;
    note(&made, || Of::One(x.clone(), op));
    Ok(made)
}

/// Applies an operation to two tensors, and records it.
pub(crate) fn apply2(
    x: &Tensor,
    y: &Tensor,
    op: impl CustomOp2 + Send + Sync + 'static,
) -> Result<Tensor> {
    let op: Op2 = Arc::new(Box::new(op));
    let (x, y) = (&*seen(x), &*seen(y));
    let made = x.apply_op2_arc(y, Arc::clone(&op))?;
    note(&made, || Of::Two([x.clone(), y.clone()], op));
    Ok(made)
}

/// Applies an operation to three tensors, and records it.
pub(crate) fn apply3(
    x: &Tensor,
    y: &Tensor,
    z: &Tensor,
    op: impl CustomOp3 + Send + Sync + 'static,
) -> Result<Tensor> {
    let op: Op3 = Arc::new(Box::new(op));
    let (x, y, z) = (&*seen(x), &*seen(y), &*seen(z));
    let made = x.apply_op3_arc(y, z, Arc::clone(&op))?;
    note(&made, || Of::Three([x.clone(), y.clone(), z.clone()], op));
    Ok(made)
}

/// The same elements in another shape, like candle's `reshape`, but recorded.
pub fn reshape(x: &Tensor, shape: impl Into<Shape>) -> Result<Tensor> {
    let shape = shape.into();
    if *x.shape() == shape {
        return Ok(x.clone());
    }
    let x = &*seen(x);
    let made = x.reshape(shape)?;
    note(&made, || Of::Reshaped(x.clone()));
    Ok(made)
}

/// Computes all gradients of `factor` · `loss`, a scalar.
///
/// # Errors
///
/// If an operation has no gradient, or none for this element type.
pub fn backward(loss: &Tensor, factor: f64) -> Result<GradStore> {
    backward_giving(loss.clone(), factor, |_, gradient| Ok(Some(gradient)))
}

/// As [`backward`], but gives each variable to `receive` with its gradient, as soon as that is complete and the
/// variable's value is not read any more: it may be changed there. A gradient that is returned, and all those that
/// candle's own operations may contribute to, are in the store.
///
/// As the loss holds all activations, they are freed as the pass proceeds if nothing else holds it.
///
/// # Errors
///
/// As [`backward`], and the first error of `receive`.
///
/// ```
/// use candle_core::{Device, Var};
/// use sconce_ops as ops;
///
/// # fn main() -> candle_core::Result<()> {
/// let weight = Var::new(&[[1.0_f32, 2.0]], &Device::Cpu)?;
/// let x = Var::new(&[[3.0_f32, 4.0]], &Device::Cpu)?;
/// let recording = ops::record();
/// let loss = ops::reshape(&ops::linear(&x, &weight, None)?, ())?;
/// let store = ops::backward_giving(loss, 1.0, |variable, gradient| {
///     if variable.id() != weight.id() {
///         return Ok(Some(gradient));
///     }
///     weight.set(&weight.sub(&gradient)?)?;
///     Ok(None)
/// })?;
/// drop(recording);
/// assert_eq!(weight.to_vec2::<f32>()?, [[-2.0, -2.0]]);
/// assert!(store.get(&x).is_some() && store.get(&weight).is_none());
/// # Ok(())
/// # }
/// ```
pub fn backward_giving(
    loss: Tensor,
    factor: f64,
    mut receive: impl FnMut(&Tensor, Tensor) -> Result<Option<Tensor>>,
) -> Result<GradStore> {
    let _aside = Aside::begin();
    let operations = take_operations();
    let last_uses = LastUses::of(&loss, &operations);
    let mut pending = Pending::default();
    let one = loss.ones_like()?;
    let is_one = factor.to_bits() == 1_f64.to_bits();
    pending.add(
        &loss,
        if is_one {
            one
        } else {
            one.affine(factor, 0.0)?
        },
    )?;
    drop(loss);
    let mut returned = Vec::new();
    walk(operations, &mut pending, |index| {
        let Some(last_uses) = &last_uses else {
            return Ok(());
        };
        for (variable, gradient) in take_complete(|variable| last_uses.is_last(variable, index))? {
            if let Some(gradient) = receive(&variable, gradient)? {
                returned.push((variable, gradient));
            }
        }
        Ok(())
    })?;
    let mut store = pending.go_on()?;
    bring_back(&mut store)?;
    for (variable, gradient) in returned {
        store.insert(&variable, gradient);
    }
    Ok(store)
}

/// Computes all gradients of the recorded operations from that of their last output, within another backward pass.
///
/// The gradient of the first input is returned on its own, as far as it comes from this crate's operations. What is
/// known of it before is added to it.
pub(crate) fn backward_from(
    output: Tensor,
    gradient: &Tensor,
    (input, before): (&Tensor, Option<Tensor>),
) -> Result<(Option<Tensor>, GradStore)> {
    let _aside = Aside::begin();
    let mut pending = Pending::default();
    if let Some(before) = before {
        pending.add(input, before)?;
    }
    pending.add(&output, gradient.clone())?;
    drop(output);
    walk(take_operations(), &mut pending, |_| Ok(()))?;
    let of_input = pending.take(input);
    let mut store = pending.go_on()?;
    bring_back(&mut store)?;
    Ok((of_input, store))
}

/// Takes the recorded operations off the tape.
fn take_operations() -> Vec<RecordedOperation> {
    let recorded = TAPE.with_borrow_mut(|tape| tape.as_mut().map(std::mem::take));
    recorded.unwrap_or_default()
}

/// Walks operations in reverse, from the gradients in `pending`, and drops each with what only it holds. After each, calls
/// `after` with its index.
fn walk(
    operations: Vec<RecordedOperation>,
    pending: &mut Pending,
    mut after: impl FnMut(usize) -> Result<()>,
) -> Result<()> {
    for (index, entry) in operations.into_iter().enumerate().rev() {
        if let Some(gradient) = pending.take(&entry.made) {
            let input = entry.input();
            if let Some(before) = pending.take(input) {
                offer_before(input, before);
            }
            entry.backward(&gradient, |tensor, gradient| {
                match hand_over(tensor, gradient) {
                    Some(gradient) => pending.add(tensor, gradient),
                    None => Ok(()),
                }
            })?;
            if let Some(before) = take_before(input) {
                pending.add(input, before)?;
            }
        }
        drop(entry);
        after(index)?;
    }
    Ok(())
}

/// Tensors with their gradients so far, in a fixed order.
#[derive(Default)]
struct Pending {
    // Looked up a few times for each operation: the standard library's hasher took a thirtieth of a small model's step.
    indices: HashMap<TensorId, usize, FixedState>,
    gradients: Vec<Option<(Tensor, Tensor)>>,
}

impl Pending {
    fn add(&mut self, tensor: &Tensor, gradient: Tensor) -> Result<()> {
        let index = *self.indices.entry(tensor.id()).or_insert_with(|| {
            self.gradients.push(None);
            self.gradients.len() - 1
        });
        if let Some(slot) = self.gradients.get_mut(index) {
            let sum = match slot.take() {
                Some((_, before)) => sum(&before, &gradient)?,
                None => gradient,
            };
            // Second-order gradients are not supported.
            *slot = Some((tensor.clone(), sum.detach()));
        }
        Ok(())
    }

    fn take(&mut self, tensor: &Tensor) -> Option<Tensor> {
        let index = *self.indices.get(&tensor.id())?;
        let (_, gradient) = self.gradients.get_mut(index)?.take()?;
        Some(gradient)
    }

    /// Runs the rest of the pass with candle's `backward`.
    fn go_on(self) -> Result<GradStore> {
        let (variables, others): (Vec<_>, Vec<_>) =
            (self.gradients.into_iter().flatten()).partition(|(tensor, _)| tensor.is_variable());
        let mut start: Option<Tensor> = None;
        for (tensor, gradient) in others {
            let seed = tensor.apply_op1(Seed(gradient))?;
            start = Some(match start {
                Some(start) => start.add(&seed)?,
                None => seed,
            });
        }
        let mut store = match start {
            Some(start) => start.backward()?,
            None => GradStore::default(),
        };
        // Nothing is before a variable: its gradient is added to what candle found.
        for (variable, gradient) in variables {
            let gradient = match store.remove(&variable) {
                Some(found) => found.add(&gradient)?,
                None => gradient,
            };
            store.insert(&variable, gradient);
        }
        Ok(store)
    }
}

/// An operation to a scalar whose gradient with respect to its input is given.
struct Seed(Tensor);

impl CustomOp1 for Seed {
    fn name(&self) -> &'static str {
        "seed"
    }

    fn cpu_fwd(&self, _storage: &CpuStorage, _layout: &Layout) -> Result<(CpuStorage, Shape)> {
        Ok((CpuStorage::F32(vec![0.0]), Shape::from(())))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        storage: &candle_core::CudaStorage,
        _layout: &Layout,
    ) -> Result<(candle_core::CudaStorage, Shape)> {
        use candle_core::backend::{BackendDevice, BackendStorage};
        let shape = Shape::from(());
        let zero = storage
            .device()
            .zeros_impl(&shape, candle_core::DType::F32)?;
        Ok((zero, shape))
    }

    fn bwd(&self, _x: &Tensor, _scalar: &Tensor, _one: &Tensor) -> Result<Option<Tensor>> {
        Ok(Some(self.0.clone()))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Var;

    use super::*;
    use crate::{Function, add, layer_norm, linear, linear_then, relu, rms_norm, softmax};

    fn var(values: &[f64], shape: (usize, usize)) -> Var {
        let tensor =
            Tensor::from_slice(values, shape, &crate::device::for_tests()).expect("a tensor");
        Var::from_tensor(&tensor).expect("a variable")
    }

    fn numbers(store: &GradStore, var: &Var) -> Vec<f64> {
        let gradient = store.get(var).expect("a gradient");
        let flat = gradient.flatten_all().expect("flat");
        flat.to_vec1().expect("numbers")
    }

    /// Asserts that gradients with and without a tape are candle's own.
    fn expect_candles(vars: &[&Var], loss: impl Fn() -> Result<Tensor>) {
        let recording = record();
        let recorded = loss().and_then(|loss| backward(&loss, 1.0));
        drop(recording);
        let loss = loss().expect("a loss");
        let (unrecorded, candles) = (backward(&loss, 1.0), loss.backward());
        let candles = candles.expect("gradients");
        for ours in [recorded, unrecorded] {
            let ours = ours.expect("gradients");
            for var in vars {
                for (one, other) in numbers(&ours, var).iter().zip(numbers(&candles, var)) {
                    assert!((one - other).abs() < 1e-12 * other.abs().max(1.0));
                }
            }
        }
    }

    #[test]
    fn gradients_are_those_of_candles_own_pass() {
        let x = var(&[0.5, -1.0, 2.0, 0.1], (2, 2));
        let weight = var(&[1.0, 2.0, -0.5, 0.3], (2, 2));
        let bias = Var::new(&[0.1, 0.2], &crate::device::for_tests()).expect("a variable");
        // Each is used twice, once by an operation of candle's.
        expect_candles(&[&x, &weight, &bias], || {
            let y = linear(&x, &weight, Some(&bias))?;
            let y = linear(&y, &weight, None)?.add(&x.matmul(&weight)?)?;
            y.broadcast_mul(&bias)?.sqr()?.sum_all()
        });
    }

    #[test]
    fn a_tape_goes_as_far_as_operations_are_ours() {
        let x = var(&[0.5, -1.0, 2.0, 0.1, 0.7, -0.2], (3, 2));
        let weight = var(&[1.0, 2.0, -0.5, 0.3], (2, 2));
        let wide = var(&[0.3, -0.1, 0.2, 0.9, -0.4, 0.6], (1, 6));
        let scalar = |x: &Tensor| {
            linear(&reshape(x, (1, 6))?, &wide, None)?
                .squeeze(0)?
                .squeeze(0)
        };
        // This crate's alone, with residual sums and a reshape.
        expect_candles(&[&x, &weight, &wide], || {
            let y = linear_then(&x, &weight, None, Function::Gelu)?;
            let y = add(&y, &linear(&y, &weight, None)?)?;
            scalar(&add(&y, &x)?)
        });
        // Norms, which add the gradient that bypasses them: known before theirs, after it, or not at all.
        let scale = var(&[0.5, 2.0], (1, 2)).squeeze(0).expect("a row");
        let scale = Var::from_tensor(&scale).expect("a variable");
        expect_candles(&[&x, &weight, &wide, &scale], || {
            let first = linear(&x, &weight, None)?;
            let normed = layer_norm(&first, &scale, &scale, 1e-5)?;
            let y = add(&linear(&normed, &weight, None)?, &first)?;
            let normed = rms_norm(&y, &scale, 1e-5)?;
            let y = add(&y, &linear(&normed, &weight, None)?)?;
            scalar(&rms_norm(&y, &scale, 1e-5)?)
        });
        // candle's in the middle, this crate's on both sides, and a path around them.
        expect_candles(&[&x, &weight, &wide], || {
            let first = linear(&x, &weight, None)?;
            let middle = softmax(&first.sqr()?, false)?.broadcast_mul(&first)?;
            scalar(&add(&relu(&linear(&middle, &weight, None)?)?, &first)?)
        });
    }

    #[test]
    fn a_factor_goes_into_all_gradients() {
        let x = var(&[0.5, -1.0], (1, 2));
        let loss = || linear(&x, &x, None)?.sum_all();
        let single = loss()
            .and_then(|loss| backward(&loss, 1.0))
            .expect("gradients");
        let recording = record();
        let triple = loss()
            .and_then(|loss| backward(&loss, 3.0))
            .expect("gradients");
        drop(recording);
        let (single, triple) = (numbers(&single, &x), numbers(&triple, &x));
        assert_eq!((single.len(), triple.len()), (2, 2));
        for (one, three) in single.iter().zip(triple) {
            assert!((3.0 * one - three).abs() < 1e-12);
        }
    }

    #[test]
    fn a_recording_within_another_leaves_it_as_it_was() {
        // Of a type for which devices have kernels.
        let x = Tensor::from_slice(&[0.5_f32, -1.0], (1, 2), &crate::device::for_tests());
        let x = x.and_then(|x| Var::from_tensor(&x)).expect("a variable");
        let length = || TAPE.with_borrow(|tape| tape.as_ref().map(Vec::len));
        let outer = record();
        relu(&x).expect("outputs");
        let inner = record();
        relu(&x).expect("outputs");
        relu(&x).expect("outputs");
        // Operations without a gradient are not recorded.
        relu(&x.detach()).expect("outputs");
        assert_eq!(length(), Some(2));
        drop(inner);
        assert_eq!(length(), Some(1));
        drop(outer);
        assert_eq!(length(), None);
    }

    #[test]
    fn a_pass_that_panics_leaves_candles_own_complete() {
        struct Cursed;

        impl CustomOp1 for Cursed {
            fn name(&self) -> &'static str {
                "cursed"
            }

            fn cpu_fwd(
                &self,
                storage: &CpuStorage,
                layout: &Layout,
            ) -> Result<(CpuStorage, Shape)> {
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

            fn bwd(&self, _x: &Tensor, _y: &Tensor, _gradient: &Tensor) -> Result<Option<Tensor>> {
                panic!("cursed")
            }
        }

        let x = var(&[1.0, 2.0], (1, 2));
        let weight = var(&[0.5, -1.0], (1, 2));
        let y = linear(&x, &weight, None).expect("outputs");
        let cursed = y.apply_op1(Cursed).and_then(|y| y.sum_all());
        let cursed = cursed.expect("a loss");
        let panicked =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| backward(&cursed, 1.0)));
        assert!(panicked.is_err());
        let store = y.sum_all().and_then(|loss| loss.backward());
        assert!(store.expect("gradients").get(&weight).is_some());
    }
}
