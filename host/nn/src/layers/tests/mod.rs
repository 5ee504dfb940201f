//! Every layer's gradient compared with finite differences, and its output with a direct implementation.

mod mask_tokens;
mod reference;

use candle_core::{DType, Result, Tensor, Var};

use crate::init::Init;
use crate::ops::{self, PoolKind, StatisticsSource, Window, Windows};
use crate::parameters::Parameters;
use crate::random;
use crate::{Inputs, Targets};
use crate::{
    LayerConfig, LayerKind, LinearConfig, Model, Network, Pass, PassPosition, Plain, Signal, build,
};

/// Standard normal values, keyed by a name.
fn random(name: &str, shape: &[usize]) -> Tensor {
    let mut stream = random::stream(7, name, 0, 0);
    let count: usize = shape.iter().product();
    let values: Vec<f64> = (0..count).map(|_| stream.normal()).collect();
    Tensor::from_vec(values, shape, &sconce_ops::device::for_tests()).expect("a tensor")
}

fn values(tensor: &Tensor) -> Vec<f64> {
    let flat = tensor.flatten_all().and_then(|flat| flat.to_vec1());
    flat.expect("numbers")
}

/// Compares the gradient of Σ weights · f from the backward pass with central differences (h = 1e-6), for
/// every variable, to 1e-6 of its largest element. Returns the number of elements checked.
///
/// On the CPU each element is moved alone. On a device, where a forward pass of small tensors takes milliseconds, all elements of a
/// variable are moved at once, in three random directions: a wrong element is seen in each of them, only not which one it is.
fn check(variables: &[&Var], f: &dyn Fn() -> Result<Tensor>) -> usize {
    let device = sconce_ops::device::for_tests();
    let output = f().expect("forward");
    let weights = random("weights", output.dims());
    let loss = || f()?.mul(&weights)?.sum_all();
    let store = loss().and_then(|loss| loss.backward()).expect("backward");
    let mut checked = 0;
    for (index, var) in variables.iter().enumerate() {
        let gradient = values(store.get(var).expect("a gradient"));
        let at = values(var);
        let largest = gradient.iter().fold(0.0_f64, |m, g| m.max(g.abs()));
        assert!(largest > 0.0, "variable {index} has no gradient but zeros");
        let set = |elements: Vec<f64>| {
            let elements = Tensor::from_vec(elements, var.dims(), &device).expect("a tensor");
            var.set(&elements).expect("set");
        };
        // A direction: elements, and how far each is moved for a step of 1.
        let moved = |along: &[(usize, f64)], step: f64| {
            let mut elements = at.clone();
            for &(element, factor) in along {
                elements[element] += step * factor;
            }
            set(elements);
            let loss = loss().and_then(|loss| loss.to_scalar::<f64>());
            loss.expect("a number")
        };
        let compare = |what: &str, along: &[(usize, f64)]| {
            let slope = (moved(along, 1e-6) - moved(along, -1e-6)) / 2e-6;
            let terms = along.iter().map(|&(i, factor)| gradient[i] * factor);
            let expected: f64 = terms.sum();
            let difference = (slope - expected).abs();
            assert!(
                difference <= 1e-6 * largest.max(0.1),
                "variable {index}, {what}: {slope} by differences, {expected} by backward"
            );
        };
        if device.is_cpu() {
            for element in 0..at.len() {
                compare(&format!("element {element}"), &[(element, 1.0)]);
            }
        } else {
            for direction in 0..3 {
                let name = format!("direction {direction}");
                let mut stream = random::stream(7, &name, 0, 0);
                let along: Vec<_> = (0..at.len()).map(|i| (i, stream.normal())).collect();
                compare(&name, &along);
            }
        }
        set(at.clone());
        checked += at.len();
    }
    checked
}

