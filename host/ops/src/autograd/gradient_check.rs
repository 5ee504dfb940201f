//! Gradients against finite differences, to check that a function, an operation or a layer can be trained.
//!
//! ```
//! use candle_core::{Device, Var};
//! use sconce_ops::gradient_check::check_gradients;
//!
//! let x = Var::new(&[0.5, -1.5, 2.0], &Device::Cpu)?;
//! let report = check_gradients(std::slice::from_ref(&x), |inputs| inputs[0].sin());
//! assert!(report.is_right(), "{report}");
//! // candle has no gradient for what goes through `detach`, and says nothing.
//! let report = check_gradients(&[x], |inputs| inputs[0].sin()?.detach().exp());
//! assert_eq!(report.to_string(), "input 0 got no gradient, but moves the output");
//! # Ok::<(), candle_core::Error>(())
//! ```

use std::fmt;

use candle_core::{DType, Device, Result, Tensor, Var, bail};

use crate::random;

/// Result of a gradient check.
#[derive(Clone, Debug, PartialEq)]
pub enum GradientReport {
    /// The forward or the backward pass returned this error, as it should where there is no gradient.
    Fails(String),
    /// One finding for each input.
    Checked(Vec<GradientFinding>),
}

/// Result for the gradient of one input.
#[derive(Clone, Debug, PartialEq)]
pub enum GradientFinding {
    /// Backward pass and finite differences agree.
    Agrees {
        /// Largest difference between them, relative to the largest derivative.
        error: f64,
    },
    /// Backward pass and finite differences disagree.
    Differs {
        /// Largest difference between them, relative to the largest derivative.
        error: f64,
        /// Index, in the flattened input, of the element where they are furthest apart.
        element: usize,
        /// Its derivative by finite differences.
        derivative: f64,
        /// Its gradient by the backward pass.
        gradient: f64,
        /// Ratio of gradient to derivative, if it is the same for all elements.
        factor: Option<f64>,
    },
    /// The backward pass gave no gradient at all, and no error.
    NoGradient {
        /// Whether the output depends on the input; if not, nothing is lost.
        needed: bool,
    },
}

impl GradientFinding {
    /// Whether this gradient is right for training.
    pub fn is_right(&self) -> bool {
        matches!(
            self,
            GradientFinding::Agrees { .. } | GradientFinding::NoGradient { needed: false }
        )
    }
}

impl GradientReport {
    /// Whether there are gradients and all of them are right.
    pub fn is_right(&self) -> bool {
        match self {
            GradientReport::Fails(_) => false,
            GradientReport::Checked(findings) => findings.iter().all(GradientFinding::is_right),
        }
    }
}

impl fmt::Display for GradientFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GradientFinding::Agrees { error } => {
                write!(f, "has the right gradient, to {error:.1e}")
            }
            GradientFinding::Differs {
                element,
                derivative: slope,
                gradient,
                factor,
                ..
            } => {
                write!(
                    f,
                    "has a wrong gradient: at element {element} it is {gradient}, the slope {slope}"
                )?;
                match factor {
                    Some(factor) => write!(f, "; everywhere {factor:.4} times the slope"),
                    None => Ok(()),
                }
            }
            GradientFinding::NoGradient { needed: true } => {
                write!(f, "got no gradient, but moves the output")
            }
            GradientFinding::NoGradient { needed: false } => {
                write!(f, "got no gradient, and needs none")
            }
        }
    }
}

impl fmt::Display for GradientReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let findings = match self {
            GradientReport::Fails(message) => return write!(f, "fails: {message}"),
            GradientReport::Checked(findings) => findings,
        };
        for (index, finding) in findings.iter().enumerate() {
            let start = if index == 0 { "" } else { "\n" };
            write!(f, "{start}input {index} {finding}")?;
        }
        Ok(())
    }
}

/// Compares the backward pass with central differences, for every element of every input.
///
/// The loss is Σ w · output with fixed random weights w, so that no two elements of the output can cancel. The function
/// must return the same output for the same inputs: dropout needs a fixed mask. It is called twice for each element, so
/// inputs should be small: a few dozen elements. They must be further than the step from kinks (ties of a maximum, 0
/// for `relu`).
///
/// Inputs should be `f64`: the step is 1e-5, and the tolerance 1e-6 of the largest derivative. For functions that work
/// only in `f32`, both are 1e-2. A layer's parameters are inputs too: the function may ignore its argument and use
/// tensors that share the variables' memory. The variables have their original values afterwards.
pub fn check_gradients(
    inputs: &[Var],
    function: impl Fn(&[Tensor]) -> Result<Tensor>,
) -> GradientReport {
    match findings(inputs, &function) {
        Ok(findings) => GradientReport::Checked(findings),
        Err(error) => GradientReport::Fails(error.to_string()),
    }
}

