//! Valid tables in all their forms.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;
use crate::{Inputs, Targets};

const TABLE: &str = "a,colour,y\n1,red,cat\n2,blue,dog\n3,red,cat\n6,green,bird\n";

fn plain() -> Value {
    json!({"standardise": false})
}

#[test]
fn numbers_stay_numbers_and_categories_become_ones() {
    let data = TableDirectory::new(TABLE)
        .read(&plain())
        .expect("it is right");
    let train = &data.splits.train;
    assert_eq!(
        (train.sample_shape(), train.inputs()),
        (&[4][..], Inputs::Numbers)
    );
    assert_eq!(train.class_names(), ["bird", "cat", "dog"]);
    let names = data.encoder.input_names();
    assert_eq!(names, ["a", "colour=blue", "colour=green", "colour=red"]);
    let expected = [
        [1.0, 0.0, 0.0, 1.0],
        [2.0, 1.0, 0.0, 0.0],
        [3.0, 0.0, 0.0, 1.0],
        [6.0, 0.0, 1.0, 0.0],
    ];
    assert_eq!(inputs(train), expected);
    assert_eq!(classes(train), [1, 2, 1, 0]);
    assert!(data.splits.val.is_none() && data.splits.test.is_none());
}

#[test]
fn other_forms_of_a_table_are_the_same() {
    let with_tabs = TABLE.replace(',', "\t");
    let spaced = TABLE.replace(',', " , ").replace('\n', "\r\n");
    let quoted = TABLE.replace("red", "\"red\"");
    let marked = format!("\u{feff}{TABLE}");
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(TABLE.as_bytes()).expect("packed");
    let packed = encoder.finish().expect("packed");
    let place = TableDirectory::new(TABLE);
    let expected = inputs(&place.read(&plain()).expect("it is right").splits.train);
    for (bytes, delimiter) in [
        (with_tabs.as_bytes(), "\t"),
        (spaced.as_bytes(), ","),
        (quoted.as_bytes(), ","),
        (marked.as_bytes(), ","),
        (&packed, ","),
    ] {
        place.write("table", bytes);
        let keys = json!({"standardise": false, "delimiter": delimiter});
        let data = place.read(&keys).expect("it is right");
        assert_eq!(inputs(&data.splits.train), expected, "{delimiter:?}");
        assert_eq!(data.splits.train.class_names(), ["bird", "cat", "dog"]);
    }
}

#[test]
fn columns_without_names_are_called_by_their_places() {
    let place = TableDirectory::new("1,2,5\n3,4,6\n");
    let keys = json!({"header": false, "target": "column3", "standardise": false});
    let data = place.read(&keys).expect("it is right");
    assert_eq!(data.encoder.input_names(), ["column1", "column2"]);
    assert_eq!(inputs(&data.splits.train), [[1.0, 2.0], [3.0, 4.0]]);
    assert_eq!(numbers(&data.splits.train), [[5.0], [6.0]]);
    // A header may leave a name empty, as for the index column that other tools write first.
    let place = TableDirectory::new(",y\n1,2\n3,4\n");
    let data = place.read(&plain()).expect("it is right");
    assert_eq!(data.encoder.input_names(), ["column1"]);
}

#[test]
fn columns_are_chosen_and_ordered() {
    let place = TableDirectory::new("id,a,b,c,y\n7,1,2,3,0.5\n8,4,5,6,0.25\n");
    for (keys, names) in [
        (json!({}), &["id", "a", "b", "c"][..]),
        (json!({"ignore": ["id", "b"]}), &["a", "c"]),
        (json!({"columns": ["c", "a"]}), &["c", "a"]),
        (
            json!({"categorical": ["b"], "ignore": ["id"]}),
            &["a", "b=2", "b=5", "c"],
        ),
    ] {
        let data = place.read(&keys).expect("it is right");
        assert_eq!(data.encoder.input_names(), names, "{keys}");
    }
}

#[test]
fn targets_are_what_they_look_like_unless_told_otherwise() {
    let place = TableDirectory::new("a,y,z\n1,10,0.5\n2,9,1.5\n3,10,2.5\n");
    let train = |keys: Value| place.read(&keys).expect("it is right").splits.train;
    let one = train(json!({}));
    assert_eq!(one.targets(), &Targets::Numbers(vec!["y".to_owned()]));
    assert_eq!(numbers(&one), [[10.0], [9.0], [10.0]]);
    let two = train(json!({"target": ["z", "y"]}));
    let names = ["z", "y"].map(str::to_owned).to_vec();
    assert_eq!(two.targets(), &Targets::Numbers(names));
    assert_eq!(two.sample_shape(), [1]);
    assert_eq!(numbers(&two), [[0.5, 10.0], [1.5, 9.0], [2.5, 10.0]]);
    // Numeric classes are in numerical order.
    let classes_of = train(json!({"target_kind": "classes"}));
    assert_eq!(classes_of.class_names(), ["9", "10"]);
    assert_eq!(classes(&classes_of), [1, 0, 1]);
}

