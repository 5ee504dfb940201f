//! The tables of options in `docs/hooks-*.md` are what the hooks' schemas say, and where each hook runs what its metadata says.
//!
//! `UPDATE_EXPECT=1 cargo test -p sconce-tests --test it hook_docs` rewrites them.

use std::fmt::Write;
use std::fs;

use sconce::plugin::library::Library;
use sconce_tests::generated::assert_file;
use sconce_tests::{artifacts, workspace};
use serde_json::Value;

/// Each page, and the packages of the hooks that are on it.
const PAGES: &[(&str, &str)] = &[
    (
        "docs/hooks-logging.md",
        "sconce-plugin-console sconce-plugin-csv sconce-plugin-logging",
    ),
    ("docs/hooks-tracking.md", "sconce-plugin-tracking"),
    ("docs/hooks-optimisation.md", "sconce-plugin-optimisation"),
    ("docs/hooks-checkpoints.md", "sconce-plugin-checkpoints"),
    ("docs/hooks-control.md", "sconce-plugin-control"),
    ("docs/hooks-debugging.md", "sconce-plugin-debugging"),
    ("docs/hooks-models.md", "sconce-plugin-models"),
    ("docs/hooks-metrics.md", "sconce-plugin-metrics"),
    ("docs/hooks-profiling.md", "sconce-plugin-profiling"),
    ("docs/hooks-report.md", "sconce-plugin-report"),
    ("docs/self-supervision.md", "sconce-plugin-self-supervised"),
    ("docs/hooks-in-python.md", "sconce-plugin-python"),
];

/// What a schema leads to, past references and "or null".
fn resolved<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    if let Some(name) = schema["$ref"].as_str() {
        let pointer = name.trim_start_matches('#');
        return resolved(
            root.pointer(pointer)
                .expect("the reference leads somewhere"),
            root,
        );
    }
    let alternatives = schema["anyOf"].as_array();
    let other = alternatives.and_then(|all| all.iter().find(|one| one["type"] != "null"));
    other.map_or(schema, |other| resolved(other, root))
}

fn text(description: &Value) -> String {
    let text = description.as_str().unwrap_or_default().replace('|', "\\|");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The kinds of a schema for objects that a `kind` tells apart.
fn kinds(schema: &Value) -> Vec<(&str, &Value)> {
    let alternatives = schema["oneOf"].as_array().into_iter().flatten();
    let kind = |one: &'_ Value| one["properties"]["kind"]["const"].is_string();
    alternatives
        .filter(|one| kind(one))
        .filter_map(|one| Some((one["properties"]["kind"]["const"].as_str()?, one)))
        .collect()
}

/// What can be written there, for people.
fn values(schema: &Value, root: &Value) -> String {
    let schema = resolved(schema, root);
    let mut constants: Vec<String> = Vec::new();
    for one in schema["oneOf"].as_array().into_iter().flatten() {
        let listed = one["enum"].as_array().into_iter().flatten();
        let all = listed.chain(one.get("const")).filter_map(Value::as_str);
        constants.extend(all.map(|text| format!("`{text}`")));
    }
    let listed = schema["enum"].as_array().into_iter().flatten();
    constants.extend(
        listed
            .filter_map(Value::as_str)
            .map(|text| format!("`{text}`")),
    );
    if !constants.is_empty() {
        return constants.join(", ");
    }
    let kind = match &schema["type"] {
        Value::Array(types) => types.iter().find(|kind| *kind != "null"),
        other => Some(other),
    };
    match kind.and_then(Value::as_str) {
        Some("array") => format!("list of {}", values(&schema["items"], root)),
        Some("string") if schema["format"] == "metric" => "metric".to_owned(),
        Some("string") => "text".to_owned(),
        Some("boolean") => "true or false".to_owned(),
        Some("integer") => format!("whole number{}", range(schema)),
        Some("number") => format!("number{}", range(schema)),
        _ => "object".to_owned(),
    }
}

fn range(schema: &Value) -> String {
    let bound = |key: &str| schema[key].as_f64();
    let (least, most) = (bound("minimum"), bound("maximum"));
    match (least, most, bound("exclusiveMinimum")) {
        (Some(least), Some(most), _) => format!(" from {least} to {most}"),
        (_, _, Some(above)) => format!(" above {above}"),
        (Some(least), None, _) => format!(", at least {least}"),
        _ => String::new(),
    }
}

fn rows(path: &str, schema: &Value, root: &Value, table: &mut String) {
    let schema = resolved(schema, root);
    if schema["type"] == "array" {
        return rows(&format!("{path}[]"), &schema["items"], root, table);
    }
    let joined = |name: &str| {
        let dot = if path.is_empty() { "" } else { "." };
        format!("{path}{dot}{name}")
    };
    for (kind, variant) in kinds(schema) {
        let description = text(&variant["description"]);
        let place = joined("kind");
        let _ = writeln!(table, "| `{place}` | `{kind}` | {description} |");
        // A kind of its own type has its keys there.
        let keys = if variant.get("$ref").is_some() {
            resolved(variant, root)
        } else {
            variant
        };
        properties(&keys["properties"], &joined, root, table, true);
    }
    properties(&schema["properties"], &joined, root, table, false);
}

fn properties(
    all: &Value,
    joined: &dyn Fn(&str) -> String,
    root: &Value,
    table: &mut String,
    is_kind: bool,
) {
    for (name, property) in all.as_object().into_iter().flatten() {
        if is_kind && name == "kind" {
            continue;
        }
        let place = joined(name);
        let values = values(property, root);
        let description = text(&property["description"]);
        let _ = writeln!(table, "| `{place}` | {values} | {description} |");
        let inner = resolved(property, root);
        if inner["type"] == "array" || inner.get("properties").is_some() || !kinds(inner).is_empty()
        {
            rows(&place, property, root, table);
        }
    }
}

/// The hooks of some packages together.
fn described(packages: &str) -> Value {
    let mut hooks = Vec::new();
    for package in packages.split_whitespace() {
        let library = Library::open(&artifacts().plugin(package)).expect("it can be opened");
        let description = library.describe().expect("it says what it has");
        hooks.extend(
            description["hooks"]
                .as_array()
                .into_iter()
                .flatten()
                .cloned(),
        );
    }
    serde_json::json!({"hooks": hooks})
}

fn table(hook: &str, description: &Value) -> String {
    let mut hooks = description["hooks"].as_array().expect("hooks").iter();
    let found = hooks.find(|known| known["name"] == hook);
    let found = found.unwrap_or_else(|| panic!("no hook `{hook}`"));
    let schema = &found["config_schema"];
    let ranks = ranks(found);
    let mut table = format!("Runs on [{ranks}](many-machines.md#hooks).\n\n");
    table += "| option | values | meaning |\n|---|---|---|\n";
    rows("", schema, schema, &mut table);
    table
}

#[test]
fn the_tables_of_options_are_those_of_the_schemas() {
    for &(page, packages) in PAGES {
        let path = workspace().join(page);
        let description = described(packages);
        let written = fs::read_to_string(&path).expect("the page");
        let mut expected = String::new();
        let mut rest = written.as_str();
        let mut documented = 0;
        while let Some((before, behind)) = rest.split_once("<!-- options of ") {
            let (hook, behind) = behind.split_once(" -->\n").expect("the mark ends");
            let (_, behind) = behind.split_once("<!-- end -->").expect("the table ends");
            let table = table(hook, &description);
            let _ = write!(
                expected,
                "{before}<!-- options of {hook} -->\n{table}<!-- end -->"
            );
            rest = behind;
            documented += 1;
        }
        expected.push_str(rest);
        let hooks = description["hooks"].as_array().expect("hooks").len();
        assert!(hooks > 0, "{packages} have hooks");
        assert_eq!(documented, hooks, "every hook of {packages} is in {page}");
        assert_file(path, &expected);
    }
}

/// Where a hook runs if several processes train together, for people.
fn ranks(hook: &Value) -> &'static str {
    match hook["ranks"].as_str() {
        Some("all") => "all ranks",
        _ => "the first rank",
    }
}

