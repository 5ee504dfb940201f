//! The batches of a scripted run.

use super::drive::{Drive, Stopped};
use super::fake::{Fake, noise};
use super::place::CallPosition;
use crate::abi::{ModuleAbi, TextAbi, ViewAbi};
use crate::ext::Keep;
use crate::{Phase, Point};

/// Indices of the batch's tensors, in the order of [`BATCH`](super::stage::BATCH).
const OUTPUTS: usize = 2;
const LOSS: usize = 3;

impl Drive<'_> {
    /// A training batch, and the update if one is due.
    pub(super) fn iteration(&mut self, batch: u64) -> Result<(), Stopped> {
        let number = self.view.iteration;
        let updates = batch + 1 == self.update.1;
        self.view.flags &= !(ViewAbi::UPDATES | ViewAbi::HAS_LOSS);
        if updates {
            self.view.flags |= ViewAbi::UPDATES;
        }
        self.show_batch(number);
        self.call(Point::BeforeIter)?;
        if self.swapped.is_some() {
            return Err(self.blame("the parameters are still swapped at a training batch"));
        }
        if !self.stage.skip_batch.take() {
            self.forward(Phase::Train, number)?;
            self.fail_here(number)?;
            self.backward(number)?;
        }
        if updates {
            self.step()?;
        }
        self.view.iteration += 1;
        self.view.batch += 1;
        self.view.samples += self.view.batch_size;
        self.trained = self.view.batch;
        self.set_clock();
        self.call(Point::AfterIter)?;
        self.end_batch();
        Ok(())
    }

    /// A batch of a validation or test.
    pub(super) fn evaluation_batch(&mut self, phase: Phase, batch: u64) -> Result<(), Stopped> {
        self.view.flags &= !ViewAbi::HAS_LOSS;
        self.show_batch(batch);
        self.call(Point::BeforeIter)?;
        if !self.stage.skip_batch.take() {
            self.forward(phase, batch)?;
        }
        self.view.batch += 1;
        self.call(Point::AfterIter)?;
        self.end_batch();
        Ok(())
    }

    fn fail_here(&self, number: u64) -> Result<(), Stopped> {
        match &self.script.failure {
            Some((iteration, error)) if *iteration == number => Err(Stopped::Task(error.clone())),
            _ => Ok(()),
        }
    }

    fn show_batch(&mut self, number: u64) {
        let (script, size) = (self.script, self.script.batch_size);
        let shape: Vec<usize> = std::iter::once(size)
            .chain(script.sample_shape.clone())
            .collect();
        let inputs = match &script.inputs {
            Some(inputs) => inputs(number),
            None => noise("inputs", number, shape.iter().product()),
        };
        let classes = script.classes.len().max(1) as u64;
        let targets = match &script.targets {
            Some(targets) => targets(number),
            None => (0..size as u64)
                .map(|sample| ((number + sample) % classes) as u32)
                .collect(),
        };
        self.view.batch_size = size as u64;
        *self.stage.batch.borrow_mut() = [
            Some(Fake::new(
                "inputs",
                &shape_of(&shape, inputs.len()),
                &inputs,
            )),
            Some(Fake::new("targets", &[targets.len()], &targets)),
            None,
            None,
        ];
    }

    fn end_batch(&self) {
        *self.stage.batch.borrow_mut() = [None, None, None, None];
        self.stage.values.borrow_mut().forget(Keep::Batch);
    }

    /// Runs modules, outputs, loss and metrics.
    fn forward(&mut self, phase: Phase, number: u64) -> Result<(), Stopped> {
        let script = self.script;
        let size = script.batch_size;
        let mut input = self.stage.batch.borrow()[0].clone();
        for module in &script.modules {
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
        let outputs = match (&script.outputs, input) {
            (Some(outputs), _) => {
                let elements = outputs(number);
                Fake::new(
                    "outputs",
                    &shape_of(&[size, elements.len() / size.max(1)], elements.len()),
                    &elements,
                )
            }
            (None, Some(last)) => last.named("outputs"),
            (None, None) => Fake::new("outputs", &[0], &[] as &[f32]),
        };
        self.stage.batch.borrow_mut()[OUTPUTS] = Some(outputs);
        self.call(Point::AfterForward)?;
        self.measure(phase);
        self.call(Point::AfterLoss)
    }

    fn measure(&mut self, phase: Phase) {
        let loss = (self.script.loss)(&CallPosition::of(Point::AfterLoss, &self.view));
        self.view.loss = loss;
        self.view.flags |= ViewAbi::HAS_LOSS;
        self.stage.batch.borrow_mut()[LOSS] = Some(Fake::new("loss", &[], &[loss as f32]));
        self.losses.0 += loss;
        self.losses.1 += 1.0;
        let mut board = self.stage.board.borrow_mut();
        board.set(phase, "loss", self.losses.0 / self.losses.1, true);
        // Within a training epoch its number is one more than the number of finished epochs.
        let epoch = self.view.epoch + u64::from(phase == Phase::Train);
        for (_, name, value) in self.script.metrics.iter().filter(|(of, ..)| *of == phase) {
            board.set(phase, name, value(epoch), true);
        }
    }

    fn show_module(
        &mut self,
        name: &str,
        kind: &str,
        tensors: [Option<Fake>; 4],
        is_forward: bool,
    ) -> Result<(), Stopped> {
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

    /// Computes the batch's gradients and adds them to those of its update.
    fn backward(&mut self, number: u64) -> Result<(), Stopped> {
        let script = self.script;
        let size = script.batch_size;
        let widths = script.modules.iter().map(|module| module.width);
        let before = std::iter::once(script.sample_shape.iter().product()).chain(widths);
        let modules: Vec<_> = script.modules.iter().zip(before).collect();
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
        let scale = self.stage.loss_scale.take().unwrap_or(1.0);
        let share = scale / (self.update.1 - self.update.0).max(1) as f64;
        *self.stage.gradients.borrow_mut() = self.gradients(number, share as f32);
        self.call(Point::AfterBackward)?;
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

    fn gradients(&self, number: u64, share: f32) -> Vec<Option<Fake>> {
        let parameters = self.stage.parameters.borrow();
        let gradient = |parameter: &Fake| {
            let is_frozen = self
                .shares
                .get(&*parameter.name)
                .is_some_and(|share| *share <= 0.0);
            if parameter.is_buffer || is_frozen {
                return None;
            }
            let mut scripted = self.script.gradients.iter();
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
                *value *= share;
            }
            Some(parameter.with_floats(&elements))
        };
        parameters.iter().map(gradient).collect()
    }

    /// A step of plain gradient descent.
    fn step(&mut self) -> Result<(), Stopped> {
        let Some(gradients) = self.accumulated.take() else {
            self.stage.skip_update.take();
            return Ok(());
        };
        *self.stage.gradients.borrow_mut() = gradients;
        self.call(Point::BeforeUpdate)?;
        let gradients = self.stage.gradients.take();
        if self.stage.skip_update.take() {
            return Ok(());
        }
        let groups = self.stage.groups.borrow();
        let default = groups.first().map_or(0.0, |group| group.learning_rate);
        self.stage.seen.borrow_mut().learning_rates.push(default);
        let mut parameters = self.stage.parameters.borrow_mut();
        for (parameter, gradient) in parameters.iter_mut().zip(&gradients) {
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
        drop((parameters, groups));
        self.view.update += 1;
        self.call(Point::AfterUpdate)
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
