//! The optimizers compared with direct implementations of their formulas.

use candle_core::{DType, Tensor};

use super::{
    Adam, AdamW, Lion, MomentStorage, Optimizer, OptimizerConfig, OptimizerError, RmsProp, Sgd,
};
use crate::gradients::Gradients;
use crate::init::Init;
use crate::parameters::Parameters;
use crate::random;

const SIZE: usize = 7;
const STEPS: u64 = 50;

fn parameters(dtype: DType) -> Parameters {
    let mut parameters = Parameters::new(11, dtype, &sconce_ops::device::for_tests());
    let init = Init::Normal {
        mean: 0.0,
        std: 1.0,
    };
    parameters
        .scope("m")
        .parameter("w", &[SIZE], init)
        .expect("w");
    parameters
        .scope("m")
        .parameter("still", &[2], init)
        .expect("still");
    parameters
}

fn values(parameters: &Parameters, name: &str) -> Vec<f64> {
    let tensor = parameters.get(name).expect("it is there").tensor();
    tensor
        .to_dtype(DType::F64)
        .and_then(|t| t.to_vec1())
        .expect("numbers")
}

/// A fixed sequence of gradients, one for each step.
fn gradient(step: u64) -> Vec<f64> {
    let mut stream = random::stream(4, "gradient", 0, step);
    (0..SIZE).map(|_| stream.normal()).collect()
}

/// Gradients for `m.w` alone, as a strided view: optimizers must not assume contiguous ones.
fn gradients(parameters: &Parameters, step: u64) -> Gradients {
    let dtype = parameters.at(0).expect("w").tensor().dtype();
    let wide: Vec<f64> = gradient(step)
        .into_iter()
        .flat_map(|g| [g, f64::NAN])
        .collect();
    let strided = Tensor::from_vec(wide, (SIZE, 2), &sconce_ops::device::for_tests())
        .and_then(|t| t.to_dtype(dtype))
        .and_then(|t| t.narrow(1, 0, 1))
        .and_then(|t| t.squeeze(1))
        .expect("a view");
    let loss = parameters
        .at(0)
        .expect("w")
        .tensor()
        .sum_all()
        .expect("a sum");
    let mut gradients = Gradients::from_store(parameters, &loss.backward().expect("backward"));
    gradients.set(0, strided);
    gradients
}

fn train(optimizer: &mut dyn Optimizer, parameters: &Parameters, steps: std::ops::Range<u64>) {
    for step in steps {
        optimizer
            .step(parameters, &gradients(parameters, step))
            .expect("a step");
    }
}

fn close(found: &[f64], expected: &[f64], tolerance: f64) {
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= tolerance, "{found} {expected}");
    }
}

fn slow_sgd(
    start: &[f64],
    rate: f64,
    momentum: f64,
    dampening: f64,
    nesterov: bool,
    decay: f64,
) -> Vec<f64> {
    let mut p = start.to_vec();
    let mut buffer: Option<Vec<f64>> = None;
    for step in 0..STEPS {
        let mut d: Vec<f64> = gradient(step)
            .iter()
            .zip(&p)
            .map(|(g, p)| g + decay * p)
            .collect();
        if momentum != 0.0 {
            let next: Vec<f64> = match &buffer {
                None => d.clone(),
                Some(old) => old
                    .iter()
                    .zip(&d)
                    .map(|(b, d)| momentum * b + (1.0 - dampening) * d)
                    .collect(),
            };
            d = if nesterov {
                d.iter().zip(&next).map(|(d, b)| d + momentum * b).collect()
            } else {
                next.clone()
            };
            buffer = Some(next);
        }
        for (p, d) in p.iter_mut().zip(&d) {
            *p -= rate * d;
        }
    }
    p
}

#[test]
fn sgd_is_its_formula() {
    for (momentum, dampening, nesterov, decay) in [
        (0.0, 0.0, false, 0.0),
        (0.0, 0.0, false, 0.1),
        (0.9, 0.0, false, 0.0),
        (0.9, 0.5, false, 0.01),
        (0.9, 0.0, true, 0.01),
    ] {
        let parameters = parameters(DType::F64);
        let start = values(&parameters, "m.w");
        let mut sgd = Sgd::new(0.05)
            .with_momentum(momentum, dampening, nesterov)
            .with_weight_decay(decay);
        train(&mut sgd, &parameters, 0..STEPS);
        let expected = slow_sgd(&start, 0.05, momentum, dampening, nesterov, decay);
        close(&values(&parameters, "m.w"), &expected, 1e-12);
    }
}

