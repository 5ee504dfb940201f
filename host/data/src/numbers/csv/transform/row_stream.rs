//! Rows that arrive one after the other, such as on standard input: a table as the training's, or one JSON object per line.
//!
//! Memory doesn't grow with the number of rows, and a row that can't be used doesn't end the stream.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read};
use std::path::Path;

use csv::{ReaderBuilder, StringRecord, Trim};
use serde_json::{Map, Value};

use crate::Targets;
use crate::dataset::input::InputNotes;
use crate::numbers::csv::table::quotes;
use crate::numbers::csv::table::scan::number;
use crate::numbers::csv::{CsvError, CsvTransform};

/// Longest row in bytes.
const LONGEST: u64 = 1 << 20;

/// Name of the stream in messages.
const STREAM: &str = "standard input";

/// Rows of a stream as inputs of the model that a [`CsvTransform`] was learnt for.
///
/// As an iterator it gives each row or what is wrong with it, in order. After an error whose
/// [`is_fatal`](RowError::is_fatal) there is nothing more.
pub struct RowStream<R> {
    transform: CsvTransform,
    reader: R,
    /// Lines read so far.
    lines: u64,
    form: Option<RowForm>,
    is_strict: bool,
    /// Columns of the header that the model doesn't know, until a row has them as a note.
    added: Vec<String>,
    is_over: bool,
}

/// How rows are written.
enum RowForm {
    /// As a table with these columns.
    Table(Vec<String>),
    /// As JSON objects.
    Objects,
}

/// A row as inputs of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Line on which it begins, from 1.
    pub line: u64,
    /// The inputs.
    pub inputs: Vec<f32>,
    /// Its target, if the row has a valid one.
    pub target: Option<RowTarget>,
    /// What is unusual about it. Columns that the model doesn't know are noted with the first row of a table.
    pub notes: InputNotes,
}

/// Target of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum RowTarget {
    /// Index of a class.
    Class(u32),
    /// Values, in the order of the targets' names.
    Numbers(Vec<f64>),
}

/// A row that can't be used.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct RowError {
    /// Line on which it begins, from 1.
    pub line: u64,
    /// What is wrong.
    pub problem: RowProblem,
}

/// What is wrong with a row.
#[derive(Debug, thiserror::Error)]
pub enum RowProblem {
    /// The stream can't be read.
    #[error("can't be read: {0}")]
    Read(#[from] io::Error),
    /// The header doesn't fit the model.
    #[error("{0}")]
    Header(String),
    /// A value doesn't fit the model, or quotes don't match.
    #[error(transparent)]
    Record(#[from] CsvError),
    /// It is too long.
    #[error("a row has at most {LONGEST} bytes; is a closing quote or a line end missing?")]
    TooLong,
    /// It is not UTF-8.
    #[error("it is not UTF-8 text")]
    NotText,
    /// It has more or fewer fields than the header.
    #[error(
        "it has {found} fields, the first line {wanted}: a text with a delimiter in it needs quotes around it"
    )]
    Fields {
        /// Number of fields of the first line.
        wanted: usize,
        /// Number of fields.
        found: usize,
    },
    /// It is not a JSON object, as the lines before it.
    #[error("it is not a JSON object: {0}")]
    NotAnObject(String),
    /// Something is unusual about it, which isn't allowed.
    #[error("{0}")]
    Unusual(String),
    /// A value of a JSON object is a list or an object.
    #[error("`{0}` is a list or an object: a value is a number, a text, true, false or null")]
    Nested(String),
}

impl RowError {
    /// Whether the stream ends with it.
    pub fn is_fatal(&self) -> bool {
        matches!(self.problem, RowProblem::Read(_) | RowProblem::Header(_))
    }
}

impl CsvTransform {
    /// Reads rows from a stream: lines of a table in the training's format, or JSON objects if the first line begins
    /// with `{`.
    pub fn rows<R: BufRead>(&self, reader: R) -> RowStream<R> {
        RowStream {
            transform: self.clone(),
            reader,
            lines: 0,
            form: None,
            is_strict: false,
            added: Vec::new(),
            is_over: false,
        }
    }
}

