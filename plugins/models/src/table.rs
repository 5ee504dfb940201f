//! Rows of CSV.

use sconce_plugin_api::prelude::*;
use sconce_plugin_api::spreadsheet;

/// Formats rows as CSV lines; text that could be read as a formula is escaped.
pub(crate) fn rows<R, C>(rows: impl IntoIterator<Item = R>) -> Result<Vec<u8>>
where
    R: IntoIterator<Item = C>,
    C: AsRef<str>,
{
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        for cell in row {
            writer.write_field(&*spreadsheet::escaped(cell.as_ref()))?;
        }
        writer.write_record(None::<&[u8]>)?;
    }
    Ok(writer
        .into_inner()
        .map_err(csv::IntoInnerError::into_error)?)
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_needs_quotes_has_them() {
        let text = super::rows([["a", "b"], ["1,5", "2"]]).expect("rows");
        assert_eq!(text, b"a,b\n\"1,5\",2\n");
        let text = super::rows([["=1+2", "-3"]]).expect("rows");
        assert_eq!(text, b"'=1+2,-3\n");
    }
}
