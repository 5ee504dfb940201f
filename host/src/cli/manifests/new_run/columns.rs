//! The roles of a table's columns: which is likely the target, and which are not inputs.

use sconce_data::csv::{ColumnSurvey, TableSurvey};

/// Names of targets, the likeliest first.
const TARGETS: [&str; 24] = [
    "target",
    "label",
    "labels",
    "outcome",
    "survived",
    "diagnosis",
    "churn",
    "fraud",
    "default",
    "species",
    "class",
    "category",
    "quality",
    "price",
    "saleprice",
    "median_house_value",
    "medv",
    "rating",
    "score",
    "sales",
    "income",
    "output",
    "response",
    "y",
];

/// Names of columns that identify a row.
const IDENTIFIERS: [&str; 9] = [
    "id", "uuid", "guid", "index", "idx", "key", "rowid", "row", "rownames",
];

/// Number of rows from which different values in each say something.
const FEW: usize = 20;

/// Returns the index of the column that is most likely the target, and why it is taken; none if all columns are
/// identifiers, dates or empty.
pub(super) fn likely_target(table: &TableSurvey) -> Option<(usize, &'static str)> {
    let usable = |column: &ColumnSurvey| {
        why_no_input(column).is_none() && !column.is_date && column.distinct > 1
    };
    let named = |target: &str| {
        // Beside `z`, `y` is a length or a position.
        let is_position = target == "y" && table.columns.iter().any(|column| is(column, "z"));
        let mut columns = table.columns.iter();
        let place = columns.position(|column| is(column, target) && usable(column));
        place.filter(|_| !is_position)
    };
    if let Some(place) = TARGETS.iter().find_map(|target| named(target)) {
        return Some((place, "by its name"));
    }
    let place = table.columns.iter().rposition(usable)?;
    let is_last = place + 1 == table.columns.len();
    let why = if is_last {
        "the last column, as none has a usual name of a target"
    } else {
        "the last column that can be learned, as none has a usual name of a target"
    };
    Some((place, why))
}

fn is(column: &ColumnSurvey, name: &str) -> bool {
    column.name.eq_ignore_ascii_case(name)
}

/// Returns why a column isn't used as an input; none if it is.
pub(super) fn why_no_input(column: &ColumnSurvey) -> Option<String> {
    if column.present == 0 {
        return Some("it has no values".to_owned());
    }
    if column.is_clear_date {
        return None;
    }
    if column.is_date {
        return Some(format!(
            "dates or times, such as `{}`, which don't say which number is the day: list it in `data.dates`, with \
             `data.date_order`",
            column.example
        ));
    }
    // Measurements differ in most rows, too.
    let is_counted = column.is_whole || !column.is_numeric;
    let differs = column.distinct * 2 > column.present;
    if is_counted && differs && is_identifier(&column.name) {
        return Some("an identifier, by its name".to_owned());
    }
    let is_long = column.present >= FEW;
    if column.is_row_number && (is_long || column.is_unnamed) {
        return Some("an identifier: it numbers the rows".to_owned());
    }
    if column.is_unnamed && column.is_whole && column.distinct == column.present {
        return Some("an identifier: no name, and a number of its own in every row".to_owned());
    }
    if !column.is_numeric && differs && column.distinct >= FEW {
        return Some(format!(
            "an identifier or free text: {} different texts in {} rows",
            column.distinct, column.present
        ));
    }
    column.odd.first().map(|(text, line)| {
        format!(
            "it has numbers, but `{text}` in line {line}: correct that, add it to `data.missing`, or list the column in \
             `data.categorical`"
        )
    })
}

/// Whether a word of the name says so: `id`, `user_id`, `PassengerId`, `Unnamed: 0`.
fn is_identifier(name: &str) -> bool {
    let lower = name.to_lowercase();
    let mut words = lower.split(|c: char| !c.is_alphanumeric());
    let is_last = words
        .next_back()
        .is_some_and(|last| IDENTIFIERS.contains(&last));
    is_last || name.ends_with("Id") || name.ends_with("ID") || lower.starts_with("unnamed: ")
}

/// Whether a column's values are classes: texts, yes and no, or a few distinct whole numbers.
pub(super) fn are_classes(column: &ColumnSurvey) -> bool {
    const MOST: usize = 10;
    let is_few =
        column.distinct <= 2 || column.distinct <= MOST && column.present >= 4 * column.distinct;
    !column.is_numeric || column.is_whole && is_few
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(name: &str, distinct: usize) -> ColumnSurvey {
        ColumnSurvey {
            name: name.to_owned(),
            is_unnamed: false,
            present: 100,
            distinct,
            counts: [1, 100],
            example: "1".to_owned(),
            range: Some([0.0, 1.0]),
            is_numeric: true,
            is_whole: true,
            is_row_number: false,
            is_date: false,
            is_clear_date: false,
            odd: Vec::new(),
        }
    }

    fn table(names: &[&str]) -> TableSurvey {
        let columns = names.iter().map(|name| numbers(name, 5));
        TableSurvey {
            rows: 100,
            columns: columns.collect(),
        }
    }

    #[test]
    fn a_target_is_known_by_its_name() {
        for (names, target) in [
            (&["carat", "price", "x", "y", "z"][..], "price"),
            (&["x", "y", "z"], "z"),
            (&["y", "x1", "x2"], "y"),
            (&["Class", "a", "b"], "Class"),
            (&["a", "b", "c"], "c"),
        ] {
            let table = table(names);
            let (place, _) = likely_target(&table).expect("there is one");
            assert_eq!(table.columns[place].name, target, "{names:?}");
        }
        let mut table = table(&["a", "b", "user_id"]);
        table.columns[2].distinct = 100;
        assert_eq!(likely_target(&table).map(|(place, _)| place), Some(1));
    }

    #[test]
    fn identifiers_are_no_inputs_and_categories_named_so_are() {
        for name in [
            "id",
            "user_id",
            "PassengerId",
            "Unnamed: 0",
            "UUID",
            "index",
        ] {
            assert!(why_no_input(&numbers(name, 100)).is_some(), "{name}");
            assert!(why_no_input(&numbers(name, 5)).is_none(), "{name}");
        }
        for name in ["width", "paid", "humid", "keyboard"] {
            assert!(why_no_input(&numbers(name, 100)).is_none(), "{name}");
        }
    }

    #[test]
    fn few_whole_numbers_are_classes() {
        for (distinct, is_class) in [(2, true), (10, true), (11, false), (100, false)] {
            assert_eq!(are_classes(&numbers("a", distinct)), is_class, "{distinct}");
        }
        let mut halves = numbers("a", 2);
        halves.is_whole = false;
        assert!(!are_classes(&halves));
    }
}
