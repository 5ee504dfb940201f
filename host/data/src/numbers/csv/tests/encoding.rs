//! Statistics come from the training rows only.

use std::collections::BTreeMap;

use super::*;
use crate::numbers::csv::CsvError;

fn record(fields: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |&(name, text): &(&str, &str)| (name.to_owned(), text.to_owned());
    fields.iter().map(owned).collect()
}

/// Training rows with 1 and 3, and a validation file with 100.
fn scaled(keys: &Value) -> CsvData {
    let place = TableDirectory::new("a,c,y\n1,p,0\n3,q,1\n,q,1\n");
    place.write("own", b"a,c,y\n100,r,0\n,,1\n");
    let mut all = json!({"val": {"file": "own"}});
    for (key, value) in keys.as_object().into_iter().flatten() {
        all[key] = value.clone();
    }
    place.read(&all).expect("it is right")
}

#[test]
fn numbers_are_standardised_by_the_training_rows_alone() {
    // Mean 2, deviation 1; a missing value is replaced by the mean and so becomes 0.
    let data = scaled(&json!({}));
    let expected = [[-1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 0.0, 1.0]];
    assert_eq!(inputs(&data.splits.train), expected);
    // A category that does not occur in the training rows is 0 everywhere; so is a missing one here.
    let val = data.splits.val.expect("val");
    assert_eq!(inputs(&val), [[98.0, 0.0, 0.0], [0.0, 0.0, 0.0]]);
}

#[test]
fn parts_of_one_file_are_standardised_by_the_training_part_alone() {
    let rows: Vec<String> = (0..30).map(|i| format!("{},{i}\n", i * i)).collect();
    let place = TableDirectory::new(&format!("a,y\n{}", rows.concat()));
    let data = place
        .read(&json!({"val": {"fraction": 0.5}}))
        .expect("it is right");
    let train = inputs(&data.splits.train).concat();
    let mean = train.iter().sum::<f32>() / 15.0;
    let variance = train.iter().map(|x| x * x).sum::<f32>() / 15.0;
    assert!(
        mean.abs() < 1e-5 && (variance - 1.0).abs() < 1e-4,
        "{mean} {variance}"
    );
    let val = inputs(&data.splits.val.expect("val")).concat();
    let mean = val.iter().sum::<f32>() / 15.0;
    assert!(
        mean.abs() > 1e-3,
        "the others have a mean of their own: {mean}"
    );
}

#[test]
fn what_is_missing_becomes_what_is_most_frequent() {
    let place = TableDirectory::new("a,c,y\n5,p,0\n5,q,1\n1,q,1\n,,0\n");
    let keys = json!({"on_missing": "most-frequent", "standardise": false});
    let data = place.read(&keys).expect("it is right");
    let expected = [
        [5.0, 1.0, 0.0],
        [5.0, 0.0, 1.0],
        [1.0, 0.0, 1.0],
        [5.0, 0.0, 1.0],
    ];
    assert_eq!(inputs(&data.splits.train), expected);
}

#[test]
fn a_missing_category_is_one_of_its_own() {
    let place = TableDirectory::new("c,y\np,0\n?,1\nq,1\n");
    let data = place.read(&json!({})).expect("it is right");
    let names = data.encoder.input_names();
    assert_eq!(names, ["c=p", "c=q", "c is missing"]);
    let expected = [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]];
    assert_eq!(inputs(&data.splits.train), expected);
}

#[test]
fn rows_with_something_missing_can_be_left_out() {
    let place = TableDirectory::new("a,c,y\n1,p,0\n,q,1\n2,,1\n4,q,\n5,p,2\n");
    let keys = json!({"on_missing": "drop", "standardise": false});
    let data = place.read(&keys).expect("it is right");
    assert_eq!(inputs(&data.splits.train), [[1.0, 1.0], [5.0, 1.0]]);
    let report = data.report;
    assert_eq!((report.without_target, report.incomplete), (1, 2));
    assert!(
        report
            .to_string()
            .contains("2 left out because an input is missing")
    );
}

#[test]
fn numbers_that_are_all_the_same_become_zeros() {
    let place = TableDirectory::new("a,b,y\n0.1,1,0\n0.1,2,1\n0.1,3,1\n");
    let data = place.read(&json!({})).expect("it is right");
    let rows = inputs(&data.splits.train);
    assert_eq!(rows.len(), 3);
    for row in rows {
        assert!(row[0].abs() < 1e-6, "{row:?}");
    }
}

#[test]
fn an_encoder_does_with_records_what_the_loader_does() {
    let data = scaled(&json!({"standardise": true}));
    let json = serde_json::to_string(&data.encoder).expect("JSON");
    let encoder: Encoder = serde_json::from_str(&json).expect("an encoder");
    assert_eq!(encoder, data.encoder);
    assert_eq!(encoder.width(), 3);
    let rows = inputs(&data.splits.train);
    assert_eq!(rows.len(), 3);
    for (row, a) in rows.iter().zip(["1", " 3 ", "NA"]) {
        let c = if a == "1" { "p" } else { "q" };
        let fields = [("a", a), ("c", c), ("whatever", "else")];
        assert_eq!(&encoder.encode(&record(&fields)).expect("inputs"), row);
    }
    let absent = encoder.encode(&record(&[("A", "1"), ("c", "p")]));
    let absent = absent.expect_err("there is no `a`").to_string();
    assert_eq!(absent, "the column `a` isn't there; did you mean `A`?");
    let text = encoder.encode(&record(&[("a", "x"), ("c", "p")]));
    let text = text.expect_err("no number").to_string();
    assert_eq!(text, "the column `a` must have a number, found `x`");
}

#[test]
fn an_encoder_of_complete_rows_takes_no_others() {
    let place = TableDirectory::new("a,c,y\n1,p,0\n3,q,1\n");
    let data = place
        .read(&json!({"on_missing": "error"}))
        .expect("it is right");
    for fields in [[("a", ""), ("c", "p")], [("a", "1"), ("c", "?")]] {
        let refused = data.encoder.encode(&record(&fields));
        assert!(
            matches!(refused, Err(CsvError::RecordMissing { .. })),
            "{refused:?}"
        );
    }
}
