//! The confusion matrix as a table and as a drawing.

use sconce_charts::HeatMap;
use sconce_plugin_api::prelude::*;
use sconce_plugin_api::spreadsheet;

use super::scores::Confusion;

/// How the cells of a confusion matrix are normalised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Normalise {
    /// Not normalised: counts.
    #[default]
    None,
    /// By the targets of each class: rows sum to 1.
    True,
    /// By the predictions of each class: columns sum to 1.
    Predicted,
    /// By the total.
    All,
}

/// Returns the cells in row-major order; 0 where the divisor is 0.
pub(crate) fn normalised(confusion: &Confusion, normalise: Normalise) -> Vec<f64> {
    let classes = confusion.classes;
    let total = confusion.total();
    let rows: Vec<u64> = (0..classes).map(|class| confusion.row_sum(class)).collect();
    let columns: Vec<u64> = (0..classes)
        .map(|class| confusion.column_sum(class))
        .collect();
    let whole = |index: usize| {
        let sum = match normalise {
            Normalise::None => Some(&1),
            Normalise::True => rows.get(index / classes),
            Normalise::Predicted => columns.get(index % classes),
            Normalise::All => Some(&total),
        };
        sum.copied().unwrap_or(0)
    };
    let cells = confusion.counts.iter().enumerate();
    cells
        .map(|(index, count)| *count as f64 / whole(index).max(1) as f64)
        .collect()
}

/// Returns a CSV table with predicted classes as columns and true classes as rows.
pub(crate) fn table(
    confusion: &Confusion,
    normalise: Normalise,
    names: &[String],
) -> Result<Vec<u8>> {
    let cells = normalised(confusion, normalise);
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_field("true \\ predicted")?;
    // Names come from the data and must not be read as formulas.
    let names: Vec<_> = names
        .iter()
        .map(|name| spreadsheet::escaped(name))
        .collect();
    writer.write_record(names.iter().map(|name| name.as_bytes()))?;
    for (name, row) in names.iter().zip(cells.chunks(confusion.classes.max(1))) {
        writer.write_field(name.as_bytes())?;
        writer.write_record(row.iter().map(f64::to_string))?;
    }
    Ok(writer
        .into_inner()
        .map_err(csv::IntoInnerError::into_error)?)
}

/// Largest number of classes that is drawn.
pub(crate) const MOST_CLASSES: usize = 1000;

/// Returns an SVG drawing of the cells.
pub(crate) fn picture(
    confusion: &Confusion,
    normalise: Normalise,
    names: &[String],
    title: String,
) -> Result<String> {
    let map = HeatMap {
        title,
        x_label: "predicted".to_owned(),
        y_label: "true".to_owned(),
        rows: names.to_vec(),
        columns: names.to_vec(),
        values: normalised(confusion, normalise),
        range: (normalise != Normalise::None).then_some((0.0, 1.0)),
    };
    Ok(map.svg()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_pictures_have_the_names() {
        let mut confusion = Confusion::default();
        for (target, prediction) in [(0, 0), (0, 1), (0, 1), (1, 1), (0, 1)] {
            confusion.count(2, target, prediction);
        }
        let names = ["a cat", "a, b"].map(str::to_owned);
        let text = table(&confusion, Normalise::True, &names).expect("a table");
        let expected = "true \\ predicted,a cat,\"a, b\"\na cat,0.25,0.75\n\"a, b\",0,1\n";
        assert_eq!(String::from_utf8_lossy(&text), expected);
        let text = table(&confusion, Normalise::None, &names).expect("a table");
        assert!(String::from_utf8_lossy(&text).contains("a cat,1,3\n"));
        let picture = picture(&confusion, Normalise::All, &names, "val".to_owned());
        assert!(picture.expect("a picture").contains("a cat"));
    }
}
