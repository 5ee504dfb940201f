//! `model.json`: what a saved model is, and the files that belong to it.

use std::path::Path;

use sconce_base::regular_file::read_at_most;
use serde::{Deserialize, Serialize};

use super::ModelDirectoryError;
use super::facts::ModelFacts;
use crate::data::{Inputs, Preprocessing, Targets};
use crate::listed_file::ListedFile;
use crate::printable::one_line;
use crate::version::HOST_VERSION;

/// Name of the file.
pub(crate) const DESCRIPTION: &str = "model.json";

/// Newest format, which is written.
const FORMAT: u32 = 1;

/// Oldest format whose reader understands what is written now.
const LEAST_READER: u32 = 1;

/// Size in bytes above which the file is not read: no model's layers need as much.
const LARGEST: u64 = 64 << 20;

/// Contents of `model.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Description {
    format: u32,
    least_reader: u32,
    written_by: String,
    /// Architecture and computation.
    pub(super) facts: ModelFacts,
    /// What the model is given and what it gives.
    pub(super) signature: Signature,
    /// Name of the set of weights: `parameters`, the trained ones, or that of averages.
    pub(super) set: String,
    /// All other files.
    pub(super) files: Vec<ListedFile>,
}

/// What a model is given and what it gives; both follow from its preprocessing, with which they are compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Signature {
    /// Shape of a sample's input, without the batch.
    input_shape: Vec<usize>,
    /// Number of different tokens, if the inputs are some.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    tokens: Option<usize>,
    /// What the outputs are.
    output: OutputKind,
    /// Number of classes or values.
    outputs: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum OutputKind {
    Classes,
    ClassesPerPosition,
    Numbers,
    Vectors,
}

impl Signature {
    pub(super) fn of(preprocessing: &Preprocessing) -> Signature {
        let targets = preprocessing.targets();
        Signature {
            input_shape: preprocessing.sample_shape(),
            tokens: match preprocessing.inputs() {
                Inputs::Tokens(count) => Some(count),
                Inputs::Numbers | Inputs::Columns(_) => None,
            },
            output: match targets {
                Targets::Class(_) => OutputKind::Classes,
                Targets::ClassPerPosition(_) | Targets::TokenPerPosition(_) => {
                    OutputKind::ClassesPerPosition
                }
                Targets::Numbers(_) => OutputKind::Numbers,
                Targets::None => OutputKind::Vectors,
            },
            outputs: targets.outputs(),
        }
    }
}

/// What every format has, checked before the rest is looked at.
#[derive(Deserialize)]
struct FormatHeader {
    format: u32,
    least_reader: u32,
    written_by: String,
}

impl Description {
    pub(super) fn new(
        facts: ModelFacts,
        signature: Signature,
        set: String,
        files: Vec<ListedFile>,
    ) -> Description {
        Description {
            format: FORMAT,
            least_reader: LEAST_READER,
            written_by: HOST_VERSION.to_owned(),
            facts,
            signature,
            set,
            files,
        }
    }

    /// Reads and checks the description in a directory.
    pub(super) fn read(directory: &Path) -> Result<Description, ModelDirectoryError> {
        let file = directory.join(DESCRIPTION);
        let bytes = read_at_most(&file, LARGEST).map_err(|error| {
            let text = format!("`{}`: {error}", file.display());
            ModelDirectoryError::Unreadable(std::io::Error::new(error.kind(), text))
        })?;
        let invalid = |path: &str, problem: &str| ModelDirectoryError::Invalid {
            file: file.clone(),
            at: match path {
                "" | "." => String::new(),
                path => format!(" at `{}`", one_line(path)),
            },
            problem: one_line(problem).into_owned(),
        };
        let header: FormatHeader =
            serde_json::from_slice(&bytes).map_err(|error| invalid("", &error.to_string()))?;
        if header.least_reader > FORMAT {
            return Err(ModelDirectoryError::Newer {
                file,
                written_by: one_line(&header.written_by).into_owned(),
                format: header.format,
                least_reader: header.least_reader,
                known: FORMAT,
            });
        }
        let mut deserializer = serde_json::Deserializer::from_slice(&bytes);
        let found: Description =
            serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
                let path = error.path().to_string();
                invalid(&path, &error.into_inner().to_string())
            })?;
        deserializer
            .end()
            .map_err(|error| invalid("", &error.to_string()))?;
        let facts = found.facts.clone().checked();
        facts.map_err(|problem| invalid("facts", &problem))?;
        Ok(found)
    }

    /// Reads and verifies the file of a name, if it is one of the model's.
    pub(super) fn file(
        &self,
        directory: &Path,
        name: &str,
    ) -> Option<Result<Vec<u8>, ModelDirectoryError>> {
        let entry = self.files.iter().find(|entry| entry.name == name)?;
        let changed = |problem| ModelDirectoryError::Changed {
            file: directory.join(name),
            problem,
        };
        Some(entry.read(directory, DESCRIPTION).map_err(changed))
    }
}
