//! Hooks at the model's modules.

use std::sync::Mutex;

use candle_core::{Device, Tensor, Var};
use sconce::data::order;
use sconce::loss::cross_entropy;
use sconce::manifest::ValidateEvery;
use sconce::optim::Sgd;
use sconce::run::{RunOutcome, TrainingPlan};
use sconce::task::Task;
use sconce_plugin_api::prelude::*;
use sconce_plugin_api::tensor;
use sconce_tests::in_process::{bits, linked, mlp_task, train_with};
use sconce_tests::{Workplace, edit, tiny};
use serde_json::{Value, json};

/// What a tap saw of a module: name, kind, point, then the bits of its tensors by name.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    module: String,
    kind: String,
    point: Point,
    parameters: Vec<String>,
    tensors: Vec<(String, Vec<i64>, Vec<u32>)>,
}

static SEEN: Mutex<Vec<Seen>> = Mutex::new(Vec::new());

struct Tap;

impl Tap {
    fn see(task: &TaskView<'_>, module: &Module<'_>, tensors: &[tensor::Tensor<'_>]) -> Result<()> {
        let tensors = tensors.iter().map(|tensor| {
            let values = tensor.to_vec::<f32>()?;
            let bits = values.into_iter().map(f32::to_bits).collect();
            Ok((tensor.name().to_owned(), tensor.shape().to_vec(), bits))
        });
        let seen = Seen {
            module: module.name().to_owned(),
            kind: module.kind().to_owned(),
            point: task.point().expect("known"),
            parameters: module.parameters().map(|p| p.name().to_owned()).collect(),
            tensors: tensors.collect::<Result<_>>()?,
        };
        SEEN.lock().expect("no panic").push(seen);
        Ok(())
    }
}

#[hook(name = "tap", about = "Keeps what it sees of modules.")]
impl Hook for Tap {
    fn new(_config: NoConfig, _setup: &Setup<'_>) -> Result<Self> {
        Ok(Tap)
    }

    fn module_forward(&mut self, task: &mut ModuleForward<'_>, module: &Module<'_>) -> Result<()> {
        assert!(module.output_gradient().is_err(), "no gradient yet");
        Tap::see(task, module, &[module.input()?, module.output()?])
    }

