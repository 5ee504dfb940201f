//! The samples of each class.

use crate::{DataError, Dataset};

/// Samples read at a time where classes are not at hand.
const CHUNK: u32 = 256;

/// Returns how many targets of a data set are of each of its classes; empty for numeric targets.
///
/// # Errors
///
/// If samples can't be read.
pub fn class_counts(data: &dyn Dataset) -> Result<Vec<u64>, DataError> {
    let mut counts = vec![0; data.class_names().len()];
    visit(data, |_, class| {
        if let Some(count) = counts.get_mut(class as usize) {
            *count += 1;
        }
    })?;
    Ok(counts)
}

/// Returns the indices of each class's samples, of which each has one target; empty for numeric targets.
///
/// # Errors
///
/// If samples can't be read.
pub(crate) fn class_members(data: &dyn Dataset) -> Result<Vec<Vec<u32>>, DataError> {
    let mut members = vec![Vec::new(); data.class_names().len()];
    visit(data, |index, class| {
        if let Some(members) = members.get_mut(class as usize) {
            members.push(index);
        }
    })?;
    Ok(members)
}

/// Calls `see` with the index and the class of each target, or of a sample's targets in turn.
fn visit(data: &dyn Dataset, mut see: impl FnMut(u32, u32)) -> Result<(), DataError> {
    if data.class_names().is_empty() {
        return Ok(());
    }
    let end = u32::try_from(data.len()).unwrap_or(u32::MAX);
    let mut start = 0;
    while start < end {
        if let Some(class) = data.class_of(start) {
            see(start, class);
            start += 1;
            continue;
        }
        let indices: Vec<u32> = (start..end.min(start.saturating_add(CHUNK))).collect();
        let targets = data.gather(&indices, 0)?.targets;
        let of_each = targets.elem_count() / indices.len().max(1);
        let targets: Vec<u32> = targets.flatten_all()?.to_vec1()?;
        for (sample, targets) in indices.iter().zip(targets.chunks(of_each.max(1))) {
            for &class in targets {
                see(*sample, class);
            }
        }
        start += indices.len() as u32;
    }
    Ok(())
}
