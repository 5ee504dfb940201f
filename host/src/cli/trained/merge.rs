//! `sconce merge`: a pretrained model with the adapters that were trained beside it.

use std::path::{Path, PathBuf};

use clap::Args;
use sconce_base::regular_file::read_at_most;
use sconce_trainer::adapters::{self, ADAPTER, ADAPTER_CONFIG};
use serde::Deserialize;

use crate::cli::show::output;
use crate::cli::trained::usage;
use crate::exit;
use crate::nn::ModelConfig;
use crate::record::source;
use crate::session::StartFailure;
use crate::weights::WeightsConfig;

/// Size in bytes above which a run's manifest is not read.
const LARGEST: u64 = 64 << 20;

/// Arguments of `sconce merge`.
#[derive(Debug, Args)]
pub(in crate::cli) struct MergeArgs {
    /// Directory of a run with adapters, or one of PEFT's.
    run: PathBuf,
    /// What the adapters were trained beside: a file of weights, or a directory with several. Default: what the run's
    /// manifest names.
    #[arg(long, value_name = "PATH")]
    base: Option<PathBuf>,
    /// Directory for the merged weights, and for what is beside those of the base.
    #[arg(long, value_name = "DIRECTORY")]
    output: PathBuf,
}

/// The part of a run's manifest that says what its adapters were trained beside.
#[derive(Deserialize)]
struct TrainedBeside {
    weights: WeightsConfig,
    model: Option<ModelConfig>,
}

pub(in crate::cli) fn merge(arguments: &MergeArgs) -> Result<u8, StartFailure> {
    let MergeArgs {
        run,
        base,
        output: directory,
    } = arguments;
    let of_run = run.join(ADAPTER);
    let adapter = if of_run.is_dir() { &of_run } else { run };
    if !adapter.join(ADAPTER_CONFIG).exists() {
        let problem = format!(
            "`{}` has no adapters: no `{ADAPTER_CONFIG}` of PEFT's",
            run.display()
        );
        return Err(usage(
            problem,
            "a run with `adapt` in its manifest leaves them",
        ));
    }
    let named = trained_beside(run);
    let base = match (base, &named) {
        (Some(base), _) => base.clone(),
        (None, Some(manifest)) => found(run, &manifest.weights.file),
        (None, None) => {
            let problem = format!(
                "`{}` has no manifest of a run that says what the adapters were trained beside",
                run.display()
            );
            return Err(usage(problem, "`--base PATH` names it"));
        }
    };
    if directory.exists() && base.canonicalize().ok() == directory.canonicalize().ok() {
        let problem = format!(
            "`{}` is what the adapters were trained beside",
            directory.display()
        );
        return Err(usage(problem, "`--output` names another directory"));
    }
    let (model, renames) = match named {
        Some(manifest) => (manifest.model, manifest.weights.rename),
        None => Default::default(),
    };
    let family = model.map(|model| model.family_names()).unwrap_or_default();
    let merged =
        adapters::merge_files(&base, adapter, (&renames, &family), directory).map_err(|error| {
            usage(
                error.to_string(),
                "the base must be the one that the adapters were trained beside",
            )
        })?;
    output::line(&format!(
        "{} weights of {} changed by the adapters in {}, {} others replaced:",
        merged.adapted,
        base.display(),
        adapter.display(),
        merged.replaced
    ));
    for file in &merged.files {
        output::line(&file.display().to_string());
    }
    Ok(exit::DONE)
}

/// The weights that a run's manifest names.
fn trained_beside(run: &Path) -> Option<TrainedBeside> {
    let text = read_at_most(&run.join("manifest.json"), LARGEST).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Where a path of a run's manifest leads.
fn found(run: &Path, file: &Path) -> PathBuf {
    let of_manifest = source::read(run).map(|directory| directory.join(file));
    let existing = of_manifest.filter(|path| path.exists());
    existing.unwrap_or_else(|| file.to_owned())
}