#[test]
fn the_page_of_many_machines_says_where_each_standard_hook_runs() {
    let page = fs::read_to_string(workspace().join("docs/many-machines.md")).expect("the page");
    let (_, table) = page
        .split_once("### The standard hooks")
        .expect("the table's heading");
    let (table, _) = table.split_once("\n### ").expect("the next heading");
    let rows = table.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split('|');
        let name = cells.next()?.trim().trim_end_matches('`');
        Some((name.to_owned(), cells.next()?.trim().to_owned()))
    });
    let mut expected = Vec::new();
    for (_, packages) in PAGES {
        let packages = format!("{packages} sconce-plugin-stop-after");
        for hook in described(&packages)["hooks"].as_array().expect("hooks") {
            let name = hook["name"].as_str().expect("a name");
            expected.push((name.to_owned(), ranks(hook).to_owned()));
        }
    }
    expected.sort();
    expected.dedup();
    assert!(expected.len() > 40, "{expected:?}");
    assert_eq!(rows.collect::<Vec<_>>(), expected);
}

/// The names in backquotes in a text.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn the_overview_names_the_standard_hooks_and_no_others() {
    let mut expected = Vec::new();
    for (page, packages) in PAGES {
        let packages = match *page {
            "docs/hooks-control.md" => format!("{packages} sconce-plugin-stop-after"),
            _ => (*packages).to_owned(),
        };
        for hook in described(&packages)["hooks"].as_array().expect("hooks") {
            let name = hook["name"].as_str().expect("a name");
            expected.push(((*page).to_owned(), name.to_owned()));
        }
    }
    let overview = fs::read_to_string(workspace().join("docs/hooks.md")).expect("the page");
    let groups = overview.lines().filter(|line| line.contains("[`docs/"));
    let mut named = Vec::new();
    for group in groups {
        let mut all: Vec<&str> = quoted(group).collect();
        let page = all.pop().expect("a page");
        named.extend(
            all.into_iter()
                .map(|hook| (page.to_owned(), hook.to_owned())),
        );
    }
    expected.sort();
    named.sort();
    assert_eq!(named, expected, "docs/hooks.md");
}
