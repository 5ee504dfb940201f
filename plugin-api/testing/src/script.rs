//! The script of a scripted run.

use std::path::PathBuf;

use serde_json::Value;

use super::fake::{Fake, noise};
use super::fake_ranks::FakeRanks;
use super::place::CallPosition;
use super::values::{FakeValue as Stored, FakeValueEntry};
use sconce_plugin_api::Phase;
use sconce_plugin_api::ext::Keep;

type Numbers = Box<dyn Fn(u64) -> Vec<f32>>;
type OfEpoch = Box<dyn Fn(u64) -> f64>;

/// A run that follows a script instead of training. See [the module](super) for examples.
///
/// By default it has 3 epochs of 4 batches of 2 samples, a validation of 2 batches after each epoch, and no
/// test; a model `fc1` (linear, 3 to 4), `act` (relu), `fc2` (linear, 4 to 2) with its four parameters; plain
/// gradient descent with learning rate 0.1, and a momentum of 0.9 that can be set but is not used; gradients,
/// inputs and outputs that look random but are the same in every run. The loss of a batch is 1 / (1 +
/// finished iterations).
///
/// Iterations are numbered from 0 throughout the run; epochs as [`metric`](ScriptedRun::metric) says.
pub struct ScriptedRun {
    pub(super) schedule: ScriptedSchedule,
    pub(super) model: ScriptedModel,
    pub(super) data: ScriptedData,
    pub(super) name: String,
    pub(super) metrics: Vec<(Phase, String, OfEpoch)>,
    pub(super) values: Vec<FakeValueEntry>,
    pub(super) failure: Option<(u64, String)>,
    pub(super) saves_fail: Option<String>,
    pub(super) interrupt: Option<u64>,
    pub(super) run_directory: Option<PathBuf>,
    pub(super) ranks: FakeRanks,
}

/// Lengths and steps of a scripted run.
pub(super) struct ScriptedSchedule {
    pub(super) epochs: u64,
    pub(super) iterations: u64,
    pub(super) validation: u64,
    pub(super) validate_every: u64,
    pub(super) initial_validation: bool,
    pub(super) test: u64,
    pub(super) batch_size: usize,
    pub(super) accumulate: u64,
    pub(super) seed: u64,
    pub(super) seconds_per_iteration: f64,
}

/// Model and optimizer of a scripted run.
pub(super) struct ScriptedModel {
    pub(super) learning_rate: f64,
    /// Name and scale of each group except `default`.
    pub(super) groups: Vec<(String, f64)>,
    pub(super) parameters: Vec<Fake>,
    pub(super) gradients: Vec<(String, Numbers)>,
    pub(super) modules: Vec<FakeModule>,
    pub(super) outputs: Option<Numbers>,
    /// Positions among which the elements of its outputs are divided; none if they are a row.
    pub(super) positions: Option<usize>,
    pub(super) loss: Box<dyn Fn(&CallPosition) -> f64>,
}

/// Batches of a scripted run.
pub(super) struct ScriptedData {
    pub(super) sample_shape: Vec<usize>,
    pub(super) inputs: Option<Numbers>,
    pub(super) targets: Option<Box<dyn Fn(u64) -> Vec<u32>>>,
    pub(super) classes: Vec<String>,
    /// Number of views of each sample.
    pub(super) views: usize,
}

/// A module of the fake model.
#[derive(Clone, Debug)]
pub(super) struct FakeModule {
    pub(super) name: String,
    pub(super) kind: String,
    /// Number of elements in its output per sample.
    pub(super) width: usize,
}

impl Default for ScriptedRun {
    fn default() -> Self {
        let parameter = |name: &str, shape: &[usize]| {
            Fake::new(name, shape, &noise(name, 0, shape.iter().product()))
        };
        let module = |name: &str, kind: &str, width| FakeModule {
            name: name.to_owned(),
            kind: kind.to_owned(),
            width,
        };
        ScriptedRun {
            schedule: ScriptedSchedule {
                epochs: 3,
                iterations: 4,
                validation: 2,
                validate_every: 1,
                initial_validation: false,
                test: 0,
                batch_size: 2,
                accumulate: 1,
                seed: 1,
                seconds_per_iteration: 1.0,
            },
            model: ScriptedModel {
                learning_rate: 0.1,
                groups: Vec::new(),
                parameters: vec![
                    parameter("fc1.weight", &[4, 3]),
                    parameter("fc1.bias", &[4]),
                    parameter("fc2.weight", &[2, 4]),
                    parameter("fc2.bias", &[2]),
                ],
                gradients: Vec::new(),
                modules: vec![
                    module("fc1", "linear", 4),
                    module("act", "relu", 4),
                    module("fc2", "linear", 2),
                ],
                outputs: None,
                positions: None,
                loss: Box::new(|at| 1.0 / (1.0 + at.iteration as f64)),
            },
            data: ScriptedData {
                sample_shape: vec![3],
                inputs: None,
                targets: None,
                classes: vec!["no".to_owned(), "yes".to_owned()],
                views: 1,
            },
            name: String::new(),
            metrics: Vec::new(),
            values: Vec::new(),
            failure: None,
            saves_fail: None,
            interrupt: None,
            run_directory: None,
            ranks: FakeRanks::default(),
        }
    }
}

