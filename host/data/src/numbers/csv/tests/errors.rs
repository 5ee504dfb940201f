//! Every error of a table, with its message.

use super::*;

#[test]
fn wrong_files_are_reported() {
    let right = "a,y\n1,0\n";
    for (table, keys, words) in [
        (
            right,
            json!({"file": "nowhere"}),
            ["can't read", "no such file"],
        ),
        (right, json!({"file": "."}), ["can't read", "directory"]),
        ("", json!({}), ["has no samples", "table"]),
        ("a,y\n", json!({}), ["has no samples", "table"]),
        (
            "a,y\n1,0\n1,2,3\n",
            json!({}),
            ["line 3 of", "3 fields, the first line 2"],
        ),
        (
            "a,a,y\n1,0,1\n",
            json!({}),
            ["two columns `a`", "rename one"],
        ),
        (
            right,
            json!({"delimiter": "ä"}),
            ["`data.delimiter`", "found 'ä'"],
        ),
        (
            right,
            json!({"delimiter": "\""}),
            ["`data.delimiter`", "no quote"],
        ),
    ] {
        let text = TableDirectory::new(table).error(&keys);
        for word in words {
            assert!(text.contains(word), "{keys}: {text}");
        }
    }
    let place = TableDirectory::new("");
    place.write("table", b"a,y\n1,0\n\xff\xfe,1\n");
    let text = place.error(&json!({}));
    assert!(
        text.contains("line 3 of") && text.contains("not UTF-8"),
        "{text}"
    );
    place.write("table", &[0x1f, 0x8b, 8, 0, 0]);
    let text = place.error(&json!({}));
    assert!(text.contains("gzipped but damaged"), "{text}");
}

#[test]
fn wrong_names_are_reported_with_the_nearest() {
    let place = TableDirectory::new("length,width,y\n1,2,0\n3,4,1\n");
    for (keys, words) in [
        (
            json!({"target": "lenght"}),
            "`data.target` names the column `lenght`",
        ),
        (json!({"target": "lenght"}), "did you mean `length`?"),
        (json!({"target": "zzz"}), "there are `length`, `width`, `y`"),
        (
            json!({"target": "column3", "header": false, "numeric": ["zzz"]}),
            "named so because `data.header` is false",
        ),
        (
            json!({"columns": ["widht"]}),
            "`data.columns` names the column `widht`",
        ),
        (
            json!({"ignore": ["widht"]}),
            "`data.ignore` names the column `widht`",
        ),
        (
            json!({"numeric": ["widht"]}),
            "`data.numeric` names the column `widht`",
        ),
        (
            json!({"categorical": ["widht"]}),
            "`data.categorical` names the column `widht`",
        ),
        (json!({"delimiter": ";"}), "should `data.delimiter` be ','?"),
        (
            json!({"columns": ["y"]}),
            "`y` is in `data.target` and in `data.columns`",
        ),
        (
            json!({"ignore": ["y"]}),
            "`y` is in `data.target` and in `data.ignore`",
        ),
        (
            json!({"columns": ["width"], "ignore": ["width"]}),
            "`width` is in `data.columns` and in `data.ignore`",
        ),
        (
            json!({"numeric": ["width"], "categorical": ["width"]}),
            "`width` is in `data.numeric` and in `data.categorical`",
        ),
        (
            json!({"columns": ["width", "width"]}),
            "`data.columns` and in `data.columns`",
        ),
        (json!({"ignore": ["length", "width"]}), "left for inputs"),
        (
            json!({"target": ["y", "width"], "target_kind": "classes"}),
            "come from one column, `data.target` names 2",
        ),
    ] {
        let text = place.error(&keys);
        assert!(text.contains(words), "{keys}: {text}");
    }
}

