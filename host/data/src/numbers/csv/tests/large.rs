//! Tables of so many rows that several threads read their columns and encode their rows.

use std::collections::BTreeMap;

use super::*;
use crate::numbers::csv::table::Table;
use crate::numbers::csv::table::scan::{Missing, Scan};

const ROWS: usize = 30_000;

/// A table whose columns have many different numbers, a few words, and long texts with equal beginnings.
fn table() -> String {
    let rows = (0..ROWS).map(|row| {
        let number = (row * 7919 % ROWS) as f64 / 16.0;
        let word = ["oak", "élan", "ash"][row % 3];
        format!(
            "{number},{word},the same beginning {}é{},{number}\n",
            row % 7,
            row % 11
        )
    });
    let rows: String = rows.collect();
    format!("a,b,c,y\n{rows}")
}

#[test]
fn rows_are_encoded_in_their_order() {
    let place = TableDirectory::new(&table());
    let data = place
        .read(&json!({"standardise": false}))
        .expect("it is right");
    let (inputs, targets) = (inputs(&data.splits.train), numbers(&data.splits.train));
    assert_eq!(inputs.len(), ROWS);
    let width = 1 + 3 + 7 * 11;
    for (row, (inputs, target)) in inputs.iter().zip(&targets).enumerate() {
        assert_eq!(inputs.len(), width);
        assert_eq!(inputs.first(), target.first(), "row {row}");
        // Sorted: ash, oak, élan.
        let word = [1, 2, 0][row % 3];
        assert!(inputs[1 + word] > 0.5, "row {row}");
        assert!(
            (inputs.iter().skip(1).sum::<f32>() - 2.0).abs() < 1e-6,
            "row {row}"
        );
    }
}

#[test]
fn the_first_error_and_the_first_far_value_are_those_of_the_first_row_and_column() {
    let place = TableDirectory::new(&table());
    let data = place.read(&json!({})).expect("it is right");
    let mut rows: Vec<String> = table().lines().map(str::to_owned).collect();
    for row in [29_000, 12_345, 20_000] {
        rows[row] = format!("1e{},oak,the same beginning 0é0,0", 10 + row / 10_000);
    }
    place.write("other", rows.join("\n").as_bytes());
    let other = data
        .splits
        .learnt
        .open(&place.path("other"))
        .expect("it can be read");
    assert_eq!(other.notes.far_values, 3);
    let first = other.notes.first_far.expect("the first");
    assert_eq!((first.line, first.value.as_str()), (12_346, "100000000000"));
    for (row, word) in [(29_999, "yew"), (9_000, "elm"), (9_001, "fir")] {
        rows[row] = format!("1,{word},the same beginning 0é0,0");
    }
    place.write("other", rows.join("\n").as_bytes());
    let error = data
        .splits
        .learnt
        .open(&place.path("other"))
        .err()
        .expect("an error");
    assert!(error.to_string().contains("elm"), "{error}");
    assert!(error.to_string().contains("line 9001"), "{error}");
}

#[test]
fn texts_are_counted_in_the_order_of_strings() {
    let beginnings = [
        "",
        "a",
        "0123456789abcde",
        "0123456789abcdef",
        "0123456789abcdeé",
        "ß",
    ];
    let ends = ["", "-", "0", "01", "é", "ÿ", "😀"];
    let mut rows = vec!["x,y".to_owned()];
    for copies in 1..4 {
        for beginning in beginnings {
            for end in ends.iter().take(8 - copies) {
                rows.push(format!("{beginning}{end}.,{copies}"));
            }
        }
    }
    let place = TableDirectory::new(&rows.join("\n"));
    let format = serde_json::from_value(json!({"delimiter": ",", "header": true}));
    let table = Table::read(&place.path("table"), format.expect("a format")).expect("a table");
    let scan = Scan::of(&table, 0, 0..table.count(), &Missing::new(&[]));
    let mut expected: BTreeMap<&str, usize> = BTreeMap::new();
    for row in 0..table.count() {
        *expected.entry(table.field(row, 0)).or_default() += 1;
    }
    let found: Vec<(&str, usize)> = scan.counts().iter().collect();
    assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
}
