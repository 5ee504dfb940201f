//! Moments stored as `bf16`, compared with those in `f64`, and their rounding.

use candle_core::{DType, Device, Tensor};
use half::bf16;
use sconce_ops::counted;

use super::elements::{Float, Sweep, SweepSlices};
use super::narrow::{key, rounded, run_narrow};
use super::{Optimizer, OptimizerConfig};
use crate::gradients::Gradients;
use crate::init::Init;
use crate::parameters::Parameters;
use crate::random;

/// More than two blocks of elements.
const SIZE: usize = 2500;

const ADAMW: &str = r#"{"kind": "adamw", "learning_rate": 0.001, "moments": "bf16"}"#;

fn config(json: &str) -> OptimizerConfig {
    serde_json::from_str(json).expect("a config")
}

fn parameters(dtype: DType) -> Parameters {
    let mut parameters = Parameters::new(11, dtype, &Device::Cpu);
    let init = Init::Normal {
        mean: 0.0,
        std: 1.0,
    };
    let mut scope = parameters.scope("m");
    scope.parameter("w", &[SIZE], init).expect("w");
    parameters
}

/// A fixed sequence of gradients, half as large from step 1500 on.
fn gradient(step: u64) -> Vec<f64> {
    let mut stream = random::stream(4, "gradient", 0, step);
    let size = if step < 1500 { 1.0 } else { 0.5 };
    (0..SIZE).map(|_| size * stream.normal()).collect()
}

fn train(config: &OptimizerConfig, parameters: &Parameters, steps: u64) -> Box<dyn Optimizer> {
    let mut optimizer = config.build(parameters).expect("an optimizer");
    for step in 0..steps {
        let gradient = Tensor::new(gradient(step), &Device::Cpu)
            .and_then(|gradient| gradient.to_dtype(parameters.dtype()));
        let mut gradients = Gradients::none(parameters);
        gradients.set(0, gradient.expect("a gradient"));
        optimizer.step(parameters, &gradients).expect("a step");
    }
    optimizer
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    let numbers = tensor.to_dtype(DType::F64).and_then(|t| t.to_vec1());
    numbers.expect("numbers")
}

fn moments(optimizer: &dyn Optimizer, parameters: &Parameters) -> Vec<Tensor> {
    let named = optimizer.tensors(parameters).into_iter();
    named.map(|(_, tensor)| tensor).collect()
}

/// Mean and standard deviation of √(found / exact).
fn root_ratios(found: &[f64], exact: &[f64]) -> (f64, f64) {
    let ratios = found.iter().zip(exact).map(|(x, y)| (x / y).sqrt());
    let ratios: Vec<f64> = ratios.collect();
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    let squares = ratios.iter().map(|ratio| (ratio - mean).powi(2));
    (mean, (squares.sum::<f64>() / ratios.len() as f64).sqrt())
}

/// Why they are rounded at random: the second moment of Adam after 3000 steps, where the gradients are half as large in the last 1500.
#[test]
fn the_second_moment_follows_that_in_f64_and_would_not_if_rounded_to_the_nearest() {
    let narrow = parameters(DType::F32);
    let optimizer = train(&config(ADAMW), &narrow, 3000);
    let found = moments(optimizer.as_ref(), &narrow);
    assert!(found.iter().all(|moment| moment.dtype() == DType::BF16));
    let (mut exact, mut nearest) = (vec![0.0; SIZE], vec![bf16::ZERO; SIZE]);
    for step in 0..3000 {
        for ((exact, nearest), g) in exact.iter_mut().zip(&mut nearest).zip(gradient(step)) {
            *exact = 0.999 * *exact + 0.001 * g * g;
            let (v, g) = (nearest.to_f32(), g as f32);
            *nearest = bf16::from_f32(0.999 * v + 0.001 * (g * g));
        }
    }
    let (mean, deviation) = root_ratios(&numbers(&found[1]), &exact);
    assert!((mean - 1.0).abs() < 0.003, "{mean}");
    assert!(deviation < 0.04, "{deviation}");
    let nearest: Vec<f64> = nearest.into_iter().map(bf16::to_f64).collect();
    let (mean, _) = root_ratios(&nearest, &exact);
    assert!(mean > 1.4, "{mean}");
}

