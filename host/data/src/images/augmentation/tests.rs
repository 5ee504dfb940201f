//! Crops and flips compared with hand-written results; draws depend only on seed, epoch and index.

use std::sync::Arc;

use super::shift::{Draw, Shift};
use super::*;
use crate::Dataset;
use crate::dataset::fitted::Fitted;
use crate::images::transform::{ImageFormat, ImageTransform};
use crate::images::{
    Assembly, FittedImages, ImageOptions, ImageTargets, Images, NormaliseConfig, NormaliseRule,
    OwnImages,
};
use crate::split::{Part, Parts};

fn config(padding: usize, flip: Option<Flip>) -> AugmentConfig {
    AugmentConfig {
        crop: Some(CropConfig { padding }),
        flip,
        ..AugmentConfig::default()
    }
}

fn shift(padding: usize, flip: Option<Flip>) -> Shift {
    Shift { padding, flip }
}

/// Draws the shift of a sample, as [`Augmentation::apply`] does.
fn draw(shift: Shift, epoch: u64, index: u32) -> Draw {
    shift.draw(&mut random::stream(1, "augment", epoch, u64::from(index)))
}

/// Returns the image of 2 channels of 2 × 3 pixels after a draw.
fn after(shift: Shift, top: usize, left: usize, flipped: bool) -> Vec<u8> {
    let draw = Draw { top, left, flipped };
    let pixels = [1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16];
    let mut into = vec![99; 5];
    shift.apply(draw, &pixels, [2, 2, 3], &mut into);
    into
}

#[test]
fn crops_are_those_cut_by_hand() {
    let crop = shift(1, None);
    // With its border a channel is
    //   0 0 0 0 0
    //   0 1 2 3 0
    //   0 4 5 6 0
    //   0 0 0 0 0
    for (top, left, expected) in [
        (0, 0, [0, 0, 0, 0, 1, 2]),
        (0, 1, [0, 0, 0, 1, 2, 3]),
        (0, 2, [0, 0, 0, 2, 3, 0]),
        (1, 0, [0, 1, 2, 0, 4, 5]),
        (1, 1, [1, 2, 3, 4, 5, 6]),
        (2, 2, [5, 6, 0, 0, 0, 0]),
    ] {
        let found = after(crop, top, left, false);
        assert_eq!(found[..6], expected, "{top}, {left}");
        let second = expected.map(|pixel| if pixel > 0 { pixel + 10 } else { 0 });
        assert_eq!(found[6..], second, "{top}, {left}: the other channel");
    }
}

#[test]
fn flips_are_exact_mirrors() {
    let horizontal = shift(0, Some(Flip::Horizontal));
    let vertical = shift(0, Some(Flip::Vertical));
    let plain = [1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16];
    for (shift, flipped, expected) in [
        (horizontal, false, plain),
        (vertical, false, plain),
        (horizontal, true, [3, 2, 1, 6, 5, 4, 13, 12, 11, 16, 15, 14]),
        (vertical, true, [4, 5, 6, 1, 2, 3, 14, 15, 16, 11, 12, 13]),
    ] {
        assert_eq!(after(shift, 0, 0, flipped), expected);
    }
    // A crop followed by a flip.
    let both = shift(1, Some(Flip::Horizontal));
    assert_eq!(after(both, 0, 0, true)[..6], [0, 0, 0, 2, 1, 0]);
}

#[test]
fn draws_reach_every_place_and_both_sides() {
    let shift = shift(2, Some(Flip::Horizontal));
    let draws: Vec<Draw> = (0..500).map(|index| draw(shift, 0, index)).collect();
    for place in 0..=4 {
        assert!(draws.iter().any(|draw| draw.top == place));
        assert!(draws.iter().any(|draw| draw.left == place));
    }
    assert!(draws.iter().all(|draw| draw.top <= 4 && draw.left <= 4));
    let flipped = draws.iter().filter(|draw| draw.flipped).count();
    assert!((200..300).contains(&flipped), "{flipped}");
}

#[test]
fn a_flip_stays_when_a_crop_is_added() {
    let (without, with) = (shift(0, None), shift(3, None));
    for index in 0..50 {
        let flipped = |shift: Shift| draw(shift, 2, index).flipped;
        assert_eq!(flipped(without), flipped(with));
    }
}

