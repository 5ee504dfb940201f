//! Operations compared with PIL 13.0's results, and with what is known by hand.

use super::*;
use sconce_ops::random::stream;

/// An image of 3 channels of 4 × 6 pixels.
const IMAGE: [u8; 72] = [
    40, 92, 47, 161, 50, 98, 49, 159, 44, 88, 163, 141, 150, 62, 133, 107, 112, 148, 87, 57, 58,
    90, 153, 119, 116, 144, 75, 165, 158, 54, 109, 67, 56, 76, 127, 81, 66, 82, 129, 79, 60, 72,
    115, 61, 166, 46, 85, 155, 128, 132, 167, 105, 74, 74, 105, 167, 132, 128, 155, 85, 46, 166,
    61, 115, 72, 60, 79, 129, 82, 66, 81, 127,
];

/// Results of PIL's `ImageEnhance` and `ImageOps`.
const OF_PIL: [(&str, [u8; 72]); 8] = [
    (
        "brightness",
        [
            50, 116, 59, 204, 63, 124, 62, 201, 55, 111, 207, 179, 190, 78, 168, 135, 142, 187,
            110, 72, 73, 114, 194, 151, 147, 182, 95, 209, 200, 68, 138, 85, 71, 96, 161, 102, 83,
            104, 163, 100, 76, 91, 146, 77, 210, 58, 107, 196, 162, 167, 212, 133, 93, 93, 133,
            212, 167, 162, 196, 107, 58, 210, 77, 146, 91, 76, 100, 163, 104, 83, 102, 161,
        ],
    ),
    (
        "contrast",
        [
            63, 94, 67, 136, 69, 98, 69, 135, 66, 92, 137, 124, 129, 76, 119, 103, 106, 128, 91,
            73, 74, 93, 131, 111, 109, 126, 84, 138, 134, 72, 105, 79, 73, 85, 115, 88, 79, 88,
            117, 87, 75, 82, 108, 76, 139, 67, 90, 132, 116, 118, 139, 102, 84, 84, 102, 139, 118,
            116, 132, 90, 67, 139, 76, 108, 82, 75, 87, 117, 88, 79, 88, 115,
        ],
    ),
    (
        "contrast+",
        [
            0, 87, 10, 204, 15, 97, 14, 201, 5, 80, 207, 170, 185, 36, 156, 112, 121, 182, 78, 27,
            29, 83, 190, 133, 127, 175, 58, 211, 199, 22, 116, 44, 25, 59, 146, 68, 42, 70, 150,
            65, 32, 53, 126, 34, 212, 8, 75, 194, 148, 155, 214, 109, 56, 56, 109, 214, 155, 148,
            194, 75, 8, 212, 34, 126, 53, 32, 65, 150, 70, 42, 68, 146,
        ],
    ),
    (
        "saturation",
        [
            73, 113, 65, 158, 89, 80, 74, 127, 54, 86, 149, 115, 113, 76, 126, 97, 91, 115, 96, 63,
            97, 72, 124, 132, 103, 133, 76, 160, 132, 63, 98, 90, 59, 82, 135, 91, 79, 84, 124, 86,
            70, 84, 107, 65, 140, 55, 97, 146, 108, 129, 113, 136, 99, 71, 96, 130, 89, 102, 146,
            93, 71, 118, 97, 100, 75, 79, 93, 92, 107, 63, 95, 135,
        ],
    ),
    (
        "sharpness",
        [
            40, 92, 47, 161, 50, 98, 49, 204, 9, 79, 190, 141, 150, 44, 160, 107, 103, 148, 87, 57,
            58, 90, 153, 119, 116, 144, 75, 165, 158, 54, 109, 49, 30, 58, 145, 81, 66, 73, 156,
            70, 42, 72, 115, 61, 166, 46, 85, 155, 128, 132, 167, 105, 74, 74, 105, 194, 132, 137,
            191, 85, 46, 202, 26, 124, 54, 60, 79, 129, 82, 66, 81, 127,
        ],
    ),
    (
        "posterise",
        [
            32, 64, 32, 160, 32, 96, 32, 128, 32, 64, 160, 128, 128, 32, 128, 96, 96, 128, 64, 32,
            32, 64, 128, 96, 96, 128, 64, 160, 128, 32, 96, 64, 32, 64, 96, 64, 64, 64, 128, 64,
            32, 64, 96, 32, 160, 32, 64, 128, 128, 128, 160, 96, 64, 64, 96, 160, 128, 128, 128,
            64, 32, 160, 32, 96, 64, 32, 64, 128, 64, 64, 64, 96,
        ],
    ),
    (
        "solarise",
        [
            40, 92, 47, 94, 50, 98, 49, 96, 44, 88, 92, 114, 105, 62, 122, 107, 112, 107, 87, 57,
            58, 90, 102, 119, 116, 111, 75, 90, 97, 54, 109, 67, 56, 76, 128, 81, 66, 82, 126, 79,
            60, 72, 115, 61, 89, 46, 85, 100, 127, 123, 88, 105, 74, 74, 105, 88, 123, 127, 100,
            85, 46, 89, 61, 115, 72, 60, 79, 126, 82, 66, 81, 128,
        ],
    ),
    (
        "autocontrast",
        [
            0, 107, 14, 250, 20, 120, 18, 246, 8, 99, 255, 209, 228, 45, 192, 138, 149, 223, 97,
            35, 37, 103, 234, 163, 148, 208, 61, 252, 238, 17, 133, 44, 21, 63, 172, 74, 42, 76,
            176, 70, 29, 55, 146, 31, 255, 0, 82, 231, 172, 181, 255, 124, 59, 59, 124, 255, 181,
            172, 229, 82, 0, 252, 31, 145, 54, 29, 69, 174, 75, 42, 73, 170,
        ],
    ),
];

