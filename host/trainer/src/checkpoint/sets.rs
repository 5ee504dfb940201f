//! Sets of weights in a checkpoint: the trained parameters, and averages that hooks publish as
//! `SET/PARAMETER`.
//!
//! `parameters.safetensors` holds the set measured by the last evaluation: the one that `eval`,
//! `predict`, a manifest's `weights` and every other program read. If that is a set of averages, the
//! trained parameters are next to it in `trained.safetensors`, and the set is not repeated in
//! `training.safetensors`.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use candle_core::Tensor;
use serde::{Deserialize, Serialize};

use super::header::lacks_base;
use super::index::Index;
use super::layout::{self, PARAMETERS, STATE, TRAINED_FILE, TRAINING};
use super::section::Section;
use super::sound::check_phase;
use super::{Checkpoint, CheckpointError, CheckpointHeader, PhaseState, WeightsId};

/// Name of the set of trained parameters.
pub const TRAINED: &str = "parameters";

/// A set of weights.
#[derive(Debug)]
pub struct Weights {
    /// Name of the set.
    pub set: String,
    /// Tensors, by the parameters' names.
    pub tensors: Vec<(String, Tensor)>,
}

/// Metrics that a checkpoint has of its weights.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SavedMetrics {
    /// Its weights, in the set that was read.
    pub weights: WeightsId,
    /// Metrics of each phase, also those measured with earlier weights.
    pub phases: Vec<PhaseState>,
}

/// The set that was measured, if it is not the trained parameters.
pub(super) struct Measured<'a> {
    /// By the parameters' names; a parameter missing from the set is the trained one.
    pub(super) parameters: Vec<(&'a str, &'a Tensor)>,
    /// Full names of the published tensors among them.
    pub(super) published: HashSet<String>,
}

/// Returns the tensors that go to `parameters.safetensors` instead of the trained parameters.
pub(super) fn measured(checkpoint: &Checkpoint) -> Option<Measured<'_>> {
    let set = checkpoint.header.measured.as_deref()?;
    let mut published = HashSet::new();
    let tensors = checkpoint.tensors.iter();
    let by_name: HashMap<&str, &Tensor> = tensors.map(|(name, t)| (name.as_str(), t)).collect();
    let parameters = checkpoint.under(Section::Parameters).map(|(name, own)| {
        let full = Section::Published.full_name(&format!("{set}/{name}"));
        match by_name.get(full.as_str()) {
            Some(tensor) if tensor.dims() == own.dims() && tensor.dtype() == own.dtype() => {
                published.insert(full);
                (name, *tensor)
            }
            _ => (name, own),
        }
    });
    let parameters = parameters.collect();
    Some(Measured {
        parameters,
        published,
    })
}

/// Published tensors of the measured set, by their full names.
pub(super) fn published(
    set: &str,
    header: &CheckpointHeader,
    tensors: Vec<(String, Tensor)>,
) -> Vec<(String, Tensor)> {
    let publishers = header.publishers.iter();
    let known: HashSet<&str> = publishers
        .map(|publisher| publisher.name.as_str())
        .collect();
    let named = tensors.into_iter().filter_map(|(name, tensor)| {
        let published = format!("{set}/{name}");
        let is_published = known.contains(published.as_str());
        is_published.then(|| (Section::Published.full_name(&published), tensor))
    });
    named.collect()
}

/// Reads a set of weights from a checkpoint's directory: the named one, or the one that was
/// measured.
///
/// # Errors
///
/// If the checkpoint is damaged or has no such set; the message then lists the names of all sets.
pub fn weights(directory: &Path, set: Option<&str>) -> Result<Weights, CheckpointError> {
    weights_and_metrics(directory, set).map(|(weights, _)| weights)
}

/// As [`weights`], for a model by itself.
///
/// # Errors
///
/// As [`weights`], or if the checkpoint has adapters alone.
pub fn whole_weights(directory: &Path, set: Option<&str>) -> Result<Weights, CheckpointError> {
    let weights = weights(directory, set)?;
    if lacks_base(directory) {
        return Err(CheckpointError::AdaptersAlone {
            path: directory.to_owned(),
        });
    }
    Ok(weights)
}

/// As [`weights`], with what the checkpoint says of their quality.
///
/// # Errors
///
/// As [`weights`].
pub fn weights_and_metrics(
    directory: &Path,
    set: Option<&str>,
) -> Result<(Weights, SavedMetrics), CheckpointError> {
    let index = Index::read(directory)?;
    let damaged = |name: &str, reason: String| CheckpointError::Damaged {
        path: directory.to_owned(),
        reason: format!("`{name}`: {reason}"),
    };
    let tensors = |name: &str| {
        let bytes = index.file(directory, name)?;
        layout::tensors(&bytes).map_err(|reason| damaged(name, reason))
    };
    let header: CheckpointHeader =
        layout::parsed(&index.file(directory, STATE)?).map_err(|reason| damaged(STATE, reason))?;
    let measured = header.measured.as_deref().unwrap_or(TRAINED);
    let set = set.unwrap_or(measured);
    for (index, state) in header.metrics.iter().enumerate() {
        let checked = check_phase(state, &format!("metrics[{index}]"));
        checked.map_err(|reason| damaged(STATE, reason))?;
    }
    let metrics = SavedMetrics {
        weights: WeightsId {
            epoch: header.progress.epoch,
            iteration: header.progress.iteration,
            update: header.progress.update,
            set: (set != TRAINED).then(|| set.to_owned()),
        },
        phases: header.metrics,
    };
    let found = |tensors| {
        let weights = Weights {
            set: set.to_owned(),
            tensors,
        };
        Ok((weights, metrics))
    };
    if set == measured {
        return found(tensors(PARAMETERS)?);
    }
    if set == TRAINED {
        return found(tensors(TRAINED_FILE)?);
    }
    let own = match header.measured {
        Some(_) => tensors(TRAINED_FILE)?,
        None => tensors(PARAMETERS)?,
    };
    let training = if index.has(TRAINING) {
        tensors(TRAINING)?
    } else {
        Vec::new()
    };
    let of_set = |set: &str, name: &str| {
        let full = Section::Published.full_name(&format!("{set}/{name}"));
        training.iter().find(|(known, _)| *known == full)
    };
    if !own.iter().any(|(name, _)| of_set(set, name).is_some()) {
        let mut known = vec![measured];
        known.extend((measured != TRAINED).then_some(TRAINED));
        known.extend(others(&own, &training));
        let known: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
        return Err(CheckpointError::Set {
            path: directory.to_owned(),
            set: set.to_owned(),
            known: known.join(", "),
        });
    }
    let all = own.iter().map(|(name, own)| {
        let averaged = of_set(set, name).map(|(_, tensor)| tensor);
        (name.clone(), averaged.unwrap_or(own).clone())
    });
    found(all.collect())
}

/// Names of the sets among the published tensors.
fn others<'a>(own: &[(String, Tensor)], training: &'a [(String, Tensor)]) -> Vec<&'a str> {
    let set_of = |full: &'a str| {
        let published = Section::Published.own_name(full)?;
        let mut names = own.iter();
        names.find_map(|(name, _)| published.strip_suffix(name.as_str())?.strip_suffix('/'))
    };
    let mut sets: Vec<&str> = training
        .iter()
        .filter_map(|(name, _)| set_of(name))
        .collect();
    sets.sort_unstable();
    sets.dedup();
    sets
}
