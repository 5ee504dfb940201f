//! CIFAR-10 and CIFAR-100 (Krizhevsky, "Learning Multiple Layers of Features from Tiny Images",
//! 2009) in their binary version.

mod config;
mod layout;
mod names;

use std::path::Path;

pub use config::{CifarConfig, CifarLabels, CifarVersion};

use super::{Assembly, FittedImages, Images, OwnImages};
use crate::dataset::fitted::Fitted;
use crate::error::{CifarError, DataError};
use crate::files::file;
use crate::split::Part;
pub(crate) use layout::SHAPE;
use layout::{Layout, PIXELS};

/// Reads the files. Relative paths start at `base`; splits and augmentation come from `seed`.
pub(crate) fn load(
    config: &CifarConfig,
    base: &Path,
    seed: u64,
) -> Result<Fitted<FittedImages>, DataError> {
    if config.version == CifarVersion::Ten && config.labels.is_some() {
        return Err(CifarError::LabelsOfTen.into());
    }
    let layout = Layout::of(config.version, config.classes());
    let directory = base.join(&config.directory);
    let mut records = Records::new(layout);
    for name in layout.train {
        records.read(&directory.join(name), |file| {
            missing(layout, &directory, file)
        })?;
    }
    let images = records.images();
    let total = images.count();
    let [val, test] = config.held_out.sources(total)?;
    let taken = (val.taken(), test.taken());
    let parts = (config.held_out).of_classes(seed, images.classes(), taken)?;
    let own = |file: &Path| one(layout, &base.join(file));
    let test = match test {
        Part::Nothing => {
            let file = directory.join(layout.test);
            let mut records = Records::new(layout);
            records.read(&file, |file| missing(layout, &directory, file))?;
            Part::Own(records.own(&file))
        }
        given => given.try_map(own)?,
    };
    let assembly = Assembly {
        classes: class_names(layout, &directory)?,
        options: &config.options,
        seed,
    };
    assembly.splits(images, parts, val.try_map(own)?, test)
}

/// Reads the images of a file for predictions.
pub(crate) fn unlabelled(
    version: CifarVersion,
    labels: CifarLabels,
    file: &Path,
) -> Result<Images, DataError> {
    Ok(one(Layout::of(version, labels), file)?.images)
}

/// Reads the images of a file named by the manifest or the user.
fn one(layout: Layout, file: &Path) -> Result<OwnImages, DataError> {
    let mut records = Records::new(layout);
    records.read(file, |file| DataError::Missing {
        file: file.to_owned(),
    })?;
    Ok(records.own(file))
}

/// Returns the error for a missing file of the archive.
fn missing(layout: Layout, directory: &Path, file: &Path) -> DataError {
    let name = file.file_name().unwrap_or_default();
    DataError::Cifar(CifarError::Missing {
        directory: directory.to_owned(),
        name: name.to_string_lossy().into_owned(),
        version: layout.version.into(),
        folder: layout.folder,
        files: layout.files,
    })
}

/// Records of one or more files, split into labels and pixels.
struct Records {
    layout: Layout,
    pixels: Vec<u8>,
    labels: Vec<u32>,
}

impl Records {
    fn new(layout: Layout) -> Records {
        Records {
            layout,
            pixels: Vec::new(),
            labels: Vec::new(),
        }
    }

    fn read(&mut self, file: &Path, missing: impl Fn(&Path) -> DataError) -> Result<(), DataError> {
        let bytes = file::contents(file).map_err(|error| match error {
            DataError::Missing { file } => missing(&file),
            error => error,
        })?;
        let layout = self.layout;
        let (size, record) = (bytes.len(), layout.record());
        if size == 0 {
            return Err(DataError::Empty {
                file: file.to_owned(),
            });
        }
        if !size.is_multiple_of(record) {
            return Err(DataError::Cifar(CifarError::Size {
                file: file.to_owned(),
                size,
                record,
                version: layout.version.into(),
                is_other: size.is_multiple_of(layout.other_record()),
            }));
        }
        let classes = layout.classes();
        self.pixels.reserve_exact(size / record * PIXELS);
        for (record, bytes) in bytes.chunks_exact(record).enumerate() {
            let (labels, pixels) = bytes.split_at(layout.labels);
            let label = labels.get(layout.label).copied().unwrap_or(u8::MAX);
            if usize::from(label) >= classes {
                return Err(DataError::Cifar(CifarError::Label {
                    file: file.to_owned(),
                    record,
                    label,
                    classes,
                }));
            }
            self.pixels.extend_from_slice(pixels);
            self.labels.push(u32::from(label));
        }
        Ok(())
    }

    fn images(self) -> Images {
        Images::new(self.pixels, SHAPE, self.labels).of_records()
    }

    fn own(self, file: &Path) -> OwnImages {
        OwnImages {
            images: self.images(),
            file: file.to_owned(),
        }
    }
}

/// Returns the class names in the archive's file, or the built-in ones if it is missing.
fn class_names(layout: Layout, directory: &Path) -> Result<Vec<String>, DataError> {
    let file = directory.join(layout.names_file);
    let bytes = match file::contents(&file) {
        Ok(bytes) => bytes,
        Err(DataError::Missing { .. }) => layout.names.as_bytes().to_vec(),
        Err(error) => return Err(error),
    };
    let text = String::from_utf8_lossy(&bytes);
    let names: Vec<String> = text.split_ascii_whitespace().map(str::to_owned).collect();
    let wanted = layout.classes();
    if names.len() == wanted {
        return Ok(names);
    }
    Err(DataError::Cifar(CifarError::Names {
        file,
        found: names.len(),
        wanted,
    }))
}

#[cfg(test)]
mod tests;