#[test]
fn parameters_stay_close_to_those_of_moments_in_f64() {
    for kind in [
        r#""sgd", "momentum": 0.9"#,
        r#""adam""#,
        r#""adamw""#,
        r#""rmsprop""#,
        r#""rmsprop", "momentum": 0.9"#,
    ] {
        let json = |more: &str| format!(r#"{{"kind": {kind}, "learning_rate": 0.001{more}}}"#);
        let (narrow, exact) = (parameters(DType::F32), parameters(DType::F64));
        let start = numbers(exact.at(0).expect("w").tensor());
        train(&config(&json(r#", "moments": "bf16""#)), &narrow, 300);
        train(&config(&json("")), &exact, 300);
        let [found, expected] =
            [&narrow, &exact].map(|parameters| numbers(parameters.at(0).expect("w").tensor()));
        let square = |x: &[f64], y: &[f64]| {
            let differences = x.iter().zip(y).map(|(x, y)| (x - y).powi(2));
            differences.sum::<f64>()
        };
        // Of the way that they have gone.
        let error = (square(&found, &expected) / square(&expected, &start)).sqrt();
        assert!(error > 0.0 && error < 0.02, "{kind}: {error}");
    }
}

#[test]
fn rounding_is_to_a_neighbour_and_right_on_average() {
    let key = key(1, "a", 2);
    let (low, high) = counted::row(key, 0);
    let word = |index: u32| {
        counted::word(
            low.wrapping_add(index.wrapping_mul(counted::ROW_STEP)),
            high,
        )
    };
    for x in [1.0_f32, 1.003, -1.003, 1.0e-3, -3.3e37, 3.0e-39, 1.998] {
        let below = bf16::from_bits((x.to_bits() >> 16) as u16);
        let above = bf16::from_bits(below.to_bits() + 1);
        let count = 1 << 16;
        for part in [|word: u32| word & 0xffff, |word: u32| word >> 16] {
            let mut sum = 0.0;
            for index in 0..count {
                let found = rounded(x, part(word(index)));
                assert!(found == below || found == above, "{x}: {found}");
                sum += found.to_f64();
            }
            let mean = sum / f64::from(count);
            let distance = (above.to_f64() - below.to_f64()).abs();
            // Six standard deviations at most.
            let error = (mean - f64::from(x)).abs();
            assert!(error < 3.0 * distance / 256.0, "{x}: {mean}");
        }
    }
    // What `bf16` has is kept, and what is NaN or too large stays so.
    for random in [0, 1, 0xffff] {
        for kept in [0.0, -0.0, 1.5, -256.0, f32::INFINITY, f32::NEG_INFINITY] {
            assert_eq!(rounded(kept, random).to_f32().to_bits(), kept.to_bits());
        }
        for bits in [0x7f80_0001, 0x7fff_ffff, 0xffc0_0000] {
            assert!(rounded(f32::from_bits(bits), random).is_nan());
        }
        assert_eq!(rounded(f32::MAX, 0xffff), bf16::INFINITY);
    }
}

/// As threads share them.
#[test]
fn blocks_on_their_own_have_the_same_bits() {
    let step = Step;
    let fresh = || ([1.0_f32; SIZE], [bf16::ONE; SIZE], [bf16::ONE; SIZE]);
    let gradient: Vec<f32> = gradient(0).into_iter().map(|g| g as f32).collect();
    let mut whole = fresh();
    let (all, first, second) = (&mut whole.0, &mut whole.1, &mut whole.2);
    run_narrow(&step, all, &gradient, first, second, 5, 0);
    let mut parts = fresh();
    for block in [2, 0, 1] {
        let own = block * 1024..SIZE.min((block + 1) * 1024);
        let (part, gradient) = (&mut parts.0[own.clone()], &gradient[own.clone()]);
        let (first, second) = (&mut parts.1[own.clone()], &mut parts.2[own]);
        run_narrow(&step, part, gradient, first, second, 5, block as u64);
    }
    assert!(whole == parts, "other bits");
    assert!(whole != fresh(), "nothing was stepped");
}

/// Computed by another program, in Python (`tests/reference/moment_rounding.py`). Changing these numbers changes the results of
/// everyone's runs.
#[test]
fn the_scheme_is_kept() {
    let parameters = parameters(DType::F32);
    let mut gradients = Gradients::none(&parameters);
    // Both moments are about halfway between two neighbours.
    let gradient = Tensor::full(2.28125_f32, SIZE, &Device::Cpu);
    gradients.set(0, gradient.expect("a gradient"));
    let mut adamw = config(ADAMW).build(&parameters).expect("an optimizer");
    adamw.step(&parameters, &gradients).expect("a step");
    let found = moments(adamw.as_ref(), &parameters);
    let found: Vec<Vec<bf16>> = (found.iter())
        .map(|moment| moment.to_vec1().expect("numbers"))
        .collect();
    let bits = GOLDEN_PLACES.map(|place| [found[0][place], found[1][place]].map(bf16::to_bits));
    assert_eq!(bits, GOLDEN);
}

const GOLDEN_PLACES: [usize; 12] = [0, 1, 2, 3, 1022, 1023, 1024, 1025, 2046, 2047, 2498, 2499];

const GOLDEN: [[u16; 2]; 12] = [
    [0x3e6a, 0x3baa],
    [0x3e6a, 0x3baa],
    [0x3e69, 0x3baa],
    [0x3e6a, 0x3bab],
    [0x3e6a, 0x3baa],
    [0x3e6a, 0x3baa],
    [0x3e69, 0x3baa],
    [0x3e69, 0x3baa],
    [0x3e6a, 0x3baa],
    [0x3e6a, 0x3baa],
    [0x3e69, 0x3bab],
    [0x3e6a, 0x3baa],
];

/// A rule with two moments.
struct Step;

impl Sweep for Step {
    fn run<T: Float>(&self, numbers: SweepSlices<'_, T>) {
        let [first, second, _] = numbers.moments;
        let tenth = T::from_f64(0.1);
        for (((p, &g), m), v) in (numbers.parameter.iter_mut())
            .zip(numbers.gradient)
            .zip(first)
            .zip(second)
        {
            *m = *m + tenth * g;
            *v = *v + tenth * g * g;
            *p = *p - *m * *v;
        }
    }

    #[cfg(feature = "cuda")]
    fn kernel(&self) -> (sconce_ops::cuda::optimizers::Rule, [f64; 8]) {
        (sconce_ops::cuda::optimizers::Rule::Adam, [0.0; 8])
    }
}

#[test]
fn what_cannot_be_stored_so_is_refused() {
    let centered =
        r#"{"kind": "rmsprop", "learning_rate": 0.1, "centered": true, "moments": "bf16"}"#;
    let error = config(centered).validate().expect_err("centred");
    assert!(
        error
            .to_string()
            .contains("`moments` can't be `bf16` with `centered`")
    );
    let other = r#"{"kind": "sgd", "learning_rate": 0.1, "moments": "f16"}"#;
    let error = serde_json::from_str::<OptimizerConfig>(other).expect_err("f16");
    assert!(
        error.to_string().contains("expected `f32` or `bf16`"),
        "{error}"
    );
}

#[test]
fn states_have_half_the_bytes_and_are_converted_between_settings() {
    let parameters = parameters(DType::F32);
    let wide = r#"{"kind": "adamw", "learning_rate": 0.001}"#;
    let state = |json: &str| {
        let optimizer = train(&config(json), &parameters, 2);
        optimizer.state(&parameters).expect("a state")
    };
    let bytes = |state: &[(String, Tensor)]| {
        let of = |(_, t): &(String, Tensor)| t.elem_count() * t.dtype().size_in_bytes();
        state.iter().map(of).sum::<usize>()
    };
    let (narrow, single) = (state(ADAMW), state(wide));
    assert_eq!(bytes(&narrow), 2 * 2 * SIZE + 8);
    assert_eq!(bytes(&single), 2 * 4 * SIZE + 8);
    assert_eq!(
        (config(ADAMW).state_size(), config(wide).state_size()),
        (1, 2)
    );
    for (json, state, dtype) in [(ADAMW, &single, DType::BF16), (wide, &narrow, DType::F32)] {
        let mut optimizer = config(json).build(&parameters).expect("an optimizer");
        optimizer.load_state(&parameters, state).expect("restored");
        for moment in moments(optimizer.as_ref(), &parameters) {
            assert_eq!(moment.dtype(), dtype);
        }
    }
    let mut hostile = narrow;
    let moment = hostile.iter_mut().find(|(name, _)| name == "m.w.exp_avg");
    let moment = &mut moment.expect("it").1;
    *moment = moment.to_dtype(DType::U32).expect("integers");
    let mut optimizer = config(ADAMW).build(&parameters).expect("an optimizer");
    let error = optimizer
        .load_state(&parameters, &hostile)
        .expect_err("integers");
    assert!(
        error
            .to_string()
            .contains("`m.w.exp_avg` has the type u32, must be floating-point"),
        "{error}"
    );
}
