//! Which of a file's weights are whose in the model.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use candle_core::Tensor;
use sconce_base::nearest::nearest;

use super::NAMED;
use crate::parameters::{Parameter, ParameterRole, Parameters};

/// Comparison of a file's weights with a model's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Names of the weights that match.
    pub matched: Vec<String>,
    /// Those of them that another type of elements is made of, each with the file's.
    pub converted: Vec<(String, String)>,
    /// Names of files that are other parameters of the model, each with that parameter: the file lacks them, or has the
    /// same numbers there.
    pub tied: Vec<(String, String)>,
    /// Weights of the file that no such model uses: buffers, and heads of other tasks.
    pub ignored: Vec<String>,
    /// Weights of the model's head that the file has not, or of another shape: they start from initial values.
    pub new: Vec<String>,
    /// Weights of the model that the file lacks, each with the nearest unexpected name.
    pub missing: Vec<(String, Option<String>)>,
    /// Weights of the file that the model lacks.
    pub unexpected: Vec<String>,
    /// Name, shape in the model and shape in the file of each weight whose shape differs.
    pub misshapen: Vec<(String, Vec<usize>, Vec<usize>)>,
}

impl Comparison {
    /// Whether every weight matches, or needs not.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty() && self.unexpected.is_empty() && self.misshapen.is_empty()
    }

    /// Renaming, as written in the manifest, that would match most of the remaining weights, and their
    /// number.
    pub fn suggestion(&self) -> Option<String> {
        let (from, to, count) = suggestion(self)?;
        let rename = serde_json::json!({ from: to });
        Some(format!(
            "`\"rename\": {rename}` would make {count} more fit"
        ))
    }

    /// Compares a model's parameters and buffers with named tensors, which need not have what the model holds as its base.
    pub fn of(parameters: &Parameters, tensors: &[(String, Tensor)]) -> Comparison {
        let shapes = tensors
            .iter()
            .map(|(name, tensor)| (name.as_str(), tensor.dims()));
        let mut found = Comparison::of_shapes(parameters, &shapes.collect::<Vec<_>>());
        let role = |name: &str| parameters.get(name).map(Parameter::role);
        (found.missing).retain(|(name, _)| !matches!(role(name), Ok(ParameterRole::Base)));
        found
    }

    /// Compares a model's parameters and buffers with the shapes of named tensors.
    pub(super) fn of_shapes(parameters: &Parameters, tensors: &[(&str, &[usize])]) -> Comparison {
        let mut found = Comparison::default();
        let by_name: HashMap<&str, &[usize]> = tensors.iter().copied().collect();
        for parameter in parameters.iter() {
            let name = parameter.name().to_owned();
            let wanted = parameter.tensor().dims();
            match by_name.get(parameter.name()) {
                None => found.missing.push((name, None)),
                Some(shape) if *shape == wanted => found.matched.push(name),
                Some(shape) => {
                    (found.misshapen).push((name, wanted.to_vec(), shape.to_vec()));
                }
            }
        }
        let known: HashSet<&str> = parameters.iter().map(Parameter::name).collect();
        let names = tensors.iter().map(|(name, _)| *name);
        found.unexpected = names
            .filter(|name| !known.contains(name))
            .map(str::to_owned)
            .collect();
        found.suggest_names();
        found
    }

    /// Notes beside each missing weight the nearest of the unexpected ones.
    pub(super) fn suggest_names(&mut self) {
        for (name, hint) in &mut self.missing {
            let others = self.unexpected.iter().map(String::as_str);
            *hint = nearest(name, others).map(str::to_owned);
        }
    }

    /// The table for people: a class of weights, their number, and the first of their names.
    pub fn rows(&self) -> Vec<[String; 3]> {
        let (missing, misshapen) = (self.missing_texts(), self.misshapen_texts());
        let converted = self.converted.iter();
        let tied = self.tied.iter();
        let classes = [
            ("loaded", self.matched.len(), Vec::new()),
            (
                "converted",
                self.converted.len(),
                converted
                    .map(|(name, dtype)| format!("`{name}` (from {dtype})"))
                    .collect(),
            ),
            (
                "tied",
                self.tied.len(),
                tied.map(|(name, parameter)| format!("`{name}` (is `{parameter}`)"))
                    .collect(),
            ),
            ("ignored", self.ignored.len(), quoted(&self.ignored)),
            ("new", self.new.len(), quoted(&self.new)),
            ("missing", missing.len(), missing),
            (
                "unexpected",
                self.unexpected.len(),
                quoted(&self.unexpected),
            ),
            ("of another shape", misshapen.len(), misshapen),
        ];
        let those = classes.into_iter().filter(|(_, count, _)| *count > 0);
        those
            .map(|(class, count, names)| [class.to_owned(), count.to_string(), first_of(&names)])
            .collect()
    }

    fn missing_texts(&self) -> Vec<String> {
        let missing = self.missing.iter();
        let texts = missing.map(|(name, hint)| match hint {
            Some(hint) => format!("`{name}` (the file has `{hint}`)"),
            None => format!("`{name}`"),
        });
        texts.collect()
    }

    fn misshapen_texts(&self) -> Vec<String> {
        let misshapen = self.misshapen.iter();
        let texts = misshapen.map(|(name, wanted, found)| {
            format!("`{name}` (the model's is {wanted:?}, the file's {found:?})")
        });
        texts.collect()
    }
}

fn quoted(names: &[String]) -> Vec<String> {
    names.iter().map(|name| format!("`{name}`")).collect()
}

/// Renaming that would match most of the remaining weights, and their number.
fn suggestion(comparison: &Comparison) -> Option<(String, String, usize)> {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (missing, _) in &comparison.missing {
        for unexpected in &comparison.unexpected {
            let pair = if let Some(prefix) = unexpected.strip_suffix(missing.as_str()) {
                (prefix, "")
            } else if let Some(prefix) = missing.strip_suffix(unexpected.as_str()) {
                ("", prefix)
            } else {
                continue;
            };
            let is_whole = |prefix: &str| prefix.is_empty() || prefix.ends_with('.');
            if is_whole(pair.0) && is_whole(pair.1) {
                *counts.entry(pair).or_default() += 1;
            }
        }
    }
    let ((from, to), count) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    Some((from.to_owned(), to.to_owned(), count))
}

/// The first names of a list, and a sign that there are more.
fn first_of(names: &[String]) -> String {
    let more = if names.len() > NAMED { ", …" } else { "" };
    let first = names.get(..NAMED).unwrap_or(names);
    format!("{}{more}", first.join(", "))
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} fit", self.matched.len())?;
        for (what, names) in [
            ("new", quoted(&self.new)),
            ("missing", self.missing_texts()),
            ("unexpected", quoted(&self.unexpected)),
            ("of another shape", self.misshapen_texts()),
        ] {
            if !names.is_empty() {
                write!(f, "; {} {what}: {}", names.len(), first_of(&names))?;
            }
        }
        Ok(())
    }
}