/// A model of one layer with its own outputs, its parameters moved away from their defaults.
fn single(config: &serde_json::Value, input: &Signal) -> (Network, Parameters) {
    let layer: LayerConfig = serde_json::from_value(config.clone()).expect("a layer");
    let mut parameters = Parameters::new(3, DType::F64, &sconce_ops::device::for_tests());
    // Its output is flattened, and a linear layer reduces it to a scalar.
    let flatten = LayerConfig::new(LayerKind::Flatten(Plain {}));
    let head = LinearConfig {
        outputs: Some(2),
        bias: Some(false),
        ..LinearConfig::default()
    };
    let head = LayerConfig::named("head", head);
    let targets = Targets::Class(vec!["a".to_owned(), "b".to_owned()]);
    let network = build(&[layer, flatten, head], &mut parameters, input, &targets);
    for parameter in parameters.trainable() {
        let noise = random(parameter.name(), parameter.tensor().dims());
        let moved =
            (parameter.tensor().detach() + noise.affine(0.3, 0.0).expect("noise")).expect("sum");
        parameter.var().set(&moved).expect("set");
    }
    (network.expect("a model"), parameters)
}

/// Checks a layer of the manifest with respect to its input (if it is not tokens) and parameters.
fn check_layer(config: &serde_json::Value, input: &Signal, batch: &Tensor) {
    let (network, parameters) = single(config, input);
    let x = Var::from_tensor(batch).expect("a variable");
    let mut variables: Vec<&Var> = parameters
        .trainable()
        .map(crate::parameters::Parameter::var)
        .collect();
    if batch.dtype() == DType::F64 {
        variables.push(&x);
    }
    let moment = PassPosition {
        seed: 1,
        epoch: 2,
        iteration: 3,
    };
    let f = || network.forward(&x, &mut Pass::training().at(moment));
    let checked = check(&variables, &f);
    assert!(checked > 0, "{config}");
}

/// Fused layers give bitwise the results of running them one after the other, gradients included, and
/// these gradients are correct.
#[test]
fn layers_in_one_are_those_one_after_the_other() {
    use crate::ops::{After, Function};

    let var =
        |name: &str, shape: &[usize]| Var::from_tensor(&random(name, shape)).expect("a variable");
    let same = |variables: &[&Var],
                one: &dyn Fn() -> Result<Tensor>,
                other: &dyn Fn() -> Result<Tensor>| {
        let run = |f: &dyn Fn() -> Result<Tensor>| {
            let y = f().expect("forward");
            let store = y
                .mul(&random("weights", y.dims()))
                .and_then(|y| y.sum_all()?.backward());
            let store = store.expect("backward");
            let gradient = |var: &&Var| store.get(var).map(values).expect("a gradient");
            let gradients: Vec<Vec<f64>> = variables.iter().map(gradient).collect();
            (values(&y), gradients)
        };
        let bits = |numbers: &[f64]| numbers.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        let ((y, gradients), (other_y, others)) = (run(one), run(other));
        assert_eq!(bits(&y), bits(&other_y));
        for (one, other) in gradients.iter().zip(&others) {
            // Zeros may differ in sign where no gradient is passed on.
            assert_eq!(one, other);
        }
    };

    for (index, (channels, size, kernel, padding, dilation, groups)) in [
        (1, (7, 9), (3, 3), (0, 0), (1, 1), 1),
        (12, (6, 8), (3, 3), (1, 1), (1, 1), 1),
        (24, (9, 7), (2, 3), (1, 0), (2, 1), 2),
    ]
    .into_iter()
    .enumerate()
    {
        let x = var(&format!("x{index}"), &[2, channels, size.0, size.1]);
        let weight = var(
            &format!("w{index}"),
            &[4, channels / groups, kernel.0, kernel.1],
        );
        let bias = var(&format!("b{index}"), &[4]);
        let (stride, kernel) = ((1, 1), kernel);
        let window = Window {
            kernel,
            stride,
            padding,
            dilation,
        };
        let conv = |after| ops::conv2d_then(&x, &weight, Some(&bias), window, groups, after);
        let squares = |y: Tensor| {
            let windows = |length| Windows::sliding(length, 2, 2, 0).expect("there is room");
            let (down, across) = (windows(y.dim(2)?), windows(y.dim(3)?));
            ops::pool2d(&y, PoolKind::Max, down, across)
        };
        for (relu, pool) in [(true, false), (false, true), (true, true)] {
            let one_by_one = || {
                let y = ops::conv2d(&x, &weight, Some(&bias), window, groups)?;
                let y = if relu { ops::relu(&y)? } else { y };
                if pool { squares(y) } else { Ok(y) }
            };
            let in_one = || conv(After { relu, pool });
            same(&[&x, &weight, &bias], &in_one, &one_by_one);
            check(&[&x, &weight, &bias], &in_one);
        }
        check(&[&x, &weight, &bias], &|| conv(After::default()));
    }
    let (x, weight, bias) = (var("x", &[2, 3, 4]), var("w", &[5, 4]), var("b", &[5]));
    for (function, alone) in [
        (Function::Relu, ops::relu as fn(&Tensor) -> Result<Tensor>),
        (Function::Gelu, ops::gelu),
        (Function::Silu, ops::silu),
    ] {
        let in_one = || ops::linear_then(&x, &weight, Some(&bias), function);
        let one_by_one = || alone(&ops::linear(&x, &weight, Some(&bias))?);
        same(&[&x, &weight, &bias], &in_one, &one_by_one);
        check(&[&x, &weight, &bias], &in_one);
        check(&[&x, &weight], &|| {
            ops::linear_then(&x, &weight, None, function)
        });
    }
}

