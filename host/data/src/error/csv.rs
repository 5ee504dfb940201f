//! Errors of tables, with all their messages.

use std::path::PathBuf;

use super::UnknownCategory;
use crate::TargetScale;

/// A table that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum CsvError {
    /// The delimiter is not allowed.
    #[error(
        "`data.delimiter` must be one ASCII character, no quote and no line end, found {found:?}"
    )]
    Delimiter {
        /// Value in the manifest.
        found: char,
    },
    /// A field is not valid UTF-8.
    #[error(
        "line {line} of `{}` is not UTF-8 text (in the column `{name}`): convert the file to UTF-8, \
         or is it no table at all?",
        file.display()
    )]
    NotText {
        /// Path of the file.
        file: PathBuf,
        /// Line number, from 1.
        line: u64,
        /// Name of the column.
        name: String,
    },
    /// A field has a NUL byte.
    #[error(
        "line {line} of `{}`: the column `{name}` has a NUL byte (0x00), as damaged files, UTF-16 and \
         files that are not text have: write the file again as UTF-8",
        file.display()
    )]
    Nul {
        /// Path of the file.
        file: PathBuf,
        /// Line number, from 1.
        line: u64,
        /// Name of the column.
        name: String,
    },
    /// A quoted field is never closed.
    #[error(
        "line {line} of `{}`: the quote that opens field {field} is never closed; close it, or write \
         `\"\"\"\"` for a field that is a quote",
        file.display()
    )]
    UnclosedQuote {
        /// Path of the file.
        file: PathBuf,
        /// Line of the opening quote, from 1.
        line: u64,
        /// Number of the field in its line, from 1.
        field: usize,
    },
    /// There is text after a closing quote.
    #[error(
        "line {line} of `{}`: field {field} continues after its closing quote{}; a quote within quotes is \
         written twice (`\"\"`)",
        file.display(), opened_at(*opened, *line)
    )]
    AfterQuote {
        /// Path of the file.
        file: PathBuf,
        /// Line number, from 1.
        line: u64,
        /// Line of the opening quote.
        opened: u64,
        /// Number of the field in its line, from 1.
        field: usize,
    },
    /// A line has more or fewer fields than the first.
    #[error(
        "line {line} of `{}` has {found} fields, the first line {wanted}: a text with a delimiter \
         in it needs quotes around it",
        file.display()
    )]
    Fields {
        /// Path of the file.
        file: PathBuf,
        /// Line number, from 1.
        line: u64,
        /// Number of fields in the first line.
        wanted: usize,
        /// Number of fields in this line.
        found: usize,
    },
    /// There is no such column.
    #[error("{key} names the column `{name}`, but `{}` has none of that name; {}", file.display(), hint(name, *header, known))]
    UnknownColumn {
        /// Option that names the column.
        key: &'static str,
        /// Requested name.
        name: String,
        /// Path of the file.
        file: PathBuf,
        /// Whether the first line names the columns.
        header: bool,
        /// Existing columns.
        known: Vec<String>,
    },
    /// Two columns have the same name.
    #[error("`{}` has two columns `{name}`: rename one", file.display())]
    TwoOfOneName {
        /// Path of the file.
        file: PathBuf,
        /// Name of both columns.
        name: String,
    },
    /// A column is named by two options, or twice by one.
    #[error("the column `{name}` is in {first} and in {second}: take it out of one")]
    Contradiction {
        /// Name of the column.
        name: String,
        /// An option that names it.
        first: &'static str,
        /// Another option that names it.
        second: &'static str,
    },
    /// No columns are left for inputs.
    #[error("no column of `{}` is left for inputs: shorten `data.ignore`", file.display())]
    NoInputs {
        /// Path of the file.
        file: PathBuf,
    },
    /// A column has no values.
    #[error(
        "the column `{name}` of `{}` has no values at all: list it in `data.ignore`",
        file.display()
    )]
    NoValues {
        /// Path of the file.
        file: PathBuf,
        /// Name of the column.
        name: String,
    },
    /// A value in a numeric column is not a number.
    #[error(
        "line {line} of `{}`: the column `{name}` must have numbers, found `{found}`{reason}; correct \
         it, add it to `data.missing`, or {otherwise}",
        file.display()
    )]
    NotANumber {
        /// Path of the file.
        file: PathBuf,
        /// Line number, from 1.
        line: u64,
        /// Name of the column.
        name: String,
        /// Text found.
        found: String,
        /// Why it is not a number, if that is not obvious.
        reason: &'static str,
        /// Alternative remedy.
        otherwise: &'static str,
    },
    /// A value in a column of dates is not a date.
    #[error(
        "line {line} of `{}`: the column `{name}` must have {wanted}, found `{found}`; correct it, add it to \
         `data.missing`, or take the column out of `data.dates`",
        file.display()
    )]
    NotADate {
        /// Path of the file.
        file: PathBuf,
        /// Line number, from 1.
        line: u64,
        /// Name of the column.
        name: String,
        /// Text found, printable.
        found: String,
        /// What the column must have.
        wanted: &'static str,
    },
    /// No date of a column says which number is the day.
    #[error(
        "line {line} of `{}`: nothing in the column `{name}` says which number of `{found}` is the day: set \
         `data.date_order` to \"day-first\" or \"month-first\"",
        file.display()
    )]
    AmbiguousDate {
        /// Path of the file.
        file: PathBuf,
        /// Line number, from 1.
        line: u64,
        /// Name of the column.
        name: String,
        /// Text found, printable.
        found: String,
    },
    /// A date doesn't exist in the order of day and month of its column.
    #[error(
        "line {line} of `{}`: `{found}` in the column `{name}` is not a date {}, the order of day and month of this \
         column: correct it, or set `data.date_order`",
        file.display(), example
    )]
    DateOrder {
        /// Path of the file.
        file: PathBuf,
        /// Line number, from 1.
        line: u64,
        /// Name of the column.
        name: String,
        /// Text found, printable.
        found: String,
        /// A date in the order of day and month of the column, in words.
        example: &'static str,
    },
    /// A categorical column has almost as many different texts as rows.
    #[error(
        "the column `{name}` of `{}` has {found} different texts in {rows} rows: list it in {}",
        file.display(), if *are_dates {
            "`data.dates`, as they are dates, or in `data.ignore`"
        } else {
            "`data.ignore`, or in `data.categorical` if each is to become an input"
        }
    )]
    TooManyCategories {
        /// Path of the file.
        file: PathBuf,
        /// Name of the column.
        name: String,
        /// Number of different texts.
        found: usize,
        /// Number of rows.
        rows: usize,
        /// Whether all of them are dates or times.
        are_dates: bool,
    },
    /// Several target columns are not numeric.
    #[error("targets that are classes come from one column, `data.target` names {found}")]
    SeveralClasses {
        /// Number of target columns.
        found: usize,
    },
    /// Targets that are classes are to be scaled.
    #[error(
        "`data.target_scaling` is for numbers, and the targets are classes: leave it out, or set `data.target_kind` to \
         \"numbers\""
    )]
    ScaledClasses,
    /// A target has no logarithm.
    #[error(
        "line {line} of `{}`: the target `{name}` is {found}, and `data.target_scaling` \"{}\" needs numbers above {}: \
         take \"standard\"",
        file.display(), scale.name(), scale.bound()
    )]
    NotScalable {
        /// Path of the file.
        file: PathBuf,
        /// Line number, from 1.
        line: u64,
        /// Name of the column.
        name: String,
        /// Text found.
        found: String,
        /// The scale.
        scale: TargetScale,
    },
    /// A class does not occur in the training file.
    #[error(
        "line {line} of `{}`: the column `{name}` has the class `{found}`, which the training file \
         doesn't have{}",
        file.display(), did_you_mean(found, classes)
    )]
    UnknownClass {
        /// Path of the file.
        file: PathBuf,
        /// Line number, from 1.
        line: u64,
        /// Name of the column.
        name: String,
        /// Text found.
        found: String,
        /// Classes in the training file.
        classes: Vec<String>,
    },
    /// A category does not occur in the training rows.
    #[error("line {line} of `{}`: {unknown}", file.display())]
    UnknownCategory {
        /// Path of the file.
        file: PathBuf,
        /// Line number, from 1.
        line: u64,
        /// Column, category and the known ones.
        unknown: UnknownCategory,
    },
    /// A table without a header has another number of columns than the training file.
    #[error(
        "`{}` has {found} columns without names, the training file {wanted}: columns are known by their position alone",
        file.display()
    )]
    Width {
        /// Path of the file.
        file: PathBuf,
        /// Number of columns of the training file.
        wanted: usize,
        /// Number of columns of this file.
        found: usize,
    },
    /// `min_count` is given, but unknown categories have no input.
    #[error(
        "`data.min_count` is for `data.on_unknown` \"own\": set that, or leave `data.min_count` out"
    )]
    MinCount,
    /// `date_order` is given, but no column has dates.
    #[error("`data.date_order` is for the columns of `data.dates`: list them, or leave it out")]
    DateOrderAlone,
    /// A value is missing although the options forbid it.
    #[error(
        "line {line} of `{}`: the column `{name}` is missing (`{found}`); \
         complete it, or set `{key}`",
        file.display()
    )]
    Missing {
        /// Path of the file.
        file: PathBuf,
        /// Line number, from 1.
        line: u64,
        /// Name of the column.
        name: String,
        /// Text that marks the missing value.
        found: String,
        /// Option that determines how missing values are handled.
        key: &'static str,
    },
    /// A row's weight isn't one.
    #[error(
        "line {line} of `{}`: `data.weight` is the column `{name}`, which must be a number, 0 or more; found `{found}`",
        file.display()
    )]
    Weight {
        /// Path of the file.
        file: PathBuf,
        /// Line number, from 1.
        line: u64,
        /// Name of the column.
        name: String,
        /// Text of the field, printable.
        found: String,
    },
    /// No row of the training counts.
    #[error(
        "all training rows have the weight 0 in `data.weight`, the column `{name}`: nothing is left to train on"
    )]
    NoWeight {
        /// Name of the column.
        name: String,
    },
    /// A row has no group.
    #[error(
        "line {line} of `{}`: `data.group` is the column `{name}`, and the row has none (`{found}`); complete it, or give \
         the row a group of its own",
        file.display()
    )]
    NoGroup {
        /// Path of the file.
        file: PathBuf,
        /// Line number, from 1.
        line: u64,
        /// Name of the column.
        name: String,
        /// Text that marks the missing value.
        found: String,
    },
    /// All rows are left out.
    #[error("every row of `{}` has something missing: nothing is left of it", file.display())]
    NothingLeft {
        /// Path of the file.
        file: PathBuf,
    },
    /// No row is of the wanted part of the training's data.
    #[error("no row of `{}` is {part}", file.display())]
    NoRowOf {
        /// Path of the file.
        file: PathBuf,
        /// What a row of the part is.
        part: &'static str,
    },
    /// A record lacks a column.
    #[error("the column `{name}` isn't there{}", did_you_mean(name, known))]
    AbsentColumn {
        /// Name of the column.
        name: String,
        /// Existing columns.
        known: Vec<String>,
    },
    /// A value of a record is not a number.
    #[error("the column `{name}` must have a number, found `{found}`")]
    RecordNumber {
        /// Name of the column.
        name: String,
        /// Text found.
        found: String,
    },
    /// A value of a record is not a date.
    #[error("the column `{name}` must have {wanted}, found `{found}`")]
    RecordDate {
        /// Name of the column.
        name: String,
        /// Text found.
        found: String,
        /// What the column must have.
        wanted: &'static str,
    },
    /// A category of a record does not occur in the training rows.
    #[error("{0}")]
    RecordCategory(UnknownCategory),
    /// A record lacks a value that all training rows had.
    #[error("the column `{name}` is missing (`{found}`), and the training had no rows without it")]
    RecordMissing {
        /// Name of the column.
        name: String,
        /// Text that marks the missing value.
        found: String,
    },
}

/// Says where a field was opened, if that was on another line.
fn opened_at(opened: u64, line: u64) -> String {
    if opened == line {
        return String::new();
    }
    format!(" (it was opened in line {opened}: is a quote missing there?)")
}

fn did_you_mean(name: &str, known: &[String]) -> String {
    let near = sconce_base::nearest::nearest(name, known.iter().map(String::as_str));
    near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}

/// Suggests what to do about an unknown column.
fn hint(name: &str, header: bool, known: &[String]) -> String {
    if let [only] = known
        && let Some(other) = [';', '\t', '|', ',']
            .into_iter()
            .find(|&c| only.contains(c))
    {
        return format!("its only column is `{only}`: should `data.delimiter` be {other:?}?");
    }
    if let Some(near) = sconce_base::nearest::nearest(name, known.iter().map(String::as_str)) {
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