impl ScriptedRun {
    /// The default run, as described at the type.
    pub fn new() -> ScriptedRun {
        ScriptedRun::default()
    }

    /// Sets the number of epochs.
    pub fn epochs(mut self, epochs: u64) -> Self {
        self.schedule.epochs = epochs;
        self
    }

    /// Sets the number of batches per epoch.
    pub fn iterations(mut self, iterations: u64) -> Self {
        self.schedule.iterations = iterations;
        self
    }

    /// Sets the number of batches per validation; 0 for no validation.
    pub fn validation(mut self, batches: u64) -> Self {
        self.schedule.validation = batches;
        self
    }

    /// Validates after every `epochs` epochs.
    pub fn validate_every(mut self, epochs: u64) -> Self {
        self.schedule.validate_every = epochs.max(1);
        self
    }

    /// Adds a validation before the first epoch.
    pub fn initial_validation(mut self) -> Self {
        self.schedule.initial_validation = true;
        self
    }

    /// Adds a test at the end, with this number of batches.
    pub fn test(mut self, batches: u64) -> Self {
        self.schedule.test = batches;
        self
    }

    /// Sets the number of samples per batch.
    pub fn batch_size(mut self, samples: usize) -> Self {
        self.schedule.batch_size = samples;
        self
    }

    /// Accumulates the gradients of this number of batches per update.
    pub fn accumulate(mut self, batches: u64) -> Self {
        self.schedule.accumulate = batches.max(1);
        self
    }