#[test]
fn adamw_is_its_formula_in_both_precisions() {
    for (dtype, tolerance) in [(DType::F64, 1e-12), (DType::F32, 2e-6)] {
        let parameters = parameters(dtype);
        let mut p = values(&parameters, "m.w");
        let (mut m, mut v) = (vec![0.0; SIZE], vec![0.0; SIZE]);
        let (rate, beta1, beta2, epsilon, decay) = (0.01, 0.8, 0.95, 1e-6, 0.1);
        for step in 0..STEPS {
            let t = i32::try_from(step + 1).expect("small");
            for (index, g) in gradient(step).iter().enumerate() {
                p[index] -= rate * decay * p[index];
                m[index] = beta1 * m[index] + (1.0 - beta1) * g;
                v[index] = beta2 * v[index] + (1.0 - beta2) * g * g;
                let m_hat = m[index] / (1.0 - beta1.powi(t));
                let v_hat: f64 = v[index] / (1.0 - beta2.powi(t));
                p[index] -= rate * m_hat / (v_hat.sqrt() + epsilon);
            }
        }
        let mut adamw = AdamW::new(rate)
            .with_betas(beta1, beta2, epsilon)
            .with_weight_decay(decay);
        train(&mut adamw, &parameters, 0..STEPS);
        close(&values(&parameters, "m.w"), &p, tolerance);
    }
}

#[test]
#[expect(clippy::many_single_char_names, reason = "the formula's")]
fn adam_is_its_formula_in_both_precisions() {
    for (dtype, tolerance) in [(DType::F64, 1e-12), (DType::F32, 5e-6)] {
        let parameters = parameters(dtype);
        let mut p = values(&parameters, "m.w");
        let (mut m, mut v) = (vec![0.0; SIZE], vec![0.0; SIZE]);
        let (rate, beta1, beta2, epsilon, decay) = (0.01, 0.8, 0.95, 1e-6, 0.1);
        for step in 0..STEPS {
            let t = i32::try_from(step + 1).expect("small");
            for (index, g) in gradient(step).iter().enumerate() {
                let g = g + decay * p[index];
                m[index] = beta1 * m[index] + (1.0 - beta1) * g;
                v[index] = beta2 * v[index] + (1.0 - beta2) * g * g;
                let m_hat = m[index] / (1.0 - beta1.powi(t));
                let v_hat: f64 = v[index] / (1.0 - beta2.powi(t));
                p[index] -= rate * m_hat / (v_hat.sqrt() + epsilon);
            }
        }
        let mut adam = Adam::new(rate)
            .with_betas(beta1, beta2, epsilon)
            .with_weight_decay(decay);
        train(&mut adam, &parameters, 0..STEPS);
        close(&values(&parameters, "m.w"), &p, tolerance);
    }
}

#[test]
#[expect(clippy::many_single_char_names, reason = "the formula's")]
fn rmsprop_is_its_formula() {
    let (rate, alpha, epsilon) = (0.01, 0.9, 1e-6);
    for (momentum, centered, decay) in [
        (0.0, false, 0.0),
        (0.9, false, 0.1),
        (0.0, true, 0.1),
        (0.9, true, 0.1),
    ] {
        let parameters = parameters(DType::F64);
        let mut p = values(&parameters, "m.w");
        let (mut v, mut a, mut b) = (vec![0.0; SIZE], vec![0.0; SIZE], vec![0.0; SIZE]);
        for step in 0..STEPS {
            for (index, g) in gradient(step).iter().enumerate() {
                let g = g + decay * p[index];
                v[index] = alpha * v[index] + (1.0 - alpha) * g * g;
                a[index] = alpha * a[index] + (1.0 - alpha) * g;
                let mean: f64 = if centered { a[index] } else { 0.0 };
                let spread: f64 = v[index] - mean * mean;
                let scaled = g / (spread.max(0.0).sqrt() + epsilon);
                b[index] = momentum * b[index] + scaled;
                p[index] -= rate * b[index];
            }
        }
        let mut rmsprop = RmsProp::new(rate)
            .with_alpha(alpha, epsilon)
            .with_momentum(momentum, centered)
            .with_weight_decay(decay);
        train(&mut rmsprop, &parameters, 0..STEPS);
        close(&values(&parameters, "m.w"), &p, 1e-11);
        let moments = rmsprop.tensors(&parameters).len();
        assert_eq!(
            moments,
            1 + usize::from(momentum > 0.0) + usize::from(centered)
        );
        assert_eq!(moments, rmsprop.tensor_count());
    }
}

