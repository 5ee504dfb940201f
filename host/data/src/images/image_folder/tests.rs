//! Images come in a fixed order, with the pixels as drawn; every unusable file is reported.

use std::fs;

use image::{DynamicImage, GrayImage, ImageFormat, Rgb, RgbImage};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::{Dataset, Splits};

/// An image of one colour; `red` identifies it.
fn image(red: u8, height: u32, width: u32) -> RgbImage {
    RgbImage::from_pixel(width, height, Rgb([red, 10, 20]))
}

fn save(directory: &TempDir, name: &str, image: &RgbImage) {
    let file = directory.path().join(name);
    fs::create_dir_all(file.parent().expect("a directory")).expect("made");
    image
        .save_with_format(file, ImageFormat::Png)
        .expect("written");
}

fn write(directory: &TempDir, name: &str, bytes: &[u8]) {
    let file = directory.path().join(name);
    fs::create_dir_all(file.parent().expect("a directory")).expect("made");
    fs::write(file, bytes).expect("written");
}

/// Three cats, one of them nested, and two dogs, of 2 × 3 pixels, next to hidden files.
fn animals() -> TempDir {
    let directory = TempDir::new().expect("a directory");
    for (name, red) in [
        ("dog/a.png", 40),
        ("cat/c.png", 30),
        ("cat/b/z.png", 20),
        ("cat/a.png", 10),
        ("dog/b.png", 50),
    ] {
        save(&directory, name, &image(red, 2, 3));
    }
    for hidden in [".hidden", "cat/.thumbnails/a.png", "dog/.DS_Store"] {
        write(&directory, hidden, b"nothing");
    }
    directory
}

fn read(directory: &TempDir, keys: &Value) -> Result<Splits, DataError> {
    let mut config = json!({"kind": "image-folder", "directory": ".", "normalise": "none"});
    for (key, value) in keys.as_object().into_iter().flatten() {
        config[key] = value.clone();
    }
    let config = serde_json::from_value(config).expect("a config");
    crate::load(&config, directory.path(), 1)
}

fn error(directory: &TempDir, keys: &Value) -> String {
    let result = read(directory, keys);
    result.err().expect("it is wrong").to_string()
}

/// Returns the classes and the bytes of all samples.
fn contents(data: &dyn Dataset) -> (Vec<u32>, Vec<u8>) {
    let all: Vec<u32> = (0..data.len() as u32).collect();
    let batch = data.gather(&all, 0).expect("a batch");
    let flat = batch.inputs.flatten_all().expect("flat");
    let numbers = flat.to_vec1::<f32>().expect("numbers");
    let bytes = numbers.iter().map(|number| (number * 255.0).round() as u8);
    (batch.targets.to_vec1().expect("classes"), bytes.collect())
}

/// Returns the first byte of each sample: its red.
fn reds(data: &dyn Dataset) -> Vec<u8> {
    let size: usize = data.sample_shape().iter().product();
    let (_, bytes) = contents(data);
    bytes.chunks_exact(size).map(|image| image[0]).collect()
}

#[test]
fn classes_and_files_are_in_sorted_order() {
    let splits = read(&animals(), &json!({})).expect("it is right");
    let train = splits.train;
    assert_eq!(train.sample_shape(), [3, 2, 3]);
    assert_eq!(train.class_names(), ["cat", "dog"]);
    let (classes, bytes) = contents(train.as_ref());
    assert_eq!(classes, [0, 0, 0, 1, 1]);
    assert_eq!(reds(train.as_ref()), [10, 20, 30, 40, 50]);
    let planes = [[10; 6], [10; 6], [20; 6]].concat();
    assert_eq!(bytes[..18], planes, "red, green, blue");
    assert_eq!(
        train.describe(),
        ["5 images in memory: 3 × 2 × 3, 90 bytes"]
    );
    assert!(splits.val.is_none() && splits.test.is_none());
}

#[test]
fn pixels_are_row_by_row_and_grey_is_the_brightness() {
    let directory = TempDir::new().expect("a directory");
    let grey = GrayImage::from_raw(3, 2, vec![1, 2, 3, 4, 5, 6]).expect("six pixels");
    save(&directory, "a/a.png", &DynamicImage::from(grey).to_rgb8());
    save(
        &directory,
        "b/b.png",
        &RgbImage::from_pixel(3, 2, Rgb([0, 255, 0])),
    );
    let splits = read(&directory, &json!({"mode": "grey"})).expect("it is right");
    assert_eq!(splits.train.sample_shape(), [1, 2, 3]);
    let (_, bytes) = contents(splits.train.as_ref());
    assert_eq!(bytes[..6], [1, 2, 3, 4, 5, 6]);
    // Rec. 709 weights green by 0.7152.
    assert_eq!(bytes[6..], [182; 6]);
}

