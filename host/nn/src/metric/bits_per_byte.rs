//! Bits per byte of text.

use std::f64::consts::LN_2;
use std::sync::Arc;

use candle_core::{Device, Result, Tensor};

use super::{Metric, Perplexity, add_to, on_device, ratio};
use crate::loss::shapes::classes_of;

/// Bits that a byte of text costs by the model: the sum of the targets' cross entropies, in bits, divided by the number of
/// bytes that these targets stand for. It compares models of different vocabularies, whose losses are not comparable.
#[derive(Clone, Debug)]
pub struct BitsPerByte {
    /// Number of bytes of each class.
    bytes: Arc<[u32]>,
    ignore_index: Option<u32>,
}

impl BitsPerByte {
    /// Creates the metric of classes that stand for so many bytes, in their order, as 0 for the end of a document; targets
    /// equal to `ignore_index` do not count.
    pub fn new(bytes: Arc<[u32]>, ignore_index: Option<u32>) -> BitsPerByte {
        BitsPerByte {
            bytes,
            ignore_index,
        }
    }

    /// The number of bytes of the targets that count.
    fn bytes_of(&self, targets: &Tensor) -> Result<f64> {
        let counted = |target: &u32| Some(*target) != self.ignore_index;
        let classes = classes_of(targets)?.into_iter().filter(counted);
        let bytes = classes.map(|class| self.bytes.get(class as usize).copied().unwrap_or(0));
        Ok(bytes.map(f64::from).sum())
    }
}

impl Metric for BitsPerByte {
    fn names(&self) -> Vec<String> {
        vec!["bits_per_byte".to_owned()]
    }

    /// Sum of the cross entropy and number of bytes.
    fn sum_count(&self) -> usize {
        2
    }

    fn add(&self, outputs: &Tensor, targets: &Tensor, sums: &mut [f64]) -> Result<()> {
        // Row by row onto the sum, so that it has the same bits for a batch in parts.
        let mut entropy = [sums.first().copied().unwrap_or(0.0), 0.0];
        Perplexity::new(self.ignore_index).add(outputs, targets, &mut entropy)?;
        if let (Some(sum), [entropy, _]) = (sums.first_mut(), entropy) {
            *sum = entropy;
        }
        add_to(sums, 1, self.bytes_of(targets)?);
        Ok(())
    }

    fn sums_on_device(&self, outputs: &Tensor, targets: &Tensor) -> Result<Option<Tensor>> {
        let entropy = on_device::cross_entropies(outputs, targets, self.ignore_index)?;
        let bytes = Tensor::new(&[self.bytes_of(targets)?], &Device::Cpu)?;
        let bytes = bytes.to_device(entropy.device())?;
        Tensor::cat(&[entropy.narrow(0, 0, 1)?, bytes], 0).map(Some)
    }

    fn values(&self, sums: &[f64], values: &mut [f64]) {
        ratio(sums, values, |nats| nats / LN_2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_the_bytes_that_count() {
        // Four equally likely classes: two bits a target.
        let outputs = Tensor::zeros((1, 4, 4), candle_core::DType::F32, &Device::Cpu);
        let outputs = outputs.expect("logits");
        let targets = Tensor::new(&[[0_u32, 1, 3, 9]], &Device::Cpu).expect("targets");
        let metric = BitsPerByte::new(Arc::from([1, 4, 7, 0]), Some(9));
        let (mut sums, mut values) = ([0.0; 2], [0.0]);
        metric.add(&outputs, &targets, &mut sums).expect("sums");
        metric.values(&sums, &mut values);
        // Three targets of 1, 4 and 0 bytes.
        assert!((values[0] - 6.0 / 5.0).abs() < 1e-12, "{values:?}");
        let on_device = metric.sums_on_device(&outputs, &targets).expect("sums");
        let on_device: Vec<f64> = on_device.expect("some").to_vec1().expect("numbers");
        assert!((on_device[0] - sums[0]).abs() < 1e-5 && (on_device[1] - 5.0).abs() < 1e-12);
    }
}