#[test]
fn lion_is_its_formula() {
    for decay in [0.0, 0.5] {
        let parameters = parameters(DType::F64);
        let mut p = values(&parameters, "m.w");
        let mut m = [0.0; SIZE];
        let (rate, beta1, beta2) = (0.01, 0.8, 0.95);
        for step in 0..STEPS {
            for (index, g) in gradient(step).iter().enumerate() {
                let direction: f64 = beta1 * m[index] + (1.0 - beta1) * g;
                p[index] -= rate * (direction.signum() + decay * p[index]);
                m[index] = beta2 * m[index] + (1.0 - beta2) * g;
            }
        }
        let mut lion = Lion::new(rate)
            .with_betas(beta1, beta2)
            .with_weight_decay(decay);
        train(&mut lion, &parameters, 0..STEPS);
        close(&values(&parameters, "m.w"), &p, 1e-12);
    }
}

#[test]
fn lion_stands_still_where_there_is_no_gradient_and_shows_nan() {
    let parameters = parameters(DType::F32);
    let start = values(&parameters, "m.w");
    let mut gradients = gradients(&parameters, 0);
    let mut one_nan = [0.0_f32; SIZE];
    one_nan[2] = f32::NAN;
    gradients.set(
        0,
        Tensor::new(&one_nan, &sconce_ops::device::for_tests()).expect("a gradient"),
    );
    let mut lion = Lion::new(0.1);
    lion.step(&parameters, &gradients).expect("a step");
    let end = values(&parameters, "m.w");
    assert_eq!((start.len(), end.len()), (SIZE, SIZE));
    for (index, (now, before)) in end.iter().zip(start).enumerate() {
        assert_eq!(now.is_nan(), index == 2);
        assert!(index == 2 || (now - before).abs() <= 0.0, "{now} {before}");
    }
}

#[test]
fn norms_and_biases_may_go_without_weight_decay() {
    let json = r#"{"kind": "adam", "learning_rate": 0.1, "weight_decay": 0.1,
        "groups": [{"name": "no-decay", "parameters": ["*.bias", "*norm*"], "weight_decay": 0}]}"#;
    let config: OptimizerConfig = serde_json::from_str(json).expect("a config");
    let mut parameters = parameters(DType::F32);
    for (scope, name) in [("fc", "bias"), ("norm1", "weight")] {
        let mut scope = parameters.scope(scope);
        scope.parameter(name, &[1], Init::ZEROS).expect("one");
    }
    let optimizer = config.build(&parameters).expect("an optimizer");
    let decays = (0..parameters.len()).map(|index| optimizer.groups().of(index).weight_decay);
    assert_eq!(decays.collect::<Vec<f64>>(), [0.1, 0.1, 0.0, 0.0]);
}

#[test]
fn what_has_no_gradient_or_is_frozen_stays() {
    let parameters = parameters(DType::F32);
    let before = (values(&parameters, "m.w"), values(&parameters, "m.still"));
    parameters.set_frozen("m.w", true).expect("it is there");
    train(&mut AdamW::new(0.1), &parameters, 0..3);
    assert_eq!(
        before,
        (values(&parameters, "m.w"), values(&parameters, "m.still"))
    );
}