/// Six images of 3 × 4 × 5 without equal neighbouring pixels, four of them for training.
fn splits(config: &AugmentConfig, seed: u64) -> Result<Fitted<FittedImages>, crate::DataError> {
    let pixels = (0..360_usize).map(|pixel| (pixel * 7 % 251 + 1) as u8);
    let images = Images::new(pixels.collect(), [3, 4, 5], vec![0, 1, 0, 1, 0, 1]);
    let own = OwnImages {
        images: images.clone(),
        file: "own".into(),
    };
    let parts = Parts {
        train: vec![0, 1, 3, 5],
        val: vec![2, 4],
        test: Vec::new(),
    };
    let options = ImageOptions {
        normalise: NormaliseConfig::Rule(NormaliseRule::None),
        augment: config.clone(),
        views: Vec::new(),
        targets: ImageTargets::Classes,
    };
    let assembly = Assembly {
        classes: ["a", "b"].map(str::to_owned).to_vec(),
        options: &options,
        seed,
    };
    assembly.splits(images, parts, Part::Count(2), Part::Own(own))
}

/// Returns the inputs of some samples in an epoch.
fn numbers(data: &dyn Dataset, indices: &[u32], epoch: u64) -> Vec<f32> {
    let inputs = data.gather(indices, epoch).expect("a batch").inputs;
    let flat = inputs.flatten_all().expect("flat");
    flat.to_vec1().expect("numbers")
}

#[test]
fn pixels_depend_on_seed_epoch_and_sample_alone() {
    let config = config(2, Some(Flip::Horizontal));
    let train = |seed| splits(&config, seed).expect("it is right").train;
    let all = numbers(train(1).as_ref(), &[0, 1, 2, 3], 3);
    assert_eq!(all, numbers(train(1).as_ref(), &[0, 1, 2, 3], 3));
    assert_ne!(all, numbers(train(1).as_ref(), &[0, 1, 2, 3], 4));
    assert_ne!(all, numbers(train(2).as_ref(), &[0, 1, 2, 3], 3));
    for index in 0..4 {
        let alone = numbers(train(1).as_ref(), &[index], 3);
        let start = index as usize * 60;
        assert_eq!(alone, all[start..start + 60]);
    }
    let turned = numbers(train(1).as_ref(), &[3, 0], 3);
    assert_eq!(turned, [&all[180..], &all[..60]].concat());
}

#[test]
fn only_training_is_augmented() {
    let strong = splits(&config(3, Some(Flip::Vertical)), 1).expect("it is right");
    let plain = splits(&AugmentConfig::default(), 1).expect("it is right");
    let all = [0, 1, 2, 3];
    let expected = numbers(plain.train.as_ref(), &all, 0);
    assert_ne!(numbers(strong.train.as_ref(), &all, 0), expected);
    let evaluated = strong.train.plain().expect("something is random");
    assert_eq!(numbers(evaluated.as_ref(), &all, 0), expected);
    assert!(plain.train.plain().is_none(), "nothing is random");
    for (strong, plain) in [(&strong.val, &plain.val), (&strong.test, &plain.test)] {
        let of = |data: &Option<Arc<dyn Dataset>>, epoch| {
            let data = data.as_ref().expect("there is some");
            numbers(data.as_ref(), &[0, 1], epoch)
        };
        assert_eq!(of(strong, 1), of(plain, 0));
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    let header = [
        [0, 0, 8, 4],
        [0, 0, 0, 1],
        [0, 0, 0, 3],
        [0, 0, 0, 4],
        [0, 0, 0, 5],
    ];
    let bytes = [header.as_flattened(), &[9; 60]].concat();
    std::fs::write(file.path(), bytes).expect("written");
    let transform = ImageTransform::new(ImageFormat::Idx { shape: [3, 4, 5] }, strong.learnt);
    let opened = transform.open(file.path()).expect("it is right");
    assert_eq!(
        numbers(opened.as_ref(), &[0], 1),
        [(9.0_f64 / 255.0) as f32; 60]
    );
}

#[test]
fn no_border_and_no_flip_change_nothing() {
    let nothing = splits(&config(0, None), 1).expect("it is right").train;
    let plain = splits(&AugmentConfig::default(), 1).expect("it is right");
    let all = [0, 1, 2, 3];
    let expected = numbers(plain.train.as_ref(), &all, 0);
    assert_eq!(numbers(nothing.as_ref(), &all, 5), expected);
    // The same holds for the draws themselves.
    let unmoved = shift(0, None);
    for index in 0..20 {
        let Draw { top, left, flipped } = draw(unmoved, 1, index);
        let found = after(unmoved, top, left, flipped);
        assert_eq!(found, [1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16]);
    }
}

#[test]
fn a_border_as_large_as_the_image_is_reported() {
    splits(&config(3, None), 1).expect("some of the image is left");
    let error = splits(&config(4, None), 1).err().expect("nothing is left");
    let words = "must be below the images' height and width (4 and 5), found 4";
    assert!(error.to_string().contains(words), "{error}");
}
