//! Files of pyarrow, by `tests/reference/parquet_files.py`, and damaged ones.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::ParquetRows;
use super::headers::PageHeader;
use super::thrift::Thrift;

fn reference(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/reference/parquet");
    directory.join(name)
}

fn all(path: &Path) -> Result<Vec<Map<String, Value>>, String> {
    let mut file = ParquetRows::open(path, None).map_err(|error| error.to_string())?;
    let mut rows = Vec::new();
    loop {
        let (first, some) = file.some().map_err(|error| error.to_string())?;
        assert_eq!(first, rows.len() as u64 + 1);
        if some.is_empty() {
            return Ok(rows);
        }
        rows.extend(some);
    }
}

#[test]
fn rows_of_all_groups_and_pages_are_read() {
    for name in ["completions.parquet", "completions_zstd.parquet"] {
        let rows = all(&reference(name)).expect(name);
        assert_eq!(rows.len(), 300, "{name}");
        for (i, row) in rows.iter().enumerate() {
            let row = Value::Object(row.clone());
            let expected = json!({"prompt": format!("Say number {i}:"), "completion": format!(" {i} and {}", i * i)});
            assert_eq!(row, expected, "{name}");
        }
    }
}

#[test]
fn numbers_and_missing_values_are_read() {
    let rows = all(&reference("labels.parquet")).expect("rows");
    let rows: Vec<Value> = rows.into_iter().map(Value::Object).collect();
    let expected = json!([{"text": "a b", "label": 2, "more": null}, {"text": "", "label": 10, "more": "x"},
                          {"text": "c", "label": 2, "more": null}]);
    assert_eq!(Value::Array(rows), expected);
}

#[test]
fn lists_of_structures_are_read() {
    let rows = all(&reference("messages.parquet")).expect("rows");
    let rows: Vec<Value> = rows.into_iter().map(Value::Object).collect();
    let message = |role: &str, content: Option<&str>| json!({"role": role, "content": content});
    let expected = json!([
        {"messages": [message("user", Some("a")), message("assistant", Some("b")), message("user", Some("c"))]},
        {"messages": []},
        {"messages": []},
        {"messages": [message("user", Some("d")), message("assistant", None)]},
    ]);
    assert_eq!(Value::Array(rows), expected);
}

#[test]
fn only_columns_that_are_wanted_are_read() {
    let mut file =
        ParquetRows::open(&reference("labels.parquet"), Some(&["label"])).expect("a file");
    let (_, rows) = file.some().expect("rows");
    assert!(
        rows.iter()
            .all(|row| row.len() == 1 && row.contains_key("label"))
    );
}

#[test]
fn pages_that_may_have_any_size_are_refused() {
    let error = all(&reference("gzip.parquet")).expect_err("gzip");
    assert!(error.contains("compressed by GZIP"), "{error}");
}

/// A number as a field of this distance from the last.
fn field(distance: u8, number: i64) -> Vec<u8> {
    let mut bytes = vec![distance << 4 | 5];
    let mut zigzag = (number << 1 ^ number >> 63) as u64;
    while zigzag > 127 {
        bytes.push(zigzag as u8 | 128);
        zigzag >>= 7;
    }
    bytes.push(zigzag as u8);
    bytes
}

/// The header of a page of this kind and these sizes, with these values in this encoding.
fn header(kind: i64, sizes: [i64; 2], values: i64, encoding: i64) -> Vec<u8> {
    let contents = if kind == 2 { 0x4c } else { 0x2c };
    [
        field(1, kind),
        field(1, sizes[0]),
        field(1, sizes[1]),
        vec![contents],
        field(1, values),
        field(1, encoding),
        vec![0, 0],
    ]
    .concat()
}

#[test]
fn headers_that_lie_are_refused() {
    use parquet::basic::Type;
    let check = |bytes: &[u8]| {
        let header = PageHeader::read(&mut Thrift::new(bytes))?;
        header.check(1_000, false, Type::BYTE_ARRAY)
    };
    let large = i64::from(i32::MAX);
    assert_eq!(check(&header(0, [2_000, 900], 50, 0)), Ok(50));
    assert_eq!(check(&header(2, [2_000, 900], 50, 2)), Ok(0));
    for (bytes, words) in [
        (
            header(0, [2_000, 1_001], 50, 0),
            "of the 1000 that are left",
        ),
        (header(0, [2_000, -1], 50, 0), "of the 1000 that are left"),
        (header(0, [large, 900], 50, 0), "uncompressed"),
        (header(0, [-1, 900], 50, 0), "uncompressed"),
        (header(0, [2_000, 900], large, 0), "values"),
        (header(0, [2_000, 900], -1, 0), "values"),
        (header(2, [2_000, 900], 501, 0), "values"),
        (header(2, [2_000, 900], large, 0), "values"),
        (header(0, [2_000, 900], 50, 5), "encoding 5"),
        (header(1, [2_000, 900], 50, 0), "damaged"),
        (vec![], "damaged"),
        (vec![255; 100], "damaged"),
        // A list of 2⁶³ structures, and structures in structures.
        (
            vec![0x99, 0xfc, 255, 255, 255, 255, 255, 255, 255, 255, 127],
            "damaged",
        ),
        (vec![0x9c; 5_000], "damaged"),
    ] {
        let error = check(&bytes).expect_err(words);
        assert!(error.contains(words), "{words}: {error}");
    }
}

#[test]
fn damaged_files_are_errors_or_other_rows() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("damaged.parquet");
    for name in ["labels.parquet", "messages.parquet"] {
        let whole = std::fs::read(reference(name)).expect("a file");
        // Not every byte of the description, most of which is the schema of pyarrow.
        for place in (0..whole.len()).step_by(11) {
            for value in [0x7f, 0xff] {
                let mut bytes = whole.clone();
                bytes[place] = value;
                std::fs::write(&path, bytes).expect("written");
                if let Ok(rows) = all(&path) {
                    assert!(rows.len() < 100, "{name}: {place}");
                }
            }
        }
        for length in (0..whole.len()).step_by(7) {
            std::fs::write(&path, &whole[..length]).expect("written");
            all(&path).expect_err("it is truncated");
        }
    }
}
