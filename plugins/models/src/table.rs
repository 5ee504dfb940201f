//! Rows of CSV.

use sconce_plugin_api::prelude::*;

/// Rows as they stand in a file, each with the end of its line.
pub(crate) fn rows<R, C>(rows: impl IntoIterator<Item = R>) -> Result<Vec<u8>>
where
    R: IntoIterator<Item = C>,
    C: AsRef<[u8]>,
{
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.write_record(row)?;
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
    }
}
