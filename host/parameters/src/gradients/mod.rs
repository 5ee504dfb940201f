//! The gradients of an update, in registry order, and the audit of the first ones.

mod cuts;
mod tree;
mod wrong;

use candle_core::backprop::GradStore;
use candle_core::{DType, Result, Tensor};

pub use cuts::{CUTS, Cut};
pub use tree::{GradientTree, TreeNode, additions};
pub use wrong::{WRONG, Wrong, wrong_operations};

use crate::adapters::LORA_A;
use crate::{Parameter, ParameterRole, Parameters, ParametersError};

/// A gradient, or none, for each entry of the registry.
#[derive(Clone, Debug)]
pub struct Gradients {
    tensors: Vec<Option<Tensor>>,
}

impl Gradients {
    /// Takes the gradients of the registry's trainable parameters from candle's store.
    pub fn from_store(parameters: &Parameters, store: &GradStore) -> Gradients {
        let gradient = |parameter: &crate::Parameter| {
            let wanted = parameter.is_trainable();
            wanted
                .then(|| store.get(parameter.tensor()).cloned())
                .flatten()
        };
        Gradients {
            tensors: parameters.iter().map(gradient).collect(),
        }
    }

    /// Creates gradients without one for any entry of the registry.
    pub fn none(parameters: &Parameters) -> Gradients {
        Gradients {
            tensors: vec![None; parameters.len()],
        }
    }

    /// Returns the gradient of the registry's entry at `index`.
    pub fn at(&self, index: usize) -> Option<&Tensor> {
        self.tensors.get(index)?.as_ref()
    }

    /// Replaces the gradient of the registry's entry at `index`.
    pub fn set(&mut self, index: usize, gradient: Tensor) {
        if let Some(place) = self.tensors.get_mut(index) {
            *place = Some(gradient);
        }
    }

    /// Returns the gradient of the parameter of this name, if it got one.
    pub fn get(
        &self,
        parameters: &Parameters,
        name: &str,
    ) -> std::result::Result<Option<&Tensor>, ParametersError> {
        Ok(self.at(parameters.index_of(name)?))
    }

    /// Replaces the gradient of the named parameter; the new one must have the parameter's shape.
    pub fn replace(
        &mut self,
        parameters: &Parameters,
        name: &str,
        gradient: Tensor,
    ) -> std::result::Result<(), ParametersError> {
        let wanted = parameters.get(name)?.tensor().dims();
        if gradient.dims() != wanted {
            return Err(ParametersError::Tensor {
                name: name.to_owned(),
                source: candle_core::Error::Msg(format!(
                    "its shape is {wanted:?}, the new gradient's {:?}",
                    gradient.dims()
                )),
            });
        }
        self.set(parameters.index_of(name)?, gradient);
        Ok(())
    }

    /// Multiplies all gradients by a factor, e.g. 1 / number of accumulated batches.
    pub fn scale(&mut self, factor: f64) -> Result<()> {
        for gradient in self.tensors.iter_mut().flatten() {
            *gradient = gradient.affine(factor, 0.0)?;
        }
        Ok(())
    }

    /// Adds another batch's gradients.
    pub fn accumulate(&mut self, other: &Gradients) -> Result<()> {
        for (sum, other) in self.tensors.iter_mut().zip(&other.tensors) {
            match (&sum, other) {
                (Some(left), Some(right)) => *sum = Some(left.add(right)?),
                (None, Some(right)) => *sum = Some(right.clone()),
                (_, None) => {}
            }
        }
        Ok(())
    }

    /// Returns the Euclidean norm over all gradients, accumulated in double precision in registry
    /// order.
    pub fn norm(&self) -> Result<f64> {
        let mut squares = 0.0;
        for gradient in self.tensors.iter().flatten() {
            squares += square_sum(gradient)?;
        }
        Ok(squares.sqrt())
    }

