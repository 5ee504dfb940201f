//! Format of a table.

use serde::{Deserialize, Serialize};

use crate::numbers::csv::{CsvConfig, CsvError};

/// How a table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TableFormat {
    /// Field delimiter.
    pub(crate) delimiter: char,
    /// Whether the first line names the columns.
    pub(crate) header: bool,
}

impl TableFormat {
    pub(in crate::numbers::csv) fn of(config: &CsvConfig) -> TableFormat {
        TableFormat {
            delimiter: config.delimiter,
            header: config.header,
        }
    }

    /// Returns the delimiter as a byte.
    pub(in crate::numbers::csv) fn delimiter(self) -> Result<u8, CsvError> {
        let byte = u8::try_from(self.delimiter).ok();
        let byte = byte.filter(|c| c.is_ascii() && !matches!(c, b'"' | b'\n' | b'\r' | 0));
        byte.ok_or(CsvError::Delimiter {
            found: self.delimiter,
        })
    }
}
