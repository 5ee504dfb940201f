//! Renaming of a file's weights by prefix, for models written by other programs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use candle_core::Tensor;

use super::{Comparison, Renames, WeightsError};
use sconce_base::nearest::nearest;

/// Renames the weights.
///
/// # Errors
///
/// If a prefix matches no name, or two weights get the same name.
pub(super) fn renamed(
    tensors: Vec<(String, Tensor)>,
    renames: &Renames,
    path: &Path,
) -> Result<Vec<(String, Tensor)>, WeightsError> {
    if renames.is_empty() {
        return Ok(tensors);
    }
    let failed = |reason: String| WeightsError::Rename {
        path: path.to_owned(),
        reason,
    };
    for prefix in renames.keys() {
        if !tensors.iter().any(|(name, _)| name.starts_with(prefix)) {
            return Err(failed(no_such_prefix(prefix, &tensors)));
        }
    }
    let mut origins: BTreeMap<String, String> = BTreeMap::new();
    let mut result = Vec::with_capacity(tensors.len());
    for (old, tensor) in tensors {
        let new = new_name(&old, renames);
        if let Some(other) = origins.insert(new.clone(), old.clone()) {
            return Err(failed(format!(
                "`{other}` and `{old}` would both be called `{new}`"
            )));
        }
        result.push((new, tensor));
    }
    Ok(result)
}

fn new_name(old: &str, renames: &Renames) -> String {
    let fitting = renames
        .iter()
        .filter_map(|(prefix, instead)| Some((prefix.len(), instead, old.strip_prefix(prefix)?)));
    let longest = fitting.max_by_key(|(length, ..)| *length);
    longest.map_or_else(
        || old.to_owned(),
        |(_, instead, rest)| format!("{instead}{rest}"),
    )
}

fn no_such_prefix(prefix: &str, tensors: &[(String, Tensor)]) -> String {
    let first_parts: BTreeSet<String> = tensors
        .iter()
        .map(|(name, _)| match name.split_once('.') {
            Some((first, _)) => format!("{first}."),
            None => name.clone(),
        })
        .collect();
    let near = nearest(prefix, first_parts.iter().map(String::as_str));
    let hint = if let Some(near) = near {
        format!("did you mean `{near}`?")
    } else {
        let first: Vec<String> = first_parts.iter().take(super::NAMED).cloned().collect();
        format!("they begin with `{}`", first.join("`, `"))
    };
    format!("no name of a weight begins with `{prefix}`; {hint}")
}

/// Renaming that would match most of the remaining weights, and their number.
pub(super) fn suggestion(comparison: &Comparison) -> Option<(String, String, usize)> {
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