#[test]
fn contents_tell_the_format_not_names() {
    for format in [
        ImageFormat::Png,
        ImageFormat::Bmp,
        ImageFormat::Gif,
        ImageFormat::Pnm,
        ImageFormat::WebP,
        ImageFormat::Jpeg,
    ] {
        let directory = TempDir::new().expect("a directory");
        for class in ["a", "b"] {
            let file = directory.path().join(class);
            fs::create_dir(&file).expect("made");
            let saved = image(100, 8, 8).save_with_format(file.join("image"), format);
            saved.expect("written");
        }
        let splits = read(&directory, &json!({})).expect("it is right");
        let reds = reds(splits.train.as_ref());
        assert_eq!(reds.len(), 2, "{format:?}");
        for red in reds {
            assert!(red.abs_diff(100) <= 2, "{format:?}: {red}");
        }
    }
}

#[test]
fn images_are_resized_on_request() {
    let directory = animals();
    save(&directory, "cat/large.png", &image(200, 40, 60));
    let text = error(&directory, &json!({}));
    assert!(text.contains("large.png` has 40 × 60 pixels"), "{text}");
    assert!(text.contains("before it 2 × 3: give `data.size`"), "{text}");
    let splits = read(&directory, &json!({"size": [4, 5]})).expect("it is right");
    assert_eq!(splits.train.sample_shape(), [3, 4, 5]);
    assert_eq!(reds(splits.train.as_ref()), [10, 20, 30, 200, 40, 50]);
    let (_, bytes) = contents(splits.train.as_ref());
    assert_eq!(bytes[..20], [10; 20], "one colour stays one colour");
    // Two columns, black and white, become one of their average.
    let halves = TempDir::new().expect("a directory");
    let half = RgbImage::from_fn(2, 1, |x, _| Rgb([x as u8 * 255; 3]));
    save(&halves, "a/a.png", &half);
    let splits = read(&halves, &json!({"size": [1, 1], "mode": "grey"})).expect("right");
    let (_, bytes) = contents(splits.train.as_ref());
    assert!(bytes[0].abs_diff(127) <= 1, "{bytes:?}");
}

#[test]
fn phases_have_parts_or_directories_of_their_own() {
    let (directory, own) = (animals(), TempDir::new().expect("a directory"));
    save(&own, "dog/a.png", &image(70, 2, 3));
    save(&own, "cat/a.png", &image(60, 2, 3));
    let keys = json!({"val": {"file": own.path()}, "test": {"count": 2}});
    let splits = read(&directory, &keys).expect("it is right");
    let val = splits.val.expect("its own");
    assert_eq!(contents(val.as_ref()).0, [0, 1]);
    assert_eq!(reds(val.as_ref()), [60, 70]);
    assert_eq!(val.describe(), ["2 images in memory: 3 × 2 × 3, 36 bytes"]);
    let test = splits.test.expect("a part");
    assert!(test.describe().is_empty(), "they are the training's");
    let mut all = [reds(test.as_ref()), reds(splits.train.as_ref())].concat();
    assert_eq!((test.len(), splits.train.len()), (2, 3));
    all.sort_unstable();
    assert_eq!(all, [10, 20, 30, 40, 50]);
    let keys = json!({"val": {"count": 2}, "stratified": true});
    let splits = read(&directory, &keys).expect("it is right");
    let val = splits.val.expect("a part");
    assert_eq!(contents(val.as_ref()).0, [0, 1]);
}

