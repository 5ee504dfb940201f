//! Assembly of the page.

use std::fmt::Write;
use std::time::Duration;

use sconce_plugin_api::{Context, Outcome, Result, TaskFacts};
use serde_json::Value;

use crate::config::Config;
use crate::ending::Ending;
use crate::environment::Environment;
use crate::history::History;
use crate::html::{escape, escape_code, time, whole};
use crate::{curves, json, tables};

const STYLE: &str = include_str!("page.css");

/// Status of the run.
pub(crate) enum Standing<'a> {
    Running,
    Completed,
    Stopped(&'a str),
    Interrupted(&'a str),
    Failed(&'a str),
}

impl<'a> Standing<'a> {
    pub(crate) fn of(outcome: &Outcome<'a>) -> Standing<'a> {
        match *outcome {
            Outcome::Completed => Standing::Completed,
            Outcome::Stopped { reason } => Standing::Stopped(reason),
            Outcome::Interrupted { signal } => Standing::Interrupted(signal),
            Outcome::Failed { error } => Standing::Failed(error),
            _ => Standing::Stopped("the run has ended"),
        }
    }

    fn word(&self) -> &'static str {
        match self {
            Standing::Running => "running",
            Standing::Completed => "completed",
            Standing::Stopped(_) => "stopped",
            Standing::Interrupted(_) => "interrupted",
            Standing::Failed(_) => "failed",
        }
    }

    fn reason(&self) -> &str {
        match self {
            Standing::Running | Standing::Completed => "",
            Standing::Stopped(text) | Standing::Interrupted(text) | Standing::Failed(text) => text,
        }
    }

    /// Status as the text of an event.
    pub(crate) fn sentence(&self) -> String {
        match self.reason() {
            "" => self.word().to_owned(),
            reason => format!("{}: {reason}", self.word()),
        }
    }
}

/// Contents of the page.
pub(crate) struct Page<'a> {
    pub(crate) config: &'a Config,
    pub(crate) facts: &'a TaskFacts,
    pub(crate) manifest: &'a Value,
    pub(crate) environment: &'a Environment,
    pub(crate) history: &'a History,
    pub(crate) standing: &'a Standing<'a>,
    pub(crate) ending: &'a Ending,
    pub(crate) epoch: u64,
    pub(crate) epochs: u64,
    pub(crate) iteration: u64,
    pub(crate) update: u64,
    pub(crate) samples: u64,
    pub(crate) elapsed: Duration,
    pub(crate) remaining: Option<Duration>,
}

impl Page<'_> {
    /// Renders the page.
    pub(crate) fn html(&self) -> Result<String> {
        self.text().context("the page can't be put together")
    }

    fn text(&self) -> Result<String> {
        let title = escape(self.config.title.as_deref().unwrap_or(&self.facts.run));
        let mut page = String::with_capacity(64 << 10);
        write!(
            page,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{title}: {word}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n",
            word = self.standing.word(),
        )?;
        self.head(&title, &mut page)?;
        section(
            "Results",
            &tables::results(self.history, self.ending.kept.as_ref())?,
            &mut page,
        )?;
        section(
            "Curves",
            &curves::all(self.history, &self.config.logarithmic)?,
            &mut page,
        )?;
        let matrices = curves::matrices(self.history, &self.facts.classes)?;
        section("Confusion", &matrices, &mut page)?;
        let times = tables::times(self.history, self.ending.times.as_ref())?;
        section("Time", &times, &mut page)?;
        section("Events", &tables::events(self.history)?, &mut page)?;
        section("Model", &tables::model(self.facts)?, &mut page)?;
        section(
            "Environment",
            &tables::environment(self.environment)?,
            &mut page,
        )?;
        if !self.manifest.is_null() {
            let text = json::coloured(self.manifest);
            let folded = format!(
                "<details><summary>with all defaults filled in</summary><pre>{text}</pre></details>\n"
            );
            section("Manifest", &folded, &mut page)?;
        }
        page.push_str("</main>\n");
        if matches!(self.standing, Standing::Running) && self.config.refresh > 0 {
            // A page in a hidden tab is left alone; the browser keeps the scroll position.
            writeln!(
                page,
                "<script>setInterval(() => {{ if (!document.hidden) location.reload(); }}, {});</script>",
                self.config.refresh.saturating_mul(1000)
            )?;
        }
        page.push_str("</body>\n</html>\n");
        Ok(page)
    }

    fn head(&self, title: &str, page: &mut String) -> Result<()> {
        let word = self.standing.word();
        writeln!(
            page,
            "<header>\n<h1>{title} <span class=\"badge {word}\">{word}</span></h1>"
        )?;
        let reason = self.standing.reason();
        if !reason.is_empty() {
            writeln!(page, "<p class=\"reason\">{}</p>", escape_code(reason))?;
        }
        writeln!(
            page,
            "<progress max=\"{}\" value=\"{}\" aria-label=\"epochs\"></progress>\n<dl class=\"facts\">",
            self.epochs.max(1),
            self.epoch
        )?;
        let mut facts = vec![
            ("epoch", format!("{} of {}", self.epoch, self.epochs)),
            ("iterations", whole(self.iteration)),
            ("updates", whole(self.update)),
            ("samples", whole(self.samples)),
            ("time", time(self.elapsed)),
        ];
        if let (Standing::Running, Some(remaining)) = (self.standing, self.remaining) {
            facts.push(("left, about", time(remaining)));
        }
        for (name, value) in facts {
            writeln!(page, "<div><dt>{name}</dt><dd>{value}</dd></div>")?;
        }
        page.push_str("</dl>\n</header>\n");
        Ok(())
    }
}

