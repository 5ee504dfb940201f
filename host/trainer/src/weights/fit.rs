//! Fitting of stored weights to a model's parameters: first all names and shapes, then the elements.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use super::family::{Meaning, Names};
use super::stored::{self, StoredTensor};
use super::{Comparison, FamilyNames, WeightsError};
use crate::parameters::{Parameter, ParameterRole, Parameters};

/// Suffix of the batch count of running statistics, which `PyTorch` stores and other writers leave out.
const COUNTED: &str = ".num_batches_tracked";

/// Which parameters a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// All but adapters, which no file of a base has.
    Base,
    /// What is trained beside a base: all adapters, and other parameters.
    BesideBase,
}

/// What has to fit, and what names mean.
#[derive(Clone, Copy)]
pub(super) struct Rules<'a> {
    pub(super) strict: bool,
    pub(super) family: &'a FamilyNames,
    pub(super) part: Part,
}

/// Sets the parameters to the stored weights. If something does not fit and `strict` does not allow for it, nothing is set.
pub(super) fn set(
    path: &Path,
    tensors: Vec<StoredTensor>,
    parameters: &Parameters,
    rules: Rules<'_>,
) -> Result<Comparison, WeightsError> {
    let Rules {
        strict,
        family,
        part,
    } = rules;
    let names = Names::of(family).map_err(|reason| WeightsError::Rename {
        path: path.to_owned(),
        reason,
    })?;
    let sorted = Sorted::of(path, tensors, parameters, &names)?;
    let comparison = sorted.comparison(parameters, &names, part);
    if comparison.matched.is_empty() && !parameters.is_empty() {
        return Err(WeightsError::NothingFits {
            path: path.to_owned(),
            comparison,
        });
    }
    if strict && !comparison.is_complete() {
        return Err(WeightsError::Misfit {
            path: path.to_owned(),
            comparison,
        });
    }
    sorted.read(path, parameters, &comparison)?;
    Ok(comparison)
}

/// Leaves out what a file need not have for its part, and takes what it must not have as unexpected: beside a base it may have
/// parameters of that, if they are the same.
fn limit_to(
    part: Part,
    parameters: &Parameters,
    stored: &BTreeMap<String, StoredTensor>,
    found: &mut Comparison,
) {
    let role = |name: &str| {
        let parameter = parameters.get(name);
        parameter.map_or(ParameterRole::Trained, Parameter::role)
    };
    if part == Part::Base {
        (found.missing).retain(|(name, _)| role(name) != ParameterRole::Adapter);
        return;
    }
    let is_base = |name: &str| role(name) == ParameterRole::Base;
    let is_same = |name: &str| {
        let pair = stored.get(name).zip(parameters.get(name).ok());
        pair.is_some_and(|(stored, own)| stored.is_equal_to(own).unwrap_or(false))
    };
    (found.missing).retain(|(name, _)| role(name) == ParameterRole::Adapter);
    let matched = std::mem::take(&mut found.matched);
    let (base, own): (Vec<String>, Vec<String>) =
        matched.into_iter().partition(|name| is_base(name));
    found.matched = own;
    let others = base.into_iter().filter(|name| !is_same(name));
    found.unexpected.extend(others);
    let misshapen = found.misshapen.iter().map(|(name, ..)| name);
    (found.unexpected).extend(misshapen.filter(|name| is_base(name)).cloned());
    found.misshapen.retain(|(name, ..)| !is_base(name));
}

/// A file's weights by what they are in the model.
struct Sorted<'a> {
    /// By the model's names, or what the file calls a weight that the model has not.
    named: BTreeMap<String, StoredTensor>,
    tied: Vec<(StoredTensor, &'a super::TiedName)>,
    ignored: Vec<String>,
}