#[test]
fn wrong_fields_are_reported_with_their_places() {
    let many = (0..40)
        .map(|i| format!("{i},{i}\n"))
        .collect::<Vec<_>>()
        .concat();
    let typo = format!("a,y\n{many}1O,3\n");
    let target_typo = format!("y,a\n{many}1O,3\n");
    let all = (0..120)
        .map(|i| format!("name{i},{i}\n"))
        .collect::<Vec<_>>()
        .concat();
    let names = format!("a,y\n{all}");
    for (table, keys, words) in [
        (typo.as_str(), json!({}), "line 42"),
        (
            &typo,
            json!({}),
            "the column `a` must have numbers, found `1O`",
        ),
        (&typo, json!({}), "list the column in `data.categorical`"),
        (&typo, json!({"numeric": ["a"]}), "out of `data.numeric`"),
        (
            &target_typo,
            json!({}),
            "set `data.target_kind` to \"classes\"",
        ),
        (
            "a,y\n1,x\n2,3\n",
            json!({"target_kind": "numbers"}),
            "line 2 of",
        ),
        (
            "a,y\n1,1e99\n2,x\n",
            json!({"target_kind": "numbers"}),
            "found `1e99`",
        ),
        (&names, json!({}), "120 different texts in 120 rows"),
        ("a,b,y\n1,,0\n2,NA,1\n", json!({}), "`b` of"),
        ("a,b,y\n1,,0\n2,NA,1\n", json!({}), "has no values at all"),
        ("a,y\n1,\n2,\n", json!({}), "nothing is left of it"),
        (
            "a,b,y\n1,,0\n,2,1\n",
            json!({"on_missing": "drop"}),
            "nothing is left of it",
        ),
        (
            "a,y\n1,\n2,0\n",
            json!({"on_missing_target": "error"}),
            "`data.on_missing_target`",
        ),
        ("a,y\n1,0\n?,0\n", json!({"on_missing": "error"}), "line 3"),
        (
            "a,y\n1,0\n?,0\n",
            json!({"on_missing": "error"}),
            "`a` is missing (`?`)",
        ),
        (
            "a,y\n1,0\n2,0\n",
            json!({"stratified": true}),
            "`data.stratified`",
        ),
        (
            "a,y\n1,0\n2,0\n",
            json!({"val": {"count": 2}}),
            "nothing is left to train on",
        ),
        (
            "a,y\n1,0\n2,0\n",
            json!({"val": {}}),
            "`data.val` must have exactly one of",
        ),
    ] {
        let text = TableDirectory::new(table).error(&keys);
        assert!(text.contains(words), "{keys}: {text}");
    }
    let listed = TableDirectory::new(&names).read(&json!({"categorical": ["a"]}));
    assert_eq!(listed.expect("it was asked for").encoder.width(), 120);
    let listed = TableDirectory::new(&typo).read(&json!({"missing": ["1O"]}));
    assert_eq!(
        listed.expect("it means missing").report.inputs[0].missing,
        1
    );
}

#[test]
fn wrong_files_of_a_phase_are_reported() {
    let place = TableDirectory::new("a,y\n1,cat\n2,dog\n");
    for (own, words) in [
        ("a,y\n1,cow\n", "line 2 of"),
        (
            "a,y\n1,cow\n",
            "has the class `cow`, which the training file doesn't have",
        ),
        ("a,y\n1,dogs\n", "did you mean `dog`?"),
        ("a,z\n1,cat\n", "the training file names the column `y`"),
        ("b,y\n1,cat\n", "the training file names the column `a`"),
        ("a,y\nx,cat\n", "must have numbers, found `x`"),
    ] {
        place.write("own", own.as_bytes());
        let text = place.error(&json!({"val": {"file": "own"}}));
        assert!(text.contains(words) && text.contains("own"), "{text}");
    }
    let text = place.error(&json!({"test": {"file": "nowhere"}}));
    assert!(text.contains("nowhere"), "{text}");
}

#[test]
fn quotes_that_do_not_match_are_reported_with_their_lines() {
    let rows = |first: usize| {
        let rows = (first..50).map(|i| format!("{i},{}\n", if i % 2 == 0 { "cat" } else { "dog" }));
        rows.collect::<String>()
    };
    for (table, words) in [
        // The rest of the file would be the last field, a class.
        (
            format!("a,y\n1,cat\n2,\"dog\n{}", rows(2)),
            "line 3 of `TABLE`: the quote that opens field 2 is never closed",
        ),
        (
            format!("a,y\n1,\"cat\n{}9,\"dog\"\n", rows(2)),
            "line 51 of `TABLE`: field 2 continues after its closing quote (it was opened in line 2",
        ),
        (
            "\"a,y\n1,2\n".to_owned(),
            "line 1 of `TABLE`: the quote that opens field 1",
        ),
        (
            "a,y\n1,\"c\"at\n".to_owned(),
            "line 2 of `TABLE`: field 2 continues after its closing quote; a quote within quotes is",
        ),
        ("a,y\n1,\"\"\"\n".to_owned(), "field 2 is never closed"),
    ] {
        let place = TableDirectory::new(&table);
        let words = words.replace("TABLE", &place.path("table").display().to_string());
        let text = place.error(&json!({}));
        assert!(text.contains(&words), "{words}: {text}");
    }
    // Matching quotes: around delimiters, line ends and quotes, and in the middle of a text.
    let right = "a,y\n1,\"c,\"\"a\"\"\nt\" \n2,6\" nail\r\n3,\"\"\"\"\r4,x";
    let data = TableDirectory::new(right)
        .read(&json!({}))
        .expect("it is right");
    let names = data.splits.train.class_names().to_vec();
    assert_eq!(names, ["\"", "6\" nail", "c,\"a\"\nt", "x"]);
}