/// Writes a section, unless its content is empty.
fn section(title: &str, content: &str, page: &mut String) -> Result<()> {
    if !content.is_empty() {
        writeln!(page, "<section>\n<h2>{title}</h2>\n{content}</section>")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use sconce_plugin_api::Phase;
    use serde_json::json;

    use super::*;
    use crate::confusion::Matrix;
    use crate::history::{Event, HookTimes, Times};

    /// A page in the middle of a run, with every part filled.
    fn sample() -> String {
        let facts = json!({"run": "a <run>", "classes": ["cat", "dog & co"], "sample_shape": [1, 28, 28],
            "modules": [{"name": "fc1", "kind": "linear"}], "parameter_count": 12_345});
        let facts: TaskFacts = serde_json::from_value(facts).expect("facts");
        let mut history = History::default();
        for epoch in 1..=7_u32 {
            let at = f64::from(epoch);
            history.add_metric(Phase::Train, "loss", at, 1.0 / at);
            history.add_metric(Phase::Val, "loss", at, 1.1 / at + 0.02 * at);
            history.add_metric(Phase::Val, "accuracy", at, 1.0 - 0.5 / at);
            history.add_rate("default", at, 0.001 / at);
            for layer in ["conv1", "fc1"] {
                for number in ["mean", "std"] {
                    let name = format!("activation/{layer}/{number}");
                    history.add_metric(Phase::Train, &name, at, 0.1 * at);
                }
            }
            history.add_metric(Phase::Val, "memory/peak", at, 100.0);
        }
        history.set_matrix(
            Phase::Val,
            Matrix {
                classes: 2,
                counts: vec![40, 2, 3, 55],
            },
        );
        history.times.push(Times {
            phase: "train".to_owned(),
            passes: 7,
            total: 10.0,
            parts: [0.5, 3.0, 0.5, 4.0, 1.0],
            hooks: vec![HookTimes {
                name: "csv".to_owned(),
                calls: 7,
                seconds: 0.2,
                longest: 0.1,
                requests: 0.3,
            }],
        });
        history.events.push(Event {
            epoch: 7,
            iteration: 700,
            seconds: 9.5,
            kind: "checkpoint".to_owned(),
            text: "`best`, 1.2 MB".to_owned(),
        });
        let page = Page {
            config: &Config::default(),
            facts: &facts,
            manifest: &json!({"name": "a <run>", "train": {"epochs": 10}}),
            environment: &Environment {
                rows: vec![("host", "sconce 0".to_owned())],
                hooks: vec![("csv".to_owned(), "csv".to_owned())],
            },
            history: &history,
            standing: &Standing::Running,
            ending: &Ending::default(),
            epoch: 7,
            epochs: 10,
            iteration: 700,
            update: 700,
            samples: 44_800,
            elapsed: Duration::from_secs(11),
            remaining: Some(Duration::from_secs(5)),
        };
        page.html().expect("a page")
    }

    #[test]
    fn everything_that_is_opened_is_closed_and_names_are_escaped() {
        let page = sample();
        for tag in [
            "main", "section", "header", "table", "tbody", "tr", "td", "th", "figure", "svg",
            "details", "dl", "div", "span", "ul", "li", "p", "pre", "script", "style", "label",
        ] {
            let opened = page.matches(&format!("<{tag}>")).count()
                + page.matches(&format!("<{tag} ")).count();
            let closed = page.matches(&format!("</{tag}>")).count();
            assert_eq!(opened, closed, "{tag}");
        }
        assert!(page.contains("<title>a &lt;run&gt;: running</title>"));
        assert!(page.contains("cat taken for dog &amp; co, 2"));
        assert!(!page.contains("a <run>"));
        assert!(page.contains("left, about"));
        // Tables are folded: two charts of two lines, and one of one.
        let (_, folded) = page
            .split_once("<summary>activation</summary>")
            .expect("a table");
        let (activation, memory) = folded
            .split_once("<summary>memory</summary>")
            .expect("another");
        assert_eq!(activation.matches("<figure").count(), 2);
        assert_eq!(activation.matches("conv1 (train)").count(), 2);
        assert!(memory.contains("peak (val)"));
    }

    #[test]
    fn a_page_of_nothing_is_a_page_too() {
        let history = History::default();
        let page = Page {
            config: &Config::default(),
            facts: &TaskFacts::default(),
            manifest: &Value::Null,
            environment: &Environment {
                rows: Vec::new(),
                hooks: Vec::new(),
            },
            history: &history,
            standing: &Standing::Failed("`x` <broke>"),
            ending: &Ending::default(),
            epoch: 0,
            epochs: 0,
            iteration: 0,
            update: 0,
            samples: 0,
            elapsed: Duration::ZERO,
            remaining: None,
        };
        let page = page.html().expect("a page");
        assert!(page.contains("<p class=\"reason\"><code>x</code> &lt;broke&gt;</p>"));
        assert!(!page.contains("<h2>Curves") && page.ends_with("</html>\n"));
    }
}