type Function<'a> = &'a dyn Fn(&[Tensor]) -> Result<Tensor>;

fn findings(inputs: &[Var], function: Function<'_>) -> Result<Vec<GradientFinding>> {
    let tensors: Vec<Tensor> = inputs.iter().map(|var| var.as_tensor().clone()).collect();
    let output = function(&tensors)?;
    let weights = weights(output.dims())?.to_device(output.device())?;
    let loss = || {
        let output = function(&tensors)?.to_dtype(DType::F64)?;
        output.mul(&weights)?.sum_all()
    };
    let store = loss()?.backward()?;
    let mut findings = Vec::new();
    for input in inputs {
        let accuracy = CheckAccuracy::of(input.dtype())?;
        let slopes = derivatives(input, &loss, accuracy.step)?;
        findings.push(match store.get(input) {
            None => GradientFinding::NoGradient {
                needed: slopes.iter().any(|&slope| slope != 0.0),
            },
            Some(gradient) if gradient.dims() != input.dims() => bail!(
                "backward gave a gradient of shape {:?} for an input of shape {:?}",
                gradient.dims(),
                input.dims()
            ),
            Some(gradient) => compare(&numbers(gradient)?, &slopes, accuracy.tolerance),
        });
    }
    Ok(findings)
}

#[derive(Clone, Copy)]
struct CheckAccuracy {
    /// Distance by which an element is moved to either side.
    step: f64,
    /// Tolerated difference, relative to the largest derivative.
    tolerance: f64,
}

impl CheckAccuracy {
    fn of(dtype: DType) -> Result<CheckAccuracy> {
        let (step, tolerance) = match dtype {
            DType::F64 => (1e-5, 1e-6),
            DType::F32 => (1e-2, 1e-2),
            other => bail!("a gradient check wants `f64` or `f32`, found {other:?}"),
        };
        Ok(CheckAccuracy { step, tolerance })
    }
}

/// Weights of magnitude 0.5 to 1.5 and either sign, so that every element of the output counts.
fn weights(shape: &[usize]) -> Result<Tensor> {
    let mut stream = random::stream(0, "gradient check", 0, 0);
    let count: usize = shape.iter().product();
    let weights: Vec<f64> = (0..count)
        .map(|_| {
            let weight = stream.uniform(0.5, 1.5);
            if stream.below(2) == 0 {
                weight
            } else {
                -weight
            }
        })
        .collect();
    Tensor::from_vec(weights, shape, &Device::Cpu)
}

/// The derivative of the loss along each element of a variable.
fn derivatives(input: &Var, loss: &dyn Fn() -> Result<Tensor>, step: f64) -> Result<Vec<f64>> {
    let start = input.as_tensor().copy()?.detach();
    let values = numbers(&start)?;
    let at = |element: usize, step: f64| -> Result<f64> {
        let moved = values.iter().enumerate();
        let moved: Vec<f64> = moved
            .map(|(index, &value)| value + if index == element { step } else { 0.0 })
            .collect();
        let moved = Tensor::from_vec(moved, input.dims(), input.device())?;
        input.set(&moved.to_dtype(input.dtype())?)?;
        loss()?.to_scalar::<f64>()
    };
    let slopes = (0..values.len())
        .map(|element| Ok((at(element, step)? - at(element, -step)?) / (2.0 * step)))
        .collect();
    input.set(&start)?;
    slopes
}

fn numbers(tensor: &Tensor) -> Result<Vec<f64>> {
    tensor.to_dtype(DType::F64)?.flatten_all()?.to_vec1()
}

