//! What `#[hook]` finds in a block's text, and that its tables name every method of the authors' view that asks or reads.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    dead_code,
    reason = "a test may say that its sources are broken by panicking; the modules are the macros', used in part"
)]

#[path = "../src/points.rs"]
mod points;
#[path = "../src/uses.rs"]
mod uses;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use quote::ToTokens;
use syn::{ImplItem, Item, ItemImpl, Visibility};

use uses::Uses;

fn source(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../src")
        .join(path);
    fs::read_to_string(path).expect("a source of sconce-plugin-api")
}

/// Variants of an enum and their names, as its `name` gives them.
fn names(path: &str, kind: &str) -> BTreeMap<String, String> {
    let text = source(path);
    let rows = text.lines().filter_map(|line| {
        let (variant, name) = line.trim().split_once(" => \"")?;
        let name = name.strip_suffix("\",")?;
        Some((variant.strip_prefix(kind)?.to_owned(), name.to_owned()))
    });
    rows.collect()
}

/// Requests that no metadata list: `Request::is_listed`.
const NOT_LISTED: [&str; 7] = [
    "swap_back",
    "listen_at_modules",
    "leave_out_point",
    "declare_metric",
    "declare_asks",
    "declare_reads",
    "select_modules",
];

#[test]
fn the_attribute_knows_all_names() {
    let requests = names("ext/requests/mod.rs", "Request::");
    let listed = requests.values().map(String::as_str);
    let listed: BTreeSet<&str> = listed.filter(|name| !NOT_LISTED.contains(name)).collect();
    assert_eq!(uses::requests(), listed);
    let parts = names("ext/requests/readable.rs", "Readable::");
    assert_eq!(uses::parts(), parts.values().map(String::as_str).collect());
}

/// Public methods of the view that make a request or take something of the loop, by what their bodies say.
fn of_view() -> Vec<(String, Uses)> {
    let requests = names("ext/requests/mod.rs", "Request::");
    let view = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src/view");
    let mut found = Vec::new();
    for entry in fs::read_dir(view).expect("a folder") {
        let path = entry.expect("an entry").path();
        // What comes with mount points, and passes whose collection the author names.
        if ["module.rs", "vectors.rs"]
            .iter()
            .any(|name| path.ends_with(name))
        {
            continue;
        }
        let file =
            syn::parse_file(&fs::read_to_string(path).expect("a source")).expect("it is Rust");
        for item in file.items {
            let Item::Impl(block) = item else { continue };
            found.extend(methods(&block, &requests));
        }
    }
    found
}

fn methods(block: &ItemImpl, requests: &BTreeMap<String, String>) -> Vec<(String, Uses)> {
    let functions = block.items.iter().filter_map(|item| match item {
        ImplItem::Fn(function) if matches!(function.vis, Visibility::Public(_)) => Some(function),
        _ => None,
    });
    let with_uses = functions.map(|function| {
        let body = function.block.to_token_stream().to_string();
        let mut uses = Uses::default();
        for after in body.split("Request :: ").skip(1) {
            let variant = after.split(|c: char| !c.is_alphanumeric()).next().unwrap();
            let name = requests[variant].as_str();
            if !NOT_LISTED.contains(&name) {
                uses.asks.insert(Box::leak(name.into()));
            }
        }
        for after in body.split("Collection :: ").skip(1) {
            uses.reads.extend(part(after));
        }
        if body.contains("gather_equal") || body.contains("self . gather (") {
            uses.reads.insert("ranks");
        }
        if body.contains("host . device") || body.contains("self . lend (") {
            uses.reads.insert("device");
        }
        for (field, name) in [("abi . learning_rate", "groups"), ("abi . loss", "loss")] {
            uses.reads.extend(body.contains(field).then_some(name));
        }
        (function.sig.ident.to_string(), uses)
    });
    let with_uses = with_uses.filter(|(_, uses)| !uses.asks.is_empty() || !uses.reads.is_empty());
    with_uses.collect()
}