macro_rules! layer {
    ($kind:literal $(, $key:literal : $value:tt)*) => {
        serde_json::json!({ "kind": $kind $(, $key: $value)* })
    };
}

#[test]
fn layers_over_vectors_and_sequences_have_right_gradients() {
    for config in [
        layer!("linear", "outputs": 3),
        layer!("linear", "outputs": 3, "bias": false, "init": {"kind": "xavier-normal"}),
        layer!("layer-norm"),
        layer!("rms-norm"),
        layer!("unit-norm"),
        layer!("relu"),
        layer!("gelu"),
        layer!("silu"),
        layer!("tanh"),
        layer!("sigmoid"),
        layer!("dropout", "share": 0.4),
        layer!("position-embedding"),
        layer!("mean-positions"),
        layer!("positions"),
        layer!("reshape", "shape": [2, 6]),
        layer!("attention", "heads": 2),
        layer!("attention", "heads": 2, "causal": true, "bias": false),
        layer!("attention", "heads": 2, "causal": true, "rotary": true, "dropout": 0.3),
        layer!("attention", "heads": 2, "kv_heads": 1, "causal": true, "window": 2, "scale": 0.3, "transposed": true,
            "bias": {"output": false}),
        layer!("attention", "heads": 4, "kv_heads": 2, "head_width": 2, "query_norm": {}, "dropout": 0.2,
            "rotary": {"base": 100, "scaling": {"kind": "linear", "factor": 2}},
            "projections": {"query": "q", "key": "k", "value": "v", "output": "o.dense"}),
        layer!("conv1d", "channels": 4, "kernel": 2),
        layer!("conv1d", "channels": 3, "kernel": 3, "stride": 2, "padding": 2, "groups": 3),
        layer!("batch-norm"),
        layer!("residual", "layers": [{"kind": "linear", "outputs": 4}], "activation": "tanh"),
        layer!("residual", "layers": [{"kind": "linear", "outputs": 5}], "name": "r",
            "shortcut": [{"kind": "linear", "outputs": 5}]),
    ] {
        let input = Signal::numbers([3, 4]);
        check_layer(&config, &input, &random("input", &[2, 3, 4]));
    }
}

#[test]
fn layers_over_images_have_right_gradients() {
    for config in [
        layer!("conv2d", "channels": 3, "kernel": 3),
        layer!("conv2d", "channels": 2, "kernel": [2, 3], "stride": [1, 2], "padding": [1, 0]),
        layer!("conv2d", "channels": 4, "kernel": 2, "groups": 2, "dilation": 2, "bias": false),
        layer!("conv2d", "channels": 4, "kernel": 3, "groups": 4, "padding": 1, "stride": 2),
        layer!("max-pool2d", "kernel": 2),
        layer!("max-pool2d", "kernel": 3, "stride": 2, "padding": 1),
        layer!("max-pool2d", "kernel": 3, "stride": 1),
        layer!("avg-pool2d", "kernel": 2),
        layer!("avg-pool2d", "kernel": 3, "stride": 2, "padding": 1),
        layer!("adaptive-avg-pool2d"),
        layer!("adaptive-avg-pool2d", "size": [3, 2]),
        layer!("adaptive-max-pool2d", "size": 2),
        layer!("batch-norm"),
        layer!("positions"),
    ] {
        let input = Signal::numbers([4, 5, 6]);
        check_layer(&config, &input, &random("input", &[2, 4, 5, 6]));
    }
}