#[test]
fn a_value_that_is_no_number_makes_no_categories_of_numbers() {
    for (odd, reason) in [
        ("1e39", "beyond the range of 32-bit floats"),
        ("-1e400", "beyond the range of 32-bit floats"),
        ("inf", "not a finite number"),
        ("-nan", "not a finite number"),
        ("1\u{7}", "`1\\u{7}`, which has a control character"),
        ("\"1,5\"", "decimals are written with a point"),
        ("1.5x", "found `1.5x`; correct it"),
        ("n/a", "found `n/a`; correct it, add it to `data.missing`"),
    ] {
        // Few rows with few values: columns of small tables are numeric, too.
        for (table, key) in [
            (
                format!("a,y\n1,p\n2,q\n1,p\n{odd},q\n2,p\n"),
                "data.categorical",
            ),
            (
                format!("y,a\n1,1\n2,2\n1,3\n{odd},4\n2,5\n"),
                "data.target_kind",
            ),
        ] {
            let text = TableDirectory::new(&table).error(&json!({}));
            assert!(text.contains("line 5 of"), "{odd}: {text}");
            assert!(text.contains(reason) && text.contains(key), "{odd}: {text}");
        }
    }
    // Decimal commas throughout.
    let text = TableDirectory::new("a;y\n1,5;p\n2,5;q\n").error(&json!({"delimiter": ";"}));
    assert!(
        text.contains("line 2 of") && text.contains("`1,5`"),
        "{text}"
    );
    // The manifest takes precedence over the contents of a column.
    let table = "a,y\n1,3\n2,3\n1,x\n";
    let data = TableDirectory::new(table).read(&json!({"target_kind": "classes"}));
    assert_eq!(
        data.expect("classes").splits.train.class_names(),
        ["3", "x"]
    );
    let data = TableDirectory::new("a,y\n1,3\n2,3\nx,3\n").read(&json!({"categorical": ["a"]}));
    assert_eq!(data.expect("categories").encoder.width(), 3);
}

#[test]
fn bytes_that_no_table_has_are_reported_with_their_places() {
    let place = TableDirectory::new("");
    for (bytes, words) in [
        (&b"a,y\n1,0\n2\0,1\n"[..], "line 3 of"),
        (b"a,y\n1,0\n2\0,1\n", "the column `a` has a NUL byte"),
        (b"a,y\n1,0\n2,\xff\n", "(in the column `y`)"),
        (b"\xff\xfea\0,\0y\0", "is UTF-16, which can't be read here"),
        (b"PK\x03\x04 and so on", "is a zip archive"),
        (b"\xfd7zXZ\0 and so on", "is compressed by xz"),
        (b"PAR1 and so on", "is a Parquet file"),
        (b"\x89PNG\r\n\x1a\n", "is a PNG image"),
    ] {
        place.write("table", bytes);
        let text = place.error(&json!({}));
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_target_of_a_few_whole_numbers_may_be_meant_as_classes() {
    let rows: Vec<String> = (0..20).map(|i| format!("{i},{}\n", i % 3)).collect();
    let rows = rows.concat();
    let place = TableDirectory::new(&format!("a,y\n{rows}"));
    for (keys, hints) in [
        (json!({}), true),
        (json!({"target_kind": "numbers"}), false),
    ] {
        let text = place.read(&keys).expect("it is right").report.to_string();
        assert_eq!(text.contains("`data.target_kind`"), hints, "{text}");
    }
}
