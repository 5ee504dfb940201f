//! Images are resized to the same bits by every kind of vector unit: what `host/data/src/images/image_folder/fit.rs` relies on.
//!
//! Apart from the crate, which forbids the unsafe call by which a kind is chosen.

use std::error::Error;

use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::{U8, U8x3};
use fast_image_resize::{CpuExtensions, FilterType, PixelTrait, ResizeAlg, ResizeOptions, Resizer};

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
fn resized<P: PixelTrait>(
    vector_units: CpuExtensions,
    (width, height): (u32, u32),
    options: ResizeOptions,
) -> Result<Vec<u8>, Box<dyn Error>> {
    let bytes = |(width, height)| width as usize * height as usize * P::size();
    let noise: Vec<u8> = (0..bytes(FROM) as u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    let from = TypedImageRef::<P>::from_buffer(FROM.0, FROM.1, &noise)?;
    let mut new = vec![0; bytes((width, height))];
    let mut to = TypedImage::<P>::from_buffer(width, height, &mut new)?;
    let mut resizer = Resizer::new();
    #[expect(unsafe_code, reason = "it is how a kind is chosen")]
    // SAFETY: callers have seen that the processor has them.
    unsafe {
        resizer.set_cpu_extensions(vector_units);
    }
    resizer.resize_typed(&from, &mut to, &options)?;
    Ok(new)
}

/// Compares every kind of vector unit with none.
fn compare<P: PixelTrait>(size: (u32, u32), options: ResizeOptions) -> Result<(), Box<dyn Error>> {
    let expected = resized::<P>(CpuExtensions::None, size, options)?;
    for kind in kinds().into_iter().filter(CpuExtensions::is_supported) {
        let found = resized::<P>(kind, size, options)?;
        assert!(
            found == expected,
            "{size:?} of {:?} by {kind:?}",
            P::pixel_type()
        );
    }
    Ok(())
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
            compare::<U8>(size, options)?;
            compare::<U8x3>(size, options)?;
        }
    }
    Ok(())
}