#[test]
fn embeddings_have_right_gradients() {
    let tokens = Tensor::new(
        &[[0_u32, 2, 2], [4, 0, 1]],
        &sconce_ops::device::for_tests(),
    )
    .expect("tokens");
    let input = Signal::tokens(3, 5);
    check_layer(&layer!("embedding", "width": 4), &input, &tokens);
    let input = Signal {
        content: Inputs::Columns([0, 3, 0, 2].into()),
        ..Signal::numbers([4])
    };
    let rows = [
        [0.5_f64, 3.0, -1.0, 0.0],
        [1.5, 1.0, 2.0, 2.0],
        [0.1, 3.0, 0.0, 1.0],
    ];
    let rows = Tensor::new(&rows, &sconce_ops::device::for_tests()).expect("rows");
    for config in [
        layer!("embed-categories"),
        layer!("embed-categories", "width": 3),
    ] {
        check_layer(&config, &input, &rows);
    }
}

#[test]
fn batch_norm_outside_training_and_fused_has_right_gradients_too() {
    let x = Var::from_tensor(&random("x", &[3, 2, 4])).expect("a variable");
    let weight = Var::from_tensor(&random("w", &[2])).expect("a variable");
    let bias = Var::from_tensor(&random("b", &[2])).expect("a variable");
    let statistics = ops::ChannelStatistics::of(&random("other", &[3, 2, 4])).expect("statistics");
    let checked = check(&[&x, &weight, &bias], &|| {
        ops::batch_norm(&x, &weight, &bias, &statistics, 1e-5, false)
    });
    assert_eq!(checked, 24 + 2 + 2);
    for relu in [false, true] {
        let source = StatisticsSource::Constant;
        check(&[&x, &weight, &bias], &|| {
            ops::batch_norm_then(
                [&x, &weight, &bias],
                &statistics,
                source.clone(),
                1e-5,
                relu,
            )
        });
        check(&[&x, &weight, &bias], &|| {
            let (y, _) = ops::batch_norm_of_batch([&x, &weight, &bias], 1e-5, relu)?;
            Ok(y)
        });
    }
    let other = Var::from_tensor(&random("other", &[3, 2, 4])).expect("a variable");
    check(&[&x, &other], &|| ops::add_relu(&x, &other));
}

/// A convolution in seven nested loops.
fn slow_conv(x: &Tensor, weight: &Tensor, window: Window, groups: usize) -> Vec<f64> {
    let (batch, channels, height, width) = x.dims4().expect("an image");
    let (outputs, per_group, high, wide) = weight.dims4().expect("a weight");
    let (rows, columns) = window.counts(height, width).expect("room");
    let (x, weight) = (values(x), values(weight));
    let mut y = Vec::new();
    for n in 0..batch {
        for o in 0..outputs {
            for (r, c) in (0..rows).flat_map(|r| (0..columns).map(move |c| (r, c))) {
                let mut sum = 0.0;
                for p in 0..per_group {
                    let channel = o / (outputs / groups) * per_group + p;
                    for (i, j) in (0..high).flat_map(|i| (0..wide).map(move |j| (i, j))) {
                        let row = r * window.stride.0 + i * window.dilation.0;
                        let column = c * window.stride.1 + j * window.dilation.1;
                        let inside = |at: usize, padding: usize, length: usize| {
                            at.checked_sub(padding).filter(|&at| at < length)
                        };
                        if let (Some(row), Some(column)) = (
                            inside(row, window.padding.0, height),
                            inside(column, window.padding.1, width),
                        ) {
                            let at = ((n * channels + channel) * height + row) * width + column;
                            let of = ((o * per_group + p) * high + i) * wide + j;
                            sum += x[at] * weight[of];
                        }
                    }
                }
                y.push(sum);
            }
        }
    }
    y
}

fn close(found: &[f64], wanted: &[f64]) {
    assert_eq!(found.len(), wanted.len());
    for (index, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        assert!(
            (found - wanted).abs() < 1e-12 * wanted.abs().max(1.0),
            "{index}: {found} {wanted}"
        );
    }
}

