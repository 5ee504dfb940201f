//! Operations compared with PIL's and with what is known by hand; views depend only on seed, epoch, sample and number.

use std::sync::Arc;

use super::crop::{Rectangle, resized};
use super::*;
use crate::images::{
    Assembly, AugmentConfig, ColourConfig, ImageOptions, ImageTargets, Images, NormaliseConfig,
    NormaliseRule,
};
use crate::split::{Part, Parts};
use crate::{DataError, Dataset};

/// A channel of 4 × 6 pixels.
const IMAGE: [u8; 24] = [
    0, 50, 100, 200, 255, 10, 5, 60, 90, 180, 30, 20, 9, 9, 200, 100, 40, 70, 255, 0, 255, 0, 255,
    0,
];

fn view(json: serde_json::Value) -> ViewConfig {
    serde_json::from_value(json).expect("a view")
}

#[test]
fn a_resized_rectangle_is_that_of_pil() {
    let whole = Rectangle {
        rows: 0..4,
        columns: 0..6,
    };
    let mut found = Vec::new();
    resized(&IMAGE, [1, 4, 6], &whole, [1, 4, 6], &mut found);
    assert_eq!(found, IMAGE, "of the same size");
    // PIL's `crop((1, 0, 5, 3)).resize((6, 4), BILINEAR)`, which rounds to bytes between rows and columns, too.
    let part = Rectangle {
        rows: 0..3,
        columns: 1..5,
    };
    resized(&IMAGE, [1, 4, 6], &part, [1, 4, 6], &mut found);
    let expected = [
        50_u8, 75, 117, 183, 228, 255, 56, 75, 110, 172, 151, 114, 41, 86, 134, 147, 92, 34, 9,
        105, 183, 117, 70, 40,
    ];
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.abs_diff(expected) <= 1, "{found} {expected}");
    }
}

#[test]
fn a_resized_image_is_that_of_pil() {
    let mut found = Vec::new();
    super::resized(&IMAGE, [1, 4, 6], [1, 2, 3], &mut found);
    let half = [38_u8, 130, 90, 84, 122, 80];
    for (found, expected) in found.iter().zip(half) {
        assert!(found.abs_diff(expected) <= 1, "{found} {expected}");
    }
    super::resized(&IMAGE, [1, 4, 6], [1, 3, 4], &mut found);
    let expected = [21_u8, 93, 181, 79, 18, 108, 106, 42, 114, 137, 106, 85];
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.abs_diff(expected) <= 1, "{found} {expected}");
    }
}

#[test]
fn rectangles_have_the_areas_and_ratios_that_are_configured() {
    let config = ViewCropConfig {
        scale: [0.2, 0.5],
        aspect: [0.5, 2.0],
    };
    let (mut tops, mut areas) = (Vec::new(), Vec::new());
    for index in 0..300 {
        let Rectangle { rows, columns } =
            config.draw([3, 60, 80], &mut random::stream(1, "test", 0, index));
        assert!(rows.end <= 60 && columns.end <= 80);
        let area = (rows.len() * columns.len()) as f64 / 4800.0;
        let aspect = columns.len() as f64 / rows.len() as f64;
        assert!((0.18..0.53).contains(&area) && (0.48..2.1).contains(&aspect));
        tops.push(rows.start);
        areas.push(area);
    }
    assert!(tops.contains(&0) && tops.iter().any(|top| *top > 30));
    let mean = areas.iter().sum::<f64>() / 300.0;
    assert!((mean - 0.35).abs() < 0.02, "{mean}");
    // Of a line nothing has such a ratio: as much of it as has.
    let line = config.draw([1, 2, 40], &mut random::stream(1, "test", 0, 0));
    assert_eq!((line.rows, line.columns), (0..2, 18..22));
}

