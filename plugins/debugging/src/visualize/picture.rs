//! The parts of a batch that are drawn: images and their captions.

use sconce_charts::{GridRange, Image, ImageGrid};
use sconce_plugin_api::prelude::*;

/// Channels, height and width of images.
pub(super) type Size = (usize, usize, usize);

/// A sample's images, and the caption below the first of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sample {
    /// The input; also target and output if these are images too.
    pub(super) images: Vec<Vec<f32>>,
    pub(super) caption: String,
    /// Whether the prediction differs from the target; `None` if that can't be decided.
    pub(super) is_wrong: Option<bool>,
}

/// Size of a batch's images, of shape (batch, channels, height, width) or (batch, height, width).
///
/// # Errors
///
/// If the inputs are not images.
pub(super) fn size(inputs: &Tensor<'_>) -> Result<Size> {
    let sample = inputs.shape().iter().skip(1);
    let sample: Vec<usize> = sample
        .map(|&size| usize::try_from(size).unwrap_or(0))
        .collect();
    size_of(&sample)
}

/// Channels, height and width of a sample of this shape.
///
/// # Errors
///
/// If it is not an image.
pub(super) fn size_of(sample: &[usize]) -> Result<Size> {
    match *sample {
        [channels @ (1 | 3), height, width] => Ok((channels, height, width)),
        [height, width] if height > 1 && width > 1 => Ok((1, height, width)),
        _ => bail!(
            "inputs of shape {sample:?} are not images: an image is (channels, height, width) with 1 or 3 channels, \
             or (height, width)"
        ),
    }
}

/// The first `count` elements of a tensor of any type.
fn numbers(tensor: &Tensor<'_>, count: usize) -> Result<Vec<f32>> {
    let name = tensor.name();
    match tensor.dtype() {
        Some(DType::F32) => Ok(tensor.elements::<f32>()?.take(count).collect()),
        Some(DType::F64) => Ok(tensor
            .elements::<f64>()?
            .take(count)
            .map(|v| v as f32)
            .collect()),
        Some(DType::U8) => Ok(tensor
            .elements::<u8>()?
            .take(count)
            .map(f32::from)
            .collect()),
        Some(DType::U32) => Ok(tensor
            .elements::<u32>()?
            .take(count)
            .map(|v| v as f32)
            .collect()),
        Some(DType::I64) => Ok(tensor
            .elements::<i64>()?
            .take(count)
            .map(|v| v as f32)
            .collect()),
        other => bail!(
            "`{name}` can't be drawn: its numbers are {}",
            other.map_or("of an unknown type", DType::name)
        ),
    }
}

fn is_float(tensor: &Tensor<'_>) -> bool {
    matches!(tensor.dtype(), Some(DType::F32 | DType::F64))
}

/// All samples of a batch, in order.
pub(super) fn samples(
    inputs: &Tensor<'_>,
    targets: &Tensor<'_>,
    outputs: &Tensor<'_>,
    classes: &[String],
) -> Result<Vec<Sample>> {
    let (channels, height, width) = size(inputs)?;
    let pixels = channels * height * width;
    let mut samples: Vec<Sample> = images(inputs, pixels)?
        .map(|image| Sample {
            images: vec![image],
            ..Sample::default()
        })
        .collect();
    let count = samples.len();
    let is_class = targets.len() == count && !is_float(targets);
    if outputs.len() == inputs.len() && is_float(outputs) && !is_class {
        // Image-to-image model: also draw the target images, if these differ from the inputs.
        let is_like = targets.len() == inputs.len() && is_float(targets);
        let wanted = if is_like {
            Some(images(targets, pixels)?.collect::<Vec<_>>())
        } else {
            None
        };
        let wanted = wanted.filter(|wanted| {
            let mut pairs = samples.iter().zip(wanted);
            pairs.any(|(sample, wanted)| sample.images.first() != Some(wanted))
        });
        for (index, (sample, output)) in
            samples.iter_mut().zip(images(outputs, pixels)?).enumerate()
        {
            let wanted = wanted.as_ref().and_then(|wanted| wanted.get(index));
            sample.images.extend(wanted.cloned());
            sample.images.push(output);
        }
        return Ok(samples);
    }
    if targets.len() != count || !outputs.len().is_multiple_of(count.max(1)) {
        return Ok(samples);
    }
    let (wanted, scores) = (numbers(targets, count)?, numbers(outputs, usize::MAX)?);
    let width = outputs.len() / count.max(1);
    for ((sample, wanted), scores) in samples
        .iter_mut()
        .zip(wanted)
        .zip(scores.chunks(width.max(1)))
    {
        let (caption, is_wrong) = caption(wanted, scores, is_float(targets), classes);
        sample.caption = caption;
        sample.is_wrong = is_wrong;
    }
    Ok(samples)
}