#[test]
fn convolutions_are_those_of_the_formula() {
    for (kernel, stride, padding, dilation, groups) in [
        ((3, 3), (1, 1), (0, 0), (1, 1), 1),
        ((1, 1), (1, 1), (0, 0), (1, 1), 1),
        ((2, 3), (2, 1), (1, 2), (1, 1), 2),
        ((3, 2), (1, 3), (2, 0), (2, 2), 4),
        ((5, 6), (3, 2), (4, 5), (1, 1), 1),
    ] {
        let mut parameters = Parameters::new(3, DType::F64, &sconce_ops::device::for_tests());
        let options = crate::layers::ConvOptions {
            stride,
            padding,
            dilation,
            groups,
            bias: false,
            init: None,
        };
        let mut scope = parameters.scope("conv");
        let conv = crate::layers::Conv2d::new(&mut scope, 4, 8, kernel, options).expect("a layer");
        let x = random("x", &[2, 4, 7, 8]);
        let weight = parameters.at(0).expect("a weight").tensor();
        let window = Window {
            kernel,
            stride,
            padding,
            dilation,
        };
        close(
            &values(&conv.forward(&x).expect("forward")),
            &slow_conv(&x, weight, window, groups),
        );
    }
}

#[test]
fn pooling_is_that_of_the_formula() {
    let x = random("x", &[2, 5, 7]);
    let given = values(&x);
    for (size, stride, padding) in [(2, 2, 0), (3, 2, 1), (3, 1, 0), (5, 3, 2)] {
        let windows = |length| Windows::sliding(length, size, stride, padding).expect("room");
        let (down, across) = (windows(5), windows(7));
        let pooled = |kind| {
            let y = ops::pool2d(&x, kind, down.clone(), across.clone()).expect("pooling");
            values(&y)
        };
        let (mut most, mut means) = (Vec::new(), Vec::new());
        for plane in 0..2 {
            for row in 0..down.count() {
                for column in 0..across.count() {
                    let mut inside = Vec::new();
                    for i in 0..size {
                        for j in 0..size {
                            let at = |index: usize, k: usize, length: usize| {
                                (index * stride + k)
                                    .checked_sub(padding)
                                    .filter(|&at| at < length)
                            };
                            if let (Some(r), Some(c)) = (at(row, i, 5), at(column, j, 7)) {
                                inside.push(given[(plane * 5 + r) * 7 + c]);
                            }
                        }
                    }
                    most.push(inside.iter().copied().fold(f64::NEG_INFINITY, f64::max));
                    means.push(inside.iter().sum::<f64>() / (size * size) as f64);
                }
            }
        }
        close(&pooled(PoolKind::Max), &most);
        close(&pooled(PoolKind::Mean), &means);
    }
    // torch.nn.AdaptiveAvgPool2d on 5 elements and 3 windows: 0..2, 1..4, 3..5.
    let line = Tensor::new(
        &[[[1.0, 2.0, 4.0, 8.0, 16.0]]],
        &sconce_ops::device::for_tests(),
    )
    .expect("a line");
    let y = ops::pool2d(
        &line,
        PoolKind::Mean,
        Windows::adaptive(1, 1),
        Windows::adaptive(5, 3),
    );
    close(&values(&y.expect("pooling")), &[1.5, 14.0 / 3.0, 12.0]);
}

#[test]
fn a_nan_goes_through_a_pooling_and_a_softmax() {
    let x = Tensor::new(
        &[[[1.0, f64::NAN], [3.0, 2.0]]],
        &sconce_ops::device::for_tests(),
    )
    .expect("a tensor");
    let windows = || Windows::sliding(2, 2, 2, 0).expect("room");
    let y = ops::pool2d(&x, PoolKind::Max, windows(), windows()).expect("pooling");
    assert!(values(&y)[0].is_nan());
    assert!(values(&ops::softmax(&x, false).expect("softmax"))[1].is_nan());
}

