//! One forward pass: whether it trains, who listens at its modules, what surrounds it.

use std::borrow::Cow;
use std::fmt;

use candle_core::{Result, Tensor};

use super::ops;
use crate::random::{self, Stream};

/// A named module of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleInfo {
    /// Its name, as its parameters have it in front: `fc1`.
    pub name: String,
    /// What it is, as `linear`.
    pub kind: &'static str,
}

impl ModuleInfo {
    /// A module of this name and kind.
    pub fn new(name: impl Into<String>, kind: &'static str) -> ModuleInfo {
        ModuleInfo {
            name: name.into(),
            kind,
        }
    }
}

/// Who listens at modules.
pub trait Taps {
    /// Whether somebody listens at a module: where nobody does, it may run as one with those around it.
    fn listens(&mut self, module: &ModuleInfo) -> bool;

    /// A module begins: what it is to be given instead of `input`, where somebody listens at it.
    fn enter(&mut self, module: &ModuleInfo, input: &Tensor) -> Result<Option<Tensor>>;

    /// A module at which somebody listens is done: what its output is to be instead of `output`.
    fn leave(&mut self, module: &ModuleInfo, input: &Tensor, output: Tensor) -> Result<Tensor>;
}

/// What surrounds a pass.
pub trait Surroundings {
    /// The tensor that a hook has published under a name, without a gradient.
    fn published(&self, name: &str) -> Result<Option<Tensor>>;

    /// Shows hooks a tensor of the batch under a name.
    fn show(&self, name: Cow<'static, str>, tensor: &Tensor);
}

/// Which pass of a training it is: the key of everything random in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// The run's seed.
    pub seed: u64,
    /// Training epochs finished.
    pub epoch: u64,
    /// Training batches finished.
    pub iteration: u64,
}

/// One forward pass over a batch. Models hand it from layer to layer.
///
/// ```
/// use candle_core::{Device, Tensor};
/// use sconce_nn::{ModuleInfo, Pass};
///
/// # fn main() -> candle_core::Result<()> {
/// let double = ModuleInfo::new("double", "scale");
/// let mut pass = Pass::evaluation();
/// let x = Tensor::new(&[1.0_f32, 2.0], &Device::Cpu)?;
/// let y = pass.module(&double, &x, |x, _| x.affine(2.0, 0.0))?;
/// assert_eq!(y.to_vec1::<f32>()?, [2.0, 4.0]);
/// # Ok(())
/// # }
/// ```
pub struct Pass<'a> {
    is_training: bool,
    moment: Moment,
    renewal: Option<f64>,
    taps: Option<&'a mut dyn Taps>,
    surroundings: Option<&'a dyn Surroundings>,
}

impl<'a> Pass<'a> {
    /// A training pass without listeners.
    pub fn training() -> Pass<'a> {
        Pass::new(true)
    }

    /// A pass of a validation, a test or a prediction, without listeners.
    pub fn evaluation() -> Pass<'a> {
        Pass::new(false)
    }

    /// A pass without listeners.
    pub fn new(is_training: bool) -> Pass<'a> {
        Pass {
            is_training,
            moment: Moment::default(),
            renewal: None,
            taps: None,
            surroundings: None,
        }
    }

    /// The pass of a moment of a training.
    pub fn at(mut self, moment: Moment) -> Pass<'a> {
        self.moment = moment;
        self
    }

    /// One of the passes that make running statistics anew: of the samples of those so far, this one
    /// included, it has the part `weight`, from above 0 to 1.
    pub fn renewing(mut self, weight: f64) -> Pass<'a> {
        self.renewal = Some(weight);
        self
    }

    /// A pass at whose modules somebody listens.
    pub fn with_taps(mut self, taps: &'a mut dyn Taps) -> Pass<'a> {
        self.taps = Some(taps);
        self
    }

    /// A pass within a run.
    pub fn within(mut self, surroundings: &'a dyn Surroundings) -> Pass<'a> {
        self.surroundings = Some(surroundings);
        self
    }

    /// Whether what only training has is on, such as dropout.
    pub fn is_training(&self) -> bool {
        self.is_training
    }

    /// Where this pass makes running statistics anew, its part of the samples so far.
    pub fn renewal(&self) -> Option<f64> {
        self.renewal
    }

    /// Random numbers for a purpose, such as `dropout/NAME`: the same ones for the same seed, purpose,
    /// epoch and iteration, whatever else is drawn.
    pub fn random(&self, purpose: &str) -> Stream {
        let Moment {
            seed,
            epoch,
            iteration,
        } = self.moment;
        random::stream(seed, purpose, epoch, iteration)
    }

    /// Whether somebody listens at a module.
    pub fn listens(&mut self, module: &ModuleInfo) -> bool {
        self.taps.as_mut().is_some_and(|taps| taps.listens(module))
    }

    /// Runs a named module: `forward` makes its output of its input. Where nobody listens at it,
    /// this is `forward` and nothing else.
    #[inline]
    pub fn module(
        &mut self,
        module: &ModuleInfo,
        input: &Tensor,
        forward: impl FnOnce(&Tensor, &mut Self) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let tapped = match &mut self.taps {
            None => None,
            Some(taps) => taps.enter(module, input)?,
        };
        let Some(input) = tapped else {
            return Ok(ops::pruned(forward(input, self)?, input));
        };
        let output = ops::pruned(forward(&input, self)?, &input);
        match &mut self.taps {
            None => Ok(output),
            Some(taps) => taps.leave(module, &input, output),
        }
    }

    /// The tensor that a hook has published under a name at `after_forward` or before; none where
    /// there is none, or outside a run. It carries no gradient.
    pub fn published(&self, name: &str) -> Result<Option<Tensor>> {
        match self.surroundings {
            Some(surroundings) => surroundings.published(name),
            None => Ok(None),
        }
    }

    /// Shows hooks a tensor of the batch under a name, beside `inputs`, `targets`, `outputs` and
    /// `loss`.
    pub fn show(&self, name: impl Into<Cow<'static, str>>, tensor: &Tensor) {
        if let Some(surroundings) = self.surroundings {
            surroundings.show(name.into(), tensor);
        }
    }
}

impl fmt::Debug for Pass<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_training {
            "training"
        } else {
            "evaluation"
        };
        write!(f, "Pass({kind})")
    }
}
