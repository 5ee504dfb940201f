#![allow(clippy::unwrap_used, reason = "a test ends there")]

use super::*;

fn row<'task>(epoch: u64, metrics: &[(&'task str, f64)]) -> Row<'task> {
    Row {
        epoch,
        iteration: epoch * 10,
        update: epoch * 5,
        learning_rate: 0.001,
        elapsed: 0.0,
        metrics: metrics.to_vec(),
    }
}

fn only(variables: &[&str], on_missing: OnMissing) -> Config {
    let variables = variables.iter().map(|name| (*name).to_owned()).collect();
    Config {
        variables: Some(variables),
        on_missing,
        ..Config::default()
    }
}

/// Opens or resumes a table and writes rows. Returns the table and the warnings.
fn run(
    path: &Path,
    config: &Config,
    saved: Option<Saved>,
    rows: &[Row<'_>],
) -> Result<(Table, Vec<String>)> {
    let mut table = match saved {
        Some(saved) => Table::resume(path.to_owned(), config, saved)?,
        None => Table::open(path.to_owned(), &rows[0], config)?,
    };
    let mut warnings = Vec::new();
    for row in rows {
        warnings.extend(table.write(row, config)?);
    }
    Ok((table, warnings))
}

#[test]
fn each_row_is_in_the_file_as_soon_as_it_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tables/val.csv");
    let config = Config::default();
    let rows = [row(0, &[("loss", 2.5)]), row(1, &[("loss", 0.1)])];
    let (_open, warnings) = run(&path, &config, None, &rows).unwrap();
    let text = "epoch,iteration,update,learning_rate,loss\n0,0,0,0.001,2.5\n1,10,5,0.001,0.1\n";
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    assert_eq!(warnings, [""; 0]);
}

#[test]
fn a_metric_that_comes_late_is_named_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("val.csv");
    let late = [("loss", 1.0), ("f1", 0.5)];
    let rows = [row(1, &late[..1]), row(2, &late), row(3, &late)];
    let (_, warnings) = run(&path, &Config::default(), None, &rows).unwrap();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("`f1`"), "{warnings:?}");
}

#[test]
fn the_name_of_a_metric_is_no_formula_and_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("val.csv");
    let metrics = [("=cmd|' /C calc'!A0", -1.0), ("@x", 2.0)];
    let config = Config {
        append: true,
        ..Config::default()
    };
    for epoch in 1..3 {
        // The second run reads the header.
        let (_, warnings) = run(&path, &config, None, &[row(epoch, &metrics)]).unwrap();
        assert_eq!(warnings, [""; 0]);
    }
    let text = fs::read_to_string(&path).unwrap();
    let header = "epoch,iteration,update,learning_rate,'=cmd|' /C calc'!A0,'@x\n";
    assert_eq!(
        text,
        format!("{header}1,10,5,0.001,-1,2\n2,20,10,0.001,-1,2\n")
    );
}

#[test]
fn a_missing_metric_is_an_error_a_warning_or_the_default() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("val.csv");
    let rows = [row(1, &[("loss", 1.0)]), row(2, &[("loss", 1.0)])];
    let attempt = |on_missing| {
        let mut config = only(&["f1"], on_missing);
        config.default_value = "none".to_owned();
        config.delimiter = ';';
        run(&path, &config, None, &rows).map(|(_, warnings)| warnings.len())
    };
    assert_eq!(attempt(OnMissing::Default).unwrap(), 0);
    assert_eq!(attempt(OnMissing::Warn).unwrap(), 1);
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().last(), Some("2;20;10;0.001;none"));
    let error = attempt(OnMissing::Error).unwrap_err();
    assert!(error.message().contains("`f1` has no value"), "{error}");
}

#[test]
fn an_earlier_file_is_replaced_or_appended_to() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("val.csv");
    let config = |append| Config {
        append,
        ..Config::default()
    };
    fs::write(&path, "loss,epoch\n0.5,1\n").unwrap();
    let rows = [row(2, &[("loss", 0.25)])];
    run(&path, &config(true), None, &rows).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text, "loss,epoch\n0.5,1\n0.25,2\n");
    run(&path, &config(false), None, &rows).unwrap();
    assert!(fs::read_to_string(&path).unwrap().starts_with("epoch,"));
}

#[test]
fn a_resumed_run_writes_the_file_of_one_never_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("val.csv");
    let config = Config::default();
    let rows: Vec<Row<'_>> = (0..4).map(|epoch| row(epoch, &[("loss", 0.5)])).collect();
    run(&path, &config, None, &rows).unwrap();
    let whole = fs::read_to_string(&path).unwrap();

    let (mut table, _) = run(&path, &config, None, &rows[..2]).unwrap();
    let mut saved = vec![table.save().unwrap(), table.save().unwrap()];
    drop(table);
    // Rows after the checkpoint are replaced, not duplicated.
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text + "2,20,10,0.001,0.5\n").unwrap();
    run(&path, &config, saved.pop(), &rows[2..]).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), whole);

    // Without its file a resumed run begins a new one.
    fs::remove_file(&path).unwrap();
    run(&path, &config, saved.pop(), &rows[2..]).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 3);
}
