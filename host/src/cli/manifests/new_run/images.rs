//! Images: IDX files, or a directory with one for each class.

use std::path::{Path, PathBuf};

use sconce_data::{ImageSurvey, survey_images, survey_labels};
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
    Idx(IdxPlan),
}

#[derive(Debug, PartialEq)]
pub(super) struct IdxPlan {
    train: IdxPair,
    test: Option<IdxPair>,
    /// Number of images of each class.
    classes: Vec<usize>,
}

#[derive(Debug, PartialEq)]
pub(super) struct FolderPlan {
    directory: PathBuf,
    /// Directories of their own for validation and test.
    own: [Option<PathBuf>; 2],
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
            let classes = survey_labels(&train.labels);
            let classes = classes.map_err(|error| Diagnostic::new(error.to_string()))?;
            return Ok(ImagePlan::Idx(IdxPlan {
                train,
                test,
                classes,
            }));
        }
        if paths.iter().any(|path| path.is_dir()) {
            let phase = |names: &[&str]| {
                let mut found = names.iter().map(|name| directory.join(name));
                found.find(|path| path.is_dir())
            };
            let train = phase(&["train", "training"]);
            let own = [phase(&["val", "valid", "validation"]), phase(&["test"])];
            let (directory, own) = match train {
                Some(train) if own.iter().any(Option::is_some) => (train, own),
                _ => (directory.to_owned(), [None, None]),
            };
            let survey = survey_images(&directory);
            let survey = survey.map_err(|error| Diagnostic::new(error.to_string()))?;
            return FolderPlan::of(directory, own, &survey).map(ImagePlan::Folder);
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
            ImagePlan::Idx(idx) => {
                let counts = idx.classes.iter().copied().filter(|count| *count > 0);
                Goal::of_classes([counts.clone().min().unwrap_or(0), counts.max().unwrap_or(0)])
            }
        }
    }

    /// What was found, for the user.
    pub(super) fn findings(&self) -> Vec<String> {
        match self {
            ImagePlan::Folder(folder) => folder.findings.clone(),
            ImagePlan::Idx(IdxPlan { train, classes, .. }) => {
                let images = grouped(classes.iter().sum::<usize>() as u64);
                vec![
                    format!("data    {images} images in `{}`", train.images.display()),
                    format!(
                        "target  labels from 0 to {} in `{}`",
                        classes.len().saturating_sub(1),
                        train.labels.display()
                    ),
                ]
            }
        }
    }

    /// Height and width; none where they aren't known.
    pub(super) fn size(&self) -> Option<[usize; 2]> {
        match self {
            ImagePlan::Folder(folder) => Some(folder.size),
            ImagePlan::Idx(_) => None,
        }
    }

    /// Number of images to train and validate on.
    pub(super) fn samples(&self) -> usize {
        match self {
            ImagePlan::Folder(folder) => folder.samples,
            ImagePlan::Idx(idx) => idx.classes.iter().sum(),
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
            ImagePlan::Idx(IdxPlan {
                train,
                test,
                classes,
            }) => {
                /// Number of classes that `idx` has by default.
                const DIGITS: usize = 10;
                let mut data = files(train);
                data["kind"] = json!("idx");
                if classes.len() > DIGITS {
                    let names = (0..classes.len()).map(|class| class.to_string());
                    data["classes"] = json!(names.collect::<Vec<_>>());
                }
                if let Some(test) = test {
                    data["test"] = files(test);
                }
                data
            }
        };
        let [val, test] = match self {
            ImagePlan::Folder(folder) => folder.own.each_ref().map(Option::as_deref),
            ImagePlan::Idx(_) => [None, None],
        };
        if let Some(test) = test {
            data["test"] = json!({"file": from(test)});
        }
        if let Some(val) = val {
            data["val"] = json!({"file": from(val)});
        } else {
            data["val"] = json!({"fraction": 0.1});
            data["stratified"] = json!(true);
        }
        data
    }
}

impl FolderPlan {
    fn of(
        directory: PathBuf,
        own: [Option<PathBuf>; 2],
        survey: &ImageSurvey,
    ) -> Result<FolderPlan, Diagnostic> {
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
                    "data    {} images{seen} in {classes} classes, in `{}`",
                    grouped(total as u64),
                    directory.display()
                ),
                format!(
                    "target  the class, the name of the directory: {}",
                    names(&survey.classes)
                ),
                format!("images  {found} {height} × {width}, {colours}; {resized} (`data.size`)"),
            ],
            directory,
            own,
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
