//! What the files of the two versions are called and hold.
//!
//! A record is its labels, a byte each (CIFAR-100: first the coarse, then the fine one), and 3072
//! bytes of pixels: red, green and blue, each row by row. After
//! <https://www.cs.toronto.edu/~kriz/cifar.html>.

use super::config::{CifarLabels, CifarVersion};
use super::names;

/// Channels, height, width.
pub(super) const SHAPE: [usize; 3] = [3, 32, 32];

/// The bytes of an image.
pub(super) const PIXELS: usize = 3 * 32 * 32;

/// A version, with the labels that are learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) version: CifarVersion,
    /// How many labels a record begins with.
    pub(super) labels: usize,
    /// Which of them is learned.
    pub(super) label: usize,
    pub(super) train: &'static [&'static str],
    pub(super) test: &'static str,
    /// The file with the classes' names.
    pub(super) names_file: &'static str,
    /// The names, where that isn't there.
    pub(super) names: &'static str,
    /// What the archive unpacks to.
    pub(super) folder: &'static str,
    /// Its files, in words.
    pub(super) files: &'static str,
}

impl Layout {
    pub(super) fn of(version: CifarVersion, labels: CifarLabels) -> Layout {
        let (label, names_file, names) = match (version, labels) {
            (CifarVersion::Ten, _) => (0, "batches.meta.txt", names::TEN),
            (CifarVersion::Hundred, CifarLabels::Coarse) => {
                (0, "coarse_label_names.txt", names::COARSE)
            }
            (CifarVersion::Hundred, CifarLabels::Fine) => (1, "fine_label_names.txt", names::FINE),
        };
        match version {
            CifarVersion::Ten => Layout {
                version,
                labels: 1,
                label,
                train: &[
                    "data_batch_1.bin",
                    "data_batch_2.bin",
                    "data_batch_3.bin",
                    "data_batch_4.bin",
                    "data_batch_5.bin",
                ],
                test: "test_batch.bin",
                names_file,
                names,
                folder: "cifar-10-batches-bin",
                files: "`data_batch_1.bin` to `data_batch_5.bin` and `test_batch.bin`",
            },
            CifarVersion::Hundred => Layout {
                version,
                labels: 2,
                label,
                train: &["train.bin"],
                test: "test.bin",
                names_file,
                names,
                folder: "cifar-100-binary",
                files: "`train.bin` and `test.bin`",
            },
        }
    }

    /// The bytes of a record.
    pub(super) fn record(&self) -> usize {
        self.labels + PIXELS
    }

    /// The bytes of a record of the other version.
    pub(super) fn other_record(&self) -> usize {
        PIXELS + 3 - self.labels
    }

    /// How many classes there are.
    pub(super) fn classes(&self) -> usize {
        self.names.split_ascii_whitespace().count()
    }
}
