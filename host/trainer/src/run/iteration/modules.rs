//! Hooks at the model's modules: during the forward pass, and after the backward pass.
//!
//! If a hook wants gradients, a module's input and output pass through an identity operation that keeps the
//! gradient in its backward pass. Otherwise nothing is added to the graph.

use std::cell::RefCell;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use candle_core::backend::BackendStorage;
use candle_core::backprop::GradStore;
use candle_core::{CpuStorage, CudaStorage, CustomOp1, Layout, Result, Shape, Tensor, Var, bail};
use sconce_lifecycle::Position;
use sconce_plugin_api::abi::{ModuleAbi, TextAbi};
use sconce_plugin_api::{Phase, Point};

use super::record::{Record, Slot, content};
use super::statistics::merge;
use super::surroundings::Surroundings;
use crate::bridge::{BridgeState, ModuleTensors};
use crate::data::Batch;
use crate::dispatch::{Dispatcher, HookFault};
use crate::nn::{ModuleInfo, Pass, PassPosition, StatisticsLog, Taps, ops};
use crate::run::RunError;
use crate::run::ranks::state::Ranks;
use crate::run::timing::profile::PassTimes;
use crate::task::Task;

/// Calls hooks at the modules of one forward pass.
struct ModuleTaps<'a, 'run> {
    listeners: Listeners<'a, 'run>,
    modules: &'a [ModuleInfo],
    records: &'a mut Vec<Record>,
    /// Statistics of batch norms that are merged after the pass, unless a hook may look at the running ones before.
    statistics: Option<&'a RefCell<StatisticsLog>>,
    /// The fault that ended the pass, if any.
    fault: Option<Box<HookFault>>,
    /// Time spent in hooks.
    spent: Duration,
}

impl ModuleTaps<'_, '_> {
    fn index(&self, module: &ModuleInfo) -> Option<usize> {
        self.modules
            .iter()
            .position(|known| known.name == module.name)
    }

    fn wants_gradients(&mut self, index: usize) -> bool {
        self.listeners.position.phase == Phase::Train
            && self.listeners.listen(Point::ModuleBackward, index)
    }
}

impl Taps for ModuleTaps<'_, '_> {
    fn listens(&mut self, module: &ModuleInfo) -> bool {
        self.index(module).is_some_and(|index| {
            self.wants_gradients(index) || self.listeners.listen(Point::ModuleForward, index)
        })
    }

    fn enter(&mut self, module: &ModuleInfo, input: &Tensor) -> Result<Option<Tensor>> {
        let Some(index) = self.index(module) else {
            return Ok(None);
        };
        if self.wants_gradients(index) {
            let (input, input_gradient) = watched(input)?;
            self.records.push(Record {
                module: index,
                input: input.clone(),
                input_gradient,
                output: None,
            });
            return Ok(Some(input));
        }
        let listens = self.listeners.listen(Point::ModuleForward, index);
        Ok(listens.then(|| input.clone()))
    }

    fn leave(&mut self, module: &ModuleInfo, input: &Tensor, output: Tensor) -> Result<Tensor> {
        let Some(index) = self.index(module) else {
            return Ok(output);
        };
        let open = (self.records.iter_mut().rev())
            .find(|record| record.module == index && record.output.is_none());
        let output = match open {
            Some(record) => {
                let (output, slot) = watched(&output)?;
                record.output = Some((output.clone(), slot));
                output
            }
            None => output,
        };
        if self.listeners.listen(Point::ModuleForward, index) {
            self.statistics.map_or(Ok(()), merge)?;
            let start = Instant::now();
            let tensors = [Some(input.clone()), Some(output.clone()), None, None];
            let called = (self.listeners).call(Point::ModuleForward, (index, module), tensors);
            self.spent += start.elapsed();
            if let Err(fault) = called {
                self.fault = Some(fault);
                bail!("a hook failed");
            }
        }
        Ok(output)
    }
}

impl Listeners<'_, '_> {
    /// Whether hooks listen at the module of this index.
    fn listen(&mut self, point: Point, module: usize) -> bool {
        self.hooks.listens(point, module, self.position)
    }

