//! Linear layers of the shapes that models have: GFLOP/s of each pass, beside the crate `gemm` on one thread.
//!
//! `cargo bench -p sconce-ops --bench products [NAME …]`; one thread: `CANDLE_NUM_THREADS=1` in front. Prints a line for
//! each shape: rows × inputs → outputs, then the forward pass, the gradient of the input and that of the weight.
#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark that finds its machine broken may say so by panicking"
)]

use std::time::Instant;

use candle_core::{CpuStorage, CustomOp1, Device, Layout, Result, Shape, Tensor, Var};
use sconce_ops as ops;

/// The binary's; see `benches/ops.rs`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Layers of a model: its name, and the rows, inputs and outputs of each.
const MODELS: [(&str, &[[usize; 3]]); 6] = [
    (
        "wide",
        &[[128, 784, 2048], [128, 2048, 2048], [128, 2048, 10]],
    ),
    (
        "tabular",
        &[[1024, 54, 512], [1024, 512, 512], [1024, 512, 7]],
    ),
    (
        "gpt-8x256",
        &[
            [1024, 256, 768],
            [1024, 256, 256],
            [1024, 256, 1024],
            [1024, 1024, 256],
        ],
    ),
    (
        "vit",
        &[
            [2048, 192, 576],
            [2048, 192, 192],
            [2048, 192, 768],
            [2048, 768, 192],
        ],
    ),
    (
        "autoencoder",
        &[[256, 784, 512], [256, 512, 128], [256, 128, 32]],
    ),
    ("mlp", &[[64, 784, 256], [512, 784, 256]]),
];

/// Values between −1 and 1 that are the same in every run.
fn values(shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let value = |index: usize| (index * 7919 % 2003) as f32 / 1001.5 - 1.0;
    let values: Vec<f32> = (0..count).map(value).collect();
    Tensor::from_vec(values, shape, &Device::Cpu).expect("a tensor")
}

/// A loss with a given gradient.
struct Loss(Tensor);

impl CustomOp1 for Loss {
    fn name(&self) -> &'static str {
        "loss"
    }

    fn cpu_fwd(&self, _y: &CpuStorage, _layout: &Layout) -> Result<(CpuStorage, Shape)> {
        Ok((CpuStorage::F32(vec![0.0]), ().into()))
    }

    fn bwd(&self, _y: &Tensor, _loss: &Tensor, _gradient: &Tensor) -> Result<Option<Tensor>> {
        Ok(Some(self.0.clone()))
    }
}

/// The median time of a call, in seconds, over about a third of a second.
fn time(mut work: impl FnMut() -> f64) -> f64 {
    let begin = Instant::now();
    let mut times = Vec::new();
    while begin.elapsed().as_secs_f64() < 0.3 || times.len() < 5 {
        times.push(work());
    }
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Seconds that `work` takes.
fn seconds<T>(work: impl FnOnce() -> T) -> f64 {
    let begin = Instant::now();
    let result = work();
    let elapsed = begin.elapsed().as_secs_f64();
    drop(result);
    elapsed
}

/// Times a backward pass alone.
fn backward(x: &Tensor, weight: &Tensor, gradient: &Tensor) -> f64 {
    time(|| {
        let recording = ops::record();
        let y = ops::linear(x, weight, None).expect("outputs");
        let loss = ops::apply1(&y, Loss(gradient.clone())).expect("a loss");
        let elapsed = seconds(|| ops::backward(&loss, 1.0).expect("gradients"));
        drop(recording);
        elapsed
    })
}

/// Times the crate `gemm` at (m, k) · (k, n), all row-major, on this thread.
#[expect(clippy::many_single_char_names, reason = "the names that `gemm` uses")]
fn packed([m, k, n]: [usize; 3]) -> f64 {
    let flat = |shape: [usize; 2]| {
        let values = values(&shape).flatten_all().expect("flat");
        values.to_vec1::<f32>().expect("values")
    };
    let (a, b, mut c) = (flat([m, k]), flat([k, n]), vec![0.0_f32; m * n]);
    let (k_step, n_step) = (k.cast_signed(), n.cast_signed());
    time(|| {
        seconds(|| {
            // SAFETY: sizes and strides are those of the three row-major matrices.
            #[expect(unsafe_code, reason = "`gemm` takes pointers")]
            unsafe {
                let (c, a, b) = (c.as_mut_ptr(), a.as_ptr(), b.as_ptr());
                gemm::gemm(
                    m,
                    n,
                    k,
                    c,
                    1,
                    n_step,
                    false,
                    a,
                    1,
                    k_step,
                    b,
                    1,
                    n_step,
                    0.0,
                    1.0,
                    false,
                    false,
                    false,
                    gemm::Parallelism::None,
                );
            }
        })
    })
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_wanted = |name: &str| {
        let mut names = arguments
            .iter()
            .filter(|name| !name.starts_with('-'))
            .peekable();
        names.peek().is_none() || names.any(|wanted| name == wanted)
    };
    println!("rows inputs outputs: GFLOP/s forward, of input, of weight; gemm on one thread");
    for (name, layers) in MODELS.into_iter().filter(|(name, _)| is_wanted(name)) {
        for &[rows, inputs, outputs] in layers {
            let (x, weight) = (values(&[rows, inputs]), values(&[outputs, inputs]));
            let gradient = values(&[rows, outputs]);
            let (x_var, weight_var) = (Var::from_tensor(&x), Var::from_tensor(&weight));
            let (x_var, weight_var) = (x_var.expect("a variable"), weight_var.expect("a variable"));
            let forward = time(|| seconds(|| ops::linear(&x, &weight, None).expect("outputs")));
            let of_input = backward(&x_var, &weight, &gradient);
            let of_weight = backward(&x, &weight_var, &gradient);
            let operations = (2 * rows * inputs * outputs) as f64 / 1e9;
            let rate = |time: f64| operations / time;
            println!(
                "{name:11} {rows:5} {inputs:5} {outputs:5}: {:6.1} {:6.1} {:6.1}; {:6.1}",
                rate(forward),
                rate(of_input),
                rate(of_weight),
                rate(packed([rows, inputs, outputs])),
            );
        }
    }
}