/// What is read by a body that goes on with this text after `Collection ::`.
fn part(text: &str) -> Option<&'static str> {
    let tensor = text.split('"').nth(1).unwrap_or_default();
    match text.split(|c: char| !c.is_alphanumeric()).next()? {
        "Parameters" => Some("parameters"),
        "Gradients" => Some("gradients"),
        "Optimizer" => Some("optimizer"),
        "Batch" => Some(match tensor {
            "inputs" => "inputs",
            "targets" => "targets",
            "indices" => "sample_indices",
            "outputs" => "outputs",
            _ => "batch",
        }),
        _ => None,
    }
}

/// What is found in a hook whose `after_iter` has this body.
fn found(body: &str) -> Uses {
    let block = format!(
        "impl Hook for X {{ fn after_iter(&mut self, task: &mut AfterIter<'_>, module: &Module<'_>) -> Result<()> {{ {body} }} }}"
    );
    Uses::of(&syn::parse_str(&block).expect("it is Rust"))
}

#[test]
fn every_method_of_the_view_that_asks_or_reads_is_found() {
    let methods = of_view();
    assert!(methods.len() > 30, "{}", methods.len());
    for (method, expected) in methods {
        let is_of_checkpoint = [
            "save",
            "load_parameters",
            "roll_back",
            "delete",
            "copy_to",
            "publish",
        ];
        let body = match &*method {
            "save" => "if a { task.checkpoint(tag).save() } else { task.checkpoint(tag).in_background().save() }".to_owned(),
            other if is_of_checkpoint.contains(&other) => format!("task.checkpoint(tag).{other}()"),
            other => format!("task.{other}()"),
        };
        let uses = found(&body);
        assert_eq!(uses.asks, expected.asks, "{method}");
        assert_eq!(uses.reads, expected.reads, "{method}");
    }
}

#[test]
fn calls_are_found_wherever_they_are() {
    for (body, asks, reads) in [
        ("task.stop(\"x\")", vec!["stop"], vec![]),
        (
            "if let Some(mut t) = task.in_training() { t.skip_update()?; }",
            vec!["skip_update"],
            vec![],
        ),
        (
            "self.rule.follow(|| task.validate_now())",
            vec!["validate"],
            vec![],
        ),
        (
            "info!(task, \"{}\", task.loss().unwrap_or(0.0))",
            vec![],
            vec!["loss"],
        ),
        (
            "task.ranks().gather_values::<u64>(&1)",
            vec![],
            vec!["ranks"],
        ),
        (
            "task.checkpoint(&self.tag()).parameters_only().in_background().save()",
            vec!["save_in_background"],
            vec![],
        ),
        (
            "task.tensors(Collection::Gradients).count()",
            vec![],
            vec!["gradients"],
        ),
        (
            "(task).set_momentum(Groups::All, task.learning_rate())",
            vec!["set_momentum"],
            vec!["groups"],
        ),
        (
            "let tag = task.checkpoint(\"a\").delete()?; self.b.publish(task)",
            vec!["delete_checkpoint"],
            vec![],
        ),
        ("module.parameters().count()", vec![], vec!["parameters"]),
        // None of these are the view's.
        (
            "self.losses.loss(); self.0.stop(task); self.stop = 1; module.outputs()",
            vec![],
            vec![],
        ),
        (
            "task.publish(\"a\", &1, Keep::Run)?; task.retract(\"a\")",
            vec![],
            vec![],
        ),
        (
            "// task.stop()\n let loss = \"task.stop()\";",
            vec![],
            vec![],
        ),
    ] {
        let uses = found(body);
        assert_eq!(uses.asks.into_iter().collect::<Vec<_>>(), asks, "{body}");
        assert_eq!(uses.reads.into_iter().collect::<Vec<_>>(), reads, "{body}");
    }
}

#[test]
fn what_is_not_at_a_mount_point_is_not_looked_at() {
    let block = "impl Hook for X { fn new(config: Config, setup: &Setup<'_>) -> Result<Self> { config.loss() } }";
    let uses = Uses::of(&syn::parse_str(block).expect("it is Rust"));
    assert!(uses.asks.is_empty() && uses.reads.is_empty());
}
