//! What can be wrong with a table: every sentence of this part.

use std::path::PathBuf;

/// Why a table can't be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A delimiter that the format can't have.
    #[error(
        "`data.delimiter` must be one ASCII character, no quote and no line end, found {found:?}"
    )]
    Delimiter {
        /// What was given.
        found: char,
    },
    /// Bytes that are no text.
    #[error(
        "line {line} of `{}` is no UTF-8 text (in the column `{name}`): convert the file to UTF-8, \
         or is it no table at all?",
        file.display()
    )]
    NotText {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The column.
        name: String,
    },
    /// A byte that no text has.
    #[error(
        "line {line} of `{}`: the column `{name}` has a NUL byte (0x00), as damaged files, UTF-16 and \
         files that are no text have: write the file again as UTF-8",
        file.display()
    )]
    Nul {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The column.
        name: String,
    },
    /// A quoted field that has no end.
    #[error(
        "line {line} of `{}`: the quote that opens field {field} is never closed; close it, or write \
         `\"\"\"\"` for a field that is a quote",
        file.display()
    )]
    UnclosedQuote {
        /// The file.
        file: PathBuf,
        /// The quote's line, from 1.
        line: u64,
        /// Which field of its line, from 1.
        field: usize,
    },
    /// Text after a quoted field's end.
    #[error(
        "line {line} of `{}`: field {field} goes on after its closing quote{}; a quote within quotes is \
         written twice (`\"\"`)",
        file.display(), opened_at(*opened, *line)
    )]
    AfterQuote {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The line of the quote that opened the field.
        opened: u64,
        /// Which field of its line, from 1.
        field: usize,
    },
    /// A line with more or fewer fields than the first.
    #[error(
        "line {line} of `{}` has {found} fields, the first line {wanted}: a text with a delimiter \
         in it needs quotes around it",
        file.display()
    )]
    Fields {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: u64,
        /// How many fields the first line has.
        wanted: usize,
        /// How many this one has.
        found: usize,
    },
    /// A column that isn't there.
    #[error("{key} names the column `{name}`, but `{}` has none of that name; {}", file.display(), hint(name, *header, known))]
    UnknownColumn {
        /// Where the name stands.
        key: &'static str,
        /// The name.
        name: String,
        /// The file.
        file: PathBuf,
        /// Whether the file's first line names its columns.
        header: bool,
        /// The columns that there are.
        known: Vec<String>,
    },
    /// Two columns of one name.
    #[error("`{}` has two columns `{name}`: rename one", file.display())]
    TwoOfOneName {
        /// The file.
        file: PathBuf,
        /// The name.
        name: String,
    },
    /// A column that is said to be two things, or one thing twice.
    #[error("the column `{name}` is in {first} and in {second}: take it out of one")]
    Contradiction {
        /// The column.
        name: String,
        /// A key that names it.
        first: &'static str,
        /// Another key that names it.
        second: &'static str,
    },
    /// No columns for inputs.
    #[error("no column of `{}` is left for inputs: shorten `data.ignore`", file.display())]
    NoInputs {
        /// The file.
        file: PathBuf,
    },
    /// A column without a single value.
    #[error(
        "the column `{name}` of `{}` has no values at all: list it in `data.ignore`",
        file.display()
    )]
    NoValues {
        /// The file.
        file: PathBuf,
        /// The column.
        name: String,
    },
    /// A text among numbers.
    #[error(
        "line {line} of `{}`: the column `{name}` must have numbers, found `{found}`{reason}; correct \
         it, add it to `data.missing`, or {otherwise}",
        file.display()
    )]
    NotANumber {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The column.
        name: String,
        /// The text.
        found: String,
        /// Why it is none, where that can't be seen at once.
        reason: &'static str,
        /// What else there is to do.
        otherwise: &'static str,
    },
    /// A column of texts that hardly repeat.
    #[error(
        "the column `{name}` of `{}` has {found} different texts in {rows} rows: list it in \
         `data.ignore`, or in `data.categorical` if each is to become an input",
        file.display()
    )]
    TooManyCategories {
        /// The file.
        file: PathBuf,
        /// The column.
        name: String,
        /// How many texts.
        found: usize,
        /// How many rows.
        rows: usize,
    },
    /// Classes from several columns.
    #[error("targets that are classes come from one column, `data.target` names {found}")]
    SeveralClasses {
        /// How many columns.
        found: usize,
    },
    /// A class that the training file doesn't have.
    #[error(
        "line {line} of `{}`: the column `{name}` has the class `{found}`, which the training file \
         doesn't have{}",
        file.display(), did_you_mean(found, classes)
    )]
    UnknownClass {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The column.
        name: String,
        /// The text.
        found: String,
        /// The classes that there are.
        classes: Vec<String>,
    },
    /// A missing value where none may be.
    #[error(
        "line {line} of `{}`: the column `{name}` is missing (`{found}`); \
         complete it, or set `{key}`",
        file.display()
    )]
    Missing {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The column.
        name: String,
        /// The text that means it.
        found: String,
        /// The key that says what is done with it.
        key: &'static str,
    },
    /// Rows that are all left out.
    #[error("every row of `{}` has something missing: nothing is left of it", file.display())]
    NothingLeft {
        /// The file.
        file: PathBuf,
    },
    /// A record that lacks a column.
    #[error("the column `{name}` isn't there{}", did_you_mean(name, known))]
    AbsentColumn {
        /// The column.
        name: String,
        /// The columns that there are.
        known: Vec<String>,
    },
    /// A record with a text among its numbers.
    #[error("the column `{name}` must have a number, found `{found}`")]
    RecordNumber {
        /// The column.
        name: String,
        /// The text.
        found: String,
    },
    /// A record that lacks a value that the training's rows all had.
    #[error("the column `{name}` is missing (`{found}`), and the training had no rows without it")]
    RecordMissing {
        /// The column.
        name: String,
        /// The text that means it.
        found: String,
    },
}

/// Where a field was opened, if that was on another line.
fn opened_at(opened: u64, line: u64) -> String {
    if opened == line {
        return String::new();
    }
    format!(" (it was opened in line {opened}: is a quote missing there?)")
}

fn did_you_mean(name: &str, known: &[String]) -> String {
    let near = sconce_nn::nearest::nearest(name, known.iter().map(String::as_str));
    near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}

/// What to do about a column that isn't there.
fn hint(name: &str, header: bool, known: &[String]) -> String {
    if let [only] = known
        && let Some(other) = [';', '\t', '|', ',']
            .into_iter()
            .find(|&c| only.contains(c))
    {
        return format!("its only column is `{only}`: should `data.delimiter` be {other:?}?");
    }
    if let Some(near) = sconce_nn::nearest::nearest(name, known.iter().map(String::as_str)) {
        return format!("did you mean `{near}`?");
    }
    let quoted: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    let without = if header {
        ""
    } else {
        ", named so because `data.header` is false"
    };
    format!("there are {}{without}", quoted.join(", "))
}
