//! How `sconce predict` writes predictions.

use sconce_plugin_api::spreadsheet;

use crate::cli::show::output;
use crate::data::Targets;
use crate::predict::{Prediction, Sample};

/// Output format of predictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PredictionFormat {
    /// One JSON object per line.
    Jsonl,
    /// Table with a header.
    Csv,
}

/// Prints the prediction for a sample, in a table with a header before the first.
pub(super) fn print_prediction(
    format: PredictionFormat,
    prediction: &Prediction,
    sample: &Sample,
    targets: &Targets,
    is_first: bool,
) {
    match format {
        PredictionFormat::Jsonl => output::json_line(&prediction.json(sample, targets)),
        PredictionFormat::Csv => {
            if is_first {
                output::block(&csv_line(&prediction.header(sample, targets)));
            }
            for row in prediction.rows(sample, targets) {
                output::block(&csv_line(&row));
            }
        }
    }
}

/// Formats a line of CSV according to RFC 4180; texts that a spreadsheet would run as formulas are
/// escaped.
fn csv_line(cells: &[String]) -> String {
    let quoted = cells.iter().map(|cell| {
        let cell = spreadsheet::escaped(cell);
        if cell.contains(['"', ',', '\n', '\r']) {
            format!("\"{}\"", cell.replace('"', "\"\""))
        } else {
            cell.into_owned()
        }
    });
    quoted.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    #[test]
    fn cells_are_quoted_where_they_must_be() {
        let cells = ["a", "b,c", "say \"d\""].map(str::to_owned);
        assert_eq!(super::csv_line(&cells), "a,\"b,c\",\"say \"\"d\"\"\"");
        let cells = ["=cmd|' /C calc'!A0", "-0.5", "@a,b"].map(str::to_owned);
        assert_eq!(
            super::csv_line(&cells),
            "'=cmd|' /C calc'!A0,-0.5,\"'@a,b\""
        );
    }
}