#[test]
fn a_blur_spreads_a_pixel_by_a_normal_distribution() {
    let mut pixels = vec![0; 81];
    pixels[40] = 255;
    let mut canvas = Canvas {
        pixels: &mut pixels,
        shape: [1, 9, 9],
    };
    canvas.blur(1.0);
    // exp(−½ x²) / Σ at distances from 0 to 3, twice.
    let of = |distance: f64| (-0.5 * distance * distance).exp();
    let sum = 1.0 + 2.0 * (of(1.0) + of(2.0) + of(3.0));
    for (place, pixel) in pixels.iter().enumerate() {
        let (row, column) = ((place / 9) as f64 - 4.0, (place % 9) as f64 - 4.0);
        let is_reached = row.abs().max(column.abs()) <= 3.0;
        let expected = if is_reached {
            255.0 * of(row) * of(column) / (sum * sum)
        } else {
            0.0
        };
        assert!(
            (f64::from(*pixel) - expected).abs() <= 0.51,
            "{place}: {pixel} {expected}"
        );
    }
    let mut even = vec![77; 30];
    let mut canvas = Canvas {
        pixels: &mut even,
        shape: [1, 5, 6],
    };
    canvas.blur(3.0);
    assert_eq!(even, [77; 30], "also beyond the edges");
}

#[test]
fn mirrors_exchange_sides() {
    let plain = [1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16];
    for (flip, expected) in [
        (Flip::Horizontal, [3, 2, 1, 6, 5, 4, 13, 12, 11, 16, 15, 14]),
        (Flip::Vertical, [4, 5, 6, 1, 2, 3, 14, 15, 16, 11, 12, 13]),
    ] {
        let mut pixels = plain.to_vec();
        let mut canvas = Canvas {
            pixels: &mut pixels,
            shape: [2, 2, 3],
        };
        canvas.mirror(flip);
        assert_eq!(pixels, expected);
    }
}

/// Six images of 3 × 8 × 10, four of them for training.
fn splits(
    views: &[ViewConfig],
    augment: &AugmentConfig,
    seed: u64,
) -> Result<[Arc<dyn Dataset>; 2], DataError> {
    let pixels = (0..1440_usize).map(|pixel| (pixel * 7 % 251 + 1) as u8);
    let images = Images::new(pixels.collect(), [3, 8, 10], vec![0, 1, 0, 1, 0, 1]);
    let parts = Parts {
        train: vec![0, 1, 3, 5],
        val: vec![2, 4],
        test: Vec::new(),
    };
    let options = ImageOptions {
        normalise: NormaliseConfig::Rule(NormaliseRule::None),
        augment: augment.clone(),
        views: views.to_vec(),
        targets: ImageTargets::Classes,
    };
    let assembly = Assembly {
        classes: ["a", "b"].map(str::to_owned).to_vec(),
        options: &options,
        seed,
    };
    let fitted = assembly.splits(images, parts, Part::Count(2), Part::Nothing)?;
    Ok([fitted.train, fitted.val.expect("it is there")])
}

/// All operations, and a view that is left as it is.
fn several() -> Vec<ViewConfig> {
    let strong = view(serde_json::json!({
        "count": 2, "size": [8, 10], "crop": {"scale": [0.3, 1]}, "flip": "horizontal",
        "colour": {"probability": 0.8, "brightness": 0.4, "hue": 0.1}, "grey": {}, "blur": {}, "solarise": {},
    }));
    vec![strong, ViewConfig::default()]
}

fn train(views: &[ViewConfig], seed: u64) -> Arc<dyn Dataset> {
    let [train, _] = splits(views, &AugmentConfig::default(), seed).expect("it is right");
    train
}

/// The rows of a batch in an epoch.
fn rows(data: &dyn Dataset, indices: &[u32], epoch: u64) -> Vec<Vec<f32>> {
    let batch = data.gather(indices, epoch).expect("a batch");
    assert_eq!(batch.indices, indices);
    assert_eq!(batch.targets.dims(), [indices.len()]);
    let rows = batch.inputs.flatten_from(1).and_then(|rows| rows.to_vec2());
    rows.expect("rows")
}

#[test]
fn a_batch_has_all_samples_of_each_view_after_the_other() {
    let data = train(&several(), 1);
    assert_eq!(data.views(), 3);
    let batch = rows(data.as_ref(), &[2, 0], 5);
    assert_eq!(batch.len(), 6);
    let plain = train(&[], 1);
    assert_eq!(plain.views(), 1);
    let plain = rows(plain.as_ref(), &[2, 0], 5);
    assert_eq!(batch[4..], plain, "the third view");
    for (row, plain) in batch.iter().zip(plain.iter().cycle()).take(4) {
        assert_ne!(row, plain);
    }
    assert_ne!(batch[0], batch[2], "of one sample");
}

