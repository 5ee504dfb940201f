//! What a scripted run does between the mount points; the order is that of [`lifecycle`](sconce_lifecycle).

use std::ptr;

use super::board::Board;
use super::drive::{Drive, DriveError, INTERRUPTED, Leave};
use super::fake::{Fake, noise};
use super::place::CallPosition;
use super::stage::FakeGroup;
use super::values::FakeValues;
use sconce_lifecycle::{EpochBatches, Position, RunDriver, Stopping};
use sconce_plugin_api::abi::{ModuleAbi, ProfileAbi, TextAbi};
use sconce_plugin_api::ext::Keep;
use sconce_plugin_api::{Phase, Point};

/// Indices of the batch's tensors, in the order of [`BATCH`](super::stage::BATCH).
const OUTPUTS: usize = 2;
const LOSS: usize = 3;

/// A scripted batch: its number, within its pass or in the whole training.
pub(super) struct ScriptedBatch(u64);

/// What a hook can change at `before_epoch`, apart from the position.
pub(super) struct Snapshot {
    parameters: Vec<Fake>,
    groups: Vec<FakeGroup>,
    board: Board,
    values: FakeValues,
    accumulation: Option<u64>,
    /// Lengths of what was seen, all that comes later is forgotten.
    seen: [usize; 4],
}