    /// Finds parameters that cannot learn.
    pub fn audit(&self, parameters: &Parameters) -> Result<Audit> {
        let mut audit = Audit::default();
        for (parameter, gradient) in parameters.iter().zip(&self.tensors) {
            if !parameter.is_trainable() {
                continue;
            }
            audit.trainable += 1;
            let name = parameter.name().to_owned();
            let Some(gradient) = gradient else {
                audit.missing.push(name);
                continue;
            };
            let numbers = numbers(gradient)?;
            if !numbers.iter().all(|number| number.is_finite()) {
                audit.not_finite.push(name);
            } else if numbers.iter().all(|&number| number == 0.0) && !begins_without(parameter) {
                audit.zero.push(name);
            }
        }
        Ok(audit)
    }
}

/// Whether a parameter has no gradient at first: an adapter's first matrix, whose second one begins as zeros.
fn begins_without(parameter: &Parameter) -> bool {
    parameter.role() == ParameterRole::Adapter && parameter.name().ends_with(LORA_A)
}

/// Returns the elements in double precision: their squares could overflow or underflow.
fn numbers(tensor: &Tensor) -> Result<Vec<f64>> {
    tensor.to_dtype(DType::F64)?.flatten_all()?.to_vec1()
}

fn square_sum(tensor: &Tensor) -> Result<f64> {
    tensor.to_dtype(DType::F64)?.sqr()?.sum_all()?.to_scalar()
}

/// Result of the gradient audit: names of parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Number of trainable parameters.
    pub trainable: usize,
    /// Parameters that got no gradient.
    pub missing: Vec<String>,
    /// Parameters whose gradient contains infinities or NaN.
    pub not_finite: Vec<String>,
    /// Parameters whose gradient is all zeros.
    pub zero: Vec<String>,
}

impl Audit {
    /// Returns why training can't continue, unless the manifest allows the parameters by name.
    pub fn problem(&self, allowed: &[String]) -> Option<String> {
        let missing: Vec<&String> = self
            .missing
            .iter()
            .filter(|name| !allowed.contains(name))
            .collect();
        if !missing.is_empty() {
            return Some(format!(
                "{} of {} parameters got no gradient in the first iteration: {}\n  {}\n  \
                 docs/candle-gradients.md lists what can be trained; parameters that are to stay \
                 as they are go into `train.allow_missing_gradients`",
                missing.len(),
                self.trainable,
                list(&missing),
                cuts::advice(&missing)
            ));
        }
        if !self.not_finite.is_empty() {
            let names: Vec<&String> = self.not_finite.iter().collect();
            return Some(format!(
                "gradients are infinite or not numbers in the first iteration: {}\n  \
                 look for a learning rate or an initialisation that is too large, or for such \
                 values in the data",
                list(&names)
            ));
        }
        None
    }

    /// Returns what the user should know although the run can continue.
    pub fn warning(&self) -> Option<String> {
        let names: Vec<&String> = self.zero.iter().collect();
        (!names.is_empty()).then(|| {
            format!(
                "all gradients are zero in the first iteration for {}; these parameters may not \
                 learn",
                list(&names)
            )
        })
    }
}

