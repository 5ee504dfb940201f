//! What hooks cost in memory: nothing is copied, nothing is allocated.
//!
//! A binary of its own, since it counts every allocation of the process. Hooks are linked in, so
//! that their side is counted too.
#![allow(
    clippy::expect_used,
    reason = "a test that finds its machine broken may say so by panicking"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use candle_core::{DType, Device, Tensor};
use sconce::bridge::BridgeState;
use sconce::dispatch::Dispatcher;
use sconce::log::MemoryLog;
use sconce::nn::ops::Function;
use sconce::nn::{Linear, Model, Pass};
use sconce::optim::Sgd;
use sconce::parameters::Parameters;
use sconce::run::{RunOutcome, TrainingPlan};
use sconce_plugin_api::lifecycle::Position;
use sconce_plugin_api::prelude::{Hook, NoConfig, Point, Result, Setup, TaskView, bail, hook};
use sconce_tests::in_process::{linked, mlp, mlp_task, train_with};
use serde_json::json;

/// The system's allocator, which counts for each thread by itself.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator as it is; counting allocates nothing.
#[expect(unsafe_code, reason = "an allocator")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        BYTES.set(BYTES.get() + layout.size());
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often `work` allocates on this thread.
fn count<T>(work: impl FnOnce() -> T) -> (u64, T) {
    let before = ALLOCATIONS.get();
    let result = work();
    (ALLOCATIONS.get() - before, result)
}

/// Reads every parameter and every gradient at every batch, and fails where that allocates.
struct Reader;

/// The sum of all numbers that a hook sees.
fn sum(task: &TaskView<'_>) -> Result<(usize, f64)> {
    let (mut numbers, mut sum) = (0, 0.0);
    for tensor in task.parameters().chain(task.gradients()) {
        let values = tensor.as_slice::<f32>()?;
        numbers += values.len();
        sum += values.iter().map(|&value| f64::from(value)).sum::<f64>();
    }
    Ok((numbers, sum))
}

#[hook(name = "reader", about = "Reads all parameters and gradients.")]
impl Hook for Reader {
    fn new(_config: NoConfig, _setup: &Setup<'_>) -> Result<Self> {
        Ok(Reader)
    }

    fn after_backward(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        let (allocations, read) = count(|| sum(task));
        let (numbers, sum) = read?;
        if allocations > 0 || numbers < 20_000_000 || !sum.is_finite() {
            bail!("{allocations} allocations to read {numbers} numbers");
        }
        // By name as well.
        let (allocations, found) = count(|| {
            let gradient = task.gradient("fc2.weight")?.as_slice::<f32>()?.len();
            let parameter = task.parameter("fc2.weight")?.as_slice::<f32>()?.len();
            Ok(gradient + parameter)
        });
        let found: Result<usize> = found;
        if allocations > 0 || found? == 0 {
            bail!("{allocations} allocations to find tensors by name");
        }
        Ok(())
    }

    fn after_update(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        let before = BYTES.get();
        task.for_each_parameter(|mut parameter| parameter.map::<f32>(|value| value * 0.999))?;
        // candle's way to a tensor's storage allocates a few bytes; 40 MB lie there.
        let bytes = BYTES.get() - before;
        if bytes > 1000 {
            bail!("{bytes} bytes allocated to change all parameters");
        }
        Ok(())
    }
}

#[test]
fn reading_ten_million_parameters_and_their_gradients_copies_and_allocates_nothing() {
    let plan = TrainingPlan {
        batch_size: 2,
        test: false,
        validate_every: 0,
        ..TrainingPlan::default()
    };
    let mut task = mlp_task(&[2600, 3100], 6, 0);
    let report = train_with(&mut task, &mut Sgd::new(0.01), &plan, |shared| {
        vec![linked::<Reader>(&json!({}), shared)]
    });
    assert!(
        matches!(report.outcome, RunOutcome::Completed),
        "{:?}",
        report.outcome
    );
    assert_eq!(report.iterations, 3);
}

/// Does nothing, at a point without and a point with a filter.
struct Idle;

#[hook(name = "idle", about = "Does nothing.")]
impl Hook for Idle {
    fn new(_config: NoConfig, _setup: &Setup<'_>) -> Result<Self> {
        Ok(Idle)
    }

    fn after_iter(&mut self, _task: &mut TaskView<'_>) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_call_allocates_nothing() {
    let log = MemoryLog::default();
    let shared = BridgeState::new(&log);
    let mut hooks = Dispatcher::new(vec![linked::<Idle>(&json!({}), &shared)]);
    let position = Position::start(1);
    let (allocations, ()) = count(|| {
        for point in [Point::BeforeIter, Point::AfterIter] {
            for _ in 0..1000 {
                hooks
                    .call(point, &position, &shared)
                    .expect("it does nothing");
            }
        }
    });
    assert_eq!(allocations, 0);
}

#[test]
fn a_model_that_nobody_taps_allocates_what_its_layers_do() {
    let mut parameters = Parameters::new(1, DType::F32, &Device::Cpu);
    let mlp = mlp(&mut parameters, &[6], &[5, 4], 3);
    let mut others = Parameters::new(1, DType::F32, &Device::Cpu);
    let mut layer = |name: &str, from, to| Linear::new(&mut others.scope(name), from, to);
    let layers = [layer("fc1", 6, 5), layer("fc2", 5, 4), layer("fc3", 4, 3)];
    let layers = layers.map(|layer| layer.expect("a layer"));
    let x = Tensor::ones((2, 6), DType::F32, &Device::Cpu).expect("a tensor");
    let plain = || {
        let mut y = x.flatten_from(1)?;
        // Where nobody listens, a layer and its nonlinearity are one operation.
        let [fc1, fc2, fc3] = &layers;
        y = fc1.forward_then(&y, Function::Relu)?;
        y = fc2.forward_then(&y, Function::Relu)?;
        fc3.forward(&y)
    };
    // Once before counting: thread pools and the like begin.
    plain().expect("outputs");
    let (expected, one) = count(plain);
    let (found, other) = count(|| mlp.forward(&x, &mut Pass::training()));
    assert_eq!(found, expected);
    let numbers = |tensor: Tensor| tensor.to_vec2::<f32>().expect("numbers");
    assert_eq!(
        numbers(one.expect("outputs")),
        numbers(other.expect("outputs"))
    );
}
