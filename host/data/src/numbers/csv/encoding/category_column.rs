//! A categorical column: an input for each category, or one input with the category's number.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use sconce_nn::onnx::{Dimension, ElementType, Graph, Value};

use super::encoding_problem::EncodingProblem;
use crate::numbers::csv::config::{DEFAULT_MIN_COUNT, OnUnknown};
use crate::numbers::csv::table::scan::{Missing, Scan};
use crate::numbers::csv::{CsvConfig, OnMissing};

/// Encodes categories as an input for each of them, 1 for the category and 0 for the others, or as one input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CategoryColumn {
    /// Name of the column.
    pub name: String,
    /// Categories in the training rows, without those that count as unknown.
    pub categories: Categories,
    /// Number of training rows of each category.
    pub counts: Vec<usize>,
    /// Handling of a missing category.
    pub missing: MissingCategory,
    /// Handling of other categories. By default an error in predictions, and 0 in all inputs in validation and test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<OnUnknown>,
    /// Whether there is one input, the category's number from 1, and 0 for one of which nothing is known.
    #[serde(
        default,
        rename = "embedded",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub is_embedded: bool,
}

/// Different texts, in the order of their inputs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Categories {
    texts: Vec<String>,
    places: BTreeMap<String, usize>,
}

/// Handling of a missing category.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MissingCategory {
    /// It has its own input, after those of the categories.
    Own,
    /// It is replaced by this category.
    As(String),
    /// It is an unknown category.
    Unseen,
    /// It is an error.
    Refused,
}

impl Categories {
    /// Returns the texts, in their order.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }
}

impl TryFrom<Vec<String>> for Categories {
    type Error = String;

    fn try_from(texts: Vec<String>) -> Result<Categories, String> {
        let places: BTreeMap<String, usize> = texts.iter().cloned().zip(0..).collect();
        if places.len() < texts.len() {
            return Err("a category is listed twice".to_owned());
        }
        Ok(Categories { texts, places })
    }
}

impl From<Categories> for Vec<String> {
    fn from(categories: Categories) -> Vec<String> {
        categories.texts
    }
}

impl CategoryColumn {
    pub(in crate::numbers::csv) fn fit(
        name: String,
        scan: &Scan<'_>,
        config: &CsvConfig,
    ) -> CategoryColumn {
        let least = match config.on_unknown {
            Some(OnUnknown::Own) => config.min_count.unwrap_or(DEFAULT_MIN_COUNT),
            _ => 0,
        };
        let mut sorted = scan.sorted();
        sorted.retain(|(_, count)| *count >= least);
        let texts: Vec<String> = sorted.iter().map(|(text, _)| (*text).to_owned()).collect();
        let missing = match config.on_missing {
            OnMissing::Mean if scan.missing > 0 => MissingCategory::Own,
            OnMissing::Mean => MissingCategory::Unseen,
            OnMissing::MostFrequent => {
                let most_frequent = scan.most_frequent().map(str::to_owned);
                let most_frequent = most_frequent.filter(|text| texts.contains(text));
                most_frequent.map_or(MissingCategory::Unseen, MissingCategory::As)
            }
            OnMissing::Drop | OnMissing::Error => MissingCategory::Refused,
        };
        CategoryColumn {
            counts: sorted.iter().map(|(_, count)| *count).collect(),
            // They are all different.
            categories: Categories::try_from(texts).unwrap_or_default(),
            missing,
            unknown: config.on_unknown,
            is_embedded: config.embed.has(&name),
            name,
        }
    }

    /// Returns what is told apart: the categories, then missing and unknown ones where these have an input of their own.
    pub(in crate::numbers::csv) fn choices(&self) -> usize {
        let own = usize::from(self.missing == MissingCategory::Own);
        self.categories.texts.len() + own + usize::from(self.unknown == Some(OnUnknown::Own))
    }

    pub(in crate::numbers::csv) fn width(&self) -> usize {
        if self.is_embedded { 1 } else { self.choices() }
    }

    pub(in crate::numbers::csv) fn input_names(&self) -> Vec<String> {
        let name = &self.name;
        if self.is_embedded {
            return vec![name.clone()];
        }
        let texts = self.categories.texts.iter();
        let of_categories = texts.map(|text| format!("{name}={text}"));
        let is_missing = self.missing == MissingCategory::Own;
        let is_missing = is_missing.then(|| format!("{name} is missing"));
        let is_unknown = self.unknown == Some(OnUnknown::Own);
        let is_unknown = is_unknown.then(|| format!("{name} is unknown"));
        of_categories.chain(is_missing).chain(is_unknown).collect()
    }