#[test]
fn a_restored_state_goes_on_with_the_same_bits() {
    let configs = [OptimizerConfig::Sgd {
        learning_rate: 0.05,
        momentum: 0.9,
        dampening: 0.1,
        nesterov: false,
        weight_decay: 0.01,
        moments: MomentStorage::F32,
        groups: Vec::new(),
    }];
    let written = [
        r#"{"kind": "adam", "learning_rate": 0.01, "weight_decay": 0.1}"#,
        r#"{"kind": "adamw", "learning_rate": 0.01}"#,
        r#"{"kind": "rmsprop", "learning_rate": 0.01}"#,
        r#"{"kind": "rmsprop", "learning_rate": 0.01, "momentum": 0.9}"#,
        r#"{"kind": "rmsprop", "learning_rate": 0.01, "centered": true}"#,
        r#"{"kind": "rmsprop", "learning_rate": 0.01, "momentum": 0.9, "centered": true}"#,
        r#"{"kind": "lion", "learning_rate": 0.01}"#,
        r#"{"kind": "sgd", "learning_rate": 0.05, "momentum": 0.9, "moments": "bf16"}"#,
        r#"{"kind": "adam", "learning_rate": 0.01, "moments": "bf16"}"#,
        r#"{"kind": "adamw", "learning_rate": 0.01, "moments": "bf16"}"#,
        r#"{"kind": "rmsprop", "learning_rate": 0.01, "momentum": 0.9, "moments": "bf16"}"#,
        r#"{"kind": "lion", "learning_rate": 0.01, "moments": "bf16"}"#,
    ];
    let written = written.map(|json| serde_json::from_str(json).expect("a config"));
    for config in configs.into_iter().chain(written) {
        let whole = parameters(DType::F32);
        if config.moments() == MomentStorage::Bf16 && !whole.device().is_cpu() {
            let refused = config.build(&whole).err();
            assert!(matches!(refused, Some(OptimizerError::NarrowOnDevice)));
            continue;
        }
        train(
            config.build(&whole).expect("optimizer").as_mut(),
            &whole,
            0..STEPS,
        );

        let halves = parameters(DType::F32);
        let mut first = config.build(&halves).expect("optimizer");
        train(first.as_mut(), &halves, 0..STEPS / 2);
        let state = first.state(&halves).expect("a state");
        assert!(state.iter().any(|(name, _)| name == "m.w.step"));
        let mut second = config.build(&halves).expect("optimizer");
        second.load_state(&halves, &state).expect("restored");
        train(second.as_mut(), &halves, STEPS / 2..STEPS);
        assert_eq!(values(&whole, "m.w"), values(&halves, "m.w"));
    }
}