impl RunDriver for Drive<'_> {
    type Error = DriveError;
    /// Number of the next batch and of the batches of the pass.
    type Batches = (u64, u64);
    type Batch = ScriptedBatch;
    type Outputs = ();
    type Loss = ();
    type Recording = ();
    type Snapshot = Snapshot;

    fn position(&mut self) -> &mut Position {
        &mut self.position
    }

    fn batches_of(&self, phase: Phase) -> Option<EpochBatches> {
        let script = self.script;
        let count = match phase {
            Phase::Train => script.schedule.iterations,
            Phase::Val => script.schedule.validation,
            Phase::Test => script.schedule.test,
            _ => 0,
        };
        (count > 0 || phase == Phase::Train).then(|| EpochBatches {
            samples: script.schedule.batch_size.saturating_mul(count as usize),
            size: script.schedule.batch_size,
        })
    }

    fn validates_first(&self) -> bool {
        self.script.schedule.initial_validation
    }

    fn validates_after(&self, epoch: u64) -> bool {
        epoch % self.script.schedule.validate_every == 0 || epoch == self.script.schedule.epochs
    }

    fn validate_within(&mut self) -> Result<(), Leave> {
        sconce_lifecycle::validate(self, false)
    }

    fn tests(&self) -> bool {
        self.script.schedule.test > 0
    }

    fn accumulation(&self) -> (Option<u64>, u64) {
        (
            self.stage.requests.accumulation.get(),
            self.script.schedule.accumulate,
        )
    }

    fn stopping(&self) -> Stopping {
        match &*self.stage.requests.stop.borrow() {
            None => Stopping::No,
            Some(stop) if stop.after_epoch => Stopping::AfterEpoch,
            Some(_) => Stopping::Now,
        }
    }

    fn call(&mut self, point: Point) -> Result<(), Leave> {
        self.call_hook(point)
    }

    fn call_profile(&mut self, _phase: Phase) -> Result<(), Leave> {
        let total = self.position.pass.batch as f64 * self.script.schedule.seconds_per_iteration;
        let payload = ProfileAbi {
            total,
            data: total * 0.1,
            forward: total * 0.3,
            loss: total * 0.1,
            backward: total * 0.3,
            update: total * 0.1,
            hooks: ptr::null(),
            hook_count: 0,
        };
        self.call_with(Point::EpochProfile, &payload)
    }

    fn begin_training(&mut self) -> Result<(), Leave> {
        Ok(())
    }

    fn resume(&mut self) -> Result<(), Leave> {
        match self.resumes_from.take() {
            Some(checkpoint) => self.restore(&checkpoint, INTERRUPTED),
            None => Ok(()),
        }
    }

    fn settle(&mut self) -> Result<(), Leave> {
        Ok(())
    }

    fn serve_requests(&mut self) -> Result<(), Leave> {
        self.check_interrupt()
    }

    fn check_interrupt(&mut self) -> Result<(), Leave> {
        let iteration = self.position.iteration;
        match self.interrupt.take_if(|at| *at == iteration) {
            Some(_) => Err(Leave::Interrupted),
            None => Ok(()),
        }
    }

    fn reset_pass(&mut self, phase: Phase) {
        self.stage.board.borrow_mut().begin(phase);
        self.losses[phase.number() as usize] = (0.0, 0.0);
        if phase == Phase::Train {
            self.stage.values.borrow_mut().forget(Keep::Epoch);
        }
    }

    fn begin_pass(&mut self) {}

    fn snapshot(&mut self) -> Result<Snapshot, Leave> {
        let stage = &self.stage;
        Ok(Snapshot {
            parameters: stage.parameters.borrow().clone(),
            groups: stage.groups.borrow().clone(),
            board: stage.board.borrow().clone(),
            values: stage.values.borrow().clone(),
            accumulation: stage.requests.accumulation.get(),
            seen: stage.seen.borrow().marks(),
        })
    }

    fn restore_snapshot(&mut self, snapshot: Snapshot) -> Result<(), Leave> {
        let stage = &self.stage;
        // What the hook did at `before_epoch` has no effect, and an uninterrupted run does not have it.
        stage.seen.borrow_mut().cut(snapshot.seen);
        *stage.parameters.borrow_mut() = snapshot.parameters;
        *stage.groups.borrow_mut() = snapshot.groups;
        stage.board.borrow_mut().restore(&snapshot.board);
        *stage.values.borrow_mut() = snapshot.values;
        stage.requests.accumulation.set(snapshot.accumulation);
        Ok(())
    }

    fn open(&mut self, phase: Phase, done: u64) -> Result<(u64, u64), Leave> {
        Ok((done, self.batches_of(phase).map_or(0, EpochBatches::count)))
    }

    fn next_batch(&mut self, batches: &mut (u64, u64)) -> Result<Option<ScriptedBatch>, Leave> {
        let (next, count) = *batches;
        if next >= count {
            return Ok(None);
        }
        batches.0 += 1;
        // Training batches differ from epoch to epoch.
        let is_training = self.position.phase == Phase::Train;
        let number = if is_training {
            self.position.iteration
        } else {
            next
        };
        Ok(Some(ScriptedBatch(number)))
    }

    fn size_of(&self, _batch: &ScriptedBatch) -> u64 {
        self.script.schedule.batch_size as u64
    }

    fn show_batch(&mut self, batch: &ScriptedBatch) {
        self.set_batch(batch.0);
    }

    fn end_batch(&mut self) {
        *self.stage.batch.borrow_mut() = [const { None }; 5];
        self.stage.values.borrow_mut().forget(Keep::Batch);
    }

    fn take_skip_batch(&mut self) -> bool {
        self.stage.requests.skip_batch.take()
    }

    fn take_skip_update(&mut self) -> Result<bool, Leave> {
        Ok(self.stage.requests.skip_update.take())
    }

    fn check_training_batch(&mut self) -> Result<(), Leave> {
        match self.swapped {
            Some(_) => Err(self.blame("the parameters are still swapped at a training batch")),
            None => Ok(()),
        }
    }

    fn record(&mut self) {}

    fn forward(&mut self, batch: &ScriptedBatch, _phase: Phase) -> Result<(), Leave> {
        self.outputs(batch.0)
    }

    fn measure(
        &mut self,
        _batch: &ScriptedBatch,
        _outputs: &(),
        phase: Phase,
    ) -> Result<(), Leave> {
        let position = CallPosition::at(Point::AfterLoss, &self.position);
        let loss = match self.stage.model.given_loss.take() {
            Some(given) => given,
            None => (self.script.model.loss)(&position),
        };
        self.position.pass.loss = Some(loss);
        self.stage.batch.borrow_mut()[LOSS] = Some(Fake::new("loss", &[], &[loss as f32]));
        let losses = &mut self.losses[phase.number() as usize];
        losses.0 += loss;
        losses.1 += 1.0;
        let mean = losses.0 / losses.1;
        let mut board = self.stage.board.borrow_mut();
        board.set(phase, "loss", mean, true);
        // Within a training epoch its number is one more than the number of finished epochs.
        let epoch = self.position.epoch + u64::from(phase == Phase::Train);
        for (_, name, value) in self.script.metrics.iter().filter(|(of, ..)| *of == phase) {
            board.set(phase, name, value(epoch), true);
        }
        Ok(())
    }

    fn backward(&mut self, batch: &ScriptedBatch, _loss: (), fraction: f64) -> Result<(), Leave> {
        match &self.script.failure {
            Some((iteration, error)) if *iteration == batch.0 => {
                Err(DriveError::Task(error.clone()).into())
            }
            _ => self.differentiate(batch.0, fraction),
        }
    }

    fn accumulate(&mut self) -> Result<(), Leave> {
        let gradients = self.stage.gradients.take();
        self.accumulated = Some(match self.accumulated.take() {
            None => gradients,
            Some(sums) => sums
                .into_iter()
                .zip(gradients)
                .map(|(sum, one)| add(sum, one))
                .collect(),
        });
        Ok(())
    }

    fn show_accumulated(&mut self) -> Result<bool, Leave> {
        let Some(gradients) = self.accumulated.take() else {
            return Ok(false);
        };
        *self.stage.gradients.borrow_mut() = gradients;
        Ok(true)
    }

    fn step(&mut self, is_skipped: bool) -> Result<bool, Leave> {
        let gradients = self.stage.gradients.take();
        if is_skipped {
            return Ok(false);
        }
        self.descend(&gradients);
        Ok(true)
    }

    fn advance(&mut self) {
        self.set_clock();
    }

    fn save_delayed(&mut self) -> Result<(), Leave> {
        for tag in std::mem::take(&mut self.waiting) {
            self.save(&tag, false)?;
        }
        Ok(())
    }
}