#[test]
fn softmax_and_norms_are_those_of_the_formulas() {
    let x = random("x", &[2, 3, 4]);
    let (given, y) = (
        values(&x),
        values(&ops::softmax(&x, false).expect("softmax")),
    );
    assert_eq!((given.len(), y.len()), (24, 24));
    for (x, y) in given.chunks(4).zip(y.chunks(4)) {
        let sum: f64 = x.iter().map(|x| x.exp()).sum();
        close(y, &x.iter().map(|x| x.exp() / sum).collect::<Vec<_>>());
    }
    // Two queries of four keys: the first sees three.
    let causal = ops::softmax(&random("x", &[1, 2, 4]), true).expect("softmax");
    let causal = values(&causal);
    assert!(causal[3] == 0.0 && causal[2] > 0.0 && causal[7] > 0.0);
    close(
        &[causal[..4].iter().sum(), causal[4..].iter().sum()],
        &[1.0, 1.0],
    );

    let (weight, bias) = (random("w", &[4]), random("b", &[4]));
    let (w, b) = (values(&weight), values(&bias));
    let normed = values(&ops::layer_norm(&x, &weight, &bias, 1e-5).expect("a norm"));
    let scaled = values(&ops::rms_norm(&x, &weight, 1e-5).expect("a norm"));
    for (row, x) in given.chunks(4).enumerate() {
        let mean = x.iter().sum::<f64>() / 4.0;
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 4.0;
        let square = x.iter().map(|x| x * x).sum::<f64>() / 4.0;
        for i in 0..4 {
            let by_layer = (x[i] - mean) / (variance + 1e-5).sqrt() * w[i] + b[i];
            let by_rms = x[i] / (square + 1e-5).sqrt() * w[i];
            close(
                &[normed[row * 4 + i], scaled[row * 4 + i]],
                &[by_layer, by_rms],
            );
        }
    }
}

#[test]
fn batch_norm_keeps_running_statistics_as_pytorch_does() {
    let mut parameters = Parameters::new(3, DType::F64, &sconce_ops::device::for_tests());
    let norm = crate::layers::BatchNorm::new(
        &mut parameters.scope("bn"),
        1,
        crate::layers::BatchNormOptions::default(),
    );
    let norm = norm.expect("a layer");
    let x = Tensor::new(
        &[[[1.0, 2.0]], [[3.0, 6.0]]],
        &sconce_ops::device::for_tests(),
    )
    .expect("a batch");
    let y = values(&norm.forward(&x, true).expect("forward"));
    // Mean 3, biased variance 3.5, unbiased 14/3.
    let scaled = |x: f64| (x - 3.0) / (3.5_f64 + 1e-5).sqrt();
    close(&y, &[1.0, 2.0, 3.0, 6.0].map(scaled));
    let buffer = |name: &str| values(parameters.get(name).expect("a buffer").tensor())[0];
    close(&[buffer("bn.running_mean")], &[0.3]);
    close(&[buffer("bn.running_var")], &[0.9 + 0.1 * 14.0 / 3.0]);
    close(&[buffer("bn.num_batches_tracked")], &[1.0]);
    let y = values(&norm.forward(&x, false).expect("forward"));
    let running = |x: f64| (x - 0.3) / (0.9 + 1.4 / 3.0 + 1e-5_f64).sqrt();
    close(&y, &[1.0, 2.0, 3.0, 6.0].map(running));
    close(&[buffer("bn.running_mean")], &[0.3]);
    let lonely =
        Tensor::ones((1, 1), DType::F64, &sconce_ops::device::for_tests()).expect("a batch");
    assert!(norm.forward(&lonely, true).is_err());
}

#[test]
fn batch_norm_made_anew_has_the_statistics_of_all_batches_together_and_frozen_it_keeps_its_own() {
    let mut parameters = Parameters::new(3, DType::F64, &sconce_ops::device::for_tests());
    let mut scope = parameters.scope("bn");
    let norm =
        crate::layers::BatchNorm::new(&mut scope, 2, crate::layers::BatchNormOptions::default());
    let norm = norm.expect("a layer");
    let x = random("x", &[7, 2, 3]);
    let batch = |from: usize, count: usize| x.narrow(0, from, count).expect("a batch");
    let forward = |x: &Tensor, pass: Pass<'_>| {
        let y = crate::layers::Layer::forward(&norm, x, &mut { pass });
        values(&y.expect("forward"))
    };
    for (from, count) in [(0, 3), (3, 3), (6, 1)] {
        let weight = count as f64 / (from + count) as f64;
        forward(&batch(from, count), Pass::training().renewing(weight));
    }
    let buffer = |name: &str| values(parameters.get(name).expect("a buffer").tensor());
    let channel = |channel: usize| values(&x.narrow(1, channel, 1).expect("a channel"));
    for index in 0..2 {
        let numbers = channel(index);
        let mean = numbers.iter().sum::<f64>() / 21.0;
        let spread = numbers.iter().map(|number| (number - mean).powi(2));
        close(&[buffer("bn.running_mean")[index]], &[mean]);
        close(
            &[buffer("bn.running_var")[index]],
            &[spread.sum::<f64>() / 21.0],
        );
    }
    close(&buffer("bn.num_batches_tracked"), &[0.0]);
    // Frozen, it computes the same in training as in evaluation, whatever the batch.
    parameters
        .set_frozen("bn.running_var", true)
        .expect("it is there");
    let before = buffer("bn.running_mean");
    let expected = forward(&batch(0, 1), Pass::evaluation());
    close(
        &forward(&batch(0, 1), Pass::training().renewing(1.0)),
        &expected,
    );
    close(&forward(&batch(0, 1), Pass::training()), &expected);
    close(&buffer("bn.running_mean"), &before);
}