impl<R> RowStream<R> {
    /// Makes what is otherwise only [noted](Row::notes) an error: unknown columns, and values far from those of the
    /// training.
    #[must_use]
    pub fn strict(self) -> RowStream<R> {
        RowStream {
            is_strict: true,
            ..self
        }
    }
}

impl<R: BufRead> Iterator for RowStream<R> {
    type Item = Result<Row, RowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let line = self.lines + 1;
        let next = self.read().transpose();
        let found = next.map(|row| row.map_err(|(line, problem)| RowError { line, problem }));
        self.is_over = match &found {
            None => true,
            Some(found) => found.as_ref().is_err_and(RowError::is_fatal),
        };
        debug_assert!(self.is_over || self.lines >= line);
        found
    }
}

/// What is wrong, and the line of the row.
type Problem = (u64, RowProblem);

impl<R: BufRead> RowStream<R> {
    fn read(&mut self) -> Result<Option<Row>, Problem> {
        let Some((line, text)) = self.row_text()? else {
            return Ok(None);
        };
        let is_first = self.form.is_none();
        if is_first && text.trim_start().starts_with('{') {
            self.form = Some(RowForm::Objects);
        }
        let mut notes = InputNotes::default();
        let record = match &self.form {
            Some(RowForm::Objects) => self.of_object(&text).map_err(|problem| (line, problem))?,
            Some(RowForm::Table(names)) => {
                let fields = self.fields(&text).map_err(|problem| (line, problem))?;
                of_fields(names, &fields).map_err(|problem| (line, problem))?
            }
            None => {
                let fields = self.fields(&text).map_err(|problem| (line, problem))?;
                let header = self.transform.format.header;
                let names = crate::numbers::csv::table::names(&fields, header);
                let checked = self.check_header(&names);
                checked.map_err(|problem| (line, problem))?;
                let record = of_fields(&names, &fields);
                self.form = Some(RowForm::Table(names));
                if header {
                    return self.read();
                }
                record.map_err(|problem| (line, problem))?
            }
        };
        if matches!(self.form, Some(RowForm::Objects)) {
            notes.added_columns = self.transform.added(record.keys());
        }
        let encoder = self.transform.encoder();
        let inputs = encoder.encode_noting(&record, line, &mut notes);
        let inputs = inputs.map_err(|error| (line, error.into()))?;
        if self.is_strict && !notes.is_empty() {
            return Err((line, RowProblem::Unusual(notes.lines().join("; "))));
        }
        notes.added_columns.append(&mut self.added);
        Ok(Some(Row {
            line,
            inputs,
            target: self.target(&record),
            notes,
        }))
    }

    /// Checks the names of a table's columns, and notes those that the model doesn't know.
    fn check_header(&mut self, names: &[String]) -> Result<(), RowProblem> {
        let file = Path::new(STREAM);
        if let Some(name) = crate::numbers::csv::table::twice(names) {
            let error = CsvError::TwoOfOneName {
                file: file.to_owned(),
                name: name.to_owned(),
            };
            return Err(RowProblem::Header(error.to_string()));
        }
        let mut notes = InputNotes::default();
        let places = self.transform.places(names, file, &mut notes);
        places.map_err(|error| RowProblem::Header(error.to_string()))?;
        if self.is_strict && !notes.is_empty() {
            return Err(RowProblem::Header(notes.lines().join("; ")));
        }
        self.added = notes.added_columns;
        Ok(())
    }

    /// The text of the next row that isn't empty, with the line on which it begins.
    fn row_text(&mut self) -> Result<Option<(u64, String)>, Problem> {
        loop {
            let line = self.lines + 1;
            let mut bytes = Vec::new();
            if !self
                .read_line(&mut bytes)
                .map_err(|problem| (line, problem))?
            {
                return Ok(None);
            }
            if line == 1 && bytes.starts_with(b"\xef\xbb\xbf") {
                bytes.drain(..3);
            }
            // A field in quotes goes on over line ends.
            while !matches!(self.form, Some(RowForm::Objects)) && self.is_open(&bytes) {
                let more = self.read_line(&mut bytes);
                if !more.map_err(|problem| (line, problem))? {
                    break;
                }
            }
            if bytes.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let text = String::from_utf8(bytes).map_err(|_| (line, RowProblem::NotText))?;
            return Ok(Some((line, text)));
        }
    }

