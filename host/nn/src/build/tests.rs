//! Layers around others, weights of other layers, inputs with names, and lengths that vary.

use candle_core::{DType, Tensor};
use serde_json::{Value, json};

use super::{build, untargeted};
use crate::parameters::{MemoryBudget, Parameters};
use crate::{LayerConfig, Model, NamedInputs, Network, Pass, Signal, Targets, Visibility, ops};

fn parameters() -> Parameters {
    Parameters::new(1, DType::F32, &ops::device::for_tests())
}

fn layers(layers: Value) -> Vec<LayerConfig> {
    serde_json::from_value(layers).expect("layers")
}

fn built(list: Value, input: &Signal) -> (Network, Parameters) {
    let mut parameters = parameters();
    let network = untargeted(&layers(list), &mut parameters, input).expect("a model");
    (network, parameters)
}

fn error(list: Value, input: &Signal) -> String {
    let network = untargeted(&layers(list), &mut parameters(), input).map(|_| ());
    let error = network.expect_err("it does not fit");
    format!("{}: {error}", error.path)
}

fn tokens(batch: usize, length: usize) -> Tensor {
    let count = (batch * length) as u32;
    let tokens = Tensor::arange(0, count, &ops::device::for_tests());
    let tokens = tokens.and_then(|tokens| tokens.reshape((batch, length)));
    tokens.expect("tokens")
}

#[test]
fn a_repeated_list_is_in_the_summary_with_its_numbers() {
    let list = json!([{"kind": "repeat", "name": "h", "count": 2, "layers": [
        {"kind": "residual", "layers": [{"kind": "linear", "name": "up", "outputs": 3}]}
    ]}]);
    let (network, parameters) = built(list, &Signal::numbers([3]));
    let lines = network.summary().expect("a summary").layers.iter();
    let lines: Vec<_> = lines
        .map(|line| (line.name.as_str(), line.kind, line.flops, line.depth))
        .collect();
    assert_eq!(
        lines,
        [
            ("h", "repeat", 36, 0),
            ("h.0", "sequential", 18, 1),
            ("h.0.up", "linear", 18, 2),
            ("h.1", "sequential", 18, 1),
            ("h.1.up", "linear", 18, 2),
        ]
    );
    let names: Vec<_> = parameters
        .iter()
        .map(sconce_parameters::Parameter::name)
        .collect();
    assert_eq!(
        names,
        [
            "h.0.up.weight",
            "h.0.up.bias",
            "h.1.up.weight",
            "h.1.up.bias"
        ]
    );
}

#[test]
fn what_does_not_fit_is_said_with_its_place() {
    let tokens = Signal::tokens(4, 9);
    let embedded = |rest: Value| {
        let mut list = json!([{"kind": "embedding", "name": "wte", "width": 6}]);
        list.as_array_mut().expect("a list").push(rest);
        list
    };
    for (list, input, part) in [
        (
            json!([{"kind": "parallel", "name": "p", "combine": "add", "branches": [[], [{"kind": "linear", "outputs": 5}]]}]),
            Signal::numbers([3]),
            "layers[0]: the layer `p` (parallel) adds what its branches leave, of shapes [3], [5]",
        ),
        (
            json!([{"kind": "parallel", "combine": "multiply", "branches": [[], [{"kind": "linear", "name": "a", "outputs": 4}, {"kind": "conv2d", "name": "c", "channels": 1, "kernel": 1}]]}]),
            Signal::numbers([3]),
            "layers[0].branches[1][1]: the layer `c` (conv2d) wants images",
        ),
        (
            json!([{"kind": "parallel", "name": "p", "combine": "concatenate", "axis": 1, "branches": [[], [{"kind": "linear", "outputs": 4}, {"kind": "select", "at": 0}]]}]),
            Signal::numbers([2, 4]),
            "concatenates along dimension 1 what its branches leave, of shapes [2, 4], [4]",
        ),
        (
            embedded(json!({"kind": "linear", "name": "head", "tied": "wtte"})),
            tokens.clone(),
            "the layer `head` (linear) is tied to `wtte`, and no `embedding` or `linear` layer before it has that full name; \
             did you mean `wte`?",
        ),
        (
            embedded(json!({"kind": "linear", "name": "head", "tied": "wte", "outputs": 8})),
            tokens.clone(),
            "uses the weight of `wte`, which is [9, 6], and `outputs` 8",
        ),
        (
            embedded(json!({"kind": "linear", "name": "head", "tied": "wte", "transposed": true})),
            tokens.clone(),
            "and has 6 inputs",
        ),
        (
            embedded(json!({"kind": "position-embedding", "name": "wpe", "positions": 3})),
            tokens.clone(),
            "has a table of 3 positions, its input is numbers of shape [4, 6]; take samples of at most 3 positions",
        ),
        (
            embedded(json!({"kind": "select", "at": 4})),
            tokens.clone(),
            "selects position 4",
        ),
        (
            json!([{"kind": "embedding", "name": "wte", "width": 6, "tokens": 8}]),
            tokens.clone(),
            "has a table of 8 rows, its input is tokens below 9 of shape [4]",
        ),
        (
            json!([{"kind": "embedding", "name": "types", "width": 6, "tokens": 2, "input": "token_types"}]),
            tokens.clone().with("visible", Signal::tokens(4, 2)),
            "reads the input `token_types`, and the data have `visible`",
        ),
        (
            embedded(json!({"kind": "flatten", "name": "flat"})),
            tokens.clone().up_to(),
            "the layer `flat` (flatten) wants samples of one length, its input is numbers of shape [4, 6] or shorter",
        ),
        (
            json!([{"kind": "transpose", "axes": [0, 0]}]),
            Signal::numbers([2, 3]),
            "each of its 2 dimensions must be named once",
        ),
        (
            json!([{"kind": "group-norm", "name": "n", "groups": 3}]),
            Signal::numbers([4, 2, 2]),
            "divides 4 channels into 3 groups",
        ),
    ] {
        let found = error(list, &input);
        assert!(found.contains(part), "{found}\n{part}");
    }
}