    /// Appends the inputs for a text. `default` is the handling of unknown categories unless the column has its own.
    pub(in crate::numbers::csv) fn encode(
        &self,
        text: &str,
        is_missing: &Missing,
        default: OnUnknown,
        inputs: &mut Vec<f32>,
    ) -> Result<(), EncodingProblem> {
        let choice = self.choice(text, is_missing, default)?;
        if self.is_embedded {
            // Below 2²⁴, which f32 has exactly.
            inputs.push(choice.map_or(0.0, |choice| (choice + 1) as f32));
            return Ok(());
        }
        let start = inputs.len();
        inputs.resize(start + self.choices(), 0.0);
        if let Some(input) = choice.and_then(|choice| inputs.get_mut(start + choice)) {
            *input = 1.0;
        }
        Ok(())
    }

    /// Returns which of the [`choices`](CategoryColumn::choices) a text is; none if it is unknown, and that is allowed.
    fn choice(
        &self,
        text: &str,
        is_missing: &Missing,
        default: OnUnknown,
    ) -> Result<Option<usize>, EncodingProblem> {
        let known = self.categories.texts.len();
        let is_own = self.missing == MissingCategory::Own;
        let (found, problem) = match &self.missing {
            _ if !is_missing.is(text) => {
                let found = self.categories.places.get(text).copied();
                (found, EncodingProblem::Unknown)
            }
            MissingCategory::As(category) => {
                let found = self.categories.places.get(category).copied();
                (found, EncodingProblem::Unknown)
            }
            MissingCategory::Own => (Some(known), EncodingProblem::Missing),
            MissingCategory::Unseen => (None, EncodingProblem::Missing),
            MissingCategory::Refused => return Err(EncodingProblem::Missing),
        };
        match (found, self.unknown) {
            (Some(found), _) => Ok(Some(found)),
            (None, Some(OnUnknown::Own)) => Ok(Some(known + usize::from(is_own))),
            (None, rule) if rule.unwrap_or(default) == OnUnknown::Error => Err(problem),
            (None, _) => Ok(None),
        }
    }

    /// Its inputs in a graph of ONNX, from texts (samples, 1), of which `missing` are those of a missing value. What is an error
    /// here is an unknown category there.
    pub(in crate::numbers::csv) fn onnx(&self, graph: &mut Graph, missing: &[String]) -> Value {
        let shape = [Dimension::Free("batch"), Dimension::Fixed(1)];
        let mut text = graph.input(&self.name, ElementType::Text, &shape);
        let one_of = |graph: &mut Graph, text: &Value, texts: &[String]| {
            let texts = graph.texts(texts);
            let same = graph.of_two("Equal", text, &texts);
            graph.cast(&same, ElementType::Float)
        };
        let is_any = |graph: &mut Graph, inputs: &Value| {
            let axis = graph.ints(&[1]);
            graph.of_two("ReduceMax", inputs, &axis)
        };
        let is_missing = one_of(graph, &text, missing);
        let is_missing = is_any(graph, &is_missing);
        if let MissingCategory::As(category) = &self.missing {
            let zero = graph.number(0.0);
            let condition = graph.of_two("Greater", &is_missing, &zero);
            let category = graph.texts(std::slice::from_ref(category));
            text = graph.node("Where", &[&condition, &category, &text], &[]);
        }
        let mut choices = vec![one_of(graph, &text, &self.categories.texts)];
        if self.missing == MissingCategory::Own {
            choices.push(is_missing);
        }
        let mut inputs = graph.joined(&choices, 1);
        if self.unknown == Some(OnUnknown::Own) {
            let is_known = is_any(graph, &inputs);
            let one = graph.number(1.0);
            let is_unknown = graph.of_two("Sub", &one, &is_known);
            inputs = graph.joined(&[inputs, is_unknown], 1);
        }
        if !self.is_embedded {
            return inputs;
        }
        // The number of the choice, from 1.
        let numbers: Vec<f32> = (1..=self.choices()).map(|number| number as f32).collect();
        let numbers = graph.numbers(&numbers, &[numbers.len(), 1]);
        graph.of_two("MatMul", &inputs, &numbers)
    }

    /// Checks what was read from a file.
    pub(in crate::numbers::csv) fn check(&self) -> Result<(), String> {
        let (name, known) = (&self.name, self.categories.texts.len());
        if known != self.counts.len() {
            return Err(format!(
                "the column `{name}` has {known} categories, but counts of {}",
                self.counts.len()
            ));
        }
        match &self.missing {
            MissingCategory::As(category) if !self.categories.places.contains_key(category) => {
                Err(format!(
                    "a missing value of the column `{name}` is replaced by `{category}`, which is not one of its categories"
                ))
            }
            _ => Ok(()),
        }
    }
}