#[test]
fn views_depend_on_seed_epoch_sample_and_number_alone() {
    let data = train(&several(), 1);
    let all = rows(data.as_ref(), &[0, 1, 2, 3], 3);
    assert_eq!(all, rows(train(&several(), 1).as_ref(), &[0, 1, 2, 3], 3));
    assert_ne!(all, rows(data.as_ref(), &[0, 1, 2, 3], 4));
    assert_ne!(all, rows(train(&several(), 2).as_ref(), &[0, 1, 2, 3], 3));
    for index in 0..4 {
        let alone = rows(data.as_ref(), &[index], 3);
        for (view, row) in alone.iter().enumerate() {
            assert_eq!(*row, all[4 * view + index as usize]);
        }
    }
    // An operation draws the same, whatever else there is.
    let flip = |more: serde_json::Value| {
        let mut json = serde_json::json!({"flip": "vertical"});
        json.as_object_mut()
            .expect("it is one")
            .extend(more.as_object().expect("one").clone());
        rows(train(&[view(json)], 1).as_ref(), &[0, 1, 2, 3], 0)
    };
    let never = serde_json::json!({"blur": {"probability": 0}, "solarise": {"probability": 0}});
    assert_eq!(flip(serde_json::json!({})), flip(never));
}

#[test]
fn only_training_has_views() {
    let [train, val] = splits(&several(), &AugmentConfig::default(), 1).expect("it is right");
    let plain = train.plain().expect("views are random");
    assert_eq!((plain.views(), val.views()), (1, 1));
    let expected = self::train(&[], 1);
    assert_eq!(
        rows(plain.as_ref(), &[0, 3], 0),
        rows(expected.as_ref(), &[0, 3], 7)
    );
    assert!(
        train
            .describe()
            .contains(&"3 views of each training image".to_owned())
    );
}

