//! One forward pass: training or evaluation, hooks at modules, and access to the run around it.
//!
//! `visibility`: which positions of a batch's sequences may see each other. `cache`: keys and values of earlier tokens. `head`: what is
//! wanted of the model's last layer. `module_output`: an observer that keeps what one module gives.

mod cache;
mod head;
mod module_output;
mod visibility;

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use candle_core::{Error, Result, Tensor};

use crate::ops::{self, AcrossRanks, LinearParameters, SharedBatch, TokenPositions};
use crate::random::{self, Stream};
use crate::running_statistics::StatisticsLog;
pub use cache::KeyValueCache;
pub(crate) use head::HeadUse;
pub use module_output::ModuleOutput;
pub use visibility::Visibility;

/// A named module of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleInfo {
    /// Full name, the prefix of its parameters' names, e.g. `fc1`.
    pub name: String,
    /// Kind of the layer, e.g. `linear`.
    pub kind: &'static str,
}

impl ModuleInfo {
    /// Creates a module of this name and kind.
    pub fn new(name: impl Into<String>, kind: &'static str) -> ModuleInfo {
        ModuleInfo {
            name: name.into(),
            kind,
        }
    }
}

/// Observers of modules, called on their inputs and outputs.
pub trait Taps {
    /// Whether a hook is attached to the module. If not, it may be fused with its neighbours.
    fn listens(&mut self, module: &ModuleInfo) -> bool;

    /// Called before a module; returns the input to use instead of `input`, if a hook is attached.
    fn enter(&mut self, module: &ModuleInfo, input: &Tensor) -> Result<Option<Tensor>>;

    /// Called after a module with an attached hook; returns the output to use instead of `output`.
    fn leave(&mut self, module: &ModuleInfo, input: &Tensor, output: Tensor) -> Result<Tensor>;
}

/// The run around a pass.
pub trait PassSurroundings {
    /// Returns the tensor that a hook published under a name, detached from the graph.
    fn published(&self, name: &str) -> Result<Option<Tensor>>;

    /// Makes a tensor of the batch visible to hooks under a name.
    fn show(&self, name: Cow<'static, str>, tensor: &Tensor);
}

/// Position of a pass in a training run: the key of all its random numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassPosition {
    /// Seed of the run.
    pub seed: u64,
    /// Number of completed training epochs.
    pub epoch: u64,
    /// Number of completed training batches.
    pub iteration: u64,
}

/// One of several tensors of inputs of a batch, through which a pass runs the model one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassPart {
    /// Its number, from 0.
    pub index: u32,
    /// Rows of those before it.
    pub before: usize,
    /// Its rows.
    pub rows: usize,
    /// Rows of all of them.
    pub all: usize,
}

/// One forward pass over a batch, which models hand from layer to layer.
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
    moment: PassPosition,
    /// Which of several tensors of inputs is in progress.
    part: Option<PassPart>,
    renewal: Option<f64>,
    statistics: Option<&'a RefCell<StatisticsLog>>,
    shared_batch: Option<SharedBatch>,
    taps: Option<&'a mut dyn Taps>,
    surroundings: Option<&'a dyn PassSurroundings>,
    named: Option<NamedInputs>,
    visibility: Option<Visibility>,
    cache: Option<&'a mut KeyValueCache>,
    /// Positions in the cache at the start of the pass.
    cached: usize,
    head: HeadUse,
    /// The layer at the model's end that was left out.
    left_head: Option<LinearParameters>,
}

/// Inputs of a batch beside the one that the first layer gets, by their names, e.g. `token_types`.
pub type NamedInputs = Arc<BTreeMap<String, Tensor>>;

