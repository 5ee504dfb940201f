//! A queue of earlier keys: a published tensor that checkpoints hold, of which the oldest rows are replaced.

use std::borrow::Cow;

use sconce_plugin_api::Collection;
use sconce_plugin_api::prelude::*;

use crate::collapse::length;
use crate::outputs::table;

/// Where the queue is written to next.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct QueuePlace {
    next: u64,
    /// Whether all random directions are replaced.
    is_full: bool,
}

impl QueuePlace {
    /// Whether the queue has as many keys as it has room for.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }
}

/// A queue of one hook.
pub(crate) struct Queue {
    name: String,
    /// Rows.
    size: u64,
    seed: u64,
}

impl Queue {
    /// Of a name and a number of rows.
    pub(crate) fn new(name: &str, size: u64, setup: &Setup<'_>) -> Result<Queue> {
        if !(1..=MOST).contains(&size) {
            bail!("`queue` has from 1 to {MOST} keys, found {size}");
        }
        Ok(Queue {
            name: format!("{}.{name}", setup.name()),
            size,
            seed: setup.seed(),
        })
    }

    /// The keys in it, row by row: random directions before the first update.
    pub(crate) fn keys<'view>(
        &self,
        task: &'view TaskView<'_>,
        width: usize,
    ) -> Result<Cow<'view, [f32]>> {
        let published = task.tensors(Collection::Published);
        if !published.has(&self.name)? {
            return Ok(self.begin(width).into());
        }
        Ok(table(&published.named(&self.name)?)?.0)
    }

    /// Random directions, by which there are negatives from the first batch on.
    fn begin(&self, width: usize) -> Vec<f32> {
        let rows = usize::try_from(self.size).unwrap_or(usize::MAX);
        let mut state = self.seed;
        let numbers = (0..rows.saturating_mul(width)).map(|_| {
            state = state.wrapping_add(STEP);
            uniform(state)
        });
        directions(&numbers.collect::<Vec<f32>>(), width)
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
            let begin = self.begin(width);
            let shape = [begin.len() / width, width];
            task.publish_tensor(&self.name, &shape, &begin, Keep::Run)?;
        }
        let mut tensor = task.published_tensor_mut(&self.name)?;
        let rows = tensor.as_mut_slice::<f32>()?;
        // That of a damaged state is anywhere.
        place.next %= self.size;
        for key in keys.iter().flat_map(|keys| keys.chunks_exact(width)) {
            let begin = (place.next as usize).saturating_mul(width);
            if let Some(row) = rows.get_mut(begin..begin.saturating_add(width)) {
                row.copy_from_slice(key);
            }
            place.next = (place.next + 1) % self.size;
            place.is_full |= place.next == 0;
        }
        Ok(())
    }
}

/// A number from -1 to below 1 that looks random.
pub(crate) fn uniform(state: u64) -> f32 {
    (mixed(state) >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
}

/// Bits that look random: splitmix64 (Steele, Lea and Flood, 2014), whose states are [`STEP`] apart.
pub(crate) fn mixed(state: u64) -> u64 {
    let mut mixed = state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// From one state to the next.
pub(crate) const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

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