#[test]
fn views_of_another_size_are_what_a_model_is_for() {
    let small = view(serde_json::json!({"count": 2, "size": [4, 5], "crop": {}}));
    let [train, val] = splits(&[small], &AugmentConfig::default(), 1).expect("it is right");
    assert_eq!(rows(train.as_ref(), &[1, 2], 0).len(), 4);
    let plain = train.plain().expect("views are random");
    for data in [&train, &val, &plain] {
        assert_eq!(data.sample_shape(), [3, 4, 5]);
        let batch = data.gather(&[0], 0).expect("a batch").inputs;
        assert_eq!(batch.dims()[1..], [3, 4, 5]);
    }
    // Evaluated images are resized as a whole, also as a view.
    for same in ["[{}]", r#"[{"size": [4, 5]}]"#] {
        let same = val.in_views(same).expect("it is right");
        assert_eq!(rows(same.as_ref(), &[0], 0), rows(val.as_ref(), &[0], 0));
    }
    let other = val.in_views(r#"[{"size": [8, 10]}]"#).err();
    let text = other.expect("another size").to_string();
    assert!(
        text.contains("the size [8, 10], but the model is for images of [4, 5]"),
        "{text}"
    );
}

#[test]
fn views_of_each_size_are_a_tensor_of_their_own() {
    let large = serde_json::json!({"crop": {}, "flip": "horizontal"});
    let small = serde_json::json!({"count": 2, "size": [4, 5], "crop": {"scale": [0.1, 0.4]}});
    let views = [large.clone(), large, small.clone(), small].map(view);
    let data = train(&views, 1);
    let groups = data.view_groups().into_iter();
    let groups: Vec<_> = groups
        .map(|one| (one.entry, one.count, one.shape))
        .collect();
    assert_eq!(groups, [(0, 2, vec![3, 8, 10]), (2, 4, vec![3, 4, 5])]);
    assert_eq!((data.views(), data.sample_shape()), (6, &[3, 8, 10][..]));
    assert!(
        data.describe()
            .contains(&"6 views of each training image: 2 of 8 × 10, 4 of 4 × 5".to_owned())
    );
    let batch = data.gather(&[2, 0, 3], 5).expect("a batch");
    let shapes: Vec<_> = batch
        .all_inputs()
        .map(|inputs| inputs.dims().to_vec())
        .collect();
    assert_eq!(shapes, [[6, 3, 8, 10], [12, 3, 4, 5]]);
    // A view is the same whatever others there are.
    let flat = |rows: candle_core::Result<candle_core::Tensor>| -> Vec<f32> {
        let flat = rows.and_then(|rows| rows.flatten_all()?.to_vec1());
        flat.expect("numbers")
    };
    let first = train(&views[..2], 1)
        .gather(&[2, 0, 3], 5)
        .expect("a batch");
    assert_eq!(flat(Ok(batch.inputs)), flat(Ok(first.inputs)));
    for (place, sample) in [2, 0, 3].into_iter().enumerate() {
        let alone = data.gather(&[sample], 5).expect("a batch").further_inputs;
        for number in 0..4 {
            let row = batch.further_inputs[0].narrow(0, 3 * number + place, 1);
            assert_eq!(flat(row), flat(alone[0].narrow(0, number, 1)));
        }
    }
    // Evaluated images are of the first size.
    let plain = data.plain().expect("views are random");
    assert_eq!(plain.sample_shape(), [3, 8, 10]);
}

#[test]
fn evaluated_samples_have_views_that_are_asked_for() {
    let [train, val] = splits(&several(), &AugmentConfig::default(), 1).expect("it is right");
    let asked = r#"[{}, {"flip": "horizontal", "flip_probability": 1}]"#;
    for data in [train, val] {
        let plain = data.plain().unwrap_or_else(|| Arc::clone(&data));
        let data = data.in_views(asked).expect("they are right");
        assert_eq!(data.views(), 2);
        let batch = rows(data.as_ref(), &[1], 0);
        assert_eq!(batch[..1], rows(plain.as_ref(), &[1], 0));
        for (flipped, row) in batch[1].chunks(10).zip(batch[0].chunks(10)) {
            assert!(flipped.iter().eq(row.iter().rev()));
        }
    }
    let plain = self::train(&[], 1);
    for (views, words) in [
        ("[]", "is empty"),
        ("{}", "not a list as that of `data.views`"),
        (r#"[{"flipp": 1}]"#, "unknown field `flipp`"),
    ] {
        let error = plain.in_views(views).err().expect("wrong").to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn wrong_views_are_reported_by_their_keys() {
    let error = |views: serde_json::Value| {
        let views: Vec<ViewConfig> = serde_json::from_value(views).expect("views");
        let error = splits(&views, &AugmentConfig::default(), 1).err();
        error.expect("it is wrong").to_string()
    };
    for (views, words) in [
        (
            serde_json::json!([{"count": 0}]),
            "`views[0].count` must be from 1 to 64, found 0",
        ),
        (
            serde_json::json!([{}, {"crop": {"scale": [0.5, 0.2]}}]),
            "`views[1].crop.scale[0]` must be from 0.001 to 0.2, found 0.5",
        ),
        (
            serde_json::json!([{"size": [0, 10]}]),
            "`views[0].size[0]` must be from 1 to 8192, found 0",
        ),
        (
            serde_json::json!([{"count": 40}, {"count": 30}]),
            "70 views of each sample, but at most 64",
        ),
    ] {
        let found = error(views);
        assert!(found.contains(words), "{found}");
    }
    let colour = AugmentConfig {
        colour: Some(ColourConfig {
            brightness: 0.5,
            ..ColourConfig::default()
        }),
        ..AugmentConfig::default()
    };
    let both = splits(&several(), &colour, 1).err().expect("both");
    assert!(both.to_string().contains("exclude each other"), "{both}");
    let grey = Views::new(&several(), [1, 8, 10], 1).expect_err("no colours");
    assert!(
        grey.to_string()
            .contains("`views[0].colour.hue` needs images with three channels")
    );
}