#[test]
fn rows_without_a_target_are_left_out_and_counted() {
    let place = TableDirectory::new("a,y\n1,cat\n2,\n3,NA\n4,dog\n");
    let data = place.read(&plain()).expect("it is right");
    assert_eq!(inputs(&data.splits.train), [[1.0], [4.0]]);
    assert_eq!((data.report.rows, data.report.without_target), (4, 2));
    let lines = data.splits.train.describe();
    assert!(
        lines[0].contains("2 left out because the target is missing"),
        "{lines:?}"
    );
    assert!(
        lines[1].contains("2 categories: cat (1), dog (1); missing in 2 rows"),
        "{lines:?}"
    );
}

#[test]
fn a_report_says_what_each_column_is() {
    let place = TableDirectory::new("a,colour,y\n1,red,cat\n2,,dog\n6,red,cat\n");
    let report = place.read(&plain()).expect("it is right").report;
    let text = report.to_string();
    let lines: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(
        lines,
        [
            "target `y`: 2 categories: cat (2), dog (1)",
            "input `a`: numbers from 1 to 6, mean 3",
            "input `colour`: 1 categories: red (2); missing in 1 rows",
        ]
    );
    let contents = Contents::Categories(vec![("red".to_owned(), 2)]);
    assert_eq!(
        (report.inputs[1].missing, &report.inputs[1].contents),
        (1, &contents)
    );
    let rows = (0..9)
        .map(|i| format!("c{i},{i}\n"))
        .collect::<Vec<_>>()
        .concat();
    let report = TableDirectory::new(&format!("b,y\n{rows}"))
        .read(&plain())
        .expect("right")
        .report;
    assert!(
        report.to_string().ends_with("c7 (1) and 1 more"),
        "{report}"
    );
}

#[test]
fn parts_are_split_by_the_seed_and_by_classes() {
    let rows = (0..40)
        .map(|i| format!("{i},{}\n", if i % 4 == 0 { "rare" } else { "common" }))
        .collect::<Vec<_>>()
        .concat();
    let place = TableDirectory::new(&format!("a,y\n{rows}"));
    let keys = json!({
        "val": {"count": 8}, "test": {"fraction": 0.1}, "stratified": true, "standardise": false,
    });
    let read = || place.read(&keys).expect("it is right").splits;
    let splits = read();
    let (val, test) = (splits.val.expect("val"), splits.test.expect("test"));
    let rare = |data: &Arc<dyn Dataset>| classes(data).iter().sum::<u32>();
    assert_eq!((splits.train.len(), val.len(), test.len()), (28, 8, 4));
    assert_eq!((rare(&splits.train), rare(&val), rare(&test)), (7, 2, 1));
    let mut all = [inputs(&splits.train), inputs(&val), inputs(&test)].concat();
    all.sort_by(|a, b| a[0].total_cmp(&b[0]));
    let expected: Vec<Vec<f32>> = (0..40_u8).map(|i| vec![f32::from(i)]).collect();
    assert_eq!(all, expected);
    assert_eq!(inputs(&val), inputs(&read().val.expect("val")));
}

#[test]
fn a_phase_may_have_a_file_of_its_own_in_another_order() {
    let place = TableDirectory::new(TABLE);
    place.write("own", b"y,colour,a\ndog,red,10\nbird,violet,20\n");
    let keys = json!({"standardise": false, "val": {"file": "own"}});
    let val = place
        .read(&keys)
        .expect("it is right")
        .splits
        .val
        .expect("val");
    assert_eq!(inputs(&val), [[10.0, 0.0, 0.0, 1.0], [20.0, 0.0, 0.0, 0.0]]);
    assert_eq!(classes(&val), [2, 0]);
}

#[test]
fn predictions_need_no_targets() {
    let place = TableDirectory::new(TABLE);
    place.write("new", b"colour,a\nblue,7\nred,\n");
    let data = place.read(&plain()).expect("it is right");
    let open = || data.splits.learnt.open(&place.path("new"));
    let new = open().expect("it is right").samples;
    assert_eq!(inputs(&new), [[7.0, 1.0, 0.0, 0.0], [3.0, 0.0, 0.0, 1.0]]);
    place.write("new", b"a\n7\n");
    let error = open().err().expect("a column is missing");
    assert!(
        error
            .to_string()
            .contains("the training file names the column `colour`"),
        "{error}"
    );
}

#[test]
fn a_table_without_targets_has_all_its_columns_as_inputs() {
    let place = TableDirectory::new("a,b\n1,5\n2,6\n3,7\n6,8\n");
    let keys = json!({"standardise": false, "target": [], "val": {"count": 1}});
    let data = place.read(&keys).expect("it is right");
    let train = &data.splits.train;
    assert_eq!(data.encoder.input_names(), ["a", "b"]);
    assert_eq!(train.targets(), &Targets::None);
    assert_eq!(train.len(), 3);
    assert_eq!(classes(train), [0, 0, 0], "placeholders");
    let others = place
        .read(&json!({"target": [], "ignore": ["b"]}))
        .expect("it is right");
    assert_eq!(others.encoder.input_names(), ["a"]);
}
