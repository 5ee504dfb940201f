//! Images: IDX files, or a directory with one for each class.

use std::path::{Path, PathBuf};

use sconce_data::{ImageSurvey, survey_images};
use serde_json::{Value, json};

use super::goal::Goal;
use crate::diagnostic::Diagnostic;
use crate::thousands::grouped;

/// Largest side of images that keep their size.
const LARGEST: usize = 128;

/// Larger side to which larger images, or images of several sizes, are resized.
const RESIZED: usize = 64;

/// Images and their labels.
#[derive(Debug, PartialEq)]
pub(super) enum ImagePlan {
    Folder(FolderPlan),
    Idx {
        train: IdxPair,
        test: Option<IdxPair>,
    },
}

#[derive(Debug, PartialEq)]
pub(super) struct FolderPlan {
    directory: PathBuf,
    size: [usize; 2],
    /// Whether images of another aspect ratio are cropped.
    is_cropped: bool,
    is_grey: bool,
    samples: usize,
    goal: Goal,
    findings: Vec<String>,
}

#[derive(Debug, PartialEq)]
pub(super) struct IdxPair {
    images: PathBuf,
    labels: PathBuf,
}

impl ImagePlan {
    /// Finds IDX files in a directory, or one subdirectory per class.
    pub(super) fn of(directory: &Path) -> Result<ImagePlan, Diagnostic> {
        if !directory.is_dir() {
            let problem = Diagnostic::new(format!("`{}` is not a directory", directory.display()));
            return Err(
                problem.hint("a directory with one for each class in it, or with IDX files")
            );
        }
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        if let Some(train) = idx_pair(&paths, false) {
            let test = idx_pair(&paths, true);
            return Ok(ImagePlan::Idx { train, test });
        }
        if paths.iter().any(|path| path.is_dir()) {
            let survey = survey_images(directory);
            let survey = survey.map_err(|error| Diagnostic::new(error.to_string()))?;
            return FolderPlan::of(directory, &survey).map(ImagePlan::Folder);
        }
        let problem = format!(
            "`{}` has neither IDX files nor a directory for each class",
            directory.display()
        );
        Err(Diagnostic::new(problem))
    }

    pub(super) fn goal(&self) -> Goal {
        match self {
            ImagePlan::Folder(folder) => folder.goal,
            ImagePlan::Idx { .. } => Goal::Classes { is_balanced: true },
        }
    }

    /// What was found, for the user.
    pub(super) fn findings(&self) -> Vec<String> {
        match self {
            ImagePlan::Folder(folder) => folder.findings.clone(),
            ImagePlan::Idx { train, .. } => vec![
                format!("data    images in `{}`", train.images.display()),
                format!("target  labels in `{}`", train.labels.display()),
            ],
        }
    }

    /// Height and width; none where they aren't known.
    pub(super) fn size(&self) -> Option<[usize; 2]> {
        match self {
            ImagePlan::Folder(folder) => Some(folder.size),
            ImagePlan::Idx { .. } => None,
        }
    }

    /// Number of training images; none where it isn't known.
    pub(super) fn samples(&self) -> Option<usize> {
        match self {
            ImagePlan::Folder(folder) => Some(folder.samples),
            ImagePlan::Idx { .. } => None,
        }
    }

    /// Returns the manifest's `data`.
    pub(super) fn data(&self, from: impl Fn(&Path) -> PathBuf) -> Value {
        let files =
            |pair: &IdxPair| json!({"images": from(&pair.images), "labels": from(&pair.labels)});
        let mut data = match self {
            ImagePlan::Folder(folder) => {
                let mut data = json!({
                    "kind": "image-folder",
                    "directory": from(&folder.directory),
                    "size": folder.size,
                });
                if folder.is_cropped {
                    data["resize"] = json!("cover");
                }
                if folder.is_grey {
                    data["mode"] = json!("grey");
                }
                data
            }
            ImagePlan::Idx { train, test } => {
                let mut data = files(train);
                data["kind"] = json!("idx");
                if let Some(test) = test {
                    data["test"] = files(test);
                }
                data
            }
        };
        data["val"] = json!({"fraction": 0.1});
        data["stratified"] = json!(true);
        data
    }
}

impl FolderPlan {
    fn of(directory: &Path, survey: &ImageSurvey) -> Result<FolderPlan, Diagnostic> {
        let counts = survey.classes.iter().map(|(_, count)| *count);
        let total: usize = counts.clone().sum();
        if total < 5 {
            let problem = format!(
                "`{}` has {total} images: at least 5 are needed",
                directory.display()
            );
            return Err(Diagnostic::new(problem));
        }
        if survey.classes.len() < 2 {
            let problem = format!("`{}` has a single class", directory.display());
            return Err(Diagnostic::new(problem)
                .hint("a directory with one for each class in it is needed"));
        }
        let [height, width] = survey.size;
        let longest = height.max(width);
        let size = if survey.is_one_size && longest <= LARGEST {
            survey.size
        } else {
            let scaled = |length: usize| (length * RESIZED).div_ceil(longest.max(1)).max(1);
            [scaled(height), scaled(width)]
        };
        let seen = if survey.decoded < total {
            format!(" ({} of them looked at)", survey.decoded)
        } else {
            String::new()
        };
        let found = if survey.is_one_size {
            "all"
        } else {
            "of several sizes, in the middle"
        };
        let colours = if survey.is_grey { "grey" } else { "in colour" };
        let resized = if size == survey.size && survey.is_one_size {
            "kept as they are".to_owned()
        } else {
            format!("resized to {} × {}", size[0], size[1])
        };
        let classes = survey.classes.len();
        Ok(FolderPlan {
            findings: vec![
                format!(
                    "data    {} images{seen} in {classes} classes",
                    grouped(total as u64)
                ),
                format!(
                    "target  the class, the name of the directory: {}",
                    names(&survey.classes)
                ),
                format!("images  {found} {height} × {width}, {colours}; {resized} (`data.size`)"),
            ],
            directory: directory.to_owned(),
            size,
            is_cropped: !survey.is_one_size,
            is_grey: survey.is_grey,
            samples: total,
            goal: Goal::of_classes([counts.clone().min().unwrap_or(0), counts.max().unwrap_or(0)]),
        })
    }
}

/// The first names of classes, each with its number of images.
fn names(classes: &[(String, usize)]) -> String {
    const SHOWN: usize = 8;
    let shown = classes.iter().take(SHOWN);
    let shown: Vec<String> = shown
        .map(|(name, count)| format!("{name} ({count})"))
        .collect();
    let rest = if classes.len() > SHOWN { ", …" } else { "" };
    format!("{}{rest}", shown.join(", "))
}

/// Finds the files of the training images, or of the test's, by MNIST's names.
fn idx_pair(paths: &[PathBuf], is_test: bool) -> Option<IdxPair> {
    let find = |what: &str| {
        let mut found = paths.iter().filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let name = name.to_lowercase();
            name.contains(what) && name.contains("-ubyte") && name.contains("t10k") == is_test
        });
        found.next().cloned()
    };
    Some(IdxPair {
        images: find("images-idx3")?,
        labels: find("labels-idx1")?,
    })
}