    /// Calls the hooks of a mount point at a module.
    fn call(
        &mut self,
        point: Point,
        (index, module): (usize, &ModuleInfo),
        tensors: ModuleTensors,
    ) -> std::result::Result<(), Box<HookFault>> {
        let payload = ModuleAbi {
            name: TextAbi::new(&module.name),
            kind: TextAbi::new(module.kind),
        };
        self.shared.tensors.set_module(tensors);
        let called = (self.hooks).call_module(point, (index, &payload), self.position, self.shared);
        self.shared.tensors.clear_module();
        called
    }
}

/// Computes a task's outputs, and calls the hooks at its modules.
pub(in crate::run) struct Forward {
    seed: u64,
    /// The task's modules.
    pub(in crate::run) modules: Vec<ModuleInfo>,
    /// Tensors of the modules, to be reported after the backward pass.
    records: Vec<Record>,
    /// Whether the last pass has left the model's outputs to the loss.
    pub(in crate::run) has_left_outputs: bool,
    /// What the batch norms of the last training pass have recorded and not merged yet.
    pub(in crate::run) statistics: RefCell<StatisticsLog>,
}

/// Hooks, and what they see.
pub(in crate::run) struct Listeners<'a, 'run> {
    pub(in crate::run) hooks: &'a mut Dispatcher,
    pub(in crate::run) position: &'a Position,
    pub(in crate::run) shared: &'a BridgeState<'run>,
}

impl Forward {
    /// Of a task with these modules.
    pub(in crate::run) fn new(modules: Vec<ModuleInfo>, seed: u64) -> Forward {
        Forward {
            seed,
            modules,
            records: Vec::new(),
            has_left_outputs: false,
            statistics: RefCell::default(),
        }
    }

    /// A point in the run, used as the key of random numbers in a pass.
    pub(in crate::run) fn key(&self, position: &Position) -> PassPosition {
        PassPosition {
            seed: self.seed,
            epoch: position.epoch,
            // The number in the one order of batches that all ranks share.
            iteration: match position.phase {
                Phase::Train => position.round.number,
                _ => position.number,
            },
        }
    }

    /// Whether modules have tensors to be reported after the backward pass.
    pub(in crate::run) fn has_records(&self) -> bool {
        !self.records.is_empty()
    }

    /// Computes the outputs of a batch, calling hooks at modules on the way. Those `for_loss` alone may be [left to it](Pass::for_loss).
    pub(in crate::run) fn outputs(
        &mut self,
        (batch, for_loss): (&Batch, bool),
        task: &mut dyn Task,
        ranks: Option<&Ranks>,
        listeners: Listeners<'_, '_>,
        times: &mut PassTimes,
    ) -> std::result::Result<Tensor, RunError> {
        let start = Instant::now();
        self.records.clear();
        let (position, phase) = (listeners.position, listeners.position.phase);
        let is_tapped = listeners.hooks.is_subscribed(Point::ModuleForward, phase)
            || listeners.hooks.is_subscribed(Point::ModuleBackward, phase);
        let around = Surroundings(listeners.shared);
        let mut pass = Pass::new(phase == Phase::Train)
            .at(self.key(position))
            .within(&around);
        if for_loss {
            pass = pass.for_loss();
        }
        let mut statistics = None;
        if phase == Phase::Train {
            self.statistics.borrow_mut().clear();
            pass = pass.collecting(&self.statistics);
            // On several ranks those of all batches of an update are merged, with it.
            statistics = ranks.is_none().then_some(&self.statistics);
        }
        if let Some(ranks) = ranks
            && ranks.synchronises_batch_norm()
        {
            let counts = !position.round.is_repeated;
            pass = pass.across(Arc::new(ranks.team.clone()), counts);
        }
        let mut fault = None;
        let outputs = if is_tapped {
            let mut taps = ModuleTaps {
                listeners,
                modules: &self.modules,
                records: &mut self.records,
                statistics,
                fault: None,
                spent: Duration::ZERO,
            };
            let mut pass = pass.with_taps(&mut taps);
            let outputs = task.forward(batch, &mut pass);
            self.has_left_outputs = pass.left_head().is_some();
            let spent = taps.spent;
            fault = taps.fault.take();
            times.forward += start.elapsed().saturating_sub(spent);
            outputs
        } else {
            let outputs = task.forward(batch, &mut pass);
            self.has_left_outputs = pass.left_head().is_some();
            times.forward += start.elapsed();
            outputs
        };
        let start = Instant::now();
        let merged = statistics.map_or(Ok(()), merge);
        times.forward += start.elapsed();
        if let Some(fault) = fault {
            return Err(RunError::Hook(fault));
        }
        let outputs = outputs.and_then(|outputs| merged.map(|()| outputs));
        outputs.map_err(|error| RunError::task("the forward pass", position, error))
    }

