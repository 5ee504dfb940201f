//! Directories of images in the manifest.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::images::ImageOptions;
use crate::{HeldOut, MemoryUse};

/// Image files in one directory per class: PNG, JPEG, BMP, GIF, WebP or PNM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImageFolderConfig {
    /// Directory with a subdirectory per class; their names are the class names, in sorted order. Separate
    /// directories for `val` and `test` have the same ones.
    pub directory: PathBuf,
    /// Height and width in pixels to which images are resized. Default: all must have one size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(inner(inner(range(min = 1, max = 8192))))]
    pub size: Option<[usize; 2]>,
    /// How an image of another shape becomes one of `size`.
    #[serde(default, skip_serializing_if = "Resize::is_default")]
    pub resize: Resize,
    /// Whether images have one channel or three.
    #[serde(default)]
    pub mode: ColourMode,
    /// Data for validation and test.
    #[serde(flatten)]
    pub held_out: HeldOut,
    /// Keys of all sources of images.
    #[serde(flatten)]
    pub options: ImageOptions,
    /// Whether images are decoded once, before training, or whenever a batch needs them.
    #[serde(default, skip_serializing_if = "MemoryUse::is_default")]
    pub memory: MemoryUse,
}

/// How an image becomes one of the configured height and width.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Resize {
    /// Stretched in both directions: the aspect ratio changes.
    #[default]
    Stretch,
    /// Scaled until it covers the size, then cropped about its centre: the aspect ratio is kept, edges are lost.
    Cover,
    /// Scaled until it fits into the size, on a black background: the aspect ratio and all of the image are kept.
    Contain,
}

impl Resize {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    fn is_default(&self) -> bool {
        *self == Resize::default()
    }
}

/// Channels of an image; transparency is dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ColourMode {
    /// One channel: the brightness.
    Grey,
    /// Three channels: red, green and blue.
    #[default]
    Rgb,
}

impl ColourMode {
    /// Returns the number of channels.
    pub fn channels(self) -> usize {
        match self {
            ColourMode::Grey => 1,
            ColourMode::Rgb => 3,
        }
    }
}
