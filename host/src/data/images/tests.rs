//! Batches hold what was asked for, normalised by the training images alone.

use super::*;

/// Four images of 1 × 2 pixels, two dark, two bright.
fn images() -> Arc<Images> {
    let pixels = vec![0, 10, 20, 30, 200, 210, 220, 230];
    Arc::new(Images::new(pixels, [1, 1, 2], vec![0, 1, 2, 3]))
}

fn dataset(indices: &[u32], training: &[u32]) -> ImageDataset {
    let normalisation = Normalisation::of(&images(), training);
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
    let normalisation = Normalisation::of(&flat, &[0, 1]);
    assert!(normalisation.table[77].abs() < 1e-6);
    assert!(normalisation.table.iter().all(|value| value.is_finite()));
}