    /// Reports gradients at modules to hooks, last module first.
    pub(in crate::run) fn call_backward(
        &mut self,
        store: &GradStore,
        listeners: &mut Listeners<'_, '_>,
    ) -> std::result::Result<(), RunError> {
        let records = std::mem::take(&mut self.records);
        for record in records.into_iter().rev() {
            let Some((output, slot)) = record.output else {
                continue;
            };
            // No gradient: the loss does not depend on the module's output.
            let gradient =
                |slot: &Slot, tensor: &Tensor| content(slot).or_else(|| store.get(tensor).cloned());
            let Some(output_gradient) = gradient(&slot, &output) else {
                continue;
            };
            let input_gradient = gradient(&record.input_gradient, &record.input);
            let Some(module) = self.modules.get(record.module) else {
                continue;
            };
            let tensors = [
                Some(record.input),
                Some(output),
                input_gradient,
                Some(output_gradient),
            ];
            let place = (record.module, module);
            listeners.call(Point::ModuleBackward, place, tensors)?;
        }
        Ok(())
    }
}

/// Returns the same values with a slot for their gradient. A tensor that does not depend on any trained
/// parameter becomes a variable, so that it gets a gradient too; tensors of non-float types get none.
pub(in crate::run) fn watched(tensor: &Tensor) -> Result<(Tensor, Slot)> {
    let slot = Slot::default();
    if !tensor.dtype().is_float() {
        return Ok((tensor.clone(), slot));
    }
    if !tensor.track_op() || ops::is_constant(tensor) {
        let variable = Var::from_tensor(&tensor.detach())?;
        return Ok((variable.as_tensor().clone(), slot));
    }
    let identity = Identity {
        gradient: Arc::clone(&slot),
    };
    let is_part = tensor.layout().start_offset() > 0 && !tensor.device().is_cpu();
    let tensor = if is_part {
        tensor.force_contiguous()?
    } else {
        tensor.contiguous()?
    };
    Ok((ops::apply1(&tensor, identity)?, slot))
}

/// An identity that keeps the gradient passing through it, which may arrive in parts.
struct Identity {
    gradient: Slot,
}

impl CustomOp1 for Identity {
    fn name(&self) -> &'static str {
        "module-tap"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let Some((start, end)) = layout.contiguous_offsets() else {
            bail!("a module's tensor is not contiguous");
        };
        let copy = match storage {
            CpuStorage::F32(values) => CpuStorage::F32(part(values, start, end)),
            CpuStorage::F64(values) => CpuStorage::F64(part(values, start, end)),
            CpuStorage::F16(values) => CpuStorage::F16(part(values, start, end)),
            CpuStorage::BF16(values) => CpuStorage::BF16(part(values, start, end)),
            _ => bail!("a module's tensor is of a type without gradients"),
        };
        Ok((copy, layout.shape().clone()))
    }

    /// Given contiguous tensors alone that begin where their storage does.
    fn cuda_fwd(&self, storage: &CudaStorage, layout: &Layout) -> Result<(CudaStorage, Shape)> {
        Ok((storage.try_clone(layout)?, layout.shape().clone()))
    }

    fn bwd(&self, _input: &Tensor, _output: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        let mut slot = self.gradient.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = match slot.take() {
            Some(before) => before.add(gradient)?,
            None => gradient.clone(),
        };
        *slot = Some(sum);
        Ok(Some(gradient.clone()))
    }
}

fn part<T: Clone>(values: &[T], start: usize, end: usize) -> Vec<T> {
    values.get(start..end).unwrap_or_default().to_vec()
}