#[test]
fn directories_and_single_images_are_opened_for_predictions() {
    let directory = animals();
    let keys = json!({"augment": {"flip": "horizontal"}});
    let learnt = read(&directory, &keys).expect("it is right").preprocessing;
    let opened = learnt.open(&directory.path().join("cat"));
    let opened = opened.expect("it is right").samples;
    assert_eq!(reds(opened.as_ref()), [10, 20, 30]);
    assert!(opened.plain().is_none(), "nothing is random");
    let file = directory.path().join("dog/b.png");
    let opened = learnt.open(&file).expect("it is right").samples;
    assert_eq!(reds(opened.as_ref()), [50]);
    save(&directory, "other.png", &image(1, 3, 3));
    for (name, words) in [
        ("other.png", "other.png` has 3 × 3 pixels"),
        ("dog/.DS_Store", ".DS_Store`: none of these"),
        ("nowhere", "there is no such file"),
    ] {
        let place = directory.path().join(name);
        let error = learnt.open(&place).err().expect(words).to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn all_files_that_cannot_be_decoded_are_named_at_once() {
    let directory = animals();
    write(&directory, "cat/b.txt", b"hello there");
    let png = fs::read(directory.path().join("cat/a.png")).expect("read");
    write(&directory, "dog/cut.png", &png[..png.len() / 2]);
    write(&directory, "dog/empty.png", b"");
    save(&directory, "dog/larger.png", &image(1, 9, 9));
    let text = error(&directory, &json!({}));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(lines[0].starts_with("3 files can't be decoded"), "{text}");
    for (line, name) in lines[1..].iter().zip(["b.txt", "cut.png", "empty.png"]) {
        assert!(line.contains(name), "{text}");
    }
    for index in 0..9 {
        write(&directory, &format!("cat/x{index}"), b"no image");
    }
    let text = error(&directory, &json!({}));
    assert!(text.starts_with("12 files can't"), "{text}");
    assert_eq!(text.lines().count(), 12, "{text}");
    assert!(text.ends_with("\n  and 2 more"), "{text}");
}

#[test]
fn truncated_files_of_every_format_are_reported() {
    let noise = RgbImage::from_fn(64, 64, |x, y| Rgb([(x * y * 7) as u8, x as u8, y as u8]));
    for format in [
        ImageFormat::Png,
        ImageFormat::Bmp,
        ImageFormat::Gif,
        ImageFormat::Pnm,
        ImageFormat::WebP,
        ImageFormat::Jpeg,
    ] {
        let directory = TempDir::new().expect("a directory");
        let mut bytes = std::io::Cursor::new(Vec::new());
        noise.write_to(&mut bytes, format).expect("written");
        let bytes = bytes.into_inner();
        write(&directory, "a/half", &bytes[..bytes.len() / 2]);
        let result = read(&directory, &json!({}));
        let text = result.err().map(|error| error.to_string());
        let text = text.unwrap_or_else(|| panic!("half of a {format:?} is read"));
        assert!(text.starts_with("1 file can't be decoded"), "{text}");
    }
}

#[test]
fn where_no_file_is_an_image_they_are_named_too() {
    let directory = TempDir::new().expect("a directory");
    write(&directory, "a/a", b"text");
    let text = error(&directory, &json!({}));
    assert!(text.starts_with("1 file can't be decoded"), "{text}");
}

#[test]
fn wrong_directories_are_reported() {
    let with = |name: &str| {
        let directory = animals();
        save(&directory, name, &image(1, 2, 3));
        directory
    };
    let empty_class = animals();
    fs::create_dir_all(empty_class.path().join("bird/nested")).expect("made");
    let hidden = animals();
    write(&hidden, "bird/.hidden", b"");
    let phases = TempDir::new().expect("a directory");
    save(&phases, "train/cat/a.png", &image(1, 2, 3));
    save(&phases, "val/cat/a.png", &image(1, 2, 3));
    let own = TempDir::new().expect("a directory");
    save(&own, "cats/a.png", &image(1, 2, 3));
    let shape = TempDir::new().expect("a directory");
    save(&shape, "cat/a.png", &image(1, 3, 2));
    let nothing = TempDir::new().expect("a directory");
    for (directory, keys, words) in [
        (&empty_class, json!({}), "bird` has no images"),
        (&hidden, json!({}), "bird` has no images"),
        (&phases, json!({}), "are train, val, which look like phases"),
        (
            &nothing,
            json!({}),
            "has no directories: it must have one for",
        ),
        (&with("stray.png"), json!({}), "stray.png` is in no class's"),
        (
            &animals(),
            json!({"directory": "nowhere"}),
            "nowhere`: there is no such file",
        ),
        (
            &animals(),
            json!({"val": {"file": own.path()}}),
            "cats` is a class that the training images don't have; did you mean `cat`?",
        ),
        (
            &animals(),
            json!({"test": {"file": shape.path()}}),
            "a.png` has 3 × 2 pixels",
        ),
        (
            &animals(),
            json!({"size": [0, 3]}),
            "`data.size` must be two numbers from 1 to 8192, found [0, 3]",
        ),
        (
            &animals(),
            json!({"val": {"count": 5}}),
            "nothing is left to train on",
        ),
        (
            &animals(),
            json!({"mode": "grey", "normalise": {"mean": [0, 0, 1], "deviation": [1, 1, 1]}}),
            "has 3 in `mean` and 3 in `deviation`, but the images have 1",
        ),
    ] {
        let text = error(directory, &keys);
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn many_images_keep_their_order_on_two_threads() {
    let directory = TempDir::new().expect("a directory");
    for index in 0..101 {
        let class = if index < 50 { "a" } else { "b" };
        // The first files are the largest, so that the threads differ in speed.
        let side = if index < 50 { 64 } else { 4 };
        let name = format!("{class}/{index:03}.png");
        save(&directory, &name, &image(index, side, side));
    }
    let splits = read(&directory, &json!({"size": [4, 4]})).expect("it is right");
    let expected: Vec<u8> = (0..101).collect();
    assert_eq!(reds(splits.train.as_ref()), expected);
}

#[test]
fn the_aspect_ratio_is_kept_on_request() {
    let directory = TempDir::new().expect("a directory");
    // Columns of red 10, 20, 30, 40 in both rows.
    let wide = RgbImage::from_fn(4, 2, |x, _| Rgb([10 * (x as u8 + 1), 0, 0]));
    save(&directory, "a/wide.png", &wide);
    let reds = |keys: &Value| {
        let splits = read(&directory, keys).expect("it is right");
        let (_, bytes) = contents(splits.train.as_ref());
        bytes[..bytes.len() / 3].to_vec()
    };
    let cover = reds(&json!({"size": [2, 2], "resize": "cover"}));
    assert_eq!(cover, [20, 30, 20, 30], "cropped about the centre");
    let contain = reds(&json!({"size": [4, 4], "resize": "contain"}));
    let row = [10, 20, 30, 40];
    assert_eq!(contain, [[0; 4], row, row, [0; 4]].concat());
    let stretch = reds(&json!({"size": [2, 2], "resize": "stretch"}));
    assert_eq!(stretch[0], stretch[2]);
    assert!(stretch[0] < 20 && stretch[1] > 30, "{stretch:?}");
    assert_eq!(
        error(&directory, &json!({"resize": "cover"})),
        "`data.resize` needs `data.size`, [height, width], to which images are resized"
    );
}

/// A JPEG of 8 × 16 pixels whose left half is white, with an EXIF orientation.
fn photograph(orientation: u8) -> Vec<u8> {
    let half = RgbImage::from_fn(16, 8, |x, _| Rgb([if x < 8 { 255 } else { 0 }; 3]));
    let mut jpeg = Vec::new();
    let written = half.write_to(&mut std::io::Cursor::new(&mut jpeg), ImageFormat::Jpeg);
    written.expect("encoded");
    let mut segment = vec![0xff, 0xe1, 0, 34];
    segment.extend(b"Exif\0\0MM\0*\0\0\0\x08\0\x01");
    segment.extend([
        0x01,
        0x12,
        0,
        3,
        0,
        0,
        0,
        1,
        0,
        orientation,
        0,
        0,
        0,
        0,
        0,
        0,
    ]);
    jpeg.splice(2..2, segment);
    jpeg
}

#[test]
fn photographs_are_turned_upright() {
    let brightest = |orientation| {
        let directory = TempDir::new().expect("a directory");
        write(&directory, "a/photo.jpg", &photograph(orientation));
        let splits = read(&directory, &json!({"mode": "grey"})).expect("it is right");
        let &[_, height, width] = splits.train.sample_shape() else {
            panic!("not an image")
        };
        let (_, bytes) = contents(splits.train.as_ref());
        let corners = [0, width - 1, (height - 1) * width, height * width - 1];
        (height, width, corners.map(|at| bytes[at] > 128))
    };
    // Top left, top right, bottom left, bottom right.
    assert_eq!(brightest(1), (8, 16, [true, false, true, false]));
    assert_eq!(brightest(3), (8, 16, [false, true, false, true]));
    assert_eq!(brightest(6), (16, 8, [true, true, false, false]));
    assert_eq!(brightest(8), (16, 8, [false, false, true, true]));
    assert_eq!(
        brightest(99),
        (8, 16, [true, false, true, false]),
        "not an orientation"
    );
}

#[test]
fn without_targets_a_directory_has_pictures_only() {
    let directory = TempDir::new().expect("a directory");
    for (name, red) in [("b.png", 20), ("a/deep/x.png", 10), ("c.png", 30)] {
        save(&directory, name, &image(red, 2, 3));
    }
    let none = json!({"targets": "none"});
    let splits = read(&directory, &none).expect("it is right");
    assert_eq!(reds(splits.train.as_ref()), [10, 20, 30]);
    assert_eq!(splits.train.targets(), &crate::Targets::None);
    let (classes, _) = contents(splits.train.as_ref());
    assert_eq!(classes, [0, 0, 0]);
    assert!(
        error(&directory, &json!({})).contains("b.png"),
        "it is not a class"
    );
    // What was learnt reads other pictures as well, but has nothing to compare with.
    let stored = serde_json::to_string(&splits.preprocessing.transform).expect("JSON");
    let again: crate::Transform = serde_json::from_str(&stored).expect("it is right");
    assert_eq!(again, splits.preprocessing.transform);
    let opened = splits
        .preprocessing
        .open(directory.path())
        .expect("it is right");
    assert_eq!(reds(opened.samples.as_ref()), [10, 20, 30]);
    let labelled = splits
        .preprocessing
        .open_labelled(directory.path(), None, None);
    let text = labelled.err().expect("no targets").to_string();
    assert!(text.contains("trained without targets"), "{text}");
}
