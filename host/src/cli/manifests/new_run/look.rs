//! Detection of what a data file contains, regardless of its name.

use std::io::Read;
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::diagnostic::Diagnostic;
use crate::signature::{self, GZIP};
use sconce_base::regular_file::open_regular;

/// Number of bytes of a file that are read; a table's header is no longer.
const MOST: u64 = 1 << 20;

/// Start of a file, decompressed if it is gzipped.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileStart {
    pub(super) bytes: Vec<u8>,
    pub(super) is_gzipped: bool,
}

impl FileStart {
    /// # Errors
    ///
    /// If the file can't be read, is damaged, or has a format that no data kind supports.
    pub(super) fn of(file: &Path) -> Result<FileStart, Diagnostic> {
        let failed = |error: std::io::Error| {
            Diagnostic::new(format!("`{}` can't be read: {error}", file.display()))
        };
        let mut bytes = Vec::new();
        let opened = open_regular(file).map_err(failed)?;
        opened.take(MOST).read_to_end(&mut bytes).map_err(failed)?;
        let is_gzipped = bytes.starts_with(GZIP);
        if is_gzipped {
            bytes = Vec::new();
            let unpacked = MultiGzDecoder::new(open_regular(file).map_err(failed)?);
            unpacked
                .take(MOST)
                .read_to_end(&mut bytes)
                .map_err(failed)?;
        }
        let start = FileStart { bytes, is_gzipped };
        match start.problem(file) {
            Some(problem) => Err(problem),
            None => Ok(start),
        }
    }

    /// Reason why it is neither a table nor a text.
    fn problem(&self, file: &Path) -> Option<Diagnostic> {
        let within = if self.is_gzipped {
            "gzipped, and in that "
        } else {
            ""
        };
        let problem = |what: &str| {
            Diagnostic::new(format!(
                "`{}` is {within}{what}, neither a table nor a text",
                file.display()
            ))
        };
        if let Some(known) = signature::of(&self.bytes) {
            let advice = known.advice.replace("FILE", &file.display().to_string());
            return Some(problem(known.what).hint(advice));
        }
        // IDX files of bytes: two zeros, the type, the number of dimensions.
        if matches!(self.bytes[..], [0, 0, 8, 1..=4, ..]) {
            let hint = "give the directory with its images and labels: `--task image --data DIR`";
            return Some(problem("an IDX file, as MNIST has them").hint(hint));
        }
        self.bytes.contains(&0).then(|| {
            problem("binary (it has NUL bytes)")
                .hint("a table or a text is UTF-8, plain or gzipped")
        })
    }

    /// First line, without a byte order mark.
    pub(super) fn first_line(&self) -> String {
        let text = String::from_utf8_lossy(&self.bytes);
        let line = text.split(['\n', '\r']).next().unwrap_or_default();
        line.trim_start_matches('\u{feff}').trim_end().to_owned()
    }
}
