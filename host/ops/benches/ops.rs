//! Operations on their own, each at two shapes: the forward pass, and forward and backward pass together.
//!
//! `cargo bench -p sconce-ops`; one thread: `CANDLE_NUM_THREADS=1 RAYON_NUM_THREADS=1` in front. Whole training steps:
//! the benchmark `steps` of `sconce-tests`.
#![allow(
    clippy::expect_used,
    reason = "a benchmark that finds its machine broken may say so by panicking"
)]

use std::time::Duration;

use candle_core::{CpuStorage, CustomOp1, Device, Layout, Result, Shape, Tensor, Var};
use criterion::{Criterion, criterion_group, criterion_main};
use sconce_ops as ops;

/// The binary's: the system's gives large tensors back after each step, and their page faults take longer than most
/// operations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Values between −1 and 1 that are the same in every run.
fn values(shape: &[usize]) -> Result<Tensor> {
    let count: usize = shape.iter().product();
    let value = |index: usize| (index * 7919 % 2003) as f32 / 1001.5 - 1.0;
    let values: Vec<f32> = (0..count).map(value).collect();
    Tensor::from_vec(values, shape, &Device::Cpu)
}

/// A tensor that the backward pass computes a gradient of.
fn var(shape: &[usize]) -> Var {
    let var = values(shape).and_then(|values| Var::from_tensor(&values));
    var.expect("a tensor")
}

/// A loss with a given gradient: that of a sum takes candle longer than most operations.
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

/// Times an operation's forward pass, and a step of forward and backward pass.
fn bench(criterion: &mut Criterion, name: &str, shape: &[usize], op: impl Fn() -> Result<Tensor>) {
    let mut group = criterion.benchmark_group(format!("{name} {shape:?}"));
    group
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(500));
    group.bench_function("forward", |bencher| {
        bencher.iter(|| op().expect("a forward pass"));
    });
    let y = op().expect("a forward pass");
    // A scalar is a loss itself.
    let gradient = (y.rank() > 0).then(|| values(y.dims()).expect("a gradient"));
    group.bench_function("step", |bencher| {
        bencher.iter(|| {
            let recording = ops::record();
            let y = op().expect("a forward pass");
            let loss = match &gradient {
                Some(gradient) => ops::apply1(&y, Loss(gradient.clone())).expect("a loss"),
                None => y,
            };
            let gradients = ops::backward(&loss, 1.0).expect("a backward pass");
            drop(recording);
            gradients
        });
    });
    group.finish();
}

fn softmax(criterion: &mut Criterion) {
    for shape in [[256, 64], [2048, 256]] {
        let x = var(&shape);
        bench(criterion, "softmax", &shape, || ops::softmax(&x, false));
    }
}

fn cross_entropy(criterion: &mut Criterion) {
    for shape in [[256, 10], [768, 1024]] {
        let (rows, classes) = (shape[0], shape[1]);
        let logits = var(&shape);
        let targets: Vec<Option<u32>> = (0..rows)
            .map(|row| u32::try_from(row * 31 % classes).ok())
            .collect();
        bench(criterion, "cross entropy", &shape, || {
            let terms = ops::CrossEntropyTerms::default();
            ops::cross_entropy(&logits, &targets, terms, rows as f64)
        });
    }
}

fn norms(criterion: &mut Criterion) {
    for shape in [[256, 64], [2048, 512]] {
        let x = var(&shape);
        let (weight, bias) = (var(&shape[1..]), var(&shape[1..]));
        bench(criterion, "layer norm", &shape, || {
            ops::layer_norm(&x, &weight, &bias, 1e-5)
        });
        bench(criterion, "rms norm", &shape, || {
            ops::rms_norm(&x, &weight, 1e-5)
        });
    }
}

fn batch_norm(criterion: &mut Criterion) {
    for shape in [[32, 16, 12, 12], [64, 64, 16, 16]] {
        let x = var(&shape);
        let (weight, bias) = (var(&shape[1..2]), var(&shape[1..2]));
        bench(criterion, "batch norm", &shape, || {
            let statistics = ops::ChannelStatistics::of(&x)?;
            ops::batch_norm(&x, &weight, &bias, &statistics, 1e-5, true)
        });
    }
}

fn activations(criterion: &mut Criterion) {
    for shape in [[256, 64], [2048, 512]] {
        let x = var(&shape);
        bench(criterion, "relu", &shape, || ops::relu(&x));
        bench(criterion, "gelu", &shape, || ops::gelu(&x));
    }
}

fn pooling(criterion: &mut Criterion) {
    for shape in [[32, 8, 12, 12], [64, 32, 32, 32]] {
        let x = var(&shape);
        let windows = || ops::Windows::sliding(shape[2], 2, 2, 0).expect("room for a window");
        bench(criterion, "max pool", &shape, || {
            ops::pool2d(&x, ops::PoolKind::Max, windows(), windows())
        });
    }
}

fn linear(criterion: &mut Criterion) {
    // Rows, inputs and outputs: the first by `gemm`, the second in tiles.
    for shape in [[64, 784, 128], [768, 256, 512]] {
        let [rows, inputs, outputs] = shape;
        let (x, weight, bias) = (
            var(&[rows, inputs]),
            var(&[outputs, inputs]),
            var(&[outputs]),
        );
        bench(criterion, "linear", &shape, || {
            ops::linear(&x, &weight, Some(&bias))
        });
        bench(criterion, "linear and gelu", &shape, || {
            ops::linear_then(&x, &weight, Some(&bias), ops::Function::Gelu)
        });
    }
}

fn conv2d(criterion: &mut Criterion) {
    let window = ops::Window {
        kernel: (3, 3),
        stride: (1, 1),
        padding: (1, 1),
        dilation: (1, 1),
    };
    // Batch, inputs, side and outputs: the first with a matrix of windows, the second without.
    for shape in [[32, 8, 14, 12], [32, 32, 16, 64]] {
        let [batch, inputs, side, outputs] = shape;
        let x = var(&[batch, inputs, side, side]);
        let (weight, bias) = (var(&[outputs, inputs, 3, 3]), var(&[outputs]));
        bench(criterion, "conv2d", &shape, || {
            ops::conv2d(&x, &weight, Some(&bias), window, 1)
        });
        let after = ops::After {
            relu: true,
            pool: true,
        };
        bench(criterion, "conv2d, relu and pool", &shape, || {
            ops::conv2d_then(&x, &weight, Some(&bias), window, 1, after)
        });
    }
}

fn attention(criterion: &mut Criterion) {
    // Batch, length, heads and width of a head.
    for shape in [[12, 64, 4, 32], [4, 256, 6, 64]] {
        let [batch, length, heads, each] = shape;
        let qkv = var(&[batch, length, 3 * heads * each]);
        bench(criterion, "attention", &shape, || {
            ops::attention(&qkv, heads, true)
        });
    }
}

fn embedding(criterion: &mut Criterion) {
    // Tokens in the table, width and tokens looked up.
    for shape in [[65, 128, 768], [4096, 256, 2048]] {
        let [rows, width, count] = shape;
        let table = var(&[rows, width]);
        let tokens: Vec<u32> = (0..count)
            .filter_map(|index| u32::try_from(index * 31 % rows).ok())
            .collect();
        let tokens = Tensor::new(tokens, &Device::Cpu).expect("a tensor");
        bench(criterion, "embedding", &shape, || {
            ops::embedding(&table, &tokens)
        });
    }
}

criterion_group!(
    benches,
    softmax,
    cross_entropy,
    norms,
    batch_norm,
    activations,
    pooling,
    linear,
    conv2d,
    attention,
    embedding
);
criterion_main!(benches);
