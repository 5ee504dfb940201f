//! Initialisations, under PyTorch's names.

use sconce_ops::random::Stream;

/// Distribution of a parameter's initial values.
///
/// `fan_in` is the number of inputs of one output: the product of a weight's dimensions except the
/// first; `fan_out` is the product of the dimensions except the second. For a vector, both are its length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// The same value everywhere.
    Constant(f64),
    /// Uniform from `low` to `high`.
    Uniform {
        /// Lower bound, inclusive.
        low: f64,
        /// Upper bound, exclusive.
        high: f64,
    },
    /// Normal distribution.
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        std: f64,
    },
    /// Uniform within ±√(6 / ((1 + a²) · `fan_in`)): He et al. (2015) for a leaky `ReLU` of negative
    /// slope `a`. PyTorch's `Linear` and `Conv` weights use a = √5, i.e. ±1/√`fan_in`.
    KaimingUniform {
        /// Negative slope of the nonlinearity that follows the layer.
        a: f64,
    },
    /// Normal with variance 2 / ((1 + a²) · `fan_in`): He et al. (2015).
    KaimingNormal {
        /// Negative slope of the nonlinearity that follows the layer.
        a: f64,
    },
    /// Uniform within ±√(6 / (`fan_in` + `fan_out`)): Glorot and Bengio (2010).
    XavierUniform,
    /// Normal with variance 2 / (`fan_in` + `fan_out`): Glorot and Bengio (2010).
    XavierNormal,
    /// Uniform within ±1/√`fan_in` of another parameter: for PyTorch's biases, whose own shape does not
    /// determine it.
    UniformFanIn {
        /// Number of inputs of one output.
        fan_in: usize,
    },
}

impl Init {
    /// All zeros.
    pub const ZEROS: Init = Init::Constant(0.0);
    /// All ones.
    pub const ONES: Init = Init::Constant(1.0);

    /// PyTorch's default for the weights of linear and convolution layers: `kaiming_uniform_` with
    /// a = √5.
    pub fn linear_weight() -> Init {
        Init::KaimingUniform { a: 5.0_f64.sqrt() }
    }

    /// PyTorch's default for the biases of linear and convolution layers.
    pub fn linear_bias(fan_in: usize) -> Init {
        Init::UniformFanIn { fan_in }
    }

    /// Returns the same initialisation for a weight that is stored transposed, (inputs, outputs): one whose scale doesn't depend
    /// on its shape.
    pub fn of_transposed(self, inputs: usize, outputs: usize) -> Init {
        match self.scaled(&[outputs, inputs]) {
            Distribution::Constant(value) => Init::Constant(value),
            Distribution::Uniform(low, high) => Init::Uniform { low, high },
            Distribution::Normal(mean, std) => Init::Normal { mean, std },
        }
    }

    /// Draws the values of a parameter of this shape, in row-major order, as `number` makes them of what is drawn.
    pub fn values<T>(
        self,
        shape: &[usize],
        stream: &mut Stream,
        number: impl Fn(f64) -> T,
    ) -> Vec<T> {
        let count: usize = shape.iter().product();
        match self.scaled(shape) {
            Distribution::Constant(value) => (0..count).map(|_| number(value)).collect(),
            Distribution::Uniform(low, high) => (0..count)
                .map(|_| number(stream.uniform(low, high)))
                .collect(),
            Distribution::Normal(mean, std) => (0..count)
                .map(|_| number(mean + std * stream.normal()))
                .collect(),
        }
    }

    /// What values of a shape are drawn from.
    fn scaled(self, shape: &[usize]) -> Distribution {
        let (fan_in, fan_out) = fans(shape);
        let uniform = |bound: f64| Distribution::Uniform(-bound, bound);
        let normal = |std: f64| Distribution::Normal(0.0, std);
        match self {
            Init::Constant(value) => Distribution::Constant(value),
            Init::Uniform { low, high } => Distribution::Uniform(low, high),
            Init::Normal { mean, std } => Distribution::Normal(mean, std),
            Init::KaimingUniform { a } => uniform((6.0 / ((1.0 + a * a) * fan_in)).sqrt()),
            Init::KaimingNormal { a } => normal((2.0 / ((1.0 + a * a) * fan_in)).sqrt()),
            Init::XavierUniform => uniform((6.0 / (fan_in + fan_out)).sqrt()),
            Init::XavierNormal => normal((2.0 / (fan_in + fan_out)).sqrt()),
            Init::UniformFanIn { fan_in } => uniform(1.0 / (fan_in.max(1) as f64).sqrt()),
        }
    }
}

/// Values that don't depend on a shape.
enum Distribution {
    Constant(f64),
    /// Between two bounds.
    Uniform(f64, f64),
    /// Of a mean and a standard deviation.
    Normal(f64, f64),
}

/// `fan_in` and `fan_out`, at least 1.
fn fans(shape: &[usize]) -> (f64, f64) {
    let (outputs, inputs) = match shape {
        [] => (1, 1),
        [length] => (*length, *length),
        [outputs, inputs, ..] => (*outputs, *inputs),
    };
    let receptive: usize = shape.iter().skip(2).product();
    let fan = |maps: usize| (maps * receptive).max(1) as f64;
    (fan(inputs), fan(outputs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sconce_ops::random::stream;

    /// Returns the bound and the variance of a large weight.
    fn measure(init: Init, shape: &[usize]) -> (f64, f64) {
        let values = init.values(shape, &mut stream(1, "init/test", 0, 0), |value| value);
        let count = values.len() as f64;
        let largest = values
            .iter()
            .fold(0.0_f64, |largest, x| largest.max(x.abs()));
        (largest, values.iter().map(|x| x * x).sum::<f64>() / count)
    }

    #[test]
    fn bounds_and_variances_are_those_of_the_formulas() {
        let shape = [128, 64, 3, 3];
        let (fan_in, fan_out) = (576.0, 1152.0);
        for (init, variance) in [
            (Init::linear_weight(), 1.0 / fan_in / 3.0),
            (Init::KaimingUniform { a: 0.0 }, 2.0 / fan_in),
            (Init::KaimingNormal { a: 0.0 }, 2.0 / fan_in),
            (Init::XavierUniform, 2.0 / (fan_in + fan_out)),
            (Init::XavierNormal, 2.0 / (fan_in + fan_out)),
            (
                Init::Normal {
                    mean: 0.0,
                    std: 0.5,
                },
                0.25,
            ),
            (
                Init::Uniform {
                    low: -3.0,
                    high: 3.0,
                },
                3.0,
            ),
            (Init::UniformFanIn { fan_in: 576 }, 1.0 / fan_in / 3.0),
        ] {
            let (_, found) = measure(init, &shape);
            assert!(
                (found / variance - 1.0).abs() < 0.02,
                "{init:?}: {found} {variance}"
            );
        }
        for (init, bound) in [
            (Init::linear_weight(), 1.0 / fan_in.sqrt()),
            (Init::linear_bias(576), 1.0 / fan_in.sqrt()),
            (Init::KaimingUniform { a: 0.0 }, (6.0 / fan_in).sqrt()),
            (Init::XavierUniform, (6.0 / (fan_in + fan_out)).sqrt()),
        ] {
            let (largest, _) = measure(init, &shape);
            let ratio = largest / bound;
            assert!((0.999..1.0 + 1e-12).contains(&ratio), "{init:?}: {ratio}");
        }
        assert_eq!(measure(Init::ONES, &[4]), (1.0, 1.0));
    }
}
