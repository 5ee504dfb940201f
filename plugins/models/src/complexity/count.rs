//! Counts multiply-adds of modules.

/// Shapes of a module's forward pass, including the batch dimension, and its own parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run<'a> {
    /// Kind of the module, such as `linear`.
    pub(crate) kind: &'a str,
    /// Shape of its input.
    pub(crate) input: &'a [i64],
    /// Shape of its output.
    pub(crate) output: &'a [i64],
    /// Shapes of its own parameters, by the last part of their names.
    pub(crate) parameters: &'a [(&'a str, &'a [i64])],
}

/// Returns the number of elements of a shape.
pub(crate) fn elements(shape: &[i64]) -> u64 {
    shape.iter().map(|&size| size.unsigned_abs()).product()
}

/// Returns the multiply-adds of a module's forward pass over its batch: those of matrix multiplications and
/// convolutions, without biases, norms, activations and pooling, as fvcore's `FlopCountAnalysis` counts
/// linear layers, convolutions and matrix multiplications. `None` if the kind is unknown and has parameters
/// with two or more dimensions.
///
/// | kind | multiply-adds |
/// |---|---|
/// | `linear` | outputs times inputs per output, the weight's last dimension |
/// | `conv1d`, `conv2d` | outputs times the kernel's elements (taps times channels) |
/// | `attention` | projections, and per pair of positions twice the width (scores, weighted sum); causal in full |
pub(crate) fn multiply_adds(run: Run<'_>) -> Option<u64> {
    match run.kind {
        "linear" => {
            let inputs = *weight(run.parameters)?.last()?;
            Some(elements(run.output) * inputs.unsigned_abs())
        }
        "conv1d" | "conv2d" => {
            let window = weight(run.parameters)?.get(1..)?;
            Some(elements(run.output) * elements(window))
        }
        "attention" => {
            let [_, length, width] = *run.input else {
                return None;
            };
            let positions = elements(run.input) / width.unsigned_abs().max(1);
            let matrices = run.parameters.iter().filter(|(_, shape)| shape.len() == 2);
            let projections: u64 = matrices.map(|(_, shape)| elements(shape)).sum();
            let pairs = positions * length.unsigned_abs();
            Some(positions * projections + 2 * pairs * width.unsigned_abs())
        }
        // Lookups need no arithmetic.
        "embedding" | "embed-categories" | "position-embedding" => Some(0),
        _ => {
            let is_matrix = |shape: &&[i64]| shape.len() >= 2;
            let mut shapes = run.parameters.iter().map(|(_, shape)| *shape);
            (!shapes.any(|shape| is_matrix(&shape))).then_some(0)
        }
    }
}

fn weight<'a>(parameters: &[(&str, &'a [i64])]) -> Option<&'a [i64]> {
    let found = parameters.iter().find(|(name, _)| *name == "weight");
    found.map(|(_, shape)| *shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(
        kind: &str,
        input: &[i64],
        output: &[i64],
        parameters: &[(&str, &[i64])],
    ) -> Option<u64> {
        multiply_adds(Run {
            kind,
            input,
            output,
            parameters,
        })
    }

    #[test]
    fn products_are_counted_by_hand() {
        let linear: &[(&str, &[i64])] = &[("weight", &[10, 784]), ("bias", &[10])];
        assert_eq!(count("linear", &[8, 784], &[8, 10], linear), Some(8 * 7840));
        // Applied at each of 12 positions.
        assert_eq!(
            count("linear", &[8, 12, 784], &[8, 12, 10], linear),
            Some(8 * 12 * 7840)
        );
        let conv: &[(&str, &[i64])] = &[("weight", &[32, 3, 5, 5])];
        let places = 2 * 32 * 24 * 20;
        assert_eq!(
            count("conv2d", &[2, 3, 28, 24], &[2, 32, 24, 20], conv),
            Some(places * 75)
        );
        // In a grouped convolution the kernel covers one group's channels.
        let depthwise: &[(&str, &[i64])] = &[("weight", &[32, 1, 3])];
        assert_eq!(
            count("conv1d", &[2, 32, 10], &[2, 32, 8], depthwise),
            Some(2 * 32 * 8 * 3)
        );
        let attention: &[(&str, &[i64])] = &[
            ("weight", &[48, 16]),
            ("bias", &[48]),
            ("weight", &[16, 16]),
        ];
        let expected = 2 * 7 * 4 * 16 * 16 + 2 * 2 * 7 * 7 * 16;
        assert_eq!(
            count("attention", &[2, 7, 16], &[2, 7, 16], attention),
            Some(expected)
        );
        assert_eq!(count("relu", &[2, 8], &[2, 8], &[]), Some(0));
        assert_eq!(
            count("batch-norm", &[2, 8], &[2, 8], &[("weight", &[8])]),
            Some(0)
        );
        assert_eq!(
            count("embedding", &[2, 8], &[2, 8, 4], &[("weight", &[50, 4])]),
            Some(0)
        );
        assert_eq!(
            count("gru", &[2, 8], &[2, 8], &[("weight", &[50, 4])]),
            None
        );
    }
}
