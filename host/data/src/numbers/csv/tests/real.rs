//! The Palmer penguins data set, including its missing values.

use super::*;
use crate::tests::real_data::real_file;

#[test]
fn the_penguins_are_read() {
    let Some(file) = real_file("penguins.csv") else {
        return;
    };
    let config = json!({
        "file": file, "target": "species", "stratified": true,
        "val": {"fraction": 0.2}, "test": {"fraction": 0.2},
    });
    let config: CsvConfig = serde_json::from_value(config).expect("a config");
    let data = read(&config, Path::new(""), 1).expect("it is right");
    let splits = data.splits;
    assert_eq!(
        splits.train.class_names(),
        ["Adelie", "Chinstrap", "Gentoo"]
    );
    assert_eq!(
        data.encoder.input_names(),
        [
            "island=Biscoe",
            "island=Dream",
            "island=Torgersen",
            "bill_length_mm",
            "bill_depth_mm",
            "flipper_length_mm",
            "body_mass_g",
            "sex=FEMALE",
            "sex=MALE",
            "sex is missing",
        ]
    );
    let (val, test) = (splits.val.expect("val"), splits.test.expect("test"));
    assert_eq!((splits.train.len(), val.len(), test.len()), (206, 69, 69));
    for (data, expected) in [(&splits.train, 206), (&val, 69), (&test, 69)] {
        let classes = classes(data);
        // Of 344 rows in all, 152, 68 and 124.
        for (class, of_all) in [(0, 152), (1, 68), (2, 124)] {
            let found = classes.iter().filter(|&&c| c == class).count() as f64;
            let share = f64::from(of_all) / 344.0 * f64::from(expected);
            assert!((found - share).abs() <= 1.0, "{class}: {found}, {share}");
        }
        assert!(inputs(data).concat().iter().all(|x| x.is_finite()));
    }
    let missing: Vec<usize> = data
        .report
        .inputs
        .iter()
        .map(|column| column.missing)
        .collect();
    assert_eq!(missing[..5], [0, 2, 2, 2, 2]);
    let report = data.report.to_string();
    assert!(
        report.contains("Adelie (152), Chinstrap (68), Gentoo (124)"),
        "{report}"
    );
    assert!(
        report.contains("input `bill_length_mm`: numbers from 32.1 to 59.6"),
        "{report}"
    );
}
