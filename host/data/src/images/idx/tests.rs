//! Valid files are read, and every error in invalid ones is reported.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::NamedTempFile;

use super::*;
use crate::tests::real_data::real_file;

fn file(bytes: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a file");
    file.write_all(bytes).expect("written");
    file
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("packed");
    encoder.finish().expect("packed")
}

/// Five images of 4 × 3 pixels.
fn images() -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, 3, 0, 0, 0, 5, 0, 0, 0, 4, 0, 0, 0, 3];
    bytes.extend((0..60).map(|index: u8| index.wrapping_mul(37)));
    bytes
}

fn error(bytes: &[u8], role: IdxRole) -> String {
    read(file(bytes).path(), role)
        .expect_err("it is wrong")
        .to_string()
}

#[test]
fn plain_and_gzipped_files_are_the_same() {
    for bytes in [images(), gzip(&images())] {
        let idx = read(file(&bytes).path(), IdxRole::Images).expect("it is right");
        assert_eq!(idx.dimensions, [5, 4, 3]);
        assert_eq!(idx.bytes, images()[16..]);
    }
}

#[test]
fn every_truncation_is_reported() {
    let plain = images();
    for length in 0..plain.len() {
        let text = error(&plain[..length], IdxRole::Images);
        assert!(
            text.contains("truncated") && text.contains(&format!("found {length}")),
            "{text}"
        );
    }
    let packed = gzip(&plain);
    for length in 2..packed.len() {
        let text = error(&packed[..length], IdxRole::Images);
        // The trailing checksum may be missing.
        assert!(
            text.contains("truncated") || text.contains("damaged"),
            "{length}: {text}"
        );
    }
}

#[test]
fn wrong_headers_are_reported() {
    let with = |at: usize, value: u8| {
        let mut bytes = images();
        bytes[at] = value;
        bytes
    };
    let mut longer = images();
    longer.push(0);
    // 2³² − 1 to the power of four exceeds 64 bits.
    let overflow = [&[0, 0, 8, 4][..], &[0xff; 16]].concat();
    for (bytes, role, words) in [
        (gzip(&gzip(&images())), IdxRole::Images, "gzipped twice"),
        (b"<html><body>".to_vec(), IdxRole::Images, "a web page"),
        (b"hello there".to_vec(), IdxRole::Images, "(text)"),
        (b"\x89PNG\r\n".to_vec(), IdxRole::Images, "a PNG image"),
        (
            with(2, 0x0d),
            IdxRole::Images,
            "IDX type 0x0d (32-bit floats)",
        ),
        (
            images(),
            IdxRole::Labels,
            "has 3 dimensions, labels have 1; are images and labels exchanged?",
        ),
        (
            with(3, 1),
            IdxRole::Images,
            "has 1 dimensions, images have 3 or 4",
        ),
        (
            with(4, 0xff),
            IdxRole::Images,
            "more than a file of 76 bytes can hold",
        ),
        (with(7, 0), IdxRole::Images, "has no samples"),
        (with(7, 6), IdxRole::Images, "88 bytes expected, found 76"),
        (
            gzip(&longer),
            IdxRole::Images,
            "continues after the 76 bytes after decompression",
        ),
        (longer, IdxRole::Images, "continues after the 76 bytes that"),
        (
            gzip(&with(4, 0xff)),
            IdxRole::Images,
            "bytes can hold; fetch it again",
        ),
        (overflow, IdxRole::Images, "can't be right"),
        (b"PK\x03\x04".to_vec(), IdxRole::Images, "a zip archive"),
    ] {
        let text = error(&bytes, role);
        assert!(text.contains(words), "{text}");
    }
    let text = read(Path::new("/no/such/file"), IdxRole::Images)
        .expect_err("missing")
        .to_string();
    assert!(
        text.contains("can't read `/no/such/file`: there is no such file"),
        "{text}"
    );
    assert!(
        read(Path::new("/"), IdxRole::Images)
            .expect_err("a directory")
            .to_string()
            .contains("directory")
    );
}

#[test]
fn a_damaged_gzip_is_reported() {
    let mut packed = gzip(&images());
    let middle = packed.len() / 2;
    packed[middle] ^= 0xff;
    let text = error(&packed, IdxRole::Images);
    assert!(
        text.contains("damaged") || text.contains("truncated"),
        "{text}"
    );
}

#[test]
fn a_gzip_of_several_members_is_one_file() {
    let plain = images();
    let (first, second) = plain.split_at(30);
    let packed = [gzip(first), gzip(second)].concat();
    let idx = read(file(&packed).path(), IdxRole::Images).expect("it is right");
    assert_eq!(idx.bytes, plain[16..]);
    let garbage = [gzip(&plain), b"garbage".to_vec()].concat();
    let text = error(&garbage, IdxRole::Images);
    assert!(text.contains("gzipped but damaged"), "{text}");
}

/// Truncation at every tenth of a file, plain and gzipped, is an error; the complete file is valid.
fn check_tenths(plain: &[u8]) {
    for (packed, whole) in [(false, plain.to_vec()), (true, gzip(plain))] {
        for tenth in 0..10 {
            let text = error(&whole[..whole.len() * tenth / 10], IdxRole::Images);
            let expected = plain.len();
            // Too short even for the header.
            let of_header = text.contains("truncated: 4 bytes expected");
            let of_elements = text.contains(&format!("truncated: {expected} bytes expected"));
            assert!(of_elements || of_header && tenth == 0, "{tenth}: {text}");
            assert_eq!(text.contains("after decompression"), packed && tenth > 0);
        }
        read(file(&whole).path(), IdxRole::Images).expect("the whole is right");
    }
}

#[test]
fn every_tenth_of_many_images_is_too_little() {
    let mut plain = vec![0, 0, 8, 3, 0, 0, 1, 0, 0, 0, 0, 28, 0, 0, 0, 28];
    // Rings of brightness, surrounded by black.
    for pixel in 0..256 * 28 * 28 {
        let (x, y) = (pixel % 28 - 14, pixel / 28 % 28 - 14);
        let square = x * x + y * y;
        let ring = if square < 100 {
            square * 7 + pixel / 784
        } else {
            0
        };
        plain.push(ring as u8);
    }
    check_tenths(&plain);
}

#[test]
fn every_tenth_of_the_real_images_is_too_little() {
    let files = ["images-idx3", "labels-idx1"];
    let [Some(images), Some(labels)] =
        files.map(|name| real_file(&format!("mnist-10k-{name}-ubyte.gz")))
    else {
        return;
    };
    let idx = read(&images, IdxRole::Images).expect("it is right");
    assert_eq!(idx.dimensions, [10_000, 28, 28]);
    let labels = read(&labels, IdxRole::Labels);
    assert_eq!(labels.expect("it is right").bytes[..4], [7, 2, 1, 0]);
    let header = [0, 0, 8, 3, 0, 0, 0x27, 0x10, 0, 0, 0, 28, 0, 0, 0, 28];
    check_tenths(&[&header[..], &idx.bytes].concat());
}
