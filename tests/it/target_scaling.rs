//! Scaled targets: the loss is that of scaled numbers, metrics and predictions stay in the table's own units.

use candle_core::{Device, Tensor};
use sconce_tests::{Workplace, edit, tiny};
use serde_json::{Value, json};

/// Prices of three orders of magnitude.
fn table() -> String {
    let row = |row: i32| {
        let size = f64::from(row % 10) / 2.0;
        format!("{size},{}\n", (size * 1.5 + f64::from(row % 3) * 0.1).exp())
    };
    let rows: Vec<String> = (0..60).map(row).collect();
    format!("size,price\n{}", rows.concat())
}

fn manifest(scaling: Option<&str>) -> Value {
    let mut data =
        json!({"kind": "csv", "file": "prices.csv", "target": "price", "val": {"count": 12}});
    if let Some(scaling) = scaling {
        data["target_scaling"] = json!(scaling);
    }
    let manifest = edit(tiny(), "/data", data);
    let manifest = edit(manifest, "/model", json!({"kind": "mlp", "hidden": [8]}));
    let manifest = edit(manifest, "/train", json!({"epochs": 40, "batch_size": 8}));
    let optimizer = json!({"kind": "adam", "learning_rate": 0.02});
    let manifest = edit(manifest, "/optimizer", optimizer);
    edit(manifest, "/metrics", json!(["mae", "r2"]))
}

fn metrics(place: &Workplace) -> [f64; 3] {
    let record: Value = serde_json::from_str(&place.read("out/run.json")).expect("JSON");
    let val = &record["metrics"]["val"];
    ["loss", "mae", "r2"].map(|name| val[name].as_f64().expect(name))
}

#[test]
fn metrics_and_predictions_are_in_the_tables_own_units() {
    for scaling in ["standard", "log", "log1p"] {
        let place = Workplace::new(&[]);
        place.write_text("prices.csv", &table());
        place.run(&manifest(Some(scaling))).expect(0, &[]);
        let [loss, mae, r2] = metrics(&place);
        assert!(loss < 1.0, "{scaling}: {loss} is that of scaled numbers");
        assert!(mae > 1.0 && r2 > 0.5, "{scaling}: {mae}, {r2}");
        // The errors of the predictions are the metric; evaluated again, it is the same to the bit.
        let predicted = place
            .sconce(&["predict", "out", "--phase", "val"])
            .expect(0, &[]);
        let errors = predicted.stdout.lines().map(|line| {
            let line: Value = serde_json::from_str(line).expect("JSON");
            let of = |key: &str| line[key]["price"].as_f64().expect("a number");
            (of("prediction") - of("target")).abs()
        });
        let errors: Vec<f64> = errors.collect();
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        assert!((mean - mae).abs() < 1e-5 * mae, "{scaling}: {mean} {mae}");
        let evaluated = place.sconce(&["eval", "out", "--phase", "val", "--json"]);
        let evaluated: Value =
            serde_json::from_str(&evaluated.expect(0, &[]).stdout).expect("JSON");
        assert_eq!(evaluated["metrics"]["mae"], mae);
        // So are those of the model alone.
        let place_of = |model: &str| {
            let input = ["predict", model, "--input", "prices.csv"];
            place.sconce(&input).expect(0, &[]).stdout
        };
        let first: Value =
            serde_json::from_str(place_of("out/model").lines().nth(9).expect("a line"))
                .expect("JSON");
        let price = first["prediction"]["price"].as_f64().expect("a number");
        assert!(price > 100.0, "{scaling}: {price}");
    }
}

#[test]
fn the_loss_without_scaling_is_another_and_what_can_not_be_scaled_is_refused() {
    let place = Workplace::new(&[]);
    place.write_text("prices.csv", &table());
    place.run(&manifest(None)).expect(0, &[]);
    assert!(metrics(&place)[0] > 100.0, "that of prices");
    let check = |scaling: &str, text: &str, words: &[&str]| {
        place.write_text("prices.csv", text);
        place.write(&manifest(Some(scaling)));
        place.sconce(&["check", "manifest.json"]).expect(2, words);
    };
    let zero = table() + "1,0\n";
    check(
        "log",
        &zero,
        &[
            "line 62",
            "the target `price` is 0",
            "numbers above 0",
            "\"standard\"",
        ],
    );
    check("log1p", &(table() + "1,-1\n"), &["numbers above -1"]);
    check("standard", &(table() + "1,a\n"), &["line 62"]);
    let classes = format!("size,price\n{}", "1,cheap\n2,dear\n".repeat(30));
    check(
        "standard",
        &classes,
        &["`data.target_scaling` is for numbers"],
    );
    check("logs", &table(), &["`standard`", "`log`", "`log1p`"]);
}

/// The targets of arrays are scaled as those of tables: the same numbers give the same bits.
#[test]
fn targets_of_arrays_are_scaled_as_those_of_tables() {
    let place = Workplace::new(&[]);
    place.write_text("prices.csv", &table());
    let column = |column: usize| -> Vec<f32> {
        let rows = table();
        let fields = rows
            .lines()
            .skip(1)
            .map(|row| row.split(',').nth(column).unwrap_or_default());
        fields
            .map(|field| field.parse::<f64>().expect("a number") as f32)
            .collect()
    };
    let array = |column: usize, values: &[f32]| {
        let array = Tensor::from_slice(values, (values.len(), 1), &Device::Cpu).expect("an array");
        array
            .write_npy(place.path(["x.npy", "y.npy"][column]))
            .expect("written");
    };
    array(0, &column(0));
    array(1, &column(1));
    for scaling in ["standard", "log"] {
        let of_table = edit(manifest(Some(scaling)), "/data/standardise", json!(false));
        place.run(&of_table).expect(0, &[]);
        let expected = metrics(&place);
        let data = json!({"kind": "npy", "inputs": "x.npy", "targets": "y.npy", "val": {"count": 12},
            "target_scaling": scaling});
        let of_arrays = edit(
            edit(manifest(None), "/data", data),
            "/output",
            json!("arrays"),
        );
        place.run(&of_arrays).expect(0, &[]);
        let record: Value = serde_json::from_str(&place.read("arrays/run.json")).expect("JSON");
        let found = ["loss", "mae", "r2"].map(|name| record["metrics"]["val"][name].as_f64());
        assert_eq!(found, expected.map(Some), "{scaling}");
        let predict = ["predict", "arrays/model", "--input", "x.npy"];
        let first = place.sconce(&predict).expect(0, &[]).stdout;
        let first: Value =
            serde_json::from_str(first.lines().next().unwrap_or_default()).expect("JSON");
        let price = first["prediction"]["target"].as_f64().expect("a price");
        assert!(
            (0.0..10.0).contains(&price),
            "in the array's own unit: {first}"
        );
        std::fs::remove_dir_all(place.path("arrays")).expect("removed");
        std::fs::remove_dir_all(place.path("out")).expect("removed");
    }
    let mut prices = column(1);
    prices[7] = -1.0;
    array(1, &prices);
    let data =
        json!({"kind": "npy", "inputs": "x.npy", "targets": "y.npy", "target_scaling": "log"});
    place.write(&edit(manifest(None), "/data", data.clone()));
    place
        .sconce(&["check", "manifest.json"])
        .expect(2, &["sample 7", "\"log\""]);
    let own = edit(data, "/targets", json!(null));
    place.write(&edit(manifest(None), "/data", own));
    place
        .sconce(&["check", "manifest.json"])
        .expect(2, &["`data.target_scaling`", "in an array of their own"]);
}
