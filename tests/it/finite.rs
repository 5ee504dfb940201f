//! `train.check_finite`: the first loss or gradient that is not finite ends the run, and the message says
//! in which module it began.

use std::sync::Arc;

use candle_core::{DType, Device, Result, Tensor};
use sconce::data::{self, Batch, DataConfig, Dataset, Splits};
use sconce::loss;
use sconce::nn::{Linear, ModuleInfo, Pass};
use sconce::optim::Sgd;
use sconce::parameters::Parameters;
use sconce::run::{RunError, RunOutcome, TrainingPlan};
use sconce::task::Task;
use sconce_plugin_api::Phase;
use sconce_tests::in_process::{bits, train_with};
use serde_json::json;

/// What goes wrong, and where.
#[derive(Clone, Copy, PartialEq)]
enum Wrong {
    Nothing,
    /// √x² in the module `body.root`: where x is 0, its slope is ∞ · 0.
    Gradient,
    /// ln of numbers below 0 in the module `body.root`.
    Forward,
    /// The loss of finite outputs.
    Loss,
}

/// fc1, a function in a module inside of a module, fc2, over synthetic digits.
struct Fragile {
    parameters: Parameters,
    layers: [Linear; 2],
    modules: [ModuleInfo; 4],
    data: Splits,
    wrong: Wrong,
    /// From which training iteration on.
    from: usize,
    batches: usize,
}

impl Fragile {
    fn new(wrong: Wrong, from: usize) -> Fragile {
        let mut parameters = Parameters::new(1, DType::F32, &Device::Cpu);
        let mut linear = |name: &str, inputs, outputs| {
            Linear::new(&mut parameters.scope(name), inputs, outputs).expect("a layer")
        };
        let layers = [linear("fc1", 784, 8), linear("fc2", 8, 10)];
        let config = json!({"kind": "synthetic-digits", "train": 60, "val": 0, "test": 0});
        let config: DataConfig = serde_json::from_value(config).expect("a config");
        Fragile {
            parameters,
            layers,
            modules: [
                ModuleInfo::new("fc1", "linear"),
                ModuleInfo::new("body.root", "root"),
                ModuleInfo::new("body", "part"),
                ModuleInfo::new("fc2", "linear"),
            ],
            data: data::load(&config, std::path::Path::new(""), 5).expect("data"),
            wrong,
            from,
            batches: 0,
        }
    }

    /// How it ended after how many updates, and whether the parameters are finite.
    fn train(&mut self, check_finite: bool) -> (Option<(String, String)>, u64, bool) {
        let plan = TrainingPlan {
            batch_size: 10,
            check_finite,
            ..TrainingPlan::default()
        };
        let report = train_with(self, &mut Sgd::new(0.01), &plan, |_| Vec::new());
        let numbers = bits(&self.parameters);
        let is_finite = numbers.iter().all(|&bits| f32::from_bits(bits).is_finite());
        let problem = match report.outcome {
            RunOutcome::Failed(RunError::NotFinite {
                what,
                moment,
                place,
            }) => {
                assert_eq!(moment, "in train, epoch 0, iteration 3");
                Some((what, place))
            }
            RunOutcome::Completed => None,
            other => panic!("{other:?}"),
        };
        (problem, report.updates, is_finite)
    }
}

impl Task for Fragile {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn data(&self, phase: Phase) -> Option<Arc<dyn Dataset>> {
        (phase == Phase::Train).then(|| Arc::clone(&self.data.train) as Arc<dyn Dataset>)
    }

    fn metrics(&self) -> &[String] {
        &[]
    }

    fn modules(&self) -> Vec<ModuleInfo> {
        self.modules.to_vec()
    }

    fn forward(&mut self, batch: &Batch, pass: &mut Pass<'_>) -> Result<Tensor> {
        self.batches += 1;
        let wrong = if self.batches > self.from {
            self.wrong
        } else {
            Wrong::Nothing
        };
        let [fc1, root, body, fc2] = &self.modules;
        let [first, second] = &self.layers;
        let x = pass.module(fc1, &batch.inputs.flatten_from(1)?, |x, _| first.forward(x))?;
        let x = pass.module(body, &x, |x, pass| {
            pass.module(root, x, |x, _| match wrong {
                Wrong::Gradient => x.relu()?.sqr()?.sqrt(),
                Wrong::Forward => x.sqr()?.affine(-1.0, -1.0)?.log(),
                Wrong::Nothing | Wrong::Loss => x.sqr(),
            })
        })?;
        pass.module(fc2, &x, |x, _| second.forward(x))
    }

    fn loss(&mut self, batch: &Batch, outputs: &Tensor, _pass: &mut Pass<'_>) -> Result<Tensor> {
        let loss = loss::cross_entropy(outputs, &batch.targets)?;
        if self.wrong == Wrong::Loss && self.batches > self.from {
            return loss.affine(0.0, -1.0)?.log();
        }
        Ok(loss)
    }

    fn measure(&mut self, _batch: &Batch, _outputs: &Tensor, _sums: &mut [f64]) -> Result<()> {
        Ok(())
    }
}

#[test]
fn the_module_where_it_began_is_named_and_no_parameter_is_touched() {
    for (wrong, what, place) in [
        (
            Wrong::Gradient,
            "the gradient of the parameter `fc1.bias` is not finite, as are those of 1 more, up to \
             `fc1.weight`",
            "it began in the backward pass of the module `body.root` (root), whose output's gradient is \
             finite",
        ),
        (
            Wrong::Forward,
            "the loss is NaN",
            "it began in the forward pass of the module `body.root` (root), whose input is finite",
        ),
        (
            Wrong::Loss,
            "the loss is NaN",
            "it began in the loss: the model's outputs are finite",
        ),
    ] {
        let (problem, updates, is_finite) = Fragile::new(wrong, 3).train(true);
        assert_eq!(problem, Some((what.to_owned(), place.to_owned())));
        assert_eq!((updates, is_finite), (3, true));
    }
}

#[test]
fn nothing_is_looked_at_unasked_and_nothing_found_where_nothing_is() {
    let (problem, updates, is_finite) = Fragile::new(Wrong::Forward, 3).train(false);
    assert_eq!((problem, updates, is_finite), (None, 6, false));
    let mut checked = Fragile::new(Wrong::Nothing, 0);
    assert_eq!(checked.train(true), (None, 6, true));
    let mut unchecked = Fragile::new(Wrong::Nothing, 0);
    unchecked.train(false);
    assert_eq!(bits(&checked.parameters), bits(&unchecked.parameters));
}