#[test]
fn a_state_of_another_model_is_refused() {
    let parameters = parameters(DType::F32);
    let ones = |count: usize| {
        Tensor::ones(count, DType::F32, &sconce_ops::device::for_tests()).expect("ones")
    };
    let count =
        |steps: i64| Tensor::new(steps, &sconce_ops::device::for_tests()).expect("a number");
    for (name, tensor, words) in [
        ("m.v.exp_avg", ones(SIZE), "`m.v.exp_avg`"),
        ("m.w.momentum_buffer", ones(SIZE), "`m.w.momentum_buffer`"),
        (
            "m.w.exp_avg",
            ones(3),
            "`m.w.exp_avg` has the shape [3], must have [7]",
        ),
        ("m.w.exp_avg", ones(SIZE), "lacks `m.w.step`"),
        (
            "m.w.step",
            count(-1),
            "`m.w.step` must be from 0 to 2^53, found -1",
        ),
        ("m.w.step", count(4), "lacks `m.w.exp_avg`"),
    ] {
        let state = vec![(name.to_owned(), tensor)];
        let error = AdamW::new(0.1)
            .load_state(&parameters, &state)
            .expect_err(name);
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn a_state_of_another_shape_and_as_many_numbers_is_refused() {
    let mut parameters = Parameters::new(11, DType::F32, &sconce_ops::device::for_tests());
    let mut scope = parameters.scope("m");
    scope.parameter("w", &[2, 3], Init::ONES).expect("w");
    let turned = Tensor::ones((3, 2), DType::F32, &sconce_ops::device::for_tests()).expect("ones");
    let error = AdamW::new(0.1)
        .load_state(&parameters, &[("m.w.exp_avg".to_owned(), turned)])
        .expect_err("turned");
    assert!(
        error.to_string().contains("[3, 2], must have [2, 3]"),
        "{error}"
    );
}

#[test]
fn a_refused_state_leaves_the_old_one() {
    let parameters = parameters(DType::F64);
    let mut adamw = AdamW::new(0.1);
    train(&mut adamw, &parameters, 0..3);
    let state = |adamw: &AdamW| {
        let state = adamw.state(&parameters).expect("a state");
        let numbers = |(name, tensor): &(String, Tensor)| (name.clone(), tensor.to_string());
        state.iter().map(numbers).collect::<Vec<_>>()
    };
    let before = state(&adamw);
    let ones = Tensor::ones(SIZE, DType::F64, &sconce_ops::device::for_tests()).expect("ones");
    let half = [("m.w.exp_avg".to_owned(), ones)];
    assert!(adamw.load_state(&parameters, &half).is_err());
    assert_eq!(before, state(&adamw));
}

#[test]
fn momentum_after_steps_without_it_begins_with_the_gradient() {
    let parameters = parameters(DType::F64);
    let mut before = Sgd::new(0.1);
    train(&mut before, &parameters, 0..2);
    let state = before.state(&parameters).expect("a state");
    let start = values(&parameters, "m.w");
    let mut sgd = Sgd::new(1.0).with_momentum(0.9, 0.5, false);
    sgd.load_state(&parameters, &state).expect("restored");
    train(&mut sgd, &parameters, 2..3);
    let expected: Vec<f64> = start.iter().zip(gradient(2)).map(|(p, g)| p - g).collect();
    close(&values(&parameters, "m.w"), &expected, 1e-12);
}

#[test]
fn a_gradient_may_be_the_parameter_itself() {
    // On a thread of its own: a failure would be a deadlock.
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let parameters = parameters(DType::F64);
        let start = values(&parameters, "m.w");
        let mut gradients = gradients(&parameters, 0);
        gradients.set(0, parameters.at(0).expect("w").tensor().detach());
        Sgd::new(0.5).step(&parameters, &gradients).expect("a step");
        sender
            .send((start, values(&parameters, "m.w")))
            .expect("sent");
    });
    let patience = std::time::Duration::from_secs(60);
    let (start, end) = receiver.recv_timeout(patience).expect("it ends");
    let halves: Vec<f64> = start.iter().map(|p| p * 0.5).collect();
    assert_eq!(end, halves);
}

#[test]
fn two_runs_have_the_same_bits() {
    let run = |optimizer: &mut dyn Optimizer| {
        let parameters = parameters(DType::F32);
        train(optimizer, &parameters, 0..STEPS);
        values(&parameters, "m.w")
    };
    let sgd = || Sgd::new(0.05).with_momentum(0.9, 0.0, true);
    assert_eq!(run(&mut AdamW::new(0.01)), run(&mut AdamW::new(0.01)));
    assert_eq!(run(&mut sgd()), run(&mut sgd()));
    assert_eq!(run(&mut Lion::new(0.01)), run(&mut Lion::new(0.01)));
    assert_eq!(run(&mut RmsProp::new(0.01)), run(&mut RmsProp::new(0.01)));
}

#[test]
fn numbers_out_of_range_are_reported_by_name() {
    for (json, words) in [
        (
            r#"{"kind": "sgd", "learning_rate": -1}"#,
            "`learning_rate` must be above 0, found -1",
        ),
        (
            r#"{"kind": "sgd", "learning_rate": 1, "momentum": 1}"#,
            "`momentum` must be from 0 to below 1",
        ),
        (
            r#"{"kind": "sgd", "learning_rate": 1, "nesterov": true}"#,
            "`nesterov` needs a `momentum`",
        ),
        (
            r#"{"kind": "adamw", "learning_rate": 1, "beta2": 1.5}"#,
            "`beta2` must be",
        ),
        (
            r#"{"kind": "adamw", "learning_rate": 1, "epsilon": 0}"#,
            "`epsilon` must be above 0",
        ),
        (
            r#"{"kind": "rmsprop", "learning_rate": 1, "alpha": 1}"#,
            "`alpha` must be from 0 to below 1",
        ),
        (
            r#"{"kind": "lion", "learning_rate": 0}"#,
            "`learning_rate` must be above 0",
        ),
    ] {
        let config: OptimizerConfig = serde_json::from_str(json).expect("a config");
        let parameters = parameters(DType::F32);
        let error = config
            .build(&parameters)
            .map(|_| ())
            .expect_err(json)
            .to_string();
        assert!(error.contains(words), "{error}");
    }
}
