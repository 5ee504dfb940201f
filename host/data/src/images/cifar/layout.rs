//! Names and layout of the files of both versions.
//!
//! A record consists of its labels, one byte each (CIFAR-100: coarse, then fine), and 3072 bytes of
//! pixels: red, green and blue planes, each in row-major order. Source:
//! <https://www.cs.toronto.edu/~kriz/cifar.html>.

use super::config::{CifarLabels, CifarVersion};
use super::names;

/// Shape of an image: channels, height, width.
pub(crate) const SHAPE: [usize; 3] = [3, 32, 32];

/// Number of bytes of an image.
pub(super) const PIXELS: usize = 3 * 32 * 32;

/// Layout of a version's files, with the labels to learn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) version: CifarVersion,
    /// Number of labels at the start of a record.
    pub(super) labels: usize,
    /// Index of the label to learn.
    pub(super) label: usize,
    pub(super) train: &'static [&'static str],
    pub(super) test: &'static str,
    /// File with the class names.
    pub(super) names_file: &'static str,
    /// Class names if that file is missing.
    pub(super) names: &'static str,
    /// Name of the directory in the archive.
    pub(super) folder: &'static str,
    /// Names of the files, for messages.
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

    /// Returns the size of a record in bytes.
    pub(super) fn record(&self) -> usize {
        self.labels + PIXELS
    }

    /// Returns the size of the other version's records in bytes.
    pub(super) fn other_record(&self) -> usize {
        PIXELS + 3 - self.labels
    }

    /// Returns the number of classes.
    pub(super) fn classes(&self) -> usize {
        self.names.split_ascii_whitespace().count()
    }
}
