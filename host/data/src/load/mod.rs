//! Loading of the data that the manifest describes (`config`).

pub(super) mod config;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::dataset::fitted::Fitted;
use super::error::ImagesError;
use super::files::data_files::{CacheUse, PerPart, Recorded, recorded};
use super::generated::{grammar, synthetic_digits};
use super::images::transform::{ImageFormat, ImageTransform};
use super::images::{
    Assembly, FittedImages, ImageOptions, ImageTargets, OwnImages, cifar, image_folder,
};
use super::split::{self, Part, Parts};
use super::{
    DataConfig, DataError, Dataset, IdxConfig, Images, Preprocessing, Splits,
    SyntheticDigitsConfig, TrainingData, Transform, arrays, csv, regression, text, tokens,
    two_moons,
};
use config::digits;

/// Reads or generates the data. Relative paths start at `base`; everything random comes from `seed`.
///
/// # Errors
///
/// Errors in files, labels or splits; all of them are found here, before training.
pub fn load(config: &DataConfig, base: &Path, seed: u64) -> Result<Splits, DataError> {
    // Where nothing is read on demand, too: a mistake should not wait for larger data.
    CacheUse::from_environment()?;
    let (splits, recorded) = recorded(base, || of_kind(config, base, seed))?;
    Ok(with_source(splits, recorded))
}

/// Adds what the data were read from, and how they were divided.
fn with_source(splits: Splits, Recorded { files, split }: Recorded) -> Splits {
    let count = |data: &dyn Dataset| data.len() as u64;
    let counts = PerPart {
        train: Some(count(splits.train.as_ref())),
        val: splits.val.as_deref().map(count),
        test: splits.test.as_deref().map(count),
    };
    let mut learnt = Arc::unwrap_or_clone(splits.preprocessing);
    learnt.source = TrainingData::new(split, counts, learnt.split_rows(), files.clone());
    Splits {
        preprocessing: Arc::new(learnt),
        files,
        ..splits
    }
}

fn of_kind(config: &DataConfig, base: &Path, seed: u64) -> Result<Splits, DataError> {
    match config {
        DataConfig::Idx(config) => load_idx(config, base, seed),
        DataConfig::Cifar(config) => {
            let format = ImageFormat::Cifar {
                version: config.version,
                labels: config.classes(),
            };
            Ok(of_images(cifar::load(config, base, seed)?, format))
        }
        DataConfig::ImageFolder(config) => {
            let (images, form) = image_folder::load(config, base, seed)?;
            Ok(of_images(images, ImageFormat::Files(form)))
        }
        DataConfig::SyntheticDigits(config) => load_digits(config, seed),
        DataConfig::Csv(config) => {
            csv::load(config, base, seed).map(|table| splits(table, Transform::Csv))
        }
        DataConfig::Npy(config) => {
            let arrays = arrays::load_npy(config, base, seed)?;
            Ok(splits(arrays, Transform::Arrays))
        }
        DataConfig::Safetensors(config) => {
            let arrays = arrays::load_safetensors(config, base, seed)?;
            Ok(splits(arrays, Transform::Arrays))
        }
        DataConfig::TwoMoons(config) => two_moons::load(config, seed),
        DataConfig::Regression(config) => regression::load(config, seed),
        DataConfig::Text(config) => match &config.tokenizer {
            None => text::load(config, base).map(|text| splits(text, Transform::Text)),
            Some(tokenizer) => {
                let tokens = text::load_tokens(config, tokenizer, base, seed)?;
                Ok(splits(tokens, Transform::Tokens))
            }
        },
        DataConfig::Tokens(config) => {
            tokens::load(config, base, seed).map(|tokens| splits(tokens, Transform::Tokens))
        }
        DataConfig::Jsonl(config) => {
            tokens::rows::load(config, base, seed).map(|rows| splits(rows, Transform::Rows))
        }
        DataConfig::Parquet(config) => {
            let rows = tokens::rows::load_parquet(config, base, seed)?;
            Ok(splits(rows, Transform::Rows))
        }
        DataConfig::Grammar(config) => {
            grammar::load(config, seed).map(|text| splits(text, Transform::Text))
        }
    }
}

/// Makes what was learnt from one kind of data that of any.
fn splits<T>(fitted: Fitted<T>, kind: impl FnOnce(T) -> Transform) -> Splits {
    Splits {
        train: fitted.train,
        val: fitted.val,
        test: fitted.test,
        preprocessing: Arc::new(Preprocessing::of(kind(fitted.learnt))),
        files: Vec::new(),
    }
}

fn of_images(images: Fitted<FittedImages>, format: ImageFormat) -> Splits {
    splits(images, |learnt| {
        Transform::Images(ImageTransform::new(format, learnt))
    })
}

fn load_idx(config: &IdxConfig, base: &Path, seed: u64) -> Result<Splits, DataError> {
    let classes = &config.classes;
    let read = |(pixels, labels): (&Path, &Path)| {
        let file = base.join(pixels);
        let images = Images::read(&file, &base.join(labels), classes.len(), config.memory)?;
        Ok::<_, DataError>(OwnImages { images, file })
    };
    let images = match (&config.labels, config.options.targets) {
        (Some(labels), _) => read((&config.images, labels))?.images,
        (None, ImageTargets::None) => {
            Images::unlabelled(&base.join(&config.images), config.memory)?
        }
        (None, ImageTargets::Classes) => return Err(ImagesError::NoLabels.into()),
    };
    let total = images.count();
    let held_out = &config.held_out;
    let val = split::part(held_out.val.as_ref(), "val", total)?;
    let test = split::part(held_out.test.as_ref(), "test", total)?;
    let taken = (val.taken(), test.taken());
    let parts = held_out.of_classes(seed, images.classes(), taken)?;
    let assembly = Assembly {
        classes: classes.clone(),
        options: &config.options,
        seed,
    };
    let format = ImageFormat::Idx {
        shape: images.shape(),
    };
    let images = assembly.splits(images, parts, val.try_map(read)?, test.try_map(read)?)?;
    Ok(of_images(images, format))
}

fn load_digits(config: &SyntheticDigitsConfig, seed: u64) -> Result<Splits, DataError> {
    synthetic_digits::check(config)?;
    let parts = Parts {
        train: (0..config.train as u32).collect(),
        ..Parts::default()
    };
    let drawn = |phase: &str, count: usize| {
        if count == 0 {
            return Part::Nothing;
        }
        Part::Own(OwnImages {
            images: synthetic_digits::draw(config, seed, phase, count),
            file: PathBuf::from(phase),
        })
    };
    let options = ImageOptions {
        views: config.views.clone(),
        targets: config.targets,
        ..ImageOptions::default()
    };
    let train = synthetic_digits::draw(config, seed, "train", config.train);
    let assembly = Assembly {
        classes: digits(),
        options: &options,
        seed,
    };
    let format = ImageFormat::Idx {
        shape: train.shape(),
    };
    let val = drawn("val", config.val);
    let images = assembly.splits(train, parts, val, drawn("test", config.test))?;
    Ok(of_images(images, format))
}

#[cfg(test)]
mod tests;
