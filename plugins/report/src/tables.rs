//! The page's tables.

use std::fmt::Write;

use sconce_plugin_api::{Result, Rule, TaskFacts};

use crate::environment::Environment;
use crate::history::{History, Times};
use crate::html::{escape, escape_code, number, seconds, whole};

/// The last and best values of each metric.
pub(crate) fn results(history: &History) -> Result<String> {
    let (mut rows, mut folded) = (String::new(), String::new());
    for curve in &history.metrics {
        let rows = if curve.is_of_table() {
            &mut folded
        } else {
            &mut rows
        };
        let Some(summary) = curve.summary() else {
            continue;
        };
        let (best, which) = if let Some((value, at, rule)) = summary.best {
            let rule = match rule {
                Rule::Greater => "greatest",
                Rule::Less => "least",
            };
            let best = format!("<strong>{}</strong>", number(value));
            (best, format!("{rule}, epoch {}", number(at)))
        } else {
            let (least, greatest) = (number(summary.least), number(summary.greatest));
            ("–".to_owned(), format!("from {least} to {greatest}"))
        };
        writeln!(
            rows,
            "<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{best}</td>\
             <td>{which}</td></tr>",
            escape(&curve.name),
            escape(&curve.phase),
            number(summary.last),
        )?;
    }
    let columns = ["metric", "phase", ">last", ">best", "which"];
    let mut text = table(&columns, &rows);
    if !folded.is_empty() {
        text.push_str("<details><summary>numbers of tables</summary>\n");
        text.push_str(&table(&columns, &folded));
        text.push_str("</details>\n");
    }
    Ok(text)
}

const PARTS: [&str; 5] = ["data", "forward", "loss", "backward", "update"];

/// How the time was spent, by phase and by hook.
pub(crate) fn times(history: &History) -> Result<String> {
    let mut text = String::new();
    for times in &history.times {
        parts(times, &mut text)?;
    }
    let mut rows = String::new();
    for times in &history.times {
        let mut hooks: Vec<_> = times.hooks.iter().filter(|hook| hook.calls > 0).collect();
        hooks.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        for hook in hooks {
            writeln!(
                rows,
                "<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
                 <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{:.2} %</td></tr>",
                escape(&hook.name),
                escape(&times.phase),
                whole(hook.calls),
                seconds(hook.seconds),
                seconds(hook.seconds / hook.calls as f64),
                seconds(hook.longest),
                100.0 * hook.seconds / times.total.max(f64::MIN_POSITIVE),
            )?;
        }
    }
    if !rows.is_empty() {
        let columns = [
            "hook",
            "phase",
            ">calls",
            ">together",
            ">each",
            ">longest",
            ">share",
        ];
        text.push_str("<details><summary>by hook</summary>\n");
        text.push_str(&table(&columns, &rows));
        text.push_str("</details>\n");
    }
    Ok(text)
}

/// A bar showing the parts of a phase's time.
fn parts(times: &Times, text: &mut String) -> Result<()> {
    let hooks: f64 = times.hooks.iter().map(|hook| hook.seconds).sum();
    let known: f64 = times.parts.iter().sum::<f64>() + hooks;
    let total = times.total.max(known).max(f64::MIN_POSITIVE);
    let named = PARTS.iter().zip(times.parts);
    let named = named.map(|(name, part)| (*name, part));
    let all = named.chain([("hooks", hooks), ("the loop", total - known)]);
    let (mut bar, mut legend) = (String::new(), String::new());
    for (index, (name, part)) in all.enumerate() {
        let share = 100.0 * part / total;
        if share < 0.05 {
            continue;
        }
        write!(
            bar,
            "<span class=\"p{index}\" style=\"width:{share:.2}%\"></span>"
        )?;
        write!(
            legend,
            "<li><span class=\"p{index}\"></span>{name} {} ({share:.1} %)</li>",
            seconds(part)
        )?;
    }
    let passes = if times.passes == 1 { "pass" } else { "passes" };
    writeln!(
        text,
        "<h3>{}: {} in {} {passes}</h3>\n<div class=\"bar\">{bar}</div>\n<ul class=\"legend\">{legend}</ul>",
        escape(&times.phase),
        seconds(times.total),
        whole(times.passes),
    )?;
    Ok(())
}

/// The events, newest first.
pub(crate) fn events(history: &History) -> Result<String> {
    let mut rows = String::new();
    for event in history.events.iter().rev() {
        let kind = escape(&event.kind);
        writeln!(
            rows,
            "<tr><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td><span class=\"event {kind}\">{kind}</span></td><td>{}</td></tr>",
            seconds(event.seconds),
            whole(event.epoch),
            whole(event.iteration),
            escape_code(&event.text),
        )?;
    }
    Ok(table(
        &[">after", ">epoch", ">iteration", "what", "more"],
        &rows,
    ))
}

/// The model's size and its modules.
pub(crate) fn model(facts: &TaskFacts) -> Result<String> {
    let shape: Vec<String> = facts.sample_shape.iter().map(ToString::to_string).collect();
    let mut rows = Vec::new();
    rows.push(("learned numbers", whole(facts.parameter_count)));
    if !shape.is_empty() {
        rows.push(("a sample's shape", shape.join(" × ")));
    }
    if !facts.classes.is_empty() {
        let names: Vec<String> = facts.classes.iter().map(|name| escape(name)).collect();
        rows.push(("classes", names.join(", ")));
    }
    let mut text = pairs(&rows)?;
    let mut modules = String::new();
    for module in &facts.modules {
        writeln!(
            modules,
            "<tr><td><code>{}</code></td><td>{}</td></tr>",
            escape(&module.name),
            escape(&module.kind)
        )?;
    }
    if !modules.is_empty() {
        text.push_str("<details><summary>modules</summary>\n");
        text.push_str(&table(&["name", "kind"], &modules));
        text.push_str("</details>\n");
    }
    Ok(text)
}

/// The machine, versions and hooks.
pub(crate) fn environment(environment: &Environment) -> Result<String> {
    let rows = environment.rows.iter();
    let rows: Vec<(&str, String)> = rows.map(|(name, value)| (*name, escape(value))).collect();
    let mut text = pairs(&rows)?;
    let mut hooks = String::new();
    for (name, kind) in &environment.hooks {
        writeln!(
            hooks,
            "<tr><td>{}</td><td>{}</td></tr>",
            escape(name),
            escape(kind)
        )?;
    }
    if !hooks.is_empty() {
        text.push_str("<details><summary>hooks</summary>\n");
        text.push_str(&table(&["name", "hook"], &hooks));
        text.push_str("</details>\n");
    }
    Ok(text)
}

fn pairs(rows: &[(&str, String)]) -> Result<String> {
    let mut text = String::from("<table class=\"pairs\">\n");
    for (name, value) in rows {
        writeln!(
            text,
            "<tr><th scope=\"row\">{name}</th><td>{value}</td></tr>"
        )?;
    }
    text.push_str("</table>\n");
    Ok(text)
}

/// A table; `>` before a column's name aligns it to the right. Empty if there are no rows.
fn table(columns: &[&str], rows: &str) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let heads = columns.iter().map(|column| match column.strip_prefix('>') {
        Some(name) => format!("<th scope=\"col\" class=\"n\">{name}</th>"),
        None => format!("<th scope=\"col\">{column}</th>"),
    });
    let heads: String = heads.collect();
    format!(
        "<div class=\"wide\"><table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n"
    )
}