    fn module_backward(
        &mut self,
        task: &mut ModuleBackward<'_>,
        module: &Module<'_>,
    ) -> Result<()> {
        let tensors = [
            module.input()?,
            module.output()?,
            module.input_gradient()?,
            module.output_gradient()?,
        ];
        Tap::see(task, module, &tensors)
    }
}

fn plan() -> TrainingPlan {
    TrainingPlan {
        seed: 4,
        epochs: 1,
        batch_size: 16,
        validate_every: ValidateEvery::Epochs(0),
        test: false,
        ..TrainingPlan::default()
    }
}

type Named = (String, Vec<i64>, Vec<u32>);

fn named(name: &str, tensor: &Tensor) -> Named {
    let shape = tensor
        .dims()
        .iter()
        .map(|&size| i64::try_from(size).expect("small"))
        .collect();
    let values: Vec<f32> = tensor
        .flatten_all()
        .and_then(|t| t.to_vec1())
        .expect("numbers");
    (
        name.to_owned(),
        shape,
        values.into_iter().map(f32::to_bits).collect(),
    )
}

/// The first batch, layer by layer, with every intermediate result a variable of its own, so that
/// candle gives its gradient.
fn direct() -> Vec<Seen> {
    let task = mlp_task(&[12, 8], 16, 0);
    let data = task.data(Phase::Train).expect("data");
    let batch = data.gather(&order::training(4, 0, 16), 0).expect("a batch");
    let parameter = |name: &str| task.parameters().get(name).expect(name).tensor().clone();
    let variable = |tensor: &Tensor| Var::from_tensor(tensor).expect("a variable");
    // Each module gets a fresh variable: the gradient of its output is that of the next input.
    let mut inputs = vec![variable(&batch.inputs.flatten_from(1).expect("flat"))];
    let mut outputs = Vec::new();
    for index in 0..5 {
        let x = inputs[index].as_tensor();
        let y = if index % 2 == 1 {
            x.relu().expect("relu")
        } else {
            let layer = index / 2 + 1;
            let weight = parameter(&format!("fc{layer}.weight"));
            let y = x.matmul(&weight.t().expect("t")).expect("product");
            y.broadcast_add(&parameter(&format!("fc{layer}.bias")))
                .expect("sum")
        };
        inputs.push(variable(&y));
        outputs.push(y);
    }
    let last = inputs[5].as_tensor();
    let store = cross_entropy(last, &batch.targets).and_then(|loss| loss.backward());
    let mut output_gradient = store.expect("backward").get(last).expect("one").clone();
    let mut backward = Vec::new();
    let mut forward = Vec::new();
    let names = ["fc1", "act1", "fc2", "act2", "fc3"];
    for index in (0..5).rev() {
        let (x, y) = (inputs[index].as_tensor(), &outputs[index]);
        // The vector-Jacobian product: the gradient of <y, g> by x is g's way back through y.
        let product = y.mul(&output_gradient.detach()).and_then(|p| p.sum_all());
        let store = product.and_then(|p| p.backward()).expect("backward");
        let input_gradient = store.get(x).expect("one").clone();
        let module = names[index];
        let is_linear = index % 2 == 0;
        let own = ["weight", "bias"].map(|name| format!("{module}.{name}"));
        let seen = |point: Point, tensors: Vec<Named>| Seen {
            module: module.to_owned(),
            kind: if is_linear { "linear" } else { "relu" }.to_owned(),
            point,
            parameters: if is_linear { own.to_vec() } else { Vec::new() },
            tensors,
        };
        let both = vec![named("input", x), named("output", y)];
        forward.push(seen(Point::ModuleForward, both.clone()));
        let mut all = both;
        all.push(named("input_gradient", &input_gradient));
        all.push(named("output_gradient", &output_gradient));
        backward.push(seen(Point::ModuleBackward, all));
        output_gradient = input_gradient;
    }
    forward.reverse();
    forward.extend(backward);
    forward
}

#[test]
fn a_module_hook_sees_for_every_layer_what_a_direct_computation_gives() {
    let mut untapped = mlp_task(&[12, 8], 16, 0);
    train_with(&mut untapped, &mut Sgd::new(0.1), &plan(), |_| Vec::new());
    let mut task = mlp_task(&[12, 8], 16, 0);
    let report = train_with(&mut task, &mut Sgd::new(0.1), &plan(), |shared| {
        vec![linked::<Tap>(&json!({}), shared)]
    });
    assert!(
        matches!(report.outcome, RunOutcome::Completed),
        "{:?}",
        report.outcome
    );
    let seen = SEEN.lock().expect("no panic").clone();
    let expected = direct();
    assert_eq!((seen.len(), expected.len()), (10, 10));
    for (seen, expected) in seen.iter().zip(&expected) {
        // Tensors by name, so that a difference can be read.
        for (seen, wanted) in seen.tensors.iter().zip(&expected.tensors) {
            assert!(
                seen == wanted,
                "{} of {} at {}",
                wanted.0,
                expected.module,
                expected.point
            );
        }
        assert_eq!(seen, expected);
    }
    assert_eq!(
        bits(task.parameters()),
        bits(untapped.parameters()),
        "a tap changes nothing"
    );
    // Below what is trained too, where without a tap there is no backward pass.
    SEEN.lock().expect("no panic").clear();
    let mut frozen = mlp_task(&[12, 8], 16, 0);
    for name in ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"] {
        frozen.parameters().set_frozen(name, true).expect("known");
    }
    train_with(&mut frozen, &mut Sgd::new(0.1), &plan(), |shared| {
        vec![linked::<Tap>(&json!({}), shared)]
    });
    assert!(*SEEN.lock().expect("no panic") == expected);
}

/// The modules that a recorder with a filter sees at a point of the training, once each.
fn modules_seen(hook: Value, point: &str) -> Vec<String> {
    let place = Workplace::new(&["sconce-fixture-recorder"]);
    place
        .run(&edit(tiny(), "/hooks", json!([hook])))
        .expect(0, &[]);
    let mut seen: Vec<String> = Vec::new();
    for call in place.records("record.jsonl") {
        let detail = call["detail"].as_str().unwrap_or_default().to_owned();
        if call["point"] == point && !seen.contains(&detail) {
            seen.push(detail);
        }
    }
    seen
}

#[test]
fn modules_are_chosen_by_name_patterns() {
    let all = modules_seen(json!("recorder"), "module_forward");
    assert_eq!(all, ["fc1 linear", "act1 relu", "fc2 linear"]);
    let back = modules_seen(json!("recorder"), "module_backward");
    assert_eq!(back, ["fc2 linear", "act1 relu", "fc1 linear"]);
    let linear = json!({"hook": "recorder", "modules": ["fc?"]});
    assert_eq!(
        modules_seen(linear, "module_backward"),
        ["fc2 linear", "fc1 linear"]
    );
    let two = json!({"hook": "recorder", "modules": ["act1", "fc2"]});
    assert_eq!(
        modules_seen(two, "module_forward"),
        ["act1 relu", "fc2 linear"]
    );
}

