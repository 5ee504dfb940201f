//! Whether outputs collapse: whether all samples get the same ones, from which nothing can be learned any more.
//!
//! The spread is the standard deviation, over a batch's rows, of each column of the rows divided by their lengths, averaged over the
//! columns: 1/√columns where directions are spread evenly, 0 where all are the same.

use sconce_plugin_api::prelude::*;

/// Fraction of an even spread below which outputs have collapsed.
const LEAST: f64 = 0.1;

/// Means of an epoch's batches.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Watch {
    spread: f64,
    loss: f64,
    batches: f64,
    columns: u64,
    has_warned: bool,
}

impl Watch {
    /// Notes a batch's outputs, rows of `width` elements, and its loss.
    pub(crate) fn note(&mut self, values: &[f32], width: usize, loss: f64) {
        self.spread += spread(values, width);
        self.loss += loss;
        self.batches += 1.0;
        self.columns = width as u64;
    }

    /// At an epoch's end: publishes the mean spread, and warns once if outputs have collapsed. `constant` is the loss of outputs that
    /// say nothing, by the number of their columns, if it is known.
    pub(crate) fn end_epoch(
        &mut self,
        task: &mut AfterEpoch<'_>,
        constant: Option<fn(f64) -> f64>,
    ) -> Result<()> {
        if task.phase() != Phase::Train {
            return Ok(());
        }
        let mut sums = [self.spread, self.loss, self.batches];
        task.ranks().sum_f64(&mut sums)?;
        let [spread, loss, batches] = sums;
        (self.spread, self.loss, self.batches) = (0.0, 0.0, 0.0);
        if batches < 1.0 {
            return Ok(());
        }
        let (spread, loss, columns) = (spread / batches, loss / batches, self.columns as f64);
        task.publish_metric("output_spread", spread)?;
        let even = 1.0 / columns.sqrt();
        let says_nothing = constant
            .map(|of| of(columns))
            .is_some_and(|it| (loss - it).abs() < 0.01 * it);
        if (spread < LEAST * even || says_nothing) && !self.has_warned {
            self.has_warned = true;
            task.warn(format_args!(
                "the outputs have collapsed, all samples get nearly the same: their spread is {spread:.2e} in this epoch, {even:.2e} if \
                 directions were even, and the loss {loss:.4}; try a smaller learning rate, stronger views or a batch norm in the projector"
            ));
        }
        Ok(())
    }
}

fn spread(values: &[f32], width: usize) -> f64 {
    let rows = values.len() / width.max(1);
    if rows < 2 {
        return 0.0;
    }
    let (mut means, mut squares) = (vec![0.0; width], vec![0.0; width]);
    for row in values.chunks_exact(width) {
        let by_length = length(row).recip();
        for ((&x, mean), square) in row.iter().zip(&mut means).zip(&mut squares) {
            let x = f64::from(x) * by_length;
            *mean += x;
            *square += x * x;
        }
    }
    let deviations = means.iter().zip(&squares).map(|(mean, square)| {
        let mean = mean / rows as f64;
        (square / rows as f64 - mean * mean).max(0.0).sqrt()
    });
    deviations.sum::<f64>() / width as f64
}

/// Length of a row, at least a tiny one.
pub(crate) fn length(row: &[f32]) -> f64 {
    let squares = row.iter().map(|&x| f64::from(x) * f64::from(x));
    squares.sum::<f64>().sqrt().max(1e-12)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_directions_have_a_spread_of_one_by_the_root_of_the_columns() {
        let even = [1.0, 1.0, 1.0, -1.0, -3.0, 3.0, -1.0, -1.0];
        assert!((spread(&even, 2) - 0.5_f64.sqrt()).abs() < 1e-12);
        assert!(spread(&[2.0, 1.0, 4.0, 2.0], 2) < 1e-12);
    }
}
