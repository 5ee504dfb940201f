//! Batches contain the requested samples, normalised by the training images only.

use super::*;

/// Four images of 1 × 2 pixels, two dark, two bright.
fn images() -> Arc<Images> {
    let pixels = vec![0, 10, 20, 30, 200, 210, 220, 230];
    Arc::new(Images::new(pixels, [1, 1, 2], vec![0, 1, 2, 3]))
}

fn dataset(indices: &[u32], training: &[u32]) -> ImageDataset {
    let statistics = ChannelStatistics::fit(&NormaliseConfig::default(), &images(), training);
    let normalisation = Normalisation::of(&statistics.expect("read"));
    let names = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
    ImageDataset::new(images(), indices.to_vec(), normalisation, names)
}

#[test]
fn a_batch_is_in_the_order_asked_for() {
    let data = dataset(&[3, 1, 0], &[0, 1]);
    assert_eq!((data.len(), data.targets().outputs()), (3, 4));
    assert_eq!(data.sample_shape(), [1, 1, 2]);
    let batch = data.gather(&[2, 0, 2], 0).expect("a batch");
    assert_eq!(batch.inputs.dims(), [3, 1, 1, 2]);
    assert_eq!(batch.indices, [2, 0, 2]);
    let targets = batch.targets.to_vec1::<u32>().expect("whole numbers");
    assert_eq!(targets, [0, 3, 0]);
    let error = data.gather(&[0, 3], 0).expect_err("there are three");
    assert_eq!(error.to_string(), "sample 3 was asked for, but there are 3");
}

