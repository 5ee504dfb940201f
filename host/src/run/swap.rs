//! Parameters swapped for a published set, and back.

use std::cell::RefCell;

use candle_core::{CpuStorage, InplaceOp1, Layout, Result as TensorResult, Tensor, bail};
use safetensors::View;
use sconce_plugin_api::Point;

use super::{RunError, Trainer};
use crate::checkpoint::Weights;

/// Parameters whose numbers stand under a published set's names, and the set's in their place.
pub(super) struct Swapped {
    set: String,
    hook: String,
    pairs: Vec<Pair>,
}

pub(super) struct Pair {
    pub(super) name: String,
    pub(super) parameter: Tensor,
    pub(super) published: Tensor,
}

impl Swapped {
    /// The set's name.
    pub(super) fn set(&self) -> &str {
        &self.set
    }

    /// Where the numbers of the parameter of this name really stand.
    pub(super) fn real(&self, name: &str) -> Option<&Tensor> {
        let pair = self.pairs.iter().find(|pair| pair.name == name)?;
        Some(&pair.published)
    }

    /// Where the numbers published under this name really stand.
    pub(super) fn published(&self, name: &str) -> Option<&Tensor> {
        let parameter = name.strip_prefix(&self.set)?.strip_prefix('/')?;
        let pair = self.pairs.iter().find(|pair| pair.name == parameter)?;
        Some(&pair.parameter)
    }

    fn exchange(&self) -> TensorResult<()> {
        for pair in &self.pairs {
            exchange(&pair.parameter, &pair.published)?;
        }
        Ok(())
    }
}

impl Trainer<'_> {
    /// Puts the published set in the parameters' place.
    pub(super) fn swap(&mut self, set: &str, hook: &str) -> Result<(), RunError> {
        if let Some(swapped) = &self.swapped {
            let message = format!(
                "can't swap the parameters for `{set}`: they are swapped for `{}` already, by `{}`",
                swapped.set, swapped.hook
            );
            return self.blame(hook, &message);
        }
        let swapped = match self.pairs(set) {
            Ok(pairs) => Swapped {
                set: set.to_owned(),
                hook: hook.to_owned(),
                pairs,
            },
            Err(message) => {
                let message = format!("can't swap the parameters for `{set}`: {message}");
                return self.blame(hook, &message);
            }
        };
        if let Err(error) = swapped.exchange() {
            return Err(RunError::task("swapping parameters", &self.view, error));
        }
        self.swapped = Some(swapped);
        Ok(())
    }

    pub(super) fn pairs(&self, set: &str) -> Result<Vec<Pair>, String> {
        let mut pairs = Vec::new();
        for parameter in self.task.parameters().iter() {
            let name = format!("{set}/{}", parameter.name());
            let Some((_, published)) = self.shared.values.tensor_of(&name) else {
                continue;
            };
            let tensor = parameter.tensor();
            if published.dims() != tensor.dims() || published.dtype() != tensor.dtype() {
                return Err(format!(
                    "`{name}` is {:?} of shape {:?}, the parameter {:?} of shape {:?}",
                    published.dtype(),
                    published.dims(),
                    tensor.dtype(),
                    tensor.dims()
                ));
            }
            pairs.push(Pair {
                name: parameter.name().to_owned(),
                parameter: tensor.clone(),
                published,
            });
        }
        if pairs.is_empty() {
            let first = self.task.parameters().at(0).map_or("NAME", |p| p.name());
            return Err(format!(
                "no tensor of that set is published; publish them as `{set}/{first}` and so on"
            ));
        }
        Ok(pairs)
    }

    /// The set that was measured last, where it is not the parameters themselves and still is published.
    pub(super) fn measured_set(&self) -> Option<String> {
        let set = self.measured.as_deref()?;
        self.pairs(set).is_ok().then(|| set.to_owned())
    }

    /// The weights that were measured last, where they are others than the parameters.
    pub(super) fn measured_weights(&self) -> Option<Weights> {
        let set = self.measured.clone()?;
        let pairs = self.pairs(&set).ok()?;
        let differs = |pair: &Pair| pair.parameter.data() != pair.published.data();
        if !pairs.iter().any(differs) {
            return None;
        }
        let parameters = self.task.parameters().iter();
        let tensors = parameters.map(|parameter| {
            let pair = pairs.iter().find(|pair| pair.name == parameter.name());
            let tensor = pair.map_or(parameter.tensor(), |pair| &pair.published);
            (parameter.name().to_owned(), tensor.clone())
        });
        let tensors = tensors.collect();
        Some(Weights { set, tensors })
    }

    /// Puts the parameters back into their place.
    pub(super) fn swap_back(&mut self, hook: &str) -> Result<(), RunError> {
        if self.swapped.is_none() {
            return self.blame(
                hook,
                "can't swap the parameters back: they are in their place",
            );
        }
        self.restore_swapped()
    }

    /// Puts the parameters back where they are not in their place.
    pub(super) fn restore_swapped(&mut self) -> Result<(), RunError> {
        match self.swapped.take().map(|swapped| swapped.exchange()) {
            Some(Err(error)) => Err(RunError::task("swapping parameters", &self.view, error)),
            _ => Ok(()),
        }
    }

    /// A training batch is about to run: the parameters must be in their place.
    pub(super) fn expect_real_parameters(&mut self) -> Result<(), RunError> {
        let Some(swapped) = &self.swapped else {
            return Ok(());
        };
        let message = format!(
            "the parameters are still swapped for `{}` when the training goes on; ask for \
             `swap_back` at `{}` or before",
            swapped.set,
            Point::AfterCycle
        );
        let hook = swapped.hook.clone();
        self.restore_swapped()?;
        self.blame(&hook, &message)
    }
}

