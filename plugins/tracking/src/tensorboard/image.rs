//! A batch of images as one picture.

use sconce_plugin_api::tensor::{DType, Tensor};
use sconce_plugin_api::{Context, Result, bail};

use super::event::Image;

/// Pixels between two images.
const GAP: usize = 2;

/// Draws the first `count` images of `inputs`, of shape (N, C, H, W) with one or three channels, in
/// a grid about as high as wide. `range` is mapped to black and white; default: the smallest and
/// the largest element shown.
///
/// # Errors
///
/// If the inputs are not images.
pub(crate) fn grid(inputs: &Tensor<'_>, count: usize, range: Option<[f64; 2]>) -> Result<Image> {
    let sizes: Vec<usize> = inputs.shape().iter().map(|&size| size as usize).collect();
    let &[all, channels @ (1 | 3), height, width] = sizes.as_slice() else {
        bail!(
            "the inputs are not images: their shape is {:?}, not (N, 1 or 3, H, W)",
            inputs.shape()
        );
    };
    let count = count.min(all);
    if count * height * width == 0 {
        bail!("the inputs have no images");
    }
    let numbers = numbers(inputs, count * channels * height * width)?;
    let [low, high] = range.unwrap_or_else(|| extremes(&numbers));
    let columns = (count as f64).sqrt().ceil() as usize;
    let rows = count.div_ceil(columns);
    let (wide, tall) = (columns * (width + GAP) - GAP, rows * (height + GAP) - GAP);
    let mut pixels = vec![0_u8; wide * tall * channels];
    for (index, &number) in numbers.iter().enumerate() {
        let (x, rest) = (index % width, index / width);
        let (y, rest) = (rest % height, rest / height);
        let (channel, image) = (rest % channels, rest / channels);
        let column = image % columns * (width + GAP) + x;
        let row = image / columns * (height + GAP) + y;
        if let Some(pixel) = pixels.get_mut((row * wide + column) * channels + channel) {
            *pixel = level(number, low, high);
        }
    }
    Ok(Image {
        height: i32::try_from(tall)?,
        width: i32::try_from(wide)?,
        colorspace: i32::try_from(channels)?,
        encoded: png(&pixels, wide, tall, channels)?,
    })
}

/// The first elements of a tensor.
fn numbers(tensor: &Tensor<'_>, count: usize) -> Result<Vec<f64>> {
    Ok(match tensor.dtype() {
        Some(DType::F32) => (tensor.elements::<f32>()?.take(count))
            .map(f64::from)
            .collect(),
        Some(DType::F64) => tensor.elements::<f64>()?.take(count).collect(),
        Some(DType::U8) => (tensor.elements::<u8>()?.take(count))
            .map(f64::from)
            .collect(),
        other => bail!(
            "images of {} can't be shown",
            other.map_or("an unknown type", DType::name)
        ),
    })
}

fn extremes(numbers: &[f64]) -> [f64; 2] {
    let finite = numbers.iter().filter(|number| number.is_finite());
    finite.fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], &x| {
        [low.min(x), high.max(x)]
    })
}

/// Brightness of an element; NaN is black.
fn level(number: f64, low: f64, high: f64) -> u8 {
    if high > low {
        ((number - low) / (high - low) * 255.0).round() as u8
    } else {
        0
    }
}

fn png(pixels: &[u8], width: usize, height: usize, channels: usize) -> Result<Vec<u8>> {
    let mut file = Vec::new();
    let (width, height) = (u32::try_from(width)?, u32::try_from(height)?);
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(if channels == 1 {
        png::ColorType::Grayscale
    } else {
        png::ColorType::Rgb
    });
    encoder.set_depth(png::BitDepth::Eight);
    let written = encoder
        .write_header()
        .and_then(|mut writer| writer.write_image_data(pixels));
    written.context("the picture can't be made")?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brightness_goes_from_the_least_to_the_greatest() {
        let [low, high] = extremes(&[f64::NAN, -1.0, 3.0]);
        assert_eq!((low, high), (-1.0, 3.0));
        for (number, expected) in [(-1.0, 0), (1.0, 128), (3.0, 255), (9.0, 255), (f64::NAN, 0)] {
            assert_eq!(level(number, low, high), expected, "{number}");
        }
        assert_eq!(level(1.0, 1.0, 1.0), 0);
    }

    #[test]
    fn a_picture_is_read_back() {
        let pixels = [0, 50, 100, 150, 200, 250];
        let file = png(&pixels, 3, 2, 1).expect("a picture");
        let decoder = png::Decoder::new(std::io::Cursor::new(file));
        let mut reader = decoder.read_info().expect("a picture");
        let mut found = vec![0; 6];
        reader.next_frame(&mut found).expect("its pixels");
        assert_eq!(found, pixels);
    }
}
