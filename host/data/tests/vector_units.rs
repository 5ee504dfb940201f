//! Images are resized to the same bits by every kind of vector unit: what `host/data/src/images/image_folder/fit.rs` relies on.
//!
//! Apart from the crate, which forbids the unsafe call by which a kind is chosen.

use std::error::Error;

use fast_image_resize::images::{Image, ImageRef};
use fast_image_resize::{CpuExtensions, FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};

/// Width and height.
const FROM: (u32, u32) = (131, 67);

/// The vector units of this architecture.
fn kinds() -> Vec<CpuExtensions> {
    #[cfg(target_arch = "x86_64")]
    return vec![CpuExtensions::Sse4_1, CpuExtensions::Avx2];
    #[cfg(target_arch = "aarch64")]
    return vec![CpuExtensions::Neon];
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return Vec::new();
}

/// Noise of this type, resized.
fn resized(
    vector_units: CpuExtensions,
    pixels: PixelType,
    (width, height): (u32, u32),
    options: ResizeOptions,
) -> Result<Vec<u8>, Box<dyn Error>> {
    let bytes = FROM.0 as usize * FROM.1 as usize * pixels.size();
    let noise: Vec<u8> = (0..bytes as u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    let from = ImageRef::new(FROM.0, FROM.1, &noise, pixels)?;
    let mut to = Image::new(width, height, pixels);
    let mut resizer = Resizer::new();
    #[expect(unsafe_code, reason = "it is how a kind is chosen")]
    // SAFETY: callers have seen that the processor has them.
    unsafe {
        resizer.set_cpu_extensions(vector_units);
    }
    resizer.resize(&from, &mut to, &options)?;
    Ok(to.into_vec())
}

#[test]
fn every_kind_gives_the_bits_of_none() -> Result<(), Box<dyn Error>> {
    let all = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear));
    let sizes = [
        (128, 128),
        (1, 1),
        (7, 300),
        (130, 66),
        (33, 17),
        (262, 134),
        (64, 9),
    ];
    for size in sizes {
        for options in [all, all.fit_into_destination(None)] {
            for pixels in [PixelType::U8, PixelType::U8x3] {
                let expected = resized(CpuExtensions::None, pixels, size, options)?;
                for kind in kinds().into_iter().filter(CpuExtensions::is_supported) {
                    let found = resized(kind, pixels, size, options)?;
                    assert!(found == expected, "{size:?} of {pixels:?} by {kind:?}");
                }
            }
        }
    }
    Ok(())
}