/// The image with all hues shifted by 0.15, by Python's `colorsys`.
const WITH_HUE_SHIFTED: [u8; 72] = [
    43, 92, 127, 107, 50, 98, 49, 167, 111, 128, 163, 141, 140, 136, 72, 115, 112, 145, 79, 118,
    58, 90, 153, 119, 40, 109, 47, 165, 145, 74, 59, 67, 44, 76, 131, 131, 150, 62, 133, 79, 95,
    148, 115, 57, 153, 66, 150, 151, 128, 144, 167, 105, 158, 54, 109, 85, 132, 121, 127, 81, 46,
    166, 61, 91, 60, 60, 103, 129, 166, 46, 81, 155,
];

/// Returns an image after an operation.
fn after(pixels: &[u8], shape: [usize; 3], change: impl FnOnce(&mut Canvas<'_>)) -> Vec<u8> {
    let mut pixels = pixels.to_vec();
    change(&mut Canvas {
        pixels: &mut pixels,
        shape,
    });
    pixels
}

/// Fails if a pixel is more than one brightness apart: PIL truncates where we round.
fn assert_close(found: &[u8], expected: &[u8], name: &str) {
    assert_eq!(found.len(), expected.len());
    for (pixel, (found, expected)) in found.iter().zip(expected).enumerate() {
        let distance = found.abs_diff(*expected);
        assert!(distance <= 1, "{name}, {pixel}: {found}, {expected}");
    }
}

#[test]
fn tones_are_pils() {
    for (name, expected) in &OF_PIL {
        let found = after(&IMAGE, [3, 4, 6], |image| match *name {
            "brightness" => image.brighten(1.27),
            "contrast" => image.contrast(0.6),
            "contrast+" => image.contrast(1.7),
            "saturation" => image.saturate(0.4),
            "sharpness" => image.sharpen(1.9),
            "posterise" => image.posterise(3),
            "solarise" => image.solarise(120.0),
            "autocontrast" => image.autocontrast(),
            other => panic!("{other} is not an operation"),
        });
        assert_close(&found, expected, name);
        assert_ne!(found, IMAGE, "{name}");
    }
    let found = after(&IMAGE, [3, 4, 6], |image| image.shift_hue(0.15));
    assert_close(&found, &WITH_HUE_SHIFTED, "hue");
    let back = after(&found, [3, 4, 6], |image| image.shift_hue(-0.15));
    assert_close(&back, &IMAGE, "hue and back");
}

#[test]
fn equalised_is_as_by_pil() {
    let pixels: Vec<u8> = (0..1800_u32)
        .map(|i| ((i * 73 + i * i * 31) % 181) as u8)
        .collect();
    let found = after(&pixels, [3, 20, 30], |image| {
        image.equalise();
    });
    let first = [
        0, 184, 161, 234, 107, 89, 188, 58, 51, 165, 40, 40, 165, 51, 58, 188, 89, 107, 234, 161,
        184, 0, 241, 255,
    ];
    assert_eq!(found[..24], first);
    assert_eq!(found.iter().copied().map(u64::from).sum::<u64>(), 261_718);
}

#[test]
fn a_quarter_of_a_turn_is_exact_and_nothing_is_nothing() {
    // Two channels of 3 × 3 pixels.
    let image: Vec<u8> = (1..=18).collect();
    let turned = after(&image, [2, 3, 3], |image| image.warp(&warp::rotation(90.0)));
    assert_eq!(
        turned[..9],
        [3, 6, 9, 2, 5, 8, 1, 4, 7],
        "counter-clockwise"
    );
    assert_eq!(turned[9..], [12, 15, 18, 11, 14, 17, 10, 13, 16]);
    let same = after(&image, [2, 3, 3], |image| image.warp(&warp::rotation(0.0)));
    assert_eq!(same, image);
    let half = [[1.0, 0.0, 0.5], [0.0, 1.0, 0.0]];
    let between = after(&[10, 20, 40], [1, 1, 3], |image| image.warp(&half));
    assert_eq!(between, [15, 30, 20], "black beyond the edge");
}

#[test]
fn a_rectangle_of_the_configured_area_is_erased() {
    let config = EraseConfig {
        probability: 1.0,
        area: [0.1, 0.3],
        aspect: [0.5, 2.0],
    };
    let image = vec![9; 2 * 20 * 30];
    for epoch in 0..50 {
        let mut stream = stream(1, "test", epoch, 0);
        let found = after(&image, [2, 20, 30], |image| {
            image.erase(config, &mut stream);
        });
        let erased: usize = found.iter().map(|&pixel| usize::from(pixel == 0)).sum();
        let fraction = erased as f64 / found.len() as f64;
        // Sides are rounded to pixels.
        assert!((0.08..0.33).contains(&fraction), "{fraction}");
        assert_eq!(found[..600], found[600..], "in all channels alike");
    }
    let never = EraseConfig {
        probability: 0.0,
        ..config
    };
    let mut stream = stream(1, "test", 0, 0);
    assert_eq!(
        after(&image, [2, 20, 30], |i| i.erase(never, &mut stream)),
        image
    );
}

fn everything() -> AugmentConfig {
    AugmentConfig {
        crop: Some(CropConfig { padding: 1 }),
        flip: Some(Flip::Horizontal),
        rotate: Some(RotateConfig { degrees: 20.0 }),
        colour: Some(ColourConfig {
            brightness: 0.4,
            contrast: 0.4,
            saturation: 0.4,
            hue: 0.1,
            ..ColourConfig::default()
        }),
        rand_augment: Some(RandAugmentConfig::default()),
        erase: Some(EraseConfig::default()),
        ..AugmentConfig::default()
    }
}

#[test]
fn an_operation_draws_the_same_whatever_else_is_configured() {
    let applied = |config: &AugmentConfig, epoch| {
        let augmentation = Augmentation::new(config, [3, 4, 6], 7).expect("it is right");
        let augmentation = augmentation.expect("something is random");
        let mut into = Vec::new();
        augmentation.apply((epoch, 5), &IMAGE, [3, 4, 6], &mut into);
        into
    };
    let erased = AugmentConfig {
        erase: Some(EraseConfig {
            probability: 1.0,
            ..EraseConfig::default()
        }),
        ..AugmentConfig::default()
    };
    let both = AugmentConfig {
        // Nothing becomes black by it.
        colour: Some(ColourConfig {
            brightness: 0.4,
            ..ColourConfig::default()
        }),
        ..erased.clone()
    };
    for epoch in 0..20 {
        let black = |pixels: Vec<u8>| -> Vec<bool> { pixels.iter().map(|&p| p == 0).collect() };
        assert_eq!(black(applied(&erased, epoch)), black(applied(&both, epoch)));
        assert_eq!(applied(&everything(), epoch), applied(&everything(), epoch));
    }
    assert_ne!(applied(&everything(), 1), applied(&everything(), 2));
}

#[test]
fn all_operations_keep_the_shape_of_any_image() {
    let config = AugmentConfig {
        crop: None,
        colour: None,
        rand_augment: Some(RandAugmentConfig {
            operations: 14,
            magnitude: 30,
        }),
        ..everything()
    };
    for shape @ [channels, height, width] in [[1, 1, 1], [1, 1, 9], [2, 3, 2], [3, 2, 5], [4, 5, 5]]
    {
        let augmentation = Augmentation::new(&config, shape, 1).expect("it is right");
        let augmentation = augmentation.expect("something is random");
        let image = vec![100; channels * height * width];
        for index in 0..100 {
            let mut into = Vec::new();
            augmentation.apply((0, index), &image, shape, &mut into);
            assert_eq!(into.len(), image.len());
        }
    }
}

#[test]
fn options_out_of_range_are_errors_with_their_paths() {
    let message = |change: fn(&mut AugmentConfig), shape| {
        let mut config = everything();
        change(&mut config);
        let error = Augmentation::new(&config, shape, 1).expect_err("an error");
        error.to_string()
    };
    let rgb = [3, 8, 8];
    for (found, expected) in [
        (
            message(|c| c.rotate = Some(RotateConfig { degrees: 181.0 }), rgb),
            "`data.augment.rotate.degrees` must be from 0 to 180, found 181",
        ),
        (
            message(|c| c.rotate = Some(RotateConfig { degrees: f64::NAN }), rgb),
            "`data.augment.rotate.degrees` must be from 0 to 180, found NaN",
        ),
        (
            message(|c| c.erase.get_or_insert_default().area = [0.5, 0.2], rgb),
            "`data.augment.erase.area[0]` must be from 0 to 0.2, found 0.5",
        ),
        (
            message(
                |c| c.rand_augment.get_or_insert_default().operations = 0,
                rgb,
            ),
            "`data.augment.rand_augment.operations` must be from 1 to 14, found 0",
        ),
        (
            message(|_| (), [1, 8, 8]),
            "`data.augment.colour.saturation` needs images with three channels, red, green and blue; these have 1: \
             leave it out",
        ),
    ] {
        assert_eq!(found, expected);
    }
}
