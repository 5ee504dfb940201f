//! A queue of earlier keys: a published tensor that checkpoints hold, of which the oldest rows are replaced.

use std::borrow::Cow;

use sconce_plugin_api::Collection;
use sconce_plugin_api::prelude::*;

use crate::collapse::length;
use crate::outputs::table;

/// Where the queue is written to next, and how full it is.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct QueuePlace {
    next: u64,
    filled: u64,
}

/// A queue of one hook.
pub(crate) struct Queue {
    name: String,
    /// Rows.
    size: u64,
}

impl Queue {
    pub(crate) fn new(size: u64, setup: &Setup<'_>) -> Result<Queue> {
        if !(1..=MOST).contains(&size) {
            bail!("`queue` has from 1 to {MOST} keys, found {size}");
        }
        Ok(Queue {
            name: format!("{}.queue", setup.name()),
            size,
        })
    }

    /// The keys in it, row by row; none at first.
    pub(crate) fn keys<'view>(
        &self,
        place: &QueuePlace,
        task: &'view TaskView<'_>,
    ) -> Result<Cow<'view, [f32]>> {
        if place.filled == 0 {
            return Ok(Cow::Borrowed(&[]));
        }
        let tensor = task.tensors(Collection::Published).named(&self.name)?;
        let (values, width) = table(&tensor)?;
        let filled = usize::try_from(place.filled).unwrap_or(usize::MAX);
        let count = filled.saturating_mul(width).min(values.len());
        Ok(match values {
            Cow::Borrowed(values) => Cow::Borrowed(values.get(..count).unwrap_or_default()),
            Cow::Owned(mut values) => {
                values.truncate(count);
                Cow::Owned(values)
            }
        })
    }

    /// Puts keys, rows of `width` elements, in the place of the oldest.
    pub(crate) fn push(
        &self,
        place: &mut QueuePlace,
        task: &mut AfterUpdate<'_>,
        keys: &[Vec<f32>],
        width: usize,
    ) -> Result<()> {
        if width == 0 {
            return Ok(());
        }
        if !task.tensors(Collection::Published).has(&self.name)? {
            let rows = usize::try_from(self.size).unwrap_or(usize::MAX);
            let none = vec![0.0_f32; rows.saturating_mul(width)];
            task.publish_tensor(&self.name, &[rows, width], &none, Keep::Run)?;
        }
        let mut tensor = task.published_tensor_mut(&self.name)?;
        let rows = tensor.as_mut_slice::<f32>()?;
        for key in keys.iter().flat_map(|keys| keys.chunks_exact(width)) {
            let begin = (place.next as usize).saturating_mul(width);
            if let Some(row) = rows.get_mut(begin..begin.saturating_add(width)) {
                row.copy_from_slice(key);
            }
            place.next = (place.next + 1) % self.size;
            place.filled = (place.filled + 1).min(self.size);
        }
        Ok(())
    }
}

/// Most keys.
const MOST: u64 = 1 << 24;

/// Rows divided by their lengths.
pub(crate) fn directions(rows: &[f32], width: usize) -> Vec<f32> {
    let each = rows.chunks_exact(width.max(1));
    each.flat_map(|row| {
        let length = length(row);
        row.iter().map(move |&x| (f64::from(x) / length) as f32)
    })
    .collect()
}