#[test]
fn lengths_up_to_the_largest_are_taken_alike() {
    let list = json!([
        {"kind": "embedding", "name": "wte", "width": 6},
        {"kind": "position-embedding", "name": "wpe", "positions": 8},
        {"kind": "attention", "name": "attn", "heads": 2, "causal": true},
        {"kind": "linear", "name": "head", "tied": "wte"}
    ]);
    let input = Signal::tokens(5, 12).up_to();
    let (network, _) = built(list, &input);
    let run = |length: usize| {
        let y = network.forward(&tokens(1, length), &mut Pass::evaluation());
        y.and_then(|y| y.squeeze(0)?.to_vec2::<f32>())
    };
    let (all, some) = (run(5).expect("outputs"), run(3).expect("outputs"));
    assert_eq!(some.len(), 3);
    for (short, long) in some.iter().flatten().zip(all.iter().flatten()) {
        assert!((short - long).abs() < 1e-5, "{short} {long}");
    }
    let error = run(6).expect_err("too long").to_string();
    assert!(
        error.contains("samples of shape [5] or shorter, the inputs are [1, 6]"),
        "{error}"
    );
    // Without, one length it is.
    let list = json!([{"kind": "embedding", "name": "wte", "width": 6}]);
    let (network, _) = built(list, &Signal::tokens(5, 12));
    assert!(
        network
            .forward(&tokens(1, 4), &mut Pass::evaluation())
            .is_err()
    );
}

#[test]
fn targets_of_varying_positions_and_of_samples_are_told_apart() {
    let classes = (0..6).map(|class| class.to_string()).collect::<Vec<_>>();
    let input = Signal::tokens(5, 6).up_to();
    let each = layers(
        json!([{"kind": "embedding", "name": "e", "width": 4}, {"kind": "linear", "name": "head"}]),
    );
    let targets = Targets::ClassPerPosition(classes.clone());
    assert!(build(&each, &mut parameters(), &input, &targets).is_ok());
    let one = layers(json!([
        {"kind": "embedding", "name": "e", "width": 4}, {"kind": "select", "at": "last"}, {"kind": "linear", "name": "head"}
    ]));
    assert!(build(&one, &mut parameters(), &input, &Targets::Class(classes)).is_ok());
}

