//! A small reader of TensorBoard's event files, which shares nothing with the hook that writes them:
//! checksums bit by bit, protocol buffers field by field.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

/// What is in the event files of a directory, as `tests/reference/event_files.py` prints it, and
/// beside it under `restarts` the steps at which a reader is told to forget.
pub(super) fn read(directory: &Path) -> Value {
    let entries = fs::read_dir(directory).expect("a directory");
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    let mut found =
        json!({"scalars": {}, "histograms": {}, "images": {}, "texts": {}, "restarts": []});
    for path in paths {
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        assert!(name.contains("tfevents"), "{name}");
        let events = records(&fs::read(&path).expect("a file"));
        for (index, event) in events.iter().enumerate() {
            let fields = fields(event);
            let step = fields
                .iter()
                .find(|field| field.0 == 2)
                .map_or(0, |field| field.1.number());
            assert!(fields[0].0 == 1, "a wall time comes first");
            for (number, content) in &fields {
                match number {
                    3 => assert_eq!((index, content.bytes()), (0, b"brain.Event:2".as_slice())),
                    5 => summary(content.bytes(), step, &mut found),
                    7 => found["restarts"]
                        .as_array_mut()
                        .expect("a list")
                        .push(json!(step)),
                    _ => {}
                }
            }
        }
    }
    found
}

/// The messages of a file of records, whose checksums must be right.
fn records(mut file: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while !file.is_empty() {
        let (length, rest) = file.split_at(8);
        let (length_crc, rest) = rest.split_at(4);
        assert_eq!(length_crc, masked_crc(length).to_le_bytes());
        let length = u64::from_le_bytes(length.try_into().expect("eight bytes"));
        let (message, rest) = rest.split_at(usize::try_from(length).expect("it fits"));
        let (message_crc, rest) = rest.split_at(4);
        assert_eq!(message_crc, masked_crc(message).to_le_bytes());
        all.push(message.to_owned());
        file = rest;
    }
    all
}

fn masked_crc(bytes: &[u8]) -> u32 {
    let mut crc = !0_u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
        }
    }
    let crc = !crc;
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// What stands in a field.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    fn number(&self) -> u64 {
        match self {
            Field::Number(number) => *number,
            Field::Bytes(_) => panic!("bytes where a number was expected"),
        }
    }

    fn double(&self) -> f64 {
        f64::from_bits(self.number())
    }

    fn bytes(&self) -> &'a [u8] {
        match self {
            Field::Bytes(bytes) => bytes,
            Field::Number(_) => panic!("a number where bytes were expected"),
        }
    }
}

/// The fields of a message with their numbers.
fn fields(mut message: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut all = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message);
        let field = match key & 7 {
            0 => Field::Number(varint(&mut message)),
            1 => {
                let (bytes, rest) = message.split_at(8);
                message = rest;
                Field::Number(u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
            }
            2 => {
                let length = usize::try_from(varint(&mut message)).expect("it fits");
                let (bytes, rest) = message.split_at(length);
                message = rest;
                Field::Bytes(bytes)
            }
            5 => {
                let (bytes, rest) = message.split_at(4);
                message = rest;
                let bytes: [u8; 4] = bytes.try_into().expect("four bytes");
                Field::Number(u64::from(u32::from_le_bytes(bytes)))
            }
            other => panic!("no wire type {other}"),
        };
        all.push((key >> 3, field));
    }
    all
}

fn varint(message: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..).step_by(7) {
        let (byte, rest) = message.split_first().expect("a byte");
        *message = rest;
        number |= u64::from(byte & 127) << shift;
        if *byte < 128 {
            break;
        }
    }
    number
}

fn summary(message: &[u8], step: u64, found: &mut Value) {
    for (number, value) in fields(message) {
        assert_eq!(number, 1);
        let value = fields(value.bytes());
        let tag = value.iter().find(|field| field.0 == 1).expect("a tag");
        let tag = String::from_utf8_lossy(tag.1.bytes()).into_owned();
        for (number, content) in &value {
            let (kind, entry) = match number {
                2 => {
                    let number = u32::try_from(content.number()).expect("32 bits");
                    ("scalars", json!([step, f32::from_bits(number)]))
                }
                4 => ("images", image(step, content.bytes())),
                5 => ("histograms", histogram(step, content.bytes())),
                8 => ("texts", json!([step, text(content.bytes())])),
                _ => continue,
            };
            let tags: &mut Map<String, Value> = found[kind].as_object_mut().expect("tags");
            let list = tags.entry(tag.clone()).or_insert_with(|| json!([]));
            list.as_array_mut().expect("a list").push(entry);
        }
    }
}

fn histogram(step: u64, message: &[u8]) -> Value {
    let mut numbers = [0.0; 5];
    let mut lists = [Vec::new(), Vec::new()];
    for (number, field) in fields(message) {
        let index = usize::try_from(number).expect("small") - 1;
        if index < 5 {
            numbers[index] = field.double();
        } else {
            let doubles = field.bytes().chunks(8);
            let double = |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().expect("eight bytes"));
            lists[index - 5] = doubles.map(double).collect();
        }
    }
    let [min, max, count, sum, squares] = numbers;
    json!([step, min, max, count, sum, squares, lists[0], lists[1]])
}

fn image(step: u64, message: &[u8]) -> Value {
    let mut sizes = [0; 3];
    let mut picture = Vec::new();
    for (number, field) in fields(message) {
        match number {
            4 => picture = field.bytes().to_vec(),
            _ => sizes[usize::try_from(number).expect("small") - 1] = field.number(),
        }
    }
    assert!(picture.starts_with(b"\x89PNG"));
    let mode = if sizes[2] == 1 { "L" } else { "RGB" };
    json!([step, sizes[1], sizes[0], mode])
}

fn text(message: &[u8]) -> String {
    let fields = fields(message);
    let text = fields.iter().find(|field| field.0 == 8).expect("a text");
    String::from_utf8_lossy(text.1.bytes()).into_owned()
}
