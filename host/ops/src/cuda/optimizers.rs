//! Steps of optimizers over all parameters on a GPU in one launch; see `host/ops/cuda/optimizers.cu`.

use std::cell::RefCell;
use std::marker::PhantomData;

use candle_core::{DType, Result, Tensor, bail};

use super::chunks::Chunks;
use super::compilation::sources::Family;
use super::launch::{Argument, Grid, address_of, count_of_blocks, device_of, launch, uploaded};

/// The rule of a step; the names of its kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Terms: learning rate, weight decay, momentum, and the factors of the old momentum and of the new gradient in it; 1 for
    /// Nesterov's, else 0. With a momentum of 0 there is no moment.
    Sgd,
    /// Terms: weight decay, β₁, 1 − β₁, β₂, 1 − β₂, learning rate over the first moment's correction, the second's, ε.
    Adam,
    /// Terms: the factor of the parameter, then as [`Adam`](Rule::Adam).
    AdamW,
    /// Terms: the factor of the parameter, β₁, 1 − β₁, β₂, 1 − β₂, learning rate.
    Lion,
    /// Terms: learning rate, weight decay, α, 1 − α, ε, momentum; 1 if centred; 1 if there is a momentum. Moments: the mean square,
    /// the mean if centred, the momentum if there is one.
    RmsProp,
}

impl Rule {
    fn kernel(self) -> &'static str {
        match self {
            Rule::Sgd => "sgd",
            Rule::Adam => "adam",
            Rule::AdamW => "adamw",
            Rule::Lion => "lion",
            Rule::RmsProp => "rmsprop",
        }
    }
}

/// The step of one parameter.
#[derive(Clone, Debug)]
pub struct Step {
    /// The rule.
    pub rule: Rule,
    /// What it reads, as it says; those it doesn't name are 0.
    pub terms: [f64; 8],
    /// Contiguous, `f32`, changed in place; not shared with the gradient.
    pub parameter: Tensor,
    /// Of the same shape and type.
    pub gradient: Tensor,
    /// Of the same shape and type, changed in place.
    pub moments: [Option<Tensor>; 3],
}

/// Whether the kernels take a parameter of this kind.
pub fn takes(parameter: &Tensor) -> bool {
    super::takes(parameter) && parameter.dtype() == DType::F32 && parameter.is_contiguous()
}

thread_local! {
    /// Steps that wait for the end of a [`Launch`], if there is one.
    static WAITING: RefCell<Option<Vec<Step>>> = const { RefCell::new(None) };
}

/// Collects the steps of this thread until [`finish`](Launch::finish), which makes them in one launch per rule.
#[derive(Debug)]
#[must_use = "steps are made by `finish`"]
pub struct Launch {
    /// Makes it `!Send`: it belongs to its thread.
    thread: PhantomData<*const ()>,
}

impl Launch {
    /// Begins to collect.
    pub fn begin() -> Launch {
        WAITING.set(Some(Vec::new()));
        Launch {
            thread: PhantomData,
        }
    }

    /// Makes the steps collected since.
    pub fn finish(self) -> Result<()> {
        make(&WAITING.take().unwrap_or_default())
    }
}

impl Drop for Launch {
    fn drop(&mut self) {
        WAITING.take();
    }
}

/// Makes a step, or has it wait for the end of the [`Launch`] that was begun.
pub fn step(step: Step) -> Result<()> {
    let now = WAITING.with_borrow_mut(|waiting| match waiting {
        Some(waiting) => {
            waiting.push(step);
            None
        }
        None => Some(step),
    });
    now.map_or(Ok(()), |step| make(&[step]))
}

fn make(steps: &[Step]) -> Result<()> {
    let mut rest = steps;
    while let Some(first) = rest.first() {
        let is_alike = |step: &Step| {
            step.rule == first.rule
                && step
                    .parameter
                    .device()
                    .same_device(first.parameter.device())
        };
        let count = rest.iter().take_while(|step| is_alike(step)).count();
        let (alike, others) = rest.split_at(count);
        make_alike(first.rule, alike)?;
        rest = others;
    }
    Ok(())
}

/// Makes steps of one rule on one device.
fn make_alike(rule: Rule, steps: &[Step]) -> Result<()> {
    let mut parameters = Vec::new();
    for step in steps {
        let tensors = [&step.parameter, &step.gradient]
            .into_iter()
            .chain(step.moments.iter().flatten());
        for tensor in tensors.clone() {
            if !takes(tensor) || tensor.elem_count() != step.parameter.elem_count() {
                bail!("a step on a GPU wants contiguous f32 tensors of one size")
            }
        }
        parameters.push(address_of(&step.parameter)?);
        parameters.push(address_of(&step.gradient)?);
        for moment in &step.moments {
            parameters.push(moment.as_ref().map(address_of).transpose()?.unwrap_or(0));
        }
        for pair in step.terms.chunks_exact(2) {
            let bits = |term: f64| u64::from((term as f32).to_bits());
            parameters.push(bits(pair[0]) | bits(pair[1]) << 32);
        }
    }
    let Some(first) = steps.first() else {
        return Ok(());
    };
    let device = device_of(&first.parameter)?;
    let lengths = steps.iter().map(|step| step.parameter.elem_count());
    let chunks = Chunks::of(&device, lengths.collect())?;
    let parameters = uploaded(&device, parameters)?;
    launch(
        &device,
        (Family::Optimizers, rule.kernel()),
        Grid::blocks(count_of_blocks(chunks.count, 1)?),
        &[
            Argument::Tensor(&parameters),
            Argument::Tensor(&chunks.table),
        ],
    )
}