impl<'a> Pass<'a> {
    /// Creates a training pass without hooks.
    pub fn training() -> Pass<'a> {
        Pass::new(true)
    }

    /// Creates a pass for validation, test or prediction, without hooks.
    pub fn evaluation() -> Pass<'a> {
        Pass::new(false)
    }

    /// Creates a pass without hooks.
    pub fn new(is_training: bool) -> Pass<'a> {
        Pass {
            is_training,
            moment: PassPosition::default(),
            part: None,
            renewal: None,
            statistics: None,
            shared_batch: None,
            taps: None,
            surroundings: None,
            named: None,
            visibility: None,
            cache: None,
            cached: 0,
            head: HeadUse::Whole,
            left_head: None,
        }
    }

    /// Gives the pass the batch's inputs that layers read by their names.
    pub fn set_named_inputs(&mut self, named: NamedInputs) {
        self.named = Some(named);
    }

    /// Returns the batch's inputs that layers read by their names.
    pub fn named_inputs(&self) -> NamedInputs {
        self.named.clone().unwrap_or_default()
    }

    /// Returns the batch's input of this name, if it has one.
    pub fn named_input(&self, name: &str) -> Option<&Tensor> {
        self.named.as_ref()?.get(name)
    }

    /// Sets the position in training, which determines the random numbers.
    pub fn at(mut self, moment: PassPosition) -> Pass<'a> {
        self.moment = moment;
        self
    }

    /// Begins one of several tensors of inputs. Those after the first draw random numbers of their own.
    pub fn begin_part(&mut self, part: Option<PassPart>) {
        self.part = part;
    }

    /// Returns which of several tensors of inputs is in progress.
    pub(crate) fn part(&self) -> Option<PassPart> {
        self.part
    }

    /// Recomputes running statistics: this pass's samples are the fraction `weight`, above 0 and at
    /// most 1, of all samples so far, its own included.
    pub fn renewing(mut self, weight: f64) -> Pass<'a> {
        self.renewal = Some(weight);
        self
    }

    /// Records the statistics of batch norms in training instead of updating their running ones: the
    /// owner of the log applies them later, together with those of other passes.
    pub fn collecting(mut self, log: &'a RefCell<StatisticsLog>) -> Pass<'a> {
        self.statistics = Some(log);
        self
    }

    /// Synchronises batch norms in training, as PyTorch's `SyncBatchNorm`: they normalise by the statistics
    /// of the batches that all ranks process at the same time, and merge these into the running ones or
    /// record them, the same on all ranks. The batch of a rank whose `counts` is false contributes nothing.
    ///
    /// Every rank exchanges values in the forward pass and again in [`ops::backward`], so all ranks must
    /// run both, in the same order; see [`AcrossRanks`]. Losses must be to the same scale on all ranks
    /// before the backward pass, as each rank's gradients contain those of the others' losses. Frozen batch
    /// norms, evaluation and a [renewal](Self::renewing) exchange nothing.
    pub fn across(mut self, ranks: Arc<dyn AcrossRanks>, counts: bool) -> Pass<'a> {
        self.shared_batch = Some(SharedBatch::new(ranks, counts));
        self
    }

    /// Attaches observers to the modules.
    pub fn with_taps(mut self, taps: &'a mut dyn Taps) -> Pass<'a> {
        self.taps = Some(taps);
        self
    }

    /// Connects the pass to the run around it.
    pub fn within(mut self, surroundings: &'a dyn PassSurroundings) -> Pass<'a> {
        self.surroundings = Some(surroundings);
        self
    }

    /// Says which positions of the batch's sequences may see each other, and their numbers; by default all may, and they are
    /// counted from 0 in each row.
    pub fn seeing(mut self, visibility: Visibility) -> Pass<'a> {
        self.visibility = Some(visibility);
        self
    }

    /// The batch's tokens are those after the ones in the cache, to which attention adds them.
    pub fn caching(mut self, cache: &'a mut KeyValueCache) -> Pass<'a> {
        self.cached = cache.length();
        self.cache = Some(cache);
        self
    }

    /// Only the outputs of the last position are wanted: a linear layer at the model's end computes no others, as that of a large
    /// vocabulary takes longer for a prompt than all layers before it.
    pub fn for_last_position(mut self) -> Pass<'a> {
        self.head = HeadUse::LastPosition;
        self
    }

    /// Nothing reads the model's outputs but the task's own loss and metrics: it may [leave the model's head out](Pass::leave_head).
    pub fn for_loss(mut self) -> Pass<'a> {
        self.head = HeadUse::ForLoss;
        self
    }

    /// Has the model leave out a linear layer at its end if that is [allowed](Pass::for_loss) and it has enough outputs that
    /// they had better be computed [in parts](ops::linear_cross_entropy). Then the model returns that layer's inputs, and
    /// [`left_head`](Pass::left_head) the layer.
    pub fn leave_head(&mut self) {
        if self.head == HeadUse::ForLoss {
            self.head = HeadUse::Left;
        }
    }

    /// The layer at the model's end that was left out in this pass, if one was: what the model returned are its inputs.
    pub fn left_head(&self) -> Option<&LinearParameters> {
        self.left_head.as_ref()
    }

    /// Leaves out the layer at the model's end.
    pub(crate) fn set_left_head(&mut self, layer: LinearParameters) {
        self.left_head = Some(layer);
    }

    /// Returns what is wanted of the last layer, to the layers that the model consists of; not to those within.
    pub(crate) fn take_head_use(&mut self) -> HeadUse {
        std::mem::take(&mut self.head)
    }

    /// As [`seeing`](Pass::seeing), of a pass that has begun.
    pub fn set_visibility(&mut self, visibility: Option<Visibility>) {
        self.visibility = visibility;
    }

    /// Returns which positions of the batch's sequences may see each other, if it was said.
    pub fn visibility(&self) -> Option<&Visibility> {
        self.visibility.as_ref()
    }

    /// Returns the cache, and its number of positions at the start of the pass.
    pub(crate) fn cache(&mut self) -> Option<(&mut KeyValueCache, usize)> {
        let cached = self.cached;
        self.cache.as_deref_mut().map(|cache| (cache, cached))
    }

    /// Returns the numbers of the batch's tokens, of (rows, length), for position embeddings.
    ///
    /// # Errors
    ///
    /// If they are known and those of a batch of another shape.
    pub fn token_positions(&self, rows: usize, length: usize) -> Result<TokenPositions> {
        if let Some(cache) = &self.cache {
            return Ok(cache.positions(self.cached, length));
        }
        let Some(visibility) = &self.visibility else {
            return Ok(TokenPositions::From(0));
        };
        visibility.check(rows, length)?;
        Ok(TokenPositions::Each {
            rows,
            positions: Arc::clone(visibility.positions()),
        })
    }

    /// Whether training-only behaviour such as dropout is enabled.
    pub fn is_training(&self) -> bool {
        self.is_training
    }

    /// Returns the position in training.
    pub(crate) fn position(&self) -> PassPosition {
        self.moment
    }

    /// Returns this pass's fraction of the samples so far, if running statistics are recomputed; that of its part, if it has several.
    pub fn renewal(&self) -> Option<f64> {
        let weight = self.renewal?;
        let Some(PassPart {
            before, rows, all, ..
        }) = self.part
        else {
            return Some(weight);
        };
        // Rows of the passes before this one.
        let earlier = all as f64 * (1.0 / weight - 1.0);
        Some(rows as f64 / (earlier + (before + rows) as f64))
    }

    /// Returns the log for statistics of batch norms, if they are not to be applied at once.
    pub(crate) fn statistics_log(&self) -> Option<&'a RefCell<StatisticsLog>> {
        self.statistics
    }

    /// Returns this rank's batch among those that batch norms normalise together, if they do.
    pub(crate) fn shared_batch(&self) -> Option<&SharedBatch> {
        self.shared_batch.as_ref()
    }

    /// Returns a random stream for a purpose such as `dropout/NAME`. It depends only on seed, purpose,
    /// epoch, iteration and the part's number.
    pub fn random(&self, purpose: &str) -> Stream {
        let PassPosition {
            seed,
            epoch,
            iteration,
        } = self.moment;
        match self.part {
            Some(PassPart { index, .. }) if index > 0 => {
                random::stream(seed, &format!("{purpose}@{index}"), epoch, iteration)
            }
            _ => random::stream(seed, purpose, epoch, iteration),
        }
    }

    /// Whether a hook is attached to a module.
    pub fn listens(&mut self, module: &ModuleInfo) -> bool {
        self.taps.as_mut().is_some_and(|taps| taps.listens(module))
    }

    /// Runs a named module, whose output `forward` computes from its input. Without an attached hook,
    /// only `forward` runs.
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
            let output = forward(input, self).map_err(|error| located(error, module))?;
            return Ok(ops::pruned(output, input));
        };
        let output = forward(&input, self).map_err(|error| located(error, module))?;
        let output = ops::pruned(output, &input);
        match &mut self.taps {
            None => Ok(output),
            Some(taps) => taps.leave(module, &input, output),
        }
    }

    /// Returns the tensor that a hook published under a name at `after_forward` or earlier, if any;
    /// none outside a run. It carries no gradient.
    pub fn published(&self, name: &str) -> Result<Option<Tensor>> {
        match self.surroundings {
            Some(surroundings) => surroundings.published(name),
            None => Ok(None),
        }
    }

    /// Makes a tensor of the batch visible to hooks under a name, in addition to `inputs`, `targets`,
    /// `outputs` and `loss`.
    pub fn show(&self, name: impl Into<Cow<'static, str>>, tensor: &Tensor) {
        if let Some(surroundings) = self.surroundings {
            surroundings.show(name.into(), tensor);
        }
    }
}

