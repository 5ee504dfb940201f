//! Several views of each training image, for learning without labels.
//!
//! **Parts.** `config`: the manifest's keys. `crop`: rectangles, resized. `blur`: Gaussian blur. What else there is comes from
//! `augmentation`'s operations.
//!
//! **Flow.** [`Views::new`] checks the entries, numbers the views, and groups those of one size. [`Views::apply`] draws one of them: as with
//! augmentation, the random numbers of each operation depend only on (seed, epoch, index, view).

mod blur;
mod config;
mod crop;

use sconce_ops::random;

use super::{Canvas, Flip};
use crate::dataset::ViewGroup;
use crate::error::ImagesError;
pub use config::{BlurConfig, GreyConfig, SolariseConfig, ViewConfig, ViewCropConfig};
use crop::Rectangle;

/// The views of each sample, checked against the images' shape.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Views {
    seed: u64,
    /// How each is drawn, with its channels, height and width.
    each: Vec<(ViewConfig, [usize; 3])>,
    /// Those of one size that follow each other.
    groups: Vec<ViewGroup>,
    /// Whether they are the same in all epochs.
    are_fixed: bool,
}

impl Views {
    /// Creates the views, or none if no entry is configured.
    ///
    /// # Errors
    ///
    /// If an option is out of range or does not fit images of this shape.
    pub(crate) fn new(
        entries: &[ViewConfig],
        shape: [usize; 3],
        seed: u64,
    ) -> Result<Option<Views>, ImagesError> {
        config::check(entries, shape)?;
        let entries = entries.iter();
        let entries: Vec<_> = entries.map(|view| (view, view.shape(shape))).collect();
        let each: Vec<_> = entries
            .iter()
            .flat_map(|&(view, shape)| std::iter::repeat_n((view.clone(), shape), view.count))
            .collect();
        let mut groups: Vec<ViewGroup> = Vec::new();
        for (entry, (view, shape)) in entries.into_iter().enumerate() {
            match groups.last_mut().filter(|group| group.shape == shape) {
                Some(group) => group.count += view.count,
                None => groups.push(ViewGroup {
                    entry,
                    count: view.count,
                    shape: shape.to_vec(),
                }),
            }
        }
        Ok((!each.is_empty()).then_some(Views {
            seed,
            each,
            groups,
            are_fixed: false,
        }))
    }

    /// Reads views of samples that are not trained on, from JSON in the form of `data.views`: they are the same for any seed and in any
    /// epoch. Their size is that of a model's inputs, `size`.
    ///
    /// # Errors
    ///
    /// As [`new`](Views::new), if it is not such JSON, or if a view has another size.
    pub(crate) fn of_json(
        views: &str,
        shape: [usize; 3],
        size: [usize; 2],
    ) -> Result<Views, ImagesError> {
        let entries = serde_json::from_str::<Vec<ViewConfig>>(views);
        let mut entries =
            entries.map_err(|error| ImagesError::UnreadableViews(error.to_string()))?;
        for entry in &mut entries {
            let found = *entry.size.get_or_insert(size);
            if found != size {
                return Err(ImagesError::ViewSize {
                    found,
                    images: size,
                });
            }
        }
        let views = Views::new(&entries, shape, 0)?.ok_or(ImagesError::NoView)?;
        Ok(Views {
            are_fixed: true,
            ..views
        })
    }

    /// Whether the views are the same in all epochs.
    pub(crate) fn are_fixed(&self) -> bool {
        self.are_fixed
    }

    /// Returns channels, height and width of the view of this number; none if there is no such view.
    pub(crate) fn shape(&self, view: usize) -> Option<[usize; 3]> {
        self.each.get(view).map(|(_, shape)| *shape)
    }

    /// Returns the views of one size that follow each other.
    pub(crate) fn groups(&self) -> &[ViewGroup] {
        &self.groups
    }

    /// Writes a view of a sample in an epoch to `into`, whose contents are replaced.
    pub(crate) fn apply(
        &self,
        view: usize,
        (epoch, index): (u64, u32),
        pixels: &[u8],
        shape: [usize; 3],
        into: &mut Vec<u8>,
    ) {
        // Samples have 32 bits, so that a view's number is beside them.
        let epoch = if self.are_fixed { 0 } else { epoch };
        let key = u64::from(index) | (view as u64) << 32;
        let stream = |purpose| random::stream(self.seed, purpose, epoch, key);
        let Some((view, into_shape)) = self.each.get(view) else {
            return;
        };
        let rectangle = match view.crop {
            Some(crop) => crop.draw(shape, &mut stream("view-crop")),
            None => Rectangle::whole(shape),
        };
        crop::resized(pixels, shape, &rectangle, *into_shape, into);
        let mut canvas = Canvas {
            pixels: into,
            shape: *into_shape,
        };
        if let Some(flip) = view.flip
            && stream("view-flip").unit() < view.flip_probability
        {
            canvas.mirror(flip);
        }
        if let Some(colour) = view.colour {
            canvas.jitter(colour, &mut stream("view-colour"));
        }
        if view
            .grey
            .is_some_and(|grey| stream("view-grey").unit() < grey.probability)
        {
            canvas.saturate(0.0);
        }
        if let Some(blur) = view.blur {
            canvas.random_blur(blur, &mut stream("view-blur"));
        }
        if let Some(solarise) = view.solarise
            && stream("view-solarise").unit() < solarise.probability
        {
            canvas.solarise(solarise.threshold);
        }
    }
}

/// Writes all of an image to `into`, resized to another height and width, in place of what it holds.
pub(crate) fn resized(pixels: &[u8], from: [usize; 3], to: [usize; 3], into: &mut Vec<u8>) {
    crop::resized(pixels, from, &Rectangle::whole(from), to, into);
}

impl Canvas<'_> {
    /// Exchanges left and right, or top and bottom.
    fn mirror(&mut self, flip: Flip) {
        let (plane, width) = (self.plane(), self.shape[2].max(1));
        for channel in self.pixels.chunks_exact_mut(plane) {
            if flip == Flip::Vertical {
                channel.reverse();
            }
            // Reversed rows of a reversed plane are in the opposite order.
            for row in channel.chunks_exact_mut(width) {
                row.reverse();
            }
        }
    }
}

#[cfg(test)]
mod tests;