impl Drive<'_> {
    fn set_batch(&self, number: u64) {
        let (script, size) = (self.script, self.script.schedule.batch_size);
        let shape: Vec<usize> = std::iter::once(size * script.data.views)
            .chain(script.data.sample_shape.clone())
            .collect();
        let inputs = match &script.data.inputs {
            Some(inputs) => inputs(number),
            None => noise("inputs", number, shape.iter().product()),
        };
        let classes = script.data.classes.len().max(1) as u64;
        let targets = match &script.data.targets {
            Some(targets) => targets(number),
            None => (0..size as u64)
                .map(|sample| ((number + sample) % classes) as u32)
                .collect(),
        };
        let each = script.schedule.iterations.max(1);
        let first = number % each * size as u64;
        let indices: Vec<u32> = (first..first + size as u64)
            .map(|sample| sample as u32)
            .collect();
        *self.stage.batch.borrow_mut() = [
            Some(Fake::new(
                "inputs",
                &shape_of(&shape, inputs.len()),
                &inputs,
            )),
            Some(Fake::new("targets", &[targets.len()], &targets)),
            None,
            None,
            Some(Fake::new("indices", &[indices.len()], &indices)),
        ];
    }

    /// Runs the modules and sets the outputs.
    fn outputs(&mut self, number: u64) -> Result<(), Leave> {
        let script = self.script;
        let size = script.schedule.batch_size * script.data.views;
        let mut input = self.stage.batch.borrow()[0].clone();
        for module in &script.model.modules {
            let mut elements = noise(&module.name, number, size * module.width);
            if module.kind == "relu" {
                for value in &mut elements {
                    *value = value.max(0.0);
                }
            }
            let output = Fake::new("output", &[size, module.width], &elements);
            let named = input.take().map(|tensor| tensor.named("input"));
            self.show_module(
                &module.name,
                &module.kind,
                [named, Some(output.clone()), None, None],
                true,
            )?;
            input = Some(output);
        }
        let outputs = match (&script.model.outputs, input) {
            (Some(outputs), _) => {
                let elements = outputs(number);
                Fake::new(
                    "outputs",
                    &shape_of(&[size, elements.len() / size.max(1)], elements.len()),
                    &elements,
                )
            }
            (None, Some(last)) => last.of_positions(script.model.positions).named("outputs"),
            (None, None) => Fake::new("outputs", &[0], &[] as &[f32]),
        };
        self.stage.batch.borrow_mut()[OUTPUTS] = Some(outputs);
        Ok(())
    }

    fn show_module(
        &mut self,
        name: &str,
        kind: &str,
        tensors: [Option<Fake>; 4],
        is_forward: bool,
    ) -> Result<(), Leave> {
        let selected = self.stage.requests.modules.borrow();
        let is_selected = |names: &Vec<String>| names.iter().any(|known| known == name);
        if !selected.as_ref().is_none_or(is_selected) {
            return Ok(());
        }
        drop(selected);
        *self.stage.module.borrow_mut() = tensors;
        let payload = ModuleAbi {
            name: TextAbi::new(name),
            kind: TextAbi::new(kind),
        };
        let point = if is_forward {
            Point::ModuleForward
        } else {
            Point::ModuleBackward
        };
        let result = self.call_with(point, &payload);
        *self.stage.module.borrow_mut() = [None, None, None, None];
        result
    }

    /// Computes the batch's gradients and makes them visible.
    fn differentiate(&mut self, number: u64, fraction: f64) -> Result<(), Leave> {
        let script = self.script;
        let size = script.schedule.batch_size * script.data.views;
        let widths = script.model.modules.iter().map(|module| module.width);
        let before = std::iter::once(script.data.sample_shape.iter().product()).chain(widths);
        let modules: Vec<_> = script.model.modules.iter().zip(before).collect();
        for (module, before) in modules.into_iter().rev() {
            let gradient = |what: &str, width: usize| {
                let elements = noise(&format!("{} {what}", module.name), number, size * width);
                Some(Fake::new(what, &[size, width], &elements))
            };
            let tensors = [
                None,
                None,
                gradient("input_gradient", before),
                gradient("output_gradient", module.width),
            ];
            self.show_module(&module.name, &module.kind, tensors, false)?;
        }
        let scale = self.stage.requests.loss_scale.take().unwrap_or(1.0);
        let gradients = self.gradients(number, (scale * fraction) as f32);
        *self.stage.gradients.borrow_mut() = gradients;
        Ok(())
    }

    fn gradients(&self, number: u64, factor: f32) -> Vec<Option<Fake>> {
        let parameters = self.stage.parameters.borrow();
        let gradient = |parameter: &Fake| {
            let is_frozen = self
                .shares
                .get(&*parameter.name)
                .is_some_and(|share| *share <= 0.0);
            if parameter.is_buffer || is_frozen {
                return None;
            }
            let mut scripted = self.script.model.gradients.iter();
            let mut elements = match scripted.find(|(name, _)| **name == *parameter.name) {
                Some((_, elements)) => elements(number),
                None => noise(
                    &format!("{} gradient", parameter.name),
                    number,
                    parameter.len(),
                ),
            };
            assert_eq!(
                elements.len(),
                parameter.len(),
                "the script's gradient of `{}` has another number of elements than the parameter",
                parameter.name
            );
            for value in &mut elements {
                *value *= factor;
            }
            Some(parameter.with_floats(&elements))
        };
        parameters.iter().map(gradient).collect()
    }

    /// A step of plain gradient descent.
    fn descend(&mut self, gradients: &[Option<Fake>]) {
        let groups = self.stage.groups.borrow();
        let default = groups.first().map_or(0.0, |group| group.learning_rate);
        self.stage.seen.borrow_mut().learning_rates.push(default);
        let mut parameters = self.stage.parameters.borrow_mut();
        for (parameter, gradient) in parameters.iter_mut().zip(gradients) {
            let Some(gradient) = gradient else { continue };
            let is_of = |name: &str| {
                let rest = parameter.name.strip_prefix(name);
                rest.is_some_and(|rest| rest.starts_with('.'))
            };
            let group = groups.iter().find(|group| is_of(&group.name));
            let share = self.shares.get(&*parameter.name).copied().unwrap_or(1.0);
            let rate = group.map_or(default, |group| group.learning_rate) * share;
            let stepped = parameter.floats().into_iter().zip(gradient.floats());
            let stepped: Vec<f32> = stepped.map(|(value, g)| value - rate as f32 * g).collect();
            *parameter = parameter.with_floats(&stepped);
        }
    }
}

fn add(sum: Option<Fake>, one: Option<Fake>) -> Option<Fake> {
    match (sum, one) {
        (Some(sum), Some(one)) => {
            let sums = sum.floats().into_iter().zip(one.floats());
            let sums: Vec<f32> = sums.map(|(sum, one)| sum + one).collect();
            Some(sum.with_floats(&sums))
        }
        (sum, one) => sum.or(one),
    }
}

/// The given shape, or one dimension if the script gives another number of elements.
fn shape_of(shape: &[usize], elements: usize) -> Vec<usize> {
    if shape.iter().product::<usize>() == elements {
        shape.to_vec()
    } else {
        vec![elements]
    }
}
