//! Whether data are read whole before training or on demand, in the manifest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much of the data is kept in memory. The batches are the same to the bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryUse {
    /// All of it, unless it is large: above 1 GiB (4 GiB of decoded images of an image folder) as
    /// `on-demand`.
    #[default]
    Auto,
    /// All of it: files are read once, before training.
    Whole,
    /// The batches being prepared: each batch's samples are read when it is prepared, by the threads
    /// that prepare batches. Files must not change in the meantime. Gzipped files are read whole.
    OnDemand,
}

impl MemoryUse {
    /// Whether data of `size` bytes are kept in memory, where more than `most` are too large.
    pub(crate) fn is_whole(self, size: u64, most: u64) -> bool {
        match self {
            MemoryUse::Auto => size <= most,
            MemoryUse::Whole => true,
            MemoryUse::OnDemand => false,
        }
    }

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde hands over a reference"
    )]
    pub(crate) fn is_default(&self) -> bool {
        *self == MemoryUse::default()
    }
}

/// Size in bytes above which a file is [read on demand](MemoryUse::Auto): 1 GiB.
pub(crate) const MOST_OF_A_FILE: u64 = 1 << 30;

/// Size in bytes above which decoded images are [read on demand](MemoryUse::Auto): 4 GiB. It is larger
/// than that of files that only have to be read, as each image is then decoded again in each epoch.
pub(crate) const MOST_DECODED: u64 = 4 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_data_are_read_on_demand_unless_the_manifest_decides() {
        for (memory, at_limit, above) in [
            (MemoryUse::Auto, true, false),
            (MemoryUse::Whole, true, true),
            (MemoryUse::OnDemand, false, false),
        ] {
            assert_eq!(memory.is_whole(100, 100), at_limit, "{memory:?}");
            assert_eq!(memory.is_whole(101, 100), above, "{memory:?}");
        }
    }
}
