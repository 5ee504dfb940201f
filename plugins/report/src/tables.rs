//! The page's tables.

use std::fmt::Write;

use sconce_plugin_api::{Result, Rule, TaskFacts};

use crate::ending::{Kept, WholeTimes};
use crate::environment::Environment;
use crate::history::{History, Times};
use crate::html::{escape, escape_code, number, seconds, whole};

/// The values of each metric: of the weights that are kept, if the run has ended, the last and the best one.
pub(crate) fn results(history: &History, kept: Option<&Kept>) -> Result<String> {
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
            (number(value), format!("{rule}, epoch {}", number(at)))
        } else {
            let (least, greatest) = (number(summary.least), number(summary.greatest));
            ("–".to_owned(), format!("from {least} to {greatest}"))
        };
        let own = kept.map_or_else(String::new, |kept| {
            let value = kept.metric(&curve.phase, &curve.name);
            let value = value.map_or_else(|| "–".to_owned(), number);
            format!("<td class=\"n\"><strong>{value}</strong></td>")
        });
        writeln!(
            rows,
            "<tr><td>{}</td><td>{}</td>{own}<td class=\"n\">{}</td><td class=\"n\">{best}</td>\
             <td>{which}</td></tr>",
            escape(&curve.name),
            escape(&curve.phase),
            number(summary.last),
        )?;
    }
    let mut columns = vec!["metric", "phase", ">last", ">best", "which"];
    let mut text = String::new();
    if let Some(kept) = kept {
        columns.insert(2, ">kept");
        let words = if kept.differs {
            format!("The weights that are kept: {}.", kept.words)
        } else {
            format!(
                "The weights that are kept are the last ones, of {}.",
                kept.words
            )
        };
        writeln!(text, "<p>{}</p>", escape_code(&words))?;
    }
    text.push_str(&table(&columns, &rows));
    if !folded.is_empty() {
        text.push_str("<details><summary>numbers of tables</summary>\n");
        text.push_str(&table(&columns, &folded));
        text.push_str("</details>\n");
    }
    Ok(text)
}

const PARTS: [&str; 5] = ["data", "forward", "loss", "backward", "update"];

/// How the time was spent: all of it, if the run has ended, by phase and by hook.
pub(crate) fn times(history: &History, run: Option<&WholeTimes>) -> Result<String> {
    let mut text = String::new();
    if let Some(run) = run {
        let title = format!("until the end of training: {}", seconds(run.seconds));
        text.push_str(&bar(&title, &run.parts())?);
    }
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
        text.push_str("<details><summary>hooks in passes</summary>\n");
        text.push_str(&table(&columns, &rows));
        text.push_str("</details>\n");
    }
    text.push_str(&outside(history, run)?);
    Ok(text)
}

/// Time of hooks outside of passes, with the requests that the host has served for them.
fn outside(history: &History, run: Option<&WholeTimes>) -> Result<String> {
    let mut rows = String::new();
    if let Some(run) = run {
        for hook in &run.hooks {
            let name = if hook.name.is_empty() {
                "(the host)"
            } else {
                &hook.name
            };
            writeln!(
                rows,
                "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
                 <td class=\"n\">{}</td></tr>",
                escape(name),
                whole(hook.calls),
                seconds(hook.seconds),
                whole(hook.requests),
                seconds(hook.serving),
            )?;
        }
        let columns = ["hook", ">calls", ">together", ">requests", ">serving them"];
        return Ok(folded("hooks outside of passes", &table(&columns, &rows)));
    }
    let mut served: Vec<(&str, f64)> = Vec::new();
    for hook in history.times.iter().flat_map(|times| &times.hooks) {
        match served.iter_mut().find(|(name, _)| *name == hook.name) {
            Some((_, sum)) => *sum += hook.requests,
            None => served.push((&hook.name, hook.requests)),
        }
    }
    for (name, sum) in served.into_iter().filter(|(_, sum)| *sum > 0.0) {
        writeln!(
            rows,
            "<tr><td>{}</td><td class=\"n\">{}</td></tr>",
            escape(name),
            seconds(sum)
        )?;
    }
    Ok(folded(
        "requests of hooks",
        &table(&["hook", ">serving them"], &rows),
    ))
}

/// Content that a reader may unfold, if there is any.
fn folded(title: &str, content: &str) -> String {
    if content.is_empty() {
        return String::new();
    }
    format!("<details><summary>{title}</summary>\n{content}</details>\n")
}

/// A bar showing the parts of a phase's time.
fn parts(times: &Times, text: &mut String) -> Result<()> {
    let hooks: f64 = times.hooks.iter().map(|hook| hook.seconds).sum();
    let known: f64 = times.parts.iter().sum::<f64>() + hooks;
    let total = times.total.max(known);
    let named = PARTS.iter().zip(times.parts);
    let named = named.map(|(name, part)| (*name, part));
    let all: Vec<_> = named
        .chain([("hooks", hooks), ("the loop", total - known)])
        .collect();
    let passes = if times.passes == 1 { "pass" } else { "passes" };
    let title = format!(
        "{}: {} in {} {passes}",
        escape(&times.phase),
        seconds(times.total),
        whole(times.passes)
    );
    text.push_str(&bar(&title, &all)?);
    Ok(())
}

/// A bar of parts, with a title and a legend.
fn bar(title: &str, parts: &[(&str, f64)]) -> Result<String> {
    let total: f64 = parts.iter().map(|(_, part)| part).sum();
    let (mut bar, mut legend) = (String::new(), String::new());
    for (index, (name, part)) in parts.iter().enumerate() {
        let share = 100.0 * part / total.max(f64::MIN_POSITIVE);
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
            seconds(*part)
        )?;
    }
    Ok(format!(
        "<div class=\"time\">\n<h3>{title}</h3>\n<div class=\"bar\">{bar}</div>\n\
         <ul class=\"legend\">{legend}</ul>\n</div>\n"
    ))
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