/// Names the innermost module in which a device's memory was exhausted; the error itself says nothing of what was computed.
#[cold]
pub(crate) fn located(error: Error, module: &ModuleInfo) -> Error {
    let is_unknown =
        ops::device::is_out_of_memory(&error) && !error.to_string().contains(IN_MODULE);
    if is_unknown {
        return error.context(format!("{IN_MODULE}{}`, a {}", module.name, module.kind));
    }
    error
}

/// Beginning of what [`located`] says.
const IN_MODULE: &str = "in module `";

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_pass_have_their_share_of_statistics_and_numbers_of_their_own() {
        // A pass of 12 rows after one of 12, in parts of 4 and 8.
        let mut pass = Pass::training().renewing(0.5);
        assert_eq!(pass.renewal(), Some(0.5));
        let whole = pass.random("dropout/drop").bits();
        let part = |index, before, rows| {
            Some(PassPart {
                index,
                before,
                rows,
                all: 12,
            })
        };
        pass.begin_part(part(0, 0, 4));
        assert_eq!(pass.renewal(), Some(4.0 / 16.0));
        assert_eq!(pass.random("dropout/drop").bits(), whole);
        pass.begin_part(part(1, 4, 8));
        assert_eq!(pass.renewal(), Some(8.0 / 24.0));
        assert_ne!(pass.random("dropout/drop").bits(), whole);
        // The first pass of all forgets what was before it.
        let mut first = Pass::training().renewing(1.0);
        first.begin_part(part(0, 0, 4));
        assert_eq!(first.renewal(), Some(1.0));
        first.begin_part(part(1, 4, 8));
        assert_eq!(first.renewal(), Some(8.0 / 12.0));
    }
}
