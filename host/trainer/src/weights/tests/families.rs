//! Names of a family's files: tied, ignored and new weights beside those that are loaded.

use super::*;

fn family() -> FamilyNames {
    FamilyNames {
        prefixes: vec!["body.".into()],
        spellings: vec![(".gamma".into(), ".weight".into())],
        ignored: vec!["*.attn.bias".into()],
        tied: vec![TiedName {
            name: "lm_head.weight".into(),
            parameter: "body.wte.weight".into(),
            setting: "`\"tie_word_embeddings\": false` gives the head weights of its own".into(),
        }],
        head: vec!["classifier.*".into()],
    }
}

fn own() -> Parameters {
    model(
        &[
            ("body.wte.weight", &[3]),
            ("body.norm.weight", &[2]),
            ("classifier.weight", &[4]),
            ("classifier.bias", &[4]),
        ],
        0.0,
    )
}

/// Loads a file of these weights.
fn loaded(stored: &Parameters, strict: bool) -> (Parameters, Result<Comparison, WeightsError>) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("weights.safetensors");
    save(&path, stored).expect("saved");
    let own = own();
    let result = load_as(&path, &own, strict, &Renames::new(), &family());
    (own, result)
}

#[test]
fn what_need_not_match_is_in_the_table() {
    let stored: &[(&str, &[usize])] = &[
        ("wte.weight", &[3]),
        ("norm.gamma", &[2]),
        ("h.attn.bias", &[5]),
        ("lm_head.weight", &[3]),
        ("classifier.weight", &[7]),
    ];
    let (own, result) = loaded(&model(stored, 5.0), true);
    let comparison = result.expect("all that is missing is a new head");
    assert!(comparison.is_complete());
    assert_eq!(first(&own, "body.norm.weight").to_bits(), 5.0_f32.to_bits());
    assert!(first(&own, "classifier.weight").abs() < f32::EPSILON);
    let rows = comparison.rows();
    let rows: Vec<String> = rows.iter().map(|row| row.join(" ")).collect();
    assert_eq!(
        rows,
        [
            "loaded 2 ",
            "tied 1 `lm_head.weight` (is `body.wte.weight`)",
            "ignored 1 `h.attn.bias`",
            "new 2 `classifier.bias`, `classifier.weight`",
        ]
    );
    // A file without the tied weight means the same.
    let (_, result) = loaded(&model(&stored[..2], 5.0), true);
    let comparison = result.expect("they fit");
    assert_eq!(comparison.tied.len(), 1);
    assert!(comparison.ignored.is_empty());
    // A head that is in part there is none that was left out.
    let half: &[(&str, &[usize])] = &[
        ("wte.weight", &[3]),
        ("norm.gamma", &[2]),
        ("classifier.weight", &[4]),
    ];
    let (_, result) = loaded(&model(half, 5.0), true);
    let error = result.expect_err("a bias is missing").to_string();
    assert!(error.contains("1 missing: `classifier.bias`"), "{error}");
    // Not strict, the rest is in the table, too.
    let rest: &[(&str, &[usize])] = &[
        ("wte.weight", &[4]),
        ("norm.gamma", &[2]),
        ("nrm.weight", &[2]),
    ];
    let (_, result) = loaded(&model(rest, 5.0), false);
    let rows = result.expect("as far as they fit").rows();
    let rows: Vec<String> = rows.iter().map(|row| row.join(" ")).collect();
    assert_eq!(
        rows[2..],
        [
            "unexpected 1 `nrm.weight`",
            "of another shape 1 `body.wte.weight` (the model's is [3], the file's [4])",
        ]
    );
}

#[test]
fn a_weight_that_is_tied_and_differs_is_an_error() {
    let stored = model(
        &[
            ("wte.weight", &[3]),
            ("norm.gamma", &[2]),
            ("lm_head.weight", &[3]),
        ],
        5.0,
    );
    let other = Tensor::new(&[5_f32, 5.0, 5.5], &Device::Cpu).expect("a tensor");
    let parameter = stored.get("lm_head.weight").expect("it is there");
    parameter.assign(&other).expect("set");
    let (_, result) = loaded(&stored, false);
    let error = result.expect_err("they differ").to_string();
    for words in [
        "`lm_head.weight` in",
        "is not equal to `body.wte.weight`",
        "`\"tie_word_embeddings\": false`",
    ] {
        assert!(error.contains(words), "{words}: {error}");
    }
}

#[test]
fn other_types_are_converted_and_said() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("weights.safetensors");
    let half = Tensor::new(&[0.1_f32, -2.0], &Device::Cpu)
        .and_then(|tensor| tensor.to_dtype(DType::BF16))
        .expect("a tensor");
    let written = prepared(&path, [("a.weight", &half)].into_iter(), None).expect("a header");
    files::write_atomically_by(&path, |file| written.write(file)).expect("written");
    let own = model(&[("a.weight", &[2])], 0.0);
    let comparison = load(&path, &own, true).expect("they fit");
    assert_eq!(comparison.converted, [("a.weight".into(), "bf16".into())]);
    assert_eq!(first(&own, "a.weight").to_bits(), 0x3dcd_0000);
    assert!(
        comparison.rows()[1]
            .join(" ")
            .contains("`a.weight` (from bf16)")
    );
}
