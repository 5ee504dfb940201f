//! Columns of dates become their parts.

use std::collections::BTreeMap;

use super::*;

/// Two whole years, from a Monday on, the first of them a leap year, and a file for validation.
fn two_years() -> TableDirectory {
    let place = TableDirectory::new("when,y\n1/1/2024,0\n1/7/2024 12:00,1\n31/12/2025,1\n");
    place.write("own", b"when,y\n,0\n2/1/2024,1\n");
    place
}

#[test]
fn a_date_becomes_days_place_in_the_year_weekday_and_time() {
    let data = two_years().read(&json!({"dates": ["when"], "standardise": false}));
    let data = data.expect("it is right");
    let names = data.encoder.input_names();
    let first = [
        "when",
        "when, year: sine",
        "when, year: cosine",
        "when, Monday",
    ];
    assert_eq!(names[..4], first);
    assert_eq!(
        names[9..],
        ["when, Sunday", "when, day: sine", "when, day: cosine"]
    );
    let rows = inputs(&data.splits.train);
    let monday = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    assert_eq!(
        rows[0],
        [&[19_723.0, 0.0, 1.0], &monday[..], &[0.0, 1.0]].concat()
    );
    // Noon of the first day of July, a Monday: 182.5 days of 366 have passed.
    let angle = 182.5 / 366.0 * std::f64::consts::TAU;
    let expected = [
        &[19_905.5, angle.sin() as f32, angle.cos() as f32],
        &monday[..],
        &[0.0, -1.0],
    ];
    for (found, expected) in rows[1].iter().zip(expected.concat()) {
        assert!((found - expected).abs() < 1e-6, "{:?}", rows[1]);
    }
    assert_eq!(rows[2][..1], [20_453.0]);
    assert_eq!(rows[2][3..10], [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn days_are_standardised_by_the_training_rows_and_far_ones_are_noted() {
    let data = two_years().read(&json!({"dates": ["when"]}));
    let data = data.expect("it is right");
    let days: Vec<f32> = inputs(&data.splits.train)
        .iter()
        .map(|row| row[0])
        .collect();
    let sum: f32 = days.iter().sum();
    let squares: f32 = days.iter().map(|x| x * x).sum();
    assert!(sum.abs() < 1e-5 && (squares / 3.0 - 1.0).abs() < 1e-5);
    let place = TempDir::new().expect("a directory");
    let file = place.path().join("later");
    std::fs::write(&file, "when\n1/1/2240\n").expect("written");
    let opened = data.splits.learnt.open(&file).expect("rows");
    let notes = opened.notes.lines().join(" ");
    let far = "line 2, column `when`, 2240-01-01 (in the training from 2024-01-01 to 2025-12-31)";
    assert!(notes.contains(far), "{notes}");
    let described = data.splits.learnt.describe_inputs();
    assert_eq!(described[0].values, "from 2024-01-01 to 2025-12-31");
    assert!(
        data.report
            .to_string()
            .contains("3 dates from 1/1/2024 to 31/12/2025")
    );
}

#[test]
fn a_missing_date_is_an_input_of_its_own_or_an_error() {
    let keys = json!({"dates": ["when"], "val": {"file": "own"}});
    let error = two_years().error(&keys);
    assert!(
        error.contains("line 2") && error.contains("`when` is missing"),
        "{error}"
    );
    let place = TableDirectory::new("when,y\n2024-01-01,0\nNA,1\n2024-01-03,1\n");
    let data = place
        .read(&json!({"dates": ["when"]}))
        .expect("it is right");
    assert_eq!(data.encoder.input_names()[10], "when is missing");
    let rows = inputs(&data.splits.train);
    assert_eq!(rows[1], [&[0.0; 10][..], &[1.0]].concat());
    assert_eq!(rows[0][10..], [0.0]);
    let keys = json!({"dates": ["when"], "on_missing": "most-frequent"});
    let rows = inputs(&place.read(&keys).expect("it is right").splits.train);
    assert_eq!(rows[1], rows[0]);
}

#[test]
fn times_alone_have_no_days() {
    let place = TableDirectory::new("at,y\n06:00,0\n6:00 PM,1\n");
    let data = place.read(&json!({"dates": ["at"]})).expect("it is right");
    let rows = inputs(&data.splits.train);
    assert!((rows[0][0] - 1.0).abs() < 1e-6 && (rows[1][0] + 1.0).abs() < 1e-6);
    assert_eq!(data.encoder.width(), 2);
    let record = BTreeMap::from([("at".to_owned(), "2024-01-01".to_owned())]);
    let error = data
        .encoder
        .encode(&record)
        .expect_err("no time")
        .to_string();
    assert_eq!(
        error,
        "the column `at` must have times such as `17:05`, found `2024-01-01`"
    );
}

#[test]
fn the_order_of_day_and_month_is_found_in_the_file_or_asked_for() {
    let first = |table: &str, keys: Value| {
        let mut all = json!({"dates": ["when"], "standardise": false});
        for (key, value) in keys.as_object().into_iter().flatten() {
            all[key] = value.clone();
        }
        let read = TableDirectory::new(table).read(&all);
        read.map(|data| inputs(&data.splits.train)[0][0])
            .map_err(|error| error.to_string())
    };
    let (april, march) = (19_816.0, 19_786.0);
    assert_eq!(
        first("when,y\n3/4/2024,0\n13/4/2024,1\n", json!({})),
        Ok(april)
    );
    assert_eq!(
        first("when,y\n3/4/2024,0\n4/13/2024,1\n", json!({})),
        Ok(march)
    );
    let open = "when,y\n3/4/2024,0\n5/4/2024,1\n";
    assert_eq!(first(open, json!({"date_order": "day-first"})), Ok(april));
    assert_eq!(first(open, json!({"date_order": "month-first"})), Ok(march));
    let error = first(open, json!({})).expect_err("it is ambiguous");
    assert!(
        error.contains("line 2") && error.contains("`data.date_order`"),
        "{error}"
    );
    let error = first("when,y\n13/4/2024,0\n4/13/2024,1\n", json!({})).expect_err("two orders");
    assert!(
        error.contains("line 3") && error.contains("such as `31/1/2024`"),
        "{error}"
    );
}

#[test]
fn what_is_not_a_date_is_an_error_with_its_line() {
    let place = TableDirectory::new("when,y\n2024-01-31,0\n2024-02-30,1\n");
    let error = place.error(&json!({"dates": ["when"]}));
    assert!(
        error.contains("line 3") && error.contains("found `2024-02-30`"),
        "{error}"
    );
    let place = TableDirectory::new("when,y\n2024-01-31,0\n17:05,1\n");
    let error = place.error(&json!({"dates": ["when"]}));
    assert!(
        error.contains("dates such as `2024-01-31`, as the rows above it"),
        "{error}"
    );
    for (keys, part) in [
        (
            json!({"dates": ["when"], "numeric": ["when"]}),
            "`data.dates` and in `data.numeric`",
        ),
        (json!({"dates": ["y"]}), "`data.dates` and in `data.target`"),
        (json!({"dates": ["wen"]}), "did you mean `when`?"),
        (
            json!({"date_order": "day-first"}),
            "`data.date_order` is for the columns",
        ),
    ] {
        let error = place.error(&keys);
        assert!(error.contains(part), "{error}");
    }
    let rows: Vec<String> = (1..=28)
        .flat_map(|day| (1..=5).map(move |month| (day, month)))
        .map(|(day, month)| format!("2024-{month:02}-{day:02},{day}\n"))
        .collect();
    let place = TableDirectory::new(&format!("when,y\n{}", rows.concat()));
    let error = place.error(&json!({}));
    assert!(
        error.contains("140 different texts") && error.contains("`data.dates`"),
        "{error}"
    );
}
