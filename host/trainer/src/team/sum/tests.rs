use std::time::Duration;

use candle_core::{Device, Tensor};
use sconce_ops::device::{copy_to_host, for_tests};

use super::*;
use crate::gradients::GradientTree;
use crate::team::threads::on_ranks;
use crate::team::{Purpose, Said, connect_gpus};

/// Gradients of a batch, irregular enough that the order of additions shows in the sums.
fn gradients(parameters: &Parameters, batch: u64) -> Gradients {
    let mut gradients = Gradients::none(parameters);
    for (index, entry) in parameters.iter().enumerate() {
        // One parameter has no gradient in every third batch, nor has any in the eighth.
        if index == 1 && batch % 3 == 1 {
            continue;
        }
        let count = entry.tensor().elem_count();
        let purpose = format!("gradient {index}");
        let mut stream = sconce_ops::random::stream(3, &purpose, 0, batch);
        let numbers: Vec<f64> = (0..count)
            .map(|_| stream.normal() * 10.0_f64.powf(stream.uniform(-4.0, 4.0)))
            .collect();
        let tensor = Tensor::new(numbers, &Device::Cpu)
            .and_then(|tensor| tensor.to_dtype(entry.tensor().dtype()))
            .and_then(|tensor| tensor.reshape(entry.tensor().shape()))
            .and_then(|tensor| tensor.to_device(parameters.device()));
        gradients.set(index, tensor.expect("a gradient"));
    }
    gradients
}

fn parameters(dtype: DType, device: &Device) -> Parameters {
    let mut parameters = Parameters::new(1, dtype, device);
    for (name, shape) in [("a", &[7, 3][..]), ("b", &[5]), ("c", &[64])] {
        let made = parameters
            .scope("m")
            .parameter(name, shape, sconce_nn::init::Init::ONES);
        made.expect("a parameter");
    }
    parameters
}

/// The bits of gradients, as `f64`.
fn bits(gradients: &Gradients, parameters: &Parameters) -> Vec<u64> {
    let of = |tensor: &Tensor| {
        let wide = copy_to_host(tensor).and_then(|tensor| tensor.to_dtype(DType::F64));
        let numbers = wide.and_then(|tensor| tensor.flatten_all()?.to_vec1::<f64>());
        numbers.expect("numbers").into_iter().map(f64::to_bits)
    };
    let present = (0..parameters.len()).filter_map(|index| gradients.at(index));
    present.flat_map(of).collect()
}

/// A sum over ranks.
#[derive(Clone)]
struct Case {
    size: usize,
    batches: u64,
    is_halved: bool,
    dtype: DType,
    device: Device,
}

impl Case {
    fn on_host(size: usize, batches: u64, is_halved: bool) -> Case {
        Case {
            size,
            batches,
            is_halved,
            dtype: DType::F32,
            device: Device::Cpu,
        }
    }

    /// The bits of the sum of an update's batches, which are the same on all ranks.
    fn summed(&self) -> Vec<u64> {
        let case = self.clone();
        let mut sums = on_ranks(self.size, move |team| case.summed_on(&team));
        for sum in &sums {
            assert_eq!(*sum, sums[0], "all ranks have the same");
        }
        sums.swap_remove(0)
    }

    fn summed_on(&self, team: &Team) -> Vec<u64> {
        let parameters = parameters(self.dtype, &self.device);
        let block = self.batches.div_ceil(team.size() as u64);
        let begin = block * team.rank() as u64;
        let mut tree = GradientTree::default();
        for batch in (begin..(begin + block).min(self.batches)).filter(|batch| *batch != 7) {
            tree.add(batch, gradients(&parameters, batch))
                .expect("a sum");
        }
        let own = tree.take();
        let notes: Vec<NodeNote> = (own.iter())
            .map(|(node, gradients)| NodeNote::of(*node, gradients, parameters.len()))
            .collect();
        let said = postcard::to_allocvec(&notes).expect("bytes");
        let said = Said {
            bytes: &said,
            ..Said::default()
        };
        let heard = team.hear(Purpose::Update, said).expect("all are there");
        let all: Vec<Vec<NodeNote>> = (0..team.size())
            .map(|rank| postcard::from_bytes(heard.of(rank)).expect("notes"))
            .collect();
        let mut summation = Summation::new(self.is_halved);
        if self.device.is_cuda() {
            let gpus = connect_gpus(team, &self.device, Duration::from_secs(600));
            summation = summation.on_gpus(gpus.expect("all are there").expect("NCCL"));
        }
        let sum = summation.sum(team, &parameters, &own, &all);
        let sum = sum.expect("a sum").expect("gradients");
        bits(&sum, &parameters)
    }
}

#[test]
fn sums_have_the_same_bits_on_any_number_of_ranks() {
    for batches in [1, 2, 5, 8, 12, 13] {
        let mut tree = GradientTree::default();
        let parameters = parameters(DType::F32, &Device::Cpu);
        for batch in (0..batches).filter(|batch| *batch != 7) {
            tree.add(batch, gradients(&parameters, batch))
                .expect("a sum");
        }
        let alone = tree.take_sum().expect("a sum").expect("gradients");
        let alone = bits(&alone, &parameters);
        for size in [1, 2, 3, 4, 5, 8] {
            assert_eq!(
                Case::on_host(size, batches, false).summed(),
                alone,
                "{batches} on {size}"
            );
        }
    }
}

#[test]
fn halved_gradients_have_about_the_same_sum() {
    let exact = Case::on_host(3, 6, false).summed();
    let halved = Case::on_host(3, 6, true).summed();
    let mut largest = 0.0_f64;
    for (exact, halved) in exact.iter().zip(&halved) {
        let (exact, halved) = (f64::from_bits(*exact), f64::from_bits(*halved));
        largest = largest.max((exact - halved).abs() / exact.abs().max(1.0));
    }
    assert!(largest > 0.0 && largest < 0.05, "{largest}");
}

/// On the tests' device, by one rank with several nodes: several ranks take several processes (`tests/cuda/whole_runs.py`).
#[test]
fn sums_on_a_gpu_have_the_bits_of_sums_on_the_host() {
    let device = for_tests();
    if device.is_cpu() {
        return;
    }
    for (dtype, is_halved) in [(DType::F32, false), (DType::F32, true), (DType::F64, false)] {
        for batches in [1, 7, 13] {
            let on_host = Case {
                dtype,
                ..Case::on_host(1, batches, is_halved)
            };
            let on_gpu = Case {
                device: device.clone(),
                ..on_host.clone()
            };
            let (found, expected) = (on_gpu.summed(), on_host.summed());
            assert_eq!(
                found, expected,
                "{batches} of {dtype:?}, halved: {is_halved}"
            );
        }
    }
}