/// Joins the first few names and says how many more there are.
fn list(names: &[&String]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<String> = names.iter().take(SHOWN).map(|n| format!("`{n}`")).collect();
    let rest = names.len().saturating_sub(SHOWN);
    if rest == 0 {
        shown.join(", ")
    } else {
        format!("{} and {rest} more", shown.join(", "))
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::init::Init;

    #[test]
    fn the_audit_names_what_cannot_learn() {
        let mut parameters = Parameters::new(1, DType::F64, &sconce_ops::device::for_tests());
        let mut scope = parameters.scope("m");
        let used = scope.parameter("used", &[2], Init::ONES).expect("used");
        let unused = scope.parameter("unused", &[2], Init::ONES).expect("unused");
        let zeroed = scope.parameter("zeroed", &[2], Init::ONES).expect("zeroed");
        scope.buffer("buffer", &[2], Init::ONES).expect("buffer");
        let loss = used
            .sqr()
            .and_then(|t| t.add(&unused.detach()))
            .and_then(|t| t.add(&zeroed.mul(&zeroed.zeros_like()?)?))
            .and_then(|t| t.sum_all())
            .expect("loss");
        let store = loss.backward().expect("backward");
        let gradients = Gradients::from_store(&parameters, &store);
        let audit = gradients.audit(&parameters).expect("audit");
        assert_eq!(audit.trainable, 3);
        assert_eq!(audit.missing, ["m.unused"]);
        assert_eq!(audit.zero, ["m.zeroed"]);
        let problem = audit.problem(&[]).expect("a problem");
        assert!(
            problem.contains("1 of 3 parameters got no gradient"),
            "{problem}"
        );
        assert!(problem.contains("`m.unused`"), "{problem}");
        assert_eq!(audit.problem(&["m.unused".to_owned()]), None);
        assert!(
            audit
                .warning()
                .is_some_and(|text| text.contains("m.zeroed"))
        );
        // The gradient of the sum of squares of two ones is (2, 2).
        assert!((gradients.norm().expect("norm") - 8.0_f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn the_audit_takes_numbers_as_they_are() {
        let mut parameters = Parameters::new(1, DType::F64, &sconce_ops::device::for_tests());
        let mut scope = parameters.scope("m");
        let weight = scope.parameter("w", &[2], Init::ONES).expect("w");
        let store = weight.sum_all().and_then(|t| t.backward());
        let mut gradients = Gradients::from_store(&parameters, &store.expect("backward"));
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        for (values, not_finite, zero) in [
            ([1e200, 0.0], 0, 0),
            ([1e-200, 0.0], 0, 0),
            ([inf, 0.0], 1, 0),
            ([nan, 0.0], 1, 0),
            ([inf, -inf], 1, 0),
            ([0.0, -0.0], 0, 1),
        ] {
            gradients.set(
                0,
                Tensor::new(&values, &sconce_ops::device::for_tests()).expect("a gradient"),
            );
            let audit = gradients.audit(&parameters).expect("audit");
            let found = (audit.not_finite.len(), audit.zero.len());
            assert_eq!(found, (not_finite, zero), "{values:?}");
        }
    }

    #[test]
    fn gradients_are_found_and_replaced_by_name() {
        let mut parameters = Parameters::new(1, DType::F64, &sconce_ops::device::for_tests());
        let mut scope = parameters.scope("m");
        let weight = scope.parameter("w", &[3], Init::ONES).expect("w");
        scope.parameter("unused", &[3], Init::ONES).expect("unused");
        let store = weight.sum_all().and_then(|t| t.backward());
        let mut gradients = Gradients::from_store(&parameters, &store.expect("backward"));
        let missing = gradients.get(&parameters, "m.unused").expect("known");
        assert!(missing.is_none());
        let ones = |count: usize| {
            Tensor::ones(count, DType::F64, &sconce_ops::device::for_tests()).expect("ones")
        };
        gradients
            .replace(&parameters, "m.unused", ones(3))
            .expect("replaced");
        gradients.scale(0.25).expect("scaled");
        for name in ["m.w", "m.unused"] {
            let gradient = gradients.get(&parameters, name).expect("known");
            let gradient = gradient.expect("a gradient").to_vec1::<f64>();
            assert_eq!(gradient.expect("numbers"), [0.25; 3]);
        }
        for (name, count, words) in [
            ("m.v", 3, "no parameter is called `m.v`"),
            ("m.w", 2, "`m.w`: its shape is [3], the new gradient's [2]"),
        ] {
            let error = gradients.replace(&parameters, name, ones(count));
            let error = error.expect_err(name).to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn accumulated_gradients_are_sums() {
        let mut parameters = Parameters::new(1, DType::F64, &sconce_ops::device::for_tests());
        let weight = parameters
            .scope("m")
            .parameter("w", &[3], Init::ONES)
            .expect("w");
        let gradients = |factor: f64| {
            let loss = weight
                .affine(factor, 0.0)
                .and_then(|t| t.sum_all())
                .expect("loss");
            Gradients::from_store(&parameters, &loss.backward().expect("backward"))
        };
        let mut sum = gradients(1.0);
        sum.accumulate(&gradients(2.5)).expect("sum");
        let values: Vec<f64> = sum.at(0).expect("w").to_vec1().expect("numbers");
        assert_eq!(values, [3.5; 3]);
        assert!(sum.at(1).is_none());
    }
}