    /// Whether a row ends within quotes.
    fn is_open(&self, bytes: &[u8]) -> bool {
        let is_object = self.form.is_none() && bytes.trim_ascii_start().starts_with(b"{");
        let delimiter = self.transform.format.delimiter();
        !is_object
            && delimiter.is_ok_and(|delimiter| {
                let checked = quotes::check(bytes, delimiter, Path::new(STREAM));
                matches!(checked, Err(CsvError::UnclosedQuote { .. }))
            })
    }

    /// Appends a line; returns whether there was one. The rest of a line that is too long is passed over.
    fn read_line(&mut self, bytes: &mut Vec<u8>) -> Result<bool, RowProblem> {
        let room = (LONGEST + 1).saturating_sub(bytes.len() as u64);
        let read = self.reader.by_ref().take(room).read_until(b'\n', bytes)?;
        if read == 0 && room > 0 {
            return Ok(false);
        }
        self.lines += 1;
        if bytes.len() as u64 <= LONGEST {
            return Ok(true);
        }
        if !bytes.ends_with(b"\n") {
            self.skip_line()?;
        }
        Err(RowProblem::TooLong)
    }

    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let buffer = self.reader.fill_buf()?;
            let (end, length) = match buffer.iter().position(|&byte| byte == b'\n') {
                Some(place) => (true, place + 1),
                None => (buffer.is_empty(), buffer.len()),
            };
            self.reader.consume(length);
            if end {
                return Ok(());
            }
        }
    }

    fn fields(&self, text: &str) -> Result<StringRecord, RowProblem> {
        let delimiter = self.transform.format.delimiter()?;
        quotes::check(text.as_bytes(), delimiter, Path::new(STREAM))?;
        let mut reader = ReaderBuilder::new()
            .delimiter(delimiter)
            .has_headers(false)
            .flexible(true)
            .trim(Trim::All)
            .from_reader(text.as_bytes());
        let mut record = StringRecord::new();
        let read = reader.read_record(&mut record);
        read.map_err(|error| RowProblem::Read(io::Error::other(error)))?;
        Ok(record)
    }

    /// The texts of an object's values.
    fn of_object(&self, text: &str) -> Result<BTreeMap<String, String>, RowProblem> {
        let object: Map<String, Value> = serde_json::from_str(text)
            .map_err(|error| RowProblem::NotAnObject(error.to_string()))?;
        let missing = self.transform.encoder().missing.first();
        let of_value = |(name, value): (String, Value)| {
            let text = match value {
                Value::Null => match missing {
                    Some(text) => text.clone(),
                    None => {
                        return Some(Err(CsvError::RecordMissing {
                            name,
                            found: "null".to_owned(),
                        }
                        .into()));
                    }
                },
                Value::String(text) => text,
                Value::Number(number) => number.to_string(),
                Value::Bool(is) => is.to_string(),
                Value::Array(_) | Value::Object(_) => return Some(Err(RowProblem::Nested(name))),
            };
            Some(Ok((name, text)))
        };
        object.into_iter().filter_map(of_value).collect()
    }

    fn target(&self, record: &BTreeMap<String, String>) -> Option<RowTarget> {
        let mut texts = self
            .transform
            .target_columns()
            .iter()
            .map(|name| record.get(name));
        match self.transform.targets() {
            classes @ (Targets::Class(_)
            | Targets::ClassPerPosition(_)
            | Targets::TokenPerPosition(_)) => {
                let text = texts.next()??.trim();
                let class = classes.names().iter().position(|class| class == text)?;
                u32::try_from(class).ok().map(RowTarget::Class)
            }
            Targets::None => None,
            Targets::Numbers(_) => {
                let values = texts.map(|text| number(text?.trim()));
                let values = values.map(|value| Some(f64::from(value? as f32)));
                values.collect::<Option<_>>().map(RowTarget::Numbers)
            }
        }
    }
}