#[test]
fn a_fault_in_a_module_hook_is_reported_as_any_other() {
    let place = Workplace::new(&["sconce-fixture-faults"]);
    let ask =
        json!({"hook": "asker", "config": {"at": "module_forward", "what": "set_learning_rate"}});
    place.run(&edit(tiny(), "/hooks", json!([ask]))).expect(
        4,
        &[
            "hook `asker` failed at `module_forward` (train), epoch 0, iteration 0",
            "`set_learning_rate` is not legal at `module_forward`",
        ],
    );
}

#[test]
fn integers_and_untracked_inputs_are_tapped_too() {
    use sconce::nn::{ModuleInfo, Pass, Taps};

    /// Hands everything through.
    struct Nobody;
    impl Taps for Nobody {
        fn listens(&mut self, _: &ModuleInfo) -> bool {
            true
        }
        fn enter(&mut self, _: &ModuleInfo, _: &Tensor) -> candle_core::Result<Option<Tensor>> {
            Ok(None)
        }
        fn leave(
            &mut self,
            _: &ModuleInfo,
            _: &Tensor,
            output: Tensor,
        ) -> candle_core::Result<Tensor> {
            Ok(output)
        }
    }

    let module = ModuleInfo::new("m", "identity");
    let x = Tensor::new(&[1_u32, 2], &Device::Cpu).expect("numbers");
    let mut nobody = Nobody;
    let mut pass = Pass::training().with_taps(&mut nobody);
    let y = pass
        .module(&module, &x, |x, _| Ok(x.clone()))
        .expect("output");
    assert_eq!(
        y.id(),
        x.id(),
        "nothing stands between where nobody listens"
    );
}

static HEARD: Mutex<Vec<(Point, u64, String)>> = Mutex::new(Vec::new());

/// Listens at modules in every second iteration.
struct NowAndThen;

impl NowAndThen {
    fn hear(task: &TaskView<'_>, module: &Module<'_>) {
        let heard = (
            task.point().expect("known"),
            task.iteration(),
            module.name().to_owned(),
        );
        HEARD.lock().expect("no panic").push(heard);
    }
}

#[hook(
    name = "now-and-then",
    about = "Listens at modules in every second iteration."
)]
impl Hook for NowAndThen {
    fn new(_config: NoConfig, _setup: &Setup<'_>) -> Result<Self> {
        Ok(NowAndThen)
    }

    fn before_iter(&mut self, task: &mut BeforeIter<'_>) -> Result<()> {
        task.listen_at_modules(!task.iteration().is_multiple_of(2))
    }

    fn module_forward(&mut self, task: &mut ModuleForward<'_>, module: &Module<'_>) -> Result<()> {
        NowAndThen::hear(task, module);
        Ok(())
    }

    fn module_backward(
        &mut self,
        task: &mut ModuleBackward<'_>,
        module: &Module<'_>,
    ) -> Result<()> {
        NowAndThen::hear(task, module);
        Ok(())
    }

    fn after_loss(&mut self, task: &mut AfterLoss<'_>) -> Result<()> {
        let refused = At::any(task)
            .listen_at_modules(true)
            .expect_err("not legal here");
        assert!(
            refused
                .message()
                .contains("`listen_at_modules` is not legal at `after_loss`")
        );
        Ok(())
    }
}

#[test]
fn a_hook_listens_at_modules_when_it_says_so() {
    let mut untapped = mlp_task(&[12], 64, 0);
    train_with(&mut untapped, &mut Sgd::new(0.1), &plan(), |_| Vec::new());
    let mut task = mlp_task(&[12], 64, 0);
    let report = train_with(&mut task, &mut Sgd::new(0.1), &plan(), |shared| {
        vec![linked::<NowAndThen>(&json!({}), shared)]
    });
    assert!(
        matches!(report.outcome, RunOutcome::Completed),
        "{:?}",
        report.outcome
    );
    let heard = HEARD.lock().expect("no panic").clone();
    let mut expected = Vec::new();
    for iteration in [1, 3] {
        for name in ["fc1", "act1", "fc2"] {
            expected.push((Point::ModuleForward, iteration, name.to_owned()));
        }
        for name in ["fc2", "act1", "fc1"] {
            expected.push((Point::ModuleBackward, iteration, name.to_owned()));
        }
    }
    assert_eq!(heard, expected);
    assert_eq!(bits(task.parameters()), bits(untapped.parameters()));
}