fn images(tensor: &Tensor<'_>, pixels: usize) -> Result<impl Iterator<Item = Vec<f32>> + use<>> {
    let all = numbers(tensor, usize::MAX)?;
    let images: Vec<Vec<f32>> = all
        .chunks_exact(pixels.max(1))
        .map(<[f32]>::to_vec)
        .collect();
    Ok(images.into_iter())
}

/// The true class's name, followed by the predicted one if that differs; for numbers, both values.
fn caption(
    wanted: f32,
    scores: &[f32],
    is_float: bool,
    classes: &[String],
) -> (String, Option<bool>) {
    match scores {
        [score] if is_float => (format!("{wanted:.2}>{score:.2}"), None),
        [] | [_] => (name(wanted as usize, classes), None),
        scores => {
            let mut best = 0;
            for (class, score) in scores.iter().enumerate() {
                if scores.get(best).is_none_or(|best| score > best) {
                    best = class;
                }
            }
            let class = wanted as usize;
            let is_wrong = best != class;
            let mut caption = name(class, classes);
            if is_wrong {
                caption = format!("{caption}>{}", name(best, classes));
            }
            (caption, Some(is_wrong))
        }
    }
}

fn name(class: usize, classes: &[String]) -> String {
    classes
        .get(class)
        .cloned()
        .unwrap_or_else(|| class.to_string())
}

/// Draws samples as PNG. The images of one sample are put side by side.
pub(super) fn draw(samples: &[Sample], size: Size, options: Options) -> Result<Vec<u8>> {
    let (channels, height, width) = size;
    let each = samples.first().map_or(1, |sample| sample.images.len());
    let square = (samples.len() as f64).sqrt().ceil() as usize;
    let columns = options.columns.unwrap_or(square).max(1);
    let grid = ImageGrid {
        columns: Some(columns * each),
        scale: options.scale,
        range: options.range,
        ..ImageGrid::new(channels, height, width)
    };
    let mut images = Vec::new();
    for sample in samples {
        for (index, values) in sample.images.iter().enumerate() {
            let is_first = index == 0 && options.captions;
            images.push(Image {
                values,
                caption: if is_first { &sample.caption } else { "" },
            });
        }
    }
    Ok(grid.png(&images)?)
}

/// How a picture is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    /// Samples per row; by default about as many as there are rows.
    pub(super) columns: Option<usize>,
    /// Width and height of an image's pixel.
    pub(super) scale: usize,
    /// The values drawn as black and white.
    pub(super) range: GridRange,
    /// Whether captions are written.
    pub(super) captions: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captions_say_what_is_and_what_was_predicted() {
        let classes = ["cat".to_owned(), "dog".to_owned()];
        assert_eq!(
            caption(1.0, &[0.1, 0.9], false, &classes),
            ("dog".to_owned(), Some(false))
        );
        assert_eq!(
            caption(0.0, &[0.1, 0.9], false, &classes),
            ("cat>dog".to_owned(), Some(true))
        );
        assert_eq!(
            caption(4.0, &[0.1, 0.9], false, &[]),
            ("4>1".to_owned(), Some(true))
        );
        assert_eq!(
            caption(1.5, &[0.25], true, &[]),
            ("1.50>0.25".to_owned(), None)
        );
        // Of equal scores the first wins, as everywhere.
        assert_eq!(caption(0.0, &[1.0, 1.0], false, &classes).1, Some(false));
    }
}