fn of_fields(
    names: &[String],
    fields: &StringRecord,
) -> Result<BTreeMap<String, String>, RowProblem> {
    if fields.len() != names.len() {
        return Err(RowProblem::Fields {
            wanted: names.len(),
            found: fields.len(),
        });
    }
    let pairs = names.iter().zip(fields);
    Ok(pairs
        .map(|(name, field)| (name.clone(), field.to_owned()))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::csv::{CsvConfig, read};

    const TABLE: &str = "size,kind,y\n1,a,p\n2,b,q\n3,a,p\n4,b,q\n";

    fn transform(more: &str) -> CsvTransform {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("t.csv"), TABLE).expect("written");
        let config = format!(r#"{{"file": "t.csv", "target": "y"{more}}}"#);
        let config: CsvConfig = serde_json::from_str(&config).expect("a configuration");
        let data = read(&config, directory.path(), 1).expect("data");
        data.splits.learnt
    }

    fn rows(text: &str) -> Vec<Result<Row, String>> {
        let rows = transform(r#", "on_missing": "error""#).rows(text.as_bytes());
        rows.map(|row| row.map_err(|error| error.to_string()))
            .collect()
    }

    #[test]
    fn tables_and_objects_give_the_same_inputs_in_any_order_of_columns() {
        let table = rows("y,kind,size,more\nq,b,2,x\n\"p\",\"a\",3,\n");
        let objects = rows(
            "{\"kind\": \"b\", \"size\": 2, \"y\": \"q\"}\n\n{\"size\": \"3\", \"kind\": \"a\", \"y\": \"p\"}",
        );
        assert_eq!(table.len(), 2);
        for (table, object) in table.iter().zip(&objects) {
            let (table, object) = (
                table.as_ref().expect("a row"),
                object.as_ref().expect("a row"),
            );
            assert_eq!(
                (&table.inputs, &table.target),
                (&object.inputs, &object.target)
            );
        }
        let first = table[0].as_ref().expect("a row");
        assert_eq!((first.line, &first.target), (2, &Some(RowTarget::Class(1))));
        assert_eq!(first.notes.added_columns, ["more"]);
        assert_eq!(objects[1].as_ref().expect("a row").line, 3);
    }

    #[test]
    fn a_bad_row_is_named_and_the_next_one_read() {
        let long = "9".repeat(LONGEST as usize + 5);
        let text = format!("size,kind\n1,c\nx,a\n1\n1,\"a\nb\"\n{long},a\n\"1\"2,a\n,a\n5,b\n");
        let found = rows(&text);
        let words = [
            "line 2: ",
            "line 3: the column `size` must have a number",
            "line 4: it has 1 fields, the first line 2",
            "line 5: ",
            "line 7: a row has at most",
            "field 1 continues after its closing quote",
            "line 9: the column `size` is missing",
        ];
        assert_eq!(found.len(), words.len() + 1, "{found:?}");
        for (found, words) in found.iter().zip(words) {
            let error = found.as_ref().expect_err(words);
            assert!(error.contains(words), "{error}");
        }
        assert!(found[7].is_ok());
    }

    #[test]
    fn a_header_that_lacks_a_column_ends_the_stream() {
        let found = rows("siez,kind\n1,a\n");
        let [Err(error)] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert!(error.contains("did you mean `siez`?"), "{error}");
        assert!(rows("").is_empty());
        let found = rows("size,size,kind\n1,1,a\n");
        assert!(
            found[0]
                .as_ref()
                .is_err_and(|error| error.contains("two columns"))
        );
    }

    #[test]
    fn values_of_objects_are_texts_numbers_or_null() {
        let found = rows(
            "{\"size\": [1], \"kind\": \"a\"}\n{\"size\": null, \"kind\": \"a\"}\n[1]\n{\"kind\": \"a\"}\n{\"size\": 1e999, \"kind\": \"a\"}\n",
        );
        let words = [
            "`size` is a list or an object",
            "`size` is missing",
            "not a JSON object",
            "`size` isn't there",
            "not a JSON object",
        ];
        for (found, words) in found.iter().zip(words) {
            let error = found.as_ref().expect_err(words);
            assert!(error.contains(words), "{error}");
        }
    }
}
