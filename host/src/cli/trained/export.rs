//! `sconce export`: a trained model for other programs.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use sconce_base::files;

use crate::cli::show::output;
use crate::cli::trained::TrainedArgs;
use crate::diagnostic::Diagnostic;
use crate::exit;
use crate::nn::onnx::{OnnxError, OnnxModel};
use crate::session::{StartFailure, TaskBuilder};

/// Arguments of `sconce export`.
#[derive(Debug, Args)]
pub(in crate::cli) struct ExportArgs {
    #[command(flatten)]
    trained: TrainedArgs,
    /// Format of the file.
    #[arg(long, value_enum, default_value_t = ExportFormat::Onnx)]
    format: ExportFormat,
    /// File to write; an existing one is replaced.
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
}

/// Format of an exported model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    /// A graph of ONNX's operations (opset 20).
    Onnx,
}

pub(in crate::cli) fn export(
    arguments: &ExportArgs,
    tasks: &dyn TaskBuilder,
) -> Result<u8, StartFailure> {
    let Some(model) = arguments.trained.model(tasks)? else {
        let problem = "a model that is complete in itself can be exported";
        let hint = "give the directory of a run, or of a checkpoint, in the manifest's place";
        return Err(StartFailure::usage(vec![
            Diagnostic::new(problem).hint(hint),
        ]));
    };
    let ExportFormat::Onnx = arguments.format;
    let written = match model.onnx() {
        Ok(onnx) => arguments.write(onnx),
        Err(error) => Err(ExportProblem::Model(error)),
    };
    match written {
        Ok(bytes) => {
            output::line(&format!("`{}`: {bytes} bytes", arguments.output.display()));
            Ok(exit::DONE)
        }
        Err(ExportProblem::Model(error)) => Err(StartFailure::usage(vec![Diagnostic::new(
            error.to_string(),
        )])),
        Err(ExportProblem::File(error)) => {
            let problem = format!("can't write `{}`: {error}", arguments.output.display());
            Err(StartFailure::usage(vec![Diagnostic::new(problem)]))
        }
    }
}

/// Why a model can't be exported.
enum ExportProblem {
    Model(OnnxError),
    File(std::io::Error),
}

impl From<OnnxError> for ExportProblem {
    fn from(error: OnnxError) -> Self {
        ExportProblem::Model(error)
    }
}

impl ExportArgs {
    /// Writes the file, and beside it one for weights that it has no room for; returns the number of bytes of both.
    fn write(&self, onnx: OnnxModel) -> Result<u64, ExportProblem> {
        let name = self
            .output
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        let (bytes, of_weights) = if onnx.is_large() {
            let data = format!("{name}.data");
            let file =
                File::create(self.output.with_file_name(&data)).map_err(ExportProblem::File)?;
            let (mut file, mut count) = (BufWriter::new(file), 0);
            let bytes = onnx.beside(&data, |weights| {
                count += weights.len() as u64;
                file.write_all(weights).map_err(ExportProblem::File)
            })?;
            let file = file
                .into_inner()
                .map_err(|error| ExportProblem::File(error.into_error()))?;
            file.sync_all().map_err(ExportProblem::File)?;
            (bytes, count)
        } else {
            (onnx.whole()?, 0)
        };
        files::write_atomically(&self.output, &bytes).map_err(ExportProblem::File)?;
        Ok(bytes.len() as u64 + of_weights)
    }
}
