//! Categories as numbers for learned vectors.

use super::*;
use crate::Inputs;

fn read(keys: &Value) -> CsvData {
    let place = TableDirectory::new("a,shop,c,y\n0.5,7,p,0\n1,9,?,1\n2,7,q,1\n");
    place.write("own", b"a,shop,c,y\n1,8,q,0\n");
    let mut all = json!({"standardise": false});
    for (key, value) in keys.as_object().into_iter().flatten() {
        all[key] = value.clone();
    }
    place.read(&all).expect("it is right")
}

#[test]
fn an_embedded_category_is_its_number_and_an_unknown_one_is_0() {
    // Listed, a column of numbers is one of categories.
    let data = read(&json!({"embed": ["shop", "c"], "val": {"file": "own"}}));
    assert_eq!(data.encoder.input_names(), ["a", "shop", "c"]);
    let expected = [[0.5, 1.0, 1.0], [1.0, 2.0, 3.0], [2.0, 1.0, 2.0]];
    assert_eq!(inputs(&data.splits.train), expected);
    let val = data.splits.val.expect("val");
    assert_eq!(inputs(&val), [[1.0, 0.0, 2.0]]);
    let content = Inputs::Columns([0, 2, 3].into());
    assert_eq!(data.splits.train.inputs(), content);
    assert_eq!(val.inputs(), content);
    assert_eq!(data.splits.learnt.encoder().inputs(), content);
}

#[test]
fn all_categorical_columns_are_embedded_at_once() {
    let data = read(&json!({"embed": true}));
    assert_eq!(
        data.splits.train.inputs(),
        Inputs::Columns([0, 0, 3].into())
    );
    let data = read(&json!({"embed": true, "ignore": ["c"]}));
    assert_eq!(data.splits.train.inputs(), Inputs::Numbers);
    let data = read(&json!({"embed": true, "on_unknown": "own", "categorical": ["shop"]}));
    let rare: Vec<f32> = inputs(&data.splits.train)
        .iter()
        .map(|row| row[1])
        .collect();
    // The shop 9 has one row, so that it is unknown: after the only known one.
    assert_eq!(rare, [1.0, 2.0, 1.0]);
}

#[test]
fn what_is_no_category_is_not_embedded() {
    let place = TableDirectory::new("a,c,y\n1,p,0\n2,q,1\n");
    for (keys, part) in [
        (
            json!({"embed": ["a"], "numeric": ["a"]}),
            "`data.embed` and in `data.numeric`",
        ),
        (json!({"embed": ["y"]}), "`data.embed` and in `data.target`"),
        (json!({"embed": ["x"]}), "`data.embed` names the column `x`"),
        (
            json!({"embed": ["c", "c"]}),
            "`data.embed` and in `data.embed`",
        ),
    ] {
        let error = place.error(&keys);
        assert!(error.contains(part), "{error}");
    }
}
