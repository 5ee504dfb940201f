//! Renaming of a file's weights by prefix, for models written by other programs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::stored::StoredTensor;
use super::{Renames, WeightsError};
use sconce_base::nearest::nearest;

/// Renames the weights.
///
/// # Errors
///
/// If a prefix matches no name, or two weights get the same name.
pub(super) fn renamed(
    tensors: Vec<StoredTensor>,
    renames: &Renames,
    path: &Path,
) -> Result<Vec<StoredTensor>, WeightsError> {
    if renames.is_empty() {
        return Ok(tensors);
    }
    let failed = |reason: String| WeightsError::Rename {
        path: path.to_owned(),
        reason,
    };
    for prefix in renames.keys() {
        if !tensors
            .iter()
            .any(|tensor| tensor.name().starts_with(prefix))
        {
            return Err(failed(no_such_prefix(prefix, &tensors)));
        }
    }
    let mut origins: BTreeMap<String, String> = BTreeMap::new();
    let mut result = Vec::with_capacity(tensors.len());
    for mut tensor in tensors {
        let old = tensor.name().to_owned();
        let new = new_name(&old, renames);
        if let Some(other) = origins.insert(new.clone(), old.clone()) {
            return Err(failed(format!(
                "`{other}` and `{old}` would both be called `{new}`"
            )));
        }
        tensor.rename(new);
        result.push(tensor);
    }
    Ok(result)
}

pub(super) fn new_name(old: &str, renames: &Renames) -> String {
    let fitting = renames
        .iter()
        .filter_map(|(prefix, instead)| Some((prefix.len(), instead, old.strip_prefix(prefix)?)));
    let longest = fitting.max_by_key(|(length, ..)| *length);
    longest.map_or_else(
        || old.to_owned(),
        |(_, instead, rest)| format!("{instead}{rest}"),
    )
}

fn no_such_prefix(prefix: &str, tensors: &[StoredTensor]) -> String {
    let first_parts: BTreeSet<String> = tensors
        .iter()
        .map(|tensor| match tensor.name().split_once('.') {
            Some((first, _)) => format!("{first}."),
            None => tensor.name().to_owned(),
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