#[test]
fn pixels_are_normalised_by_the_training_images() {
    // 0, 10, 20, 30: mean 15, variance 125.
    let expected = |pixel: f64| ((pixel - 15.0) / 125.0_f64.sqrt()) as f32;
    let of_training = dataset(&[0, 1], &[0, 1])
        .gather(&[0, 1], 0)
        .expect("a batch");
    let of_others = dataset(&[2, 3], &[0, 1]).gather(&[1], 0).expect("a batch");
    for (batch, pixels) in [
        (of_training, &[0.0, 10.0, 20.0, 30.0][..]),
        (of_others, &[220.0, 230.0]),
    ] {
        let found = batch.inputs.flatten_all().expect("flat");
        let found = found.to_vec1::<f32>().expect("numbers");
        let expected: Vec<f32> = pixels.iter().map(|&pixel| expected(pixel)).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn images_of_one_value_become_zeros() {
    let flat = Images::new(vec![77; 8], [1, 2, 2], vec![0, 0]);
    let statistics = ChannelStatistics::fit(&NormaliseConfig::default(), &flat, &[0, 1]);
    let normalisation = Normalisation::of(&statistics.expect("read"));
    let mut numbers = Vec::new();
    normalisation.apply(&[77, 0, 255, 77], 4, &mut numbers);
    assert!(numbers[0].abs() < 1e-6 && numbers.iter().all(|number| number.is_finite()));
}

/// Two images of two channels of 1 × 2 pixels.
fn of_two_channels() -> Images {
    let pixels = vec![0, 2, 100, 100, 4, 6, 100, 100];
    Images::new(pixels, [2, 1, 2], vec![0, 1])
}

fn normalised(config: &NormaliseConfig) -> Result<Vec<f32>, DataError> {
    let images = of_two_channels();
    let normalisation = Normalisation::of(&ChannelStatistics::fit(config, &images, &[0, 1])?);
    let mut numbers = Vec::new();
    let mut buffer = Vec::new();
    let (pixels, _) = images.image(0, &mut buffer)?.expect("there are two");
    normalisation.apply(pixels, 2, &mut numbers);
    Ok(numbers)
}

#[test]
fn each_channel_is_normalised_by_itself() {
    let found = normalised(&NormaliseConfig::default()).expect("it is right");
    // 0, 2, 4, 6: mean 3, variance 5. The other channel is constant.
    let expected = [-3.0, -1.0].map(|number: f64| (number / 5.0_f64.sqrt()) as f32);
    assert_eq!(found, [&expected[..], &[0.0, 0.0]].concat());
    let none = NormaliseConfig::Rule(NormaliseRule::None);
    let expected = [0.0, 2.0, 100.0, 100.0].map(|number: f64| (number / 255.0) as f32);
    assert_eq!(normalised(&none).expect("it is right"), expected.to_vec());
}

#[test]
fn known_means_and_deviations_are_those_of_pixels_up_to_one() {
    let known = |mean: &[f64], deviation: &[f64]| {
        normalised(&NormaliseConfig::Known(MeanDeviation {
            mean: mean.to_vec(),
            deviation: deviation.to_vec(),
        }))
    };
    let found = known(&[0.5, 0.25], &[0.5, 1.0]).expect("it is right");
    let expected = [-1.0, 2.0 / 127.5 - 1.0, 36.25 / 255.0, 36.25 / 255.0];
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((f64::from(*found) - expected).abs() < 1e-6, "{found}");
    }
    for (mean, deviation, words) in [
        (
            &[0.5][..],
            &[0.5][..],
            "has 1 in `mean` and 1 in `deviation`, but the images have 2",
        ),
        (&[0.5; 3], &[0.5; 2], "has 3 in `mean` and 2 in"),
        (
            &[0.5, 127.5],
            &[0.5; 2],
            "`data.normalise.mean` has 127.5, but must be from 0 to 1",
        ),
        (&[0.5; 2], &[0.5, 0.0], "`data.normalise.deviation` has 0"),
        (&[0.5; 2], &[f64::NAN, 0.5], "deviation` has NaN"),
    ] {
        let error = known(mean, deviation).expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn the_manifest_has_three_forms_of_normalisation() {
    for (text, expected) in [
        ("\"computed\"", NormaliseConfig::default()),
        ("\"none\"", NormaliseConfig::Rule(NormaliseRule::None)),
        (
            r#"{"mean": [0.5], "deviation": [0.25]}"#,
            NormaliseConfig::Known(MeanDeviation {
                mean: vec![0.5],
                deviation: vec![0.25],
            }),
        ),
    ] {
        let found: NormaliseConfig = serde_json::from_str(text).expect(text);
        assert_eq!(found, expected);
    }
    serde_json::from_str::<NormaliseConfig>("\"some\"").expect_err("there is no such rule");
}

#[test]
fn what_is_read_on_demand_has_the_same_bytes_and_the_same_errors() {
    let directory = tempfile::TempDir::new().expect("a directory");
    let path = directory.path().join("images");
    let mut bytes = vec![0, 0, 8, 3, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0, 3];
    bytes.extend(1..=30);
    std::fs::write(&path, &bytes).expect("written");
    let read = |memory| idx::images(&path, memory);
    let memory = read(MemoryUse::Auto).expect("read");
    let file = read(MemoryUse::OnDemand).expect("read");
    assert!(memory.pixels.is_in_memory() && !file.pixels.is_in_memory());
    assert_eq!(memory.dimensions, file.dimensions);
    let (mut one, mut other) = (Vec::new(), Vec::new());
    for index in [4, 0, 2] {
        let memory = memory.pixels.image(index, 6, &mut one).expect("read");
        let file = file.pixels.image(index, 6, &mut other).expect("read");
        assert!(memory.is_some());
        assert_eq!(memory, file);
    }
    assert_eq!(
        memory.pixels.image(5, 6, &mut one).expect("nothing fails"),
        None
    );
    for index in [5, usize::MAX] {
        let error = file.pixels.image(index, 6, &mut other);
        let error = error.expect_err("there are five").to_string();
        assert!(error.contains(&format!("sample {index} ")), "{error}");
    }
    let too_long = [&bytes[..], &[0]].concat();
    for (content, words) in [
        (&bytes[..40], "truncated: 46 bytes expected, found 40"),
        (&too_long, "continues after the 46 bytes that its header"),
    ] {
        std::fs::write(&path, content).expect("written");
        let error = read(MemoryUse::OnDemand).expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
        let whole = read(MemoryUse::Whole).expect_err(words).to_string();
        assert_eq!(error, whole);
    }
}
