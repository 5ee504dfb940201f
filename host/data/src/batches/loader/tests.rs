//! Batches come in order for any number of threads, and no thread waits for ever.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use candle_core::{Device, Tensor};

use super::*;
use crate::Targets;

/// Samples whose input is their index, with optional failures.
struct Counted {
    targets: Targets,
    gathered: AtomicUsize,
    /// Whether all batches but the first wait.
    is_held: AtomicBool,
    panics_at: Option<u32>,
}

impl Counted {
    fn new(panics_at: Option<u32>) -> Arc<Counted> {
        Arc::new(Counted {
            targets: Targets::Class(vec!["only".to_owned()]),
            gathered: AtomicUsize::new(0),
            is_held: AtomicBool::new(false),
            panics_at,
        })
    }
}

impl Dataset for Counted {
    fn len(&self) -> usize {
        1000
    }

    fn sample_shape(&self) -> &[usize] {
        &[]
    }

    fn targets(&self) -> &Targets {
        &self.targets
    }

    fn gather(&self, indices: &[u32], epoch: u64) -> Result<Batch, DataError> {
        self.gathered.fetch_add(1, Ordering::SeqCst);
        if let Some(index) = self.panics_at.filter(|index| indices.contains(index)) {
            panic!("sample {index} is cursed");
        }
        while indices[0] != 999 && self.is_held.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
        // Later batches are ready sooner, so that they finish out of order.
        thread::sleep(Duration::from_micros((1000 - indices[0]).into()));
        let inputs: Vec<f32> = indices.iter().map(|&i| (i + epoch as u32) as f32).collect();
        Ok(Batch::new(
            Tensor::from_vec(inputs, indices.len(), &Device::Cpu)?,
            Tensor::zeros(indices.len(), candle_core::DType::U32, &Device::Cpu)?,
            indices.to_vec(),
        ))
    }
}

fn loader(data: &Arc<Counted>, threads: usize, ahead: usize) -> Loader {
    loader_of_small(data, threads, ahead, 0)
}

fn loader_of_small(data: &Arc<Counted>, threads: usize, ahead: usize, small: usize) -> Loader {
    let order: Vec<u32> = (0..1000).rev().collect();
    let batches = (0..100).map(|batch| batch * 10..batch * 10 + 10).collect();
    let preparation = Preparation {
        threads,
        ahead,
        small,
    };
    Loader::new(Arc::clone(data) as _, order, batches, 3, preparation)
}

#[test]
fn batches_come_in_order_from_any_number_of_threads() {
    for (threads, ahead) in [(0, 1), (1, 1), (1, 4), (3, 2), (4, 16)] {
        let data = Counted::new(None);
        let mut loader = loader(&data, threads, ahead);
        for batch in 0..100_u32 {
            let first = 999 - batch * 10;
            assert_eq!(loader.next_indices().expect("a batch")[0], first);
            let found = loader.next_batch().expect("a batch").expect("no error");
            assert_eq!(found.indices[0], first);
            let inputs: Vec<f32> = found.inputs.to_vec1().expect("numbers");
            assert!((inputs[0] - (first + 3) as f32).abs() < f32::EPSILON);
        }
        assert!(loader.next_batch().is_none());
        assert_eq!(data.gathered.load(Ordering::SeqCst), 100);
    }
}

#[test]
fn no_more_than_asked_for_is_prepared_ahead() {
    for threads in [0, 1, 3] {
        let data = Counted::new(None);
        let mut loader = loader(&data, threads, 4);
        for _ in 0..10 {
            loader.next_batch().expect("a batch").expect("no error");
        }
        drop(loader);
        let gathered = data.gathered.load(Ordering::SeqCst);
        assert!((10..=14).contains(&gathered), "{threads}: {gathered}");
    }
}

#[test]
fn of_small_batches_as_many_as_their_size_allows_are_prepared_ahead() {
    // Ten samples of two numbers of four bytes each: sixteen batches.
    let small = 16 * 10 * 2 * 4;
    for threads in [1, 3] {
        let data = Counted::new(None);
        // The first is taken before others are ready, however late this thread wakes up: sixteen ready before it is
        // taken are enough, and a seventeenth is not prepared.
        data.is_held.store(true, Ordering::SeqCst);
        let mut loader = loader_of_small(&data, threads, 2, small);
        loader.next_batch().expect("a batch").expect("no error");
        data.is_held.store(false, Ordering::SeqCst);
        // With all of them there, the threads wait until half of them are taken.
        let gathered = || data.gathered.load(Ordering::SeqCst);
        while gathered() < 17 || loader.shared.lock().waiting < threads {
            thread::sleep(Duration::from_millis(1));
        }
        for _ in 0..8 {
            loader.next_batch().expect("a batch").expect("no error");
        }
        assert_eq!(gathered(), 17, "{threads} threads");
        loader.next_batch().expect("a batch").expect("no error");
        while gathered() < 26 || loader.shared.lock().waiting < threads {
            thread::sleep(Duration::from_millis(1));
        }
        for _ in 10..100 {
            loader.next_batch().expect("a batch").expect("no error");
        }
        drop(loader);
        assert_eq!(gathered(), 100, "{threads} threads");
    }
}

#[test]
fn a_panic_of_a_data_set_is_an_error_of_its_batch() {
    for threads in [0, 1, 3] {
        let data = Counted::new(Some(975));
        let mut loader = loader(&data, threads, 2);
        for _ in 0..2 {
            loader.next_batch().expect("a batch").expect("no error");
        }
        let error = loader.next_batch().expect("a batch").expect_err("cursed");
        assert_eq!(
            error.to_string(),
            "the data set panicked while it prepared a batch: sample 975 is cursed"
        );
        loader.next_batch().expect("a batch").expect("no error");
    }
}
