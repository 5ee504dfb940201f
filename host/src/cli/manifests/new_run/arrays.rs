//! NumPy arrays and safetensors: which are the inputs, and which the targets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sconce_data::arrays::{ArraySurvey, survey_npy, survey_safetensors};
use serde_json::{Value, json};

use super::goal::Goal;
use crate::diagnostic::Diagnostic;

/// Words for inputs in names of files and tensors, each with one for their targets.
const PAIRS: [(&str, &str); 10] = [
    ("x", "y"),
    ("X", "y"),
    ("X", "Y"),
    ("inputs", "targets"),
    ("input", "target"),
    ("images", "labels"),
    ("features", "labels"),
    ("features", "targets"),
    ("data", "labels"),
    ("data", "targets"),
];

/// Arrays of inputs and targets.
#[derive(Debug, PartialEq)]
pub(super) struct ArrayPlan {
    names: ArrayNames,
    pub(super) goal: Goal,
    /// Whether convolutions can take the samples: (channels, height, width).
    pub(super) is_image: bool,
    pub(super) samples: usize,
    pub(super) findings: Vec<String>,
}

#[derive(Debug, PartialEq)]
enum ArrayNames {
    Npy {
        inputs: PathBuf,
        targets: PathBuf,
    },
    Tensors {
        file: PathBuf,
        inputs: String,
        targets: String,
    },
}

impl ArrayPlan {
    /// Surveys a NumPy file and its targets', which is given or beside it; or, of a directory, such a pair in it.
    pub(super) fn of_npy(place: &Path, target: Option<&Path>) -> Result<ArrayPlan, Diagnostic> {
        let (inputs, targets) = match target {
            Some(target) => (place.to_owned(), target.to_owned()),
            None => pair(place).ok_or_else(|| {
                let problem = format!("no targets of `{}` were found", place.display());
                Diagnostic::new(problem).hint("name their file: `--target y.npy`")
            })?,
        };
        let survey = |file: &Path| survey_npy(file).map_err(|error| failed(&error));
        let findings = vec![
            format!("inputs  `{}`", inputs.display()),
            format!("target  `{}`; another: `--target FILE`", targets.display()),
        ];
        let pair = (survey(&inputs)?, survey(&targets)?);
        Self::of(
            ArrayNames::Npy { inputs, targets },
            &pair.0,
            &pair.1,
            findings,
        )
    }

    /// Surveys a safetensors file.
    pub(super) fn of_tensors(file: &Path, target: Option<&str>) -> Result<ArrayPlan, Diagnostic> {
        let tensors = survey_safetensors(file).map_err(|error| failed(&error))?;
        let (inputs, targets) = tensors_of(&tensors, target).ok_or_else(|| {
            let names: Vec<&str> = tensors.keys().map(String::as_str).collect();
            let problem = format!(
                "`{}` has no tensors that look like inputs and targets; it has: {}",
                file.display(),
                names.join(", ")
            );
            Diagnostic::new(problem).hint(
                "inputs are found by the names `inputs`, `x`, `images`, `features` and `data`",
            )
        })?;
        let findings = vec![
            format!("inputs  `{}`", inputs.0),
            format!("target  `{}`; another: `--target TENSOR`", targets.0),
        ];
        let names = ArrayNames::Tensors {
            file: file.to_owned(),
            inputs: inputs.0.clone(),
            targets: targets.0.clone(),
        };
        Self::of(names, inputs.1, targets.1, findings)
    }

    fn of(
        names: ArrayNames,
        inputs: &ArraySurvey,
        targets: &ArraySurvey,
        mut findings: Vec<String>,
    ) -> Result<ArrayPlan, Diagnostic> {
        let count = |array: &ArraySurvey| array.shape.first().copied().unwrap_or(0);
        let (samples, found) = (count(inputs), count(targets));
        if samples != found {
            return Err(Diagnostic::new(format!(
                "there are {samples} inputs, but {found} targets"
            )));
        }
        if samples < 5 {
            return Err(Diagnostic::new(format!(
                "there are {samples} samples: at least 5 are needed to train and validate"
            )));
        }
        if !matches!(targets.shape[..], [_] | [_, 1]) && targets.is_integer {
            return Err(Diagnostic::new(format!(
                "the targets are integers of shape {:?}: classes must be (samples)",
                targets.shape
            )));
        }
        let goal = if targets.is_integer {
            Goal::of_classes(class_counts(targets)?)
        } else {
            Goal::Numbers
        };
        let values = targets.values.as_ref().map_or(0, BTreeMap::len);
        findings.push(match goal {
            Goal::Classes { .. } => format!("task    {}: {values} distinct integers", goal.words()),
            _ if (2..=10).contains(&values) => format!(
                "task    {}: the targets are floats, though of {values} values; for classes save them as integers, \
                 `y.astype(\"int64\")`",
                goal.words()
            ),
            _ => format!("task    {}: the targets are floats", goal.words()),
        });
        let sample = inputs.shape.get(1..).unwrap_or_default();
        Ok(ArrayPlan {
            names,
            goal,
            samples,
            is_image: matches!(sample, [1..=4, height, width] if height.min(width) >= &16),
            findings,
        })
    }

