//! Number of samples of each class.

use super::{DataError, Dataset};

/// Samples read at a time where classes are not at hand.
const CHUNK: u32 = 256;

/// Returns how many targets of a data set are of each of its classes; empty for numeric targets.
///
/// # Errors
///
/// If samples can't be read.
pub fn class_counts(data: &dyn Dataset) -> Result<Vec<u64>, DataError> {
    let mut counts = vec![0; data.class_names().len()];
    if counts.is_empty() {
        return Ok(counts);
    }
    let mut count = |class: u32| {
        if let Some(count) = counts.get_mut(class as usize) {
            *count += 1;
        }
    };
    let end = u32::try_from(data.len()).unwrap_or(u32::MAX);
    let mut start = 0;
    while start < end {
        if let Some(class) = data.class_of(start) {
            count(class);
            start += 1;
            continue;
        }
        let indices: Vec<u32> = (start..end.min(start.saturating_add(CHUNK))).collect();
        let targets = data.gather(&indices, 0)?.targets.flatten_all()?;
        targets.to_vec1()?.into_iter().for_each(&mut count);
        start += indices.len() as u32;
    }
    Ok(counts)
}