impl<'a> Sorted<'a> {
    fn of(
        path: &Path,
        tensors: Vec<StoredTensor>,
        parameters: &Parameters,
        names: &Names<'a>,
    ) -> Result<Sorted<'a>, WeightsError> {
        let own: HashSet<&str> = parameters.iter().map(Parameter::name).collect();
        let mut sorted = Sorted {
            named: BTreeMap::new(),
            tied: Vec::new(),
            ignored: Vec::new(),
        };
        for tensor in tensors {
            let name = match names.meaning(tensor.name(), &own) {
                Meaning::Own(name) => name,
                Meaning::Unknown => tensor.name().to_owned(),
                Meaning::Tied(tied) => {
                    sorted.tied.push((tensor, tied));
                    continue;
                }
                Meaning::Ignored => {
                    sorted.ignored.push(tensor.name().to_owned());
                    continue;
                }
            };
            if let Some(other) = sorted.named.get(&name) {
                return Err(WeightsError::Rename {
                    path: path.to_owned(),
                    reason: format!(
                        "`{}` and `{}` would both be `{name}`",
                        other.name(),
                        tensor.name()
                    ),
                });
            }
            sorted.named.insert(name, tensor);
        }
        Ok(sorted)
    }

    fn comparison(&self, parameters: &Parameters, names: &Names<'_>, part: Part) -> Comparison {
        let shapes = self.named.iter();
        let shapes: Vec<(&str, &[usize])> = shapes
            .map(|(name, tensor)| (name.as_str(), tensor.shape()))
            .collect();
        let mut found = Comparison::of_shapes(parameters, &shapes);
        found.missing.retain(|(name, _)| !name.ends_with(COUNTED));
        limit_to(part, parameters, &self.named, &mut found);
        Self::take_head(&mut found, names);
        found.converted = self.converted(parameters, &found.matched);
        found.ignored.clone_from(&self.ignored);
        let present = self.tied.iter();
        let present = present.map(|(tensor, tied)| (tensor.name().to_owned(), *tied));
        let absent = names.tied().iter().filter(|tied| {
            let mut present = self.tied.iter();
            !present.any(|(_, other)| other.name == tied.name)
                && found.matched.contains(&tied.parameter)
        });
        let absent = absent.map(|tied| (tied.name.clone(), tied));
        let all = present.chain(absent);
        found.tied = all
            .map(|(name, tied)| (name, tied.parameter.clone()))
            .collect();
        found
    }

    /// Takes the weights of a part of the head that the file has not as new ones, if it has none of that part's.
    fn take_head(found: &mut Comparison, names: &Names<'_>) {
        let matched = &found.matched;
        let is_new = |name: &str| names.is_new(name, matched);
        let missing = found.missing.iter().map(|(name, _)| name);
        let misshapen = found.misshapen.iter().map(|(name, ..)| name);
        found.new = missing
            .chain(misshapen)
            .filter(|name| is_new(name))
            .cloned()
            .collect();
        found.missing.retain(|(name, _)| !is_new(name));
        found.misshapen.retain(|(name, ..)| !is_new(name));
    }

    /// The matching weights that are stored in another type than the model's, each with that type.
    fn converted(&self, parameters: &Parameters, matched: &[String]) -> Vec<(String, String)> {
        let converted = matched.iter().filter_map(|name| {
            let own = parameters.get(name).ok()?.tensor().dtype();
            let stored = self.named.get(name)?.dtype();
            // Batches are counted in integers there.
            let is_same = stored == own.into() || name.ends_with(COUNTED);
            (!is_same).then(|| (name.clone(), stored::name_of(stored)))
        });
        converted.collect()
    }

    /// Reads what matches, and compares what is tied.
    fn read(
        &self,
        path: &Path,
        parameters: &Parameters,
        comparison: &Comparison,
    ) -> Result<(), WeightsError> {
        let matched: HashSet<&str> = comparison.matched.iter().map(String::as_str).collect();
        let stored: HashMap<&str, &StoredTensor> = (self.named.iter())
            .filter(|(name, _)| matched.contains(name.as_str()))
            .map(|(name, tensor)| (name.as_str(), tensor))
            .collect();
        let pairs = || {
            let own = parameters.iter();
            own.filter_map(|parameter| Some((parameter, stored.get(parameter.name())?)))
        };
        for (_, tensor) in pairs() {
            tensor.check()?;
        }
        for (parameter, tensor) in pairs() {
            tensor.read_into(parameter)?;
        }
        for (tensor, tied) in &self.tied {
            let parameter = parameters.get(&tied.parameter);
            let is_equal = match parameter {
                Ok(parameter) => tensor.is_equal_to(parameter)?,
                Err(_) => true,
            };
            if !is_equal {
                return Err(WeightsError::Untied {
                    path: path.to_owned(),
                    name: tensor.name().to_owned(),
                    parameter: tied.parameter.clone(),
                    advice: tied.setting.clone(),
                });
            }
        }
        Ok(())
    }
}