#[test]
fn dropout_is_off_outside_training_and_the_same_for_the_same_moment() {
    let dropout = crate::layers::Dropout::new(0.25, "drop");
    let ones = Tensor::ones(10_000, DType::F32, &sconce_ops::device::for_tests()).expect("ones");
    let at = |is_training, iteration| {
        let moment = PassPosition {
            seed: 1,
            epoch: 0,
            iteration,
        };
        let y = dropout
            .forward(&ones, &Pass::new(is_training).at(moment))
            .expect("forward");
        y.to_vec1::<f32>().expect("numbers")
    };
    assert!(at(false, 0).iter().all(|y| (y - 1.0).abs() < f32::EPSILON));
    assert_eq!(at(true, 4), at(true, 4));
    assert_ne!(at(true, 4), at(true, 5));
    let kept = at(true, 4).iter().filter(|&&y| y > 0.0).count();
    assert!((7_300..7_700).contains(&kept), "{kept}");
    let mean = at(true, 4).iter().sum::<f32>() / 1e4;
    assert!((mean - 1.0).abs() < 0.03, "{mean}");
}

#[test]
fn rotary_positions_turn_pairs_and_keep_lengths() {
    let rotary = crate::layers::Rotary::new(3, 4, 10_000.0).expect("rotary");
    let x = random("x", &[1, 3, 4]);
    let (given, turned) = (values(&x), values(&rotary.forward(&x).expect("forward")));
    close(&turned[..4], &given[..4]);
    for position in 0..3 {
        let (x, y) = (&given[position * 4..][..4], &turned[position * 4..][..4]);
        for pair in 0..2 {
            let angle = position as f64 / 10_000_f64.powf(pair as f64 / 2.0);
            let first = x[pair] * angle.cos() - x[pair + 2] * angle.sin();
            let second = x[pair + 2] * angle.cos() + x[pair] * angle.sin();
            close(&[y[pair], y[pair + 2]], &[first, second]);
        }
    }
    assert!(crate::layers::Rotary::new(3, 5, 10_000.0).is_err());
}

#[test]
fn gelu_is_exact() {
    // Python: x * 0.5 * math.erfc(-x / math.sqrt(2)).
    let x = Tensor::new(
        &[-3.0, -0.5, 0.0, 1.0, 2.5],
        &sconce_ops::device::for_tests(),
    )
    .expect("a tensor");
    let wanted = [
        -0.004_049_694_095_289_054,
        -0.154_268_769_362_993_46,
        0.0,
        0.841_344_746_068_542_9,
        2.484_475_836_685_559_7,
    ];
    let found = values(&ops::gelu(&x).expect("gelu"));
    assert_eq!(found.len(), wanted.len());
    for (found, wanted) in found.iter().zip(wanted) {
        assert!((found - wanted).abs() < 1e-12, "{found} {wanted}");
    }
}

#[test]
fn an_init_of_ones_is_ones() {
    let mut parameters = Parameters::new(3, DType::F64, &sconce_ops::device::for_tests());
    let options = crate::layers::LinearOptions {
        bias: false,
        init: Some(Init::ONES),
        ..crate::layers::LinearOptions::default()
    };
    crate::layers::Linear::with(&mut parameters.scope("a"), 2, 3, options).expect("a layer");
    assert_eq!(parameters.len(), 1);
    assert_eq!(values(parameters.at(0).expect("it").tensor()), [1.0; 6]);
}