    /// Returns the manifest's `data`.
    pub(super) fn data(&self, from: impl Fn(&Path) -> PathBuf) -> Value {
        let mut data = match &self.names {
            ArrayNames::Npy { inputs, targets } => {
                json!({"kind": "npy", "inputs": from(inputs), "targets": from(targets)})
            }
            ArrayNames::Tensors {
                file,
                inputs,
                targets,
            } => {
                json!({"kind": "safetensors", "file": from(file), "inputs": inputs, "targets": targets})
            }
        };
        data["standardise"] = json!(true);
        data["val"] = json!({"fraction": 0.2});
        if self.goal.is_classes() {
            data["stratified"] = json!(true);
        }
        data
    }
}

fn failed(error: &sconce_data::DataError) -> Diagnostic {
    Diagnostic::new(error.to_string())
}

/// Returns the number of samples of the rarest and the most frequent class; an error if the integers aren't classes.
fn class_counts(targets: &ArraySurvey) -> Result<[usize; 2], Diagnostic> {
    let values = targets.values.as_ref().filter(|values| values.len() > 1);
    let values = values.ok_or_else(|| {
        let problem =
            "the targets are integers, which are classes, but have one value or more than 1,000";
        Diagnostic::new(problem).hint("save numbers as floats: `y.astype(\"float32\")`")
    })?;
    let (smallest, largest) = (values.keys().next(), values.keys().next_back());
    if smallest.is_some_and(|class| *class < 0) {
        let problem = "the targets have negative integers; classes are counted from 0";
        return Err(
            Diagnostic::new(problem).hint("`numpy.unique(y, return_inverse=True)[1]` numbers them")
        );
    }
    if largest
        .is_some_and(|class| usize::try_from(*class).is_ok_and(|class| class > 10 * values.len()))
    {
        let problem =
            "the targets are integers, which are classes, but with gaps between their values";
        return Err(Diagnostic::new(problem).hint(
            "save numbers as floats, `y.astype(\"float32\")`; `numpy.unique(y, return_inverse=True)[1]` numbers classes",
        ));
    }
    let counts = values.values().copied();
    Ok([counts.clone().min().unwrap_or(0), counts.max().unwrap_or(0)])
}

/// Finds the files of inputs and targets: `x.npy` and `y.npy`, `x_train.npy` and `y_train.npy`.
fn pair(place: &Path) -> Option<(PathBuf, PathBuf)> {
    let directory = if place.is_dir() {
        place
    } else {
        place.parent()?
    };
    let stem = place.file_stem().unwrap_or_default().to_string_lossy();
    for (input, target) in PAIRS {
        for ending in ["", "_train", "-train"] {
            let (one, other) = (format!("{input}{ending}"), format!("{target}{ending}"));
            let inputs = directory.join(format!("{one}.npy"));
            let targets = directory.join(format!("{other}.npy"));
            let is_named = place.is_dir() || stem == one.as_str() || stem == other.as_str();
            if is_named && inputs.is_file() && targets.is_file() {
                return Some((inputs, targets));
            }
        }
    }
    None
}

type Named<'a> = (&'a String, &'a ArraySurvey);

fn tensors_of<'a>(
    tensors: &'a BTreeMap<String, ArraySurvey>,
    target: Option<&str>,
) -> Option<(Named<'a>, Named<'a>)> {
    PAIRS.iter().find_map(|(input, default)| {
        let inputs = tensors.get_key_value(*input)?;
        Some((inputs, tensors.get_key_value(target.unwrap_or(default))?))
    })
}