#[test]
fn inputs_are_read_by_their_names_also_where_a_block_is_recomputed() {
    let list = |recompute: bool| {
        json!([{"kind": "sequential", "name": "embeddings", "recompute": recompute, "layers": [
            {"kind": "parallel", "combine": "add", "branches": [
                [{"kind": "embedding", "name": "words", "width": 3}],
                [{"kind": "embedding", "name": "types", "width": 3, "tokens": 2, "input": "token_types", "default": 0}]
            ]}
        ]}])
    };
    let input = Signal::tokens(4, 8);
    let named = input.clone().with("token_types", Signal::tokens(4, 2));
    let types = tokens(2, 4)
        .to_dtype(DType::F32)
        .and_then(|t| t.ge(4_f32)?.to_dtype(DType::U32));
    let types = types.expect("types");
    let gradients = |recompute: bool, input: &Signal, types: Option<&Tensor>| {
        let (network, parameters) = built(list(recompute), input);
        let mut pass = Pass::training();
        let inputs = types.map(|types| ("token_types".to_owned(), types.clone()));
        pass.set_named_inputs(NamedInputs::new(inputs.into_iter().collect()));
        let recording = ops::record();
        let y = network.forward(&tokens(2, 4), &mut pass).expect("forward");
        let loss = y.sqr().and_then(|y| y.sum_all()).expect("a loss");
        let store = ops::backward(&loss, 1.0).expect("backward");
        drop(recording);
        let types = parameters.get("embeddings.types.weight").expect("it");
        let gradient = store.get(types.tensor()).expect("a gradient");
        gradient.to_vec2::<f32>().expect("rows")
    };
    let kept = gradients(false, &named, Some(&types));
    assert!(kept.iter().flatten().all(|value| *value != 0.0), "{kept:?}");
    assert_eq!(kept, gradients(true, &named, Some(&types)));
    let without = gradients(false, &input, None);
    assert!(without[1].iter().all(|value| *value == 0.0), "{without:?}");
}

#[test]
fn a_tied_weight_in_a_recomputed_block_has_the_same_gradient() {
    let gradient = |recompute: bool| {
        let list = json!([
            {"kind": "embedding", "name": "wte", "width": 3},
            {"kind": "sequential", "name": "head", "recompute": recompute, "layers": [
                {"kind": "tanh", "name": "act"}, {"kind": "linear", "name": "lm", "tied": "wte"}
            ]}
        ]);
        let (network, parameters) = built(list, &Signal::tokens(4, 8));
        let names: Vec<_> = parameters
            .iter()
            .map(sconce_parameters::Parameter::name)
            .collect();
        assert_eq!(names, ["wte.weight"]);
        let recording = ops::record();
        let y = network
            .forward(&tokens(2, 4), &mut Pass::training())
            .expect("forward");
        let loss = y.sqr().and_then(|y| y.sum_all()).expect("a loss");
        let store = ops::backward(&loss, 1.0).expect("backward");
        drop(recording);
        let weight = parameters.at(0).expect("it").tensor();
        store
            .get(weight)
            .expect("a gradient")
            .to_vec2::<f32>()
            .expect("rows")
    };
    assert_eq!(gradient(false), gradient(true));
}

#[test]
fn hostile_numbers_of_layers_are_errors_before_anything_is_made() {
    let repeated =
        |inner: Value| json!({"kind": "repeat", "name": "r", "count": 10_000, "layers": [inner]});
    let relu = json!({"kind": "relu", "name": "a"});
    let found = error(
        json!([repeated(repeated(repeated(relu)))]),
        &Signal::numbers([2]),
    );
    assert!(found.contains("at most 100000 layers"), "{found}");
    // Sizes are counted before they are allocated.
    let mut counting = Parameters::counting(DType::F32, MemoryBudget::new(1 << 30, 1, 1));
    let list = layers(
        json!([{"kind": "repeat", "name": "r", "count": 10_000, "layers": [
            {"kind": "linear", "name": "a", "outputs": 1_000_000}
        ]}]),
    );
    let network = untargeted(&list, &mut counting, &Signal::numbers([2])).map(|_| ());
    let error = network.expect_err("it is too large");
    assert!(error.is_too_large, "{error}");
}

#[test]
fn the_last_position_is_the_last_visible_one() {
    let list =
        json!([{"kind": "embedding", "name": "e", "width": 3}, {"kind": "select", "at": "last"}]);
    let (network, parameters) = built(list, &Signal::tokens(4, 8));
    let table = parameters
        .at(0)
        .expect("it")
        .tensor()
        .to_vec2::<f32>()
        .expect("rows");
    let visibility = Visibility::of_lengths(&[2, 4], 4).expect("lengths");
    let mut pass = Pass::evaluation().seeing(visibility);
    let y = network
        .forward(&tokens(2, 4), &mut pass)
        .and_then(|y| y.to_vec2::<f32>());
    assert_eq!(y.expect("vectors"), [table[1].clone(), table[7].clone()]);
    let y = network.forward(&tokens(2, 4), &mut Pass::evaluation());
    let y = y.and_then(|y| y.to_vec2::<f32>()).expect("vectors");
    assert_eq!(y, [table[3].clone(), table[7].clone()]);
}