fn compare(gradients: &[f64], slopes: &[f64], tolerance: f64) -> GradientFinding {
    // Derivatives that are only rounding errors count as zeros.
    let scale = slopes.iter().fold(0.1_f64, |most, s| most.max(s.abs()));
    let distance = |factor: f64| {
        let pairs = gradients.iter().zip(slopes).enumerate();
        let distances = pairs.map(|(index, (g, s))| (index, (g - factor * s).abs() / scale));
        // A NaN gradient is infinitely far away.
        let finite =
            distances.map(|(index, d)| (index, if d.is_nan() { f64::INFINITY } else { d }));
        finite.fold(
            (0, 0.0),
            |most, next| if next.1 > most.1 { next } else { most },
        )
    };
    let (element, error) = distance(1.0);
    if error <= tolerance {
        return GradientFinding::Agrees { error };
    }
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let factor = product(gradients, slopes) / product(slopes, slopes);
    let at = |numbers: &[f64]| numbers.get(element).copied().unwrap_or(f64::NAN);
    GradientFinding::Differs {
        error,
        element,
        derivative: at(slopes),
        gradient: at(gradients),
        factor: (distance(factor).1 <= tolerance).then_some(factor),
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{CpuStorage, CustomOp1, Layout, Shape};

    use super::*;

    fn var(values: &[f64]) -> Var {
        Var::new(values, &crate::device::for_tests()).expect("a variable")
    }

    fn only(report: GradientReport) -> GradientFinding {
        match report {
            GradientReport::Checked(findings) if findings.len() == 1 => findings[0].clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn right_gradients_agree_for_every_input() {
        let (a, b) = (var(&[0.3, -1.2, 2.5]), var(&[1.5, 0.7, -0.4]));
        let inputs = [a, b];
        let report = check_gradients(&inputs, |x| x[0].exp()?.mul(&x[1].sin()?)?.cumsum(0));
        let GradientReport::Checked(findings) = &report else {
            panic!("{report}")
        };
        assert_eq!(findings.len(), 2);
        for finding in findings {
            assert!(matches!(finding, GradientFinding::Agrees { error } if *error < 1e-8));
        }
        assert!(report.is_right());
        let values: Vec<f64> = inputs[0].to_vec1().expect("numbers");
        assert_eq!(values, [0.3, -1.2, 2.5]);
    }

    #[test]
    fn f32_is_checked_as_well_as_f32_can_be() {
        let x = Var::new(&[0.3_f32, -1.2, 2.5], &crate::device::for_tests()).expect("a variable");
        let report = check_gradients(&[x], |x| x[0].sin());
        assert!(report.is_right(), "{report}");
    }

    /// x³, whose backward pass gives `factor` · 3x², or 3x without a factor.
    struct Cube {
        factor: Option<f64>,
    }

    impl CustomOp1 for Cube {
        fn name(&self) -> &'static str {
            "cube"
        }

        fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
            let CpuStorage::F64(x) = x else {
                bail!("cube wants f64")
            };
            let cubes = x.iter().map(|x| x * x * x).collect();
            Ok((CpuStorage::F64(cubes), layout.shape().clone()))
        }

        fn bwd(&self, x: &Tensor, _y: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
            let derivative = match self.factor {
                Some(factor) => x.sqr()?.affine(3.0 * factor, 0.0)?,
                None => x.affine(3.0, 0.0)?,
            };
            Ok(Some(gradient.mul(&derivative)?))
        }
    }

    #[test]
    fn wrong_gradients_differ_with_their_factor_where_there_is_one() {
        let cube = |factor: Option<f64>| {
            // `Cube` computes on the CPU only.
            let x = Var::new(&[0.5_f64, -1.5, 3.0], &Device::Cpu).expect("a variable");
            check_gradients(&[x], |x| x[0].apply_op1(Cube { factor }))
        };
        assert!(cube(Some(1.0)).is_right());
        let report = cube(Some(0.25));
        assert!(!report.is_right());
        let text = report.to_string();
        assert!(text.contains("everywhere 0.2500 times"), "{text}");
        let GradientFinding::Differs {
            element,
            derivative: slope,
            gradient,
            factor,
            ..
        } = only(report)
        else {
            panic!("{text}")
        };
        assert_eq!(element, 2);
        assert!((gradient / slope - 0.25).abs() < 1e-6, "{text}");
        assert!(factor.is_some_and(|factor| (factor - 0.25).abs() < 1e-6));
        let GradientFinding::Differs { factor: None, .. } = only(cube(None)) else {
            panic!("3x is not a multiple of 3x²")
        };
        let nan = only(cube(Some(f64::NAN)));
        assert!(!nan.is_right(), "{nan}");
    }

    #[test]
    fn cut_gradients_are_reported_from_those_that_nobody_needs() {
        let x = var(&[0.3, -1.2, 2.5]);
        let cut = check_gradients(std::slice::from_ref(&x), |x| x[0].exp()?.detach().sqr());
        assert_eq!(only(cut), GradientFinding::NoGradient { needed: true });
        let constant = check_gradients(&[x], |x| x[0].floor());
        assert!(constant.is_right());
        assert_eq!(
            only(constant),
            GradientFinding::NoGradient { needed: false }
        );
    }

    #[test]
    fn errors_of_either_pass_are_the_report() {
        let forward = check_gradients(&[var(&[0.3, -1.2])], |x| x[0].reshape(3));
        assert!(
            matches!(&forward, GradientReport::Fails(text) if text.to_lowercase().contains("shape"))
        );
        let backward = check_gradients(&[var(&[0.3, -1.2, 2.5])], |x| {
            let image = x[0].reshape((1, 1, 3))?;
            image.conv_transpose1d(&image, 0, 0, 1, 1, 1)
        });
        let text = backward.to_string();
        assert!(text.contains("conv-transpose1d"), "{text}");
        let tokens = Var::new(&[1_u32, 2], &crate::device::for_tests()).expect("a variable");
        let report = check_gradients(&[tokens], |x| Ok(x[0].clone())).to_string();
        assert!(report.contains("wants `f64` or `f32`"), "{report}");
    }
}