    /// Sets the run's seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.schedule.seed = seed;
        self
    }

    /// Sets the name of the hook's manifest entry; default: the hook's own name.
    pub fn entry_name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Sets the initial learning rate.
    pub fn learning_rate(mut self, learning_rate: f64) -> Self {
        self.model.learning_rate = learning_rate;
        self
    }

    /// Adds a parameter group with a learning rate scale.
    ///
    /// It contains the parameters whose names begin with the group's name and a dot.
    pub fn group(mut self, name: &str, learning_rate_scale: f64) -> Self {
        self.model
            .groups
            .push((name.to_owned(), learning_rate_scale));
        self
    }

    /// Removes all parameters and modules of the model, so that the next calls can add others.
    pub fn empty_model(mut self) -> Self {
        self.model.parameters.clear();
        self.model.modules.clear();
        self
    }

    /// Adds a parameter, with elements in row-major order, or replaces the one of that name.
    ///
    /// # Panics
    ///
    /// If the number of elements does not match the shape.
    #[track_caller]
    pub fn parameter(self, name: &str, shape: &[usize], elements: &[f32]) -> Self {
        self.with_parameter(fake(name, shape, elements))
    }

    /// Adds a buffer: model state that is not learned from gradients.
    ///
    /// # Panics
    ///
    /// If the number of elements does not match the shape.
    #[track_caller]
    pub fn buffer(self, name: &str, shape: &[usize], elements: &[f32]) -> Self {
        let mut buffer = fake(name, shape, elements);
        buffer.is_buffer = true;
        self.with_parameter(buffer)
    }

    fn with_parameter(mut self, parameter: Fake) -> Self {
        let mut known = self.model.parameters.iter_mut();
        match known.find(|known| known.name == parameter.name) {
            Some(known) => *known = parameter,
            None => self.model.parameters.push(parameter),
        }
        self
    }

    /// Sets a parameter's gradient, in row-major order, as a function of the iteration (from 0).
    pub fn gradient(
        mut self,
        parameter: &str,
        elements: impl Fn(u64) -> Vec<f32> + 'static,
    ) -> Self {
        self.model
            .gradients
            .push((parameter.to_owned(), Box::new(elements)));
        self
    }

    /// Appends a module to the model; `width` is the number of elements of its output per sample.
    pub fn module(mut self, name: &str, kind: &str, width: usize) -> Self {
        self.model.modules.push(FakeModule {
            name: name.to_owned(),
            kind: kind.to_owned(),
            width,
        });
        self
    }

    /// Sets the shape of one sample's input.
    pub fn sample_shape(mut self, shape: &[usize]) -> Self {
        shape.clone_into(&mut self.data.sample_shape);
        self
    }

    /// Sets the inputs of each batch: in training by iteration, otherwise by index within the pass.
    pub fn inputs(mut self, elements: impl Fn(u64) -> Vec<f32> + 'static) -> Self {
        self.data.inputs = Some(Box::new(elements));
        self
    }

    /// Sets the targets of each batch, one per sample; batches are numbered as for
    /// [`inputs`](ScriptedRun::inputs).
    pub fn targets(mut self, classes: impl Fn(u64) -> Vec<u32> + 'static) -> Self {
        self.data.targets = Some(Box::new(classes));
        self
    }

    /// Sets the model's outputs for each batch, sample by sample.
    ///
    /// Batches are numbered as for [`inputs`](ScriptedRun::inputs).
    pub fn outputs(mut self, elements: impl Fn(u64) -> Vec<f32> + 'static) -> Self {
        self.model.outputs = Some(Box::new(elements));
        self
    }

    /// Divides the model's outputs, elements of its last module, among `count` positions: (rows, positions, elements of each).
    pub fn positions(mut self, count: usize) -> Self {
        self.model.positions = Some(count);
        self
    }

    /// Makes each batch of `count` views of its samples: inputs and outputs have the samples once for each view, one view after the other.
    pub fn views(mut self, count: usize) -> Self {
        self.data.views = count.max(1);
        self
    }

    /// Sets the class names.
    pub fn classes(mut self, names: &[&str]) -> Self {
        self.data.classes = names.iter().map(|&name| name.to_owned()).collect();
        self
    }

    /// Sets the loss of each batch. The metric `loss` is its mean over the pass so far.
    pub fn loss(mut self, loss: impl Fn(&CallPosition) -> f64 + 'static) -> Self {
        self.model.loss = Box::new(loss);
        self
    }

    /// Sets a metric of the task in a phase, for each epoch: 1 is the first, 0 the initial validation.
    ///
    /// For `loss` it replaces the mean over the batches.
    ///
    /// ```
    /// use sconce_plugin_api::Phase;
    /// use sconce_plugin_testing::ScriptedRun;
    ///
    /// let accuracies = [0.5, 0.8, 0.95];
    /// let run = ScriptedRun::new()
    ///     .metric(Phase::Val, "accuracy", move |epoch| accuracies[epoch as usize - 1]);
    /// # drop(run);
    /// ```
    pub fn metric(
        mut self,
        phase: Phase,
        name: &str,
        value: impl Fn(u64) -> f64 + 'static,
    ) -> Self {
        self.metrics.push((phase, name.to_owned(), Box::new(value)));
        self
    }

    /// Adds a value, as if published by another hook for the whole run.
    pub fn value(mut self, name: &str, value: &Value) -> Self {
        self.values
            .push(others(name, Stored::Json(value.to_string().into())));
        self
    }

    /// Adds a tensor, as if published by another hook for the whole run.
    ///
    /// # Panics
    ///
    /// If the number of elements does not match the shape.
    #[track_caller]
    pub fn tensor(mut self, name: &str, shape: &[usize], elements: &[f32]) -> Self {
        self.values
            .push(others(name, Stored::Tensor(fake(name, shape, elements))));
        self
    }

    /// Sets the duration of an iteration by the run's clock, in seconds. Default 1.
    pub fn seconds_per_iteration(mut self, seconds: f64) -> Self {
        self.schedule.seconds_per_iteration = seconds;
        self
    }

    /// Makes the task fail in this iteration (counted from 0).
    ///
    /// The hook is called at `on_exception` and at `after_run` with a failed outcome.
    pub fn fails_in(mut self, iteration: u64, error: &str) -> Self {
        self.failure = Some((iteration, error.to_owned()));
        self
    }

    /// Makes every save fail, as on a full disk.
    pub fn saves_fail(mut self, error: &str) -> Self {
        self.saves_fail = Some(error.to_owned());
        self
    }

    /// Interrupts the run, as Ctrl-C does, after this number of training iterations.
    ///
    /// It is then resumed with a new hook from the checkpoint that was saved.
    pub fn interrupt_after(mut self, iterations: u64) -> Self {
        self.interrupt = Some(iterations);
        self
    }

    /// Sets the run's directory. Default: a temporary one, deleted with the last copy of [`Seen`](super::Seen).
    pub fn run_directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.run_directory = Some(path.into());
        self
    }
}

fn others(name: &str, value: Stored) -> FakeValueEntry {
    FakeValueEntry {
        name: name.into(),
        keep: Keep::Run,
        is_own: false,
        value,
    }
}

#[track_caller]
fn fake(name: &str, shape: &[usize], elements: &[f32]) -> Fake {
    let count: usize = shape.iter().product();
    assert_eq!(
        elements.len(),
        count,
        "the elements of `{name}` do not fill the shape {shape:?}"
    );
    Fake::new(name, shape, elements)
}