/// Exchanges the elements of two contiguous tensors of one shape and type.
pub(super) fn exchange(left: &Tensor, right: &Tensor) -> TensorResult<()> {
    left.inplace_op1(&with(|left: &mut CpuStorage, left_layout: &Layout| {
        right.inplace_op1(&with(|right: &mut CpuStorage, right_layout: &Layout| {
            let (Some(l), Some(r)) = (
                left_layout.contiguous_offsets(),
                right_layout.contiguous_offsets(),
            ) else {
                bail!("a swapped tensor is not contiguous");
            };
            match (&mut *left, right) {
                (CpuStorage::F32(left), CpuStorage::F32(right)) => swap(left, right, l, r),
                (CpuStorage::F64(left), CpuStorage::F64(right)) => swap(left, right, l, r),
                (CpuStorage::F16(left), CpuStorage::F16(right)) => swap(left, right, l, r),
                (CpuStorage::BF16(left), CpuStorage::BF16(right)) => swap(left, right, l, r),
                (CpuStorage::I64(left), CpuStorage::I64(right)) => swap(left, right, l, r),
                (CpuStorage::U32(left), CpuStorage::U32(right)) => swap(left, right, l, r),
                (CpuStorage::U8(left), CpuStorage::U8(right)) => swap(left, right, l, r),
                _ => bail!("swapped tensors are of different types"),
            }
            Ok(())
        }))
    }))
}

fn swap<T>(left: &mut [T], right: &mut [T], l: (usize, usize), r: (usize, usize)) {
    if let (Some(left), Some(right)) = (left.get_mut(l.0..l.1), right.get_mut(r.0..r.1)) {
        // Of one length: the shapes are the same.
        for (left, right) in left.iter_mut().zip(right) {
            std::mem::swap(left, right);
        }
    }
}

/// A function as an operation in place.
struct With<F>(RefCell<F>);

impl<F: FnMut(&mut CpuStorage, &Layout) -> TensorResult<()>> InplaceOp1 for With<F> {
    fn name(&self) -> &'static str {
        "swap"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> TensorResult<()> {
        (self.0.borrow_mut())(storage, layout)
    }
}

fn with<F>(work: F) -> With<F>
where
    F: FnMut(&mut CpuStorage, &Layout) -> TensorResult<()>,
{
    With(RefCell::new(work))
}
