//! Scaled targets: the loss is that of scaled numbers, metrics and predictions stay in the table's own units.

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
