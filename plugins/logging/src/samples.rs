//! The `samples` hook: texts that the model writes from the same prompts in each evaluation, in the log and in `samples.jsonl`.
//!
//! ```text
//! {"epoch":1,"iteration":141,"prompt":"ROMEO:","text":" What say you?","tokens":14,"end":"stop"}
//! ```
//!
//! They are written at the end of each validation, by the parameters that it uses, such as those of `ema`; in a run without
//! validation data, after each epoch. The texts depend on parameters, prompts and options alone: a resumed run writes the file that an
//! uninterrupted one writes.

use std::fmt::Write as _;
use std::path::PathBuf;

use sconce_plugin_api::moment::BetweenIterations;
use sconce_plugin_api::prelude::*;
use sconce_plugin_api::{TextRequest, WrittenText};
use serde_json::json;

/// Prompts, how tokens are chosen, and when.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Texts to write on from, at least one.
    #[schemars(length(min = 1))]
    prompts: Vec<String>,
    /// Most tokens after each prompt, at least 1. Default 200.
    #[schemars(range(min = 1, max = 1_048_576))]
    tokens: u64,
    /// Divisor of the scores, at least 0; at 0 the likeliest token is taken. Default 1.
    #[schemars(range(min = 0.0))]
    temperature: f64,
    /// Keeps the tokens whose scores are at least the k-th highest; 0: all. Default 0.
    top_k: u64,
    /// Keeps the fewest likeliest tokens whose probabilities add up to this, above 0 and at most 1. Default 1: all.
    #[schemars(range(max = 1.0), extend("exclusiveMinimum" = 0.0))]
    top_p: f64,
    /// Drops the tokens that are less likely than this times the likeliest, from 0 to 1. Default 0.
    #[schemars(range(min = 0.0, max = 1.0))]
    min_p: f64,
    /// Divides positive scores of tokens that have occurred, and multiplies negative ones; above 0. Default 1: no penalty.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    repetition_penalty: f64,
    /// Seed of the random numbers, the same in each evaluation. Default 0.
    seed: u64,
    /// Texts at which to end, which are not written. Default: none.
    stop: Vec<String>,
    /// In every n-th evaluation, at least 1, beginning with the first. Default 1.
    #[schemars(range(min = 1))]
    every: u64,
    /// The file, under the run's directory. Default `samples.jsonl`.
    file: PathBuf,
    /// Also show the texts among the run's messages. Default true.
    show: bool,
}

impl Default for Config {
    fn default() -> Self {
        let TextRequest {
            prompts,
            tokens,
            temperature,
            top_k,
            top_p,
            min_p,
            repetition_penalty,
            seed,
            stop,
        } = TextRequest::default();
        Config {
            prompts,
            tokens,
            temperature,
            top_k,
            top_p,
            min_p,
            repetition_penalty,
            seed,
            stop,
            every: 1,
            file: "samples.jsonl".into(),
            show: true,
        }
    }
}

/// What has been done, for a checkpoint.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Done {
    /// Evaluations so far.
    evaluations: u64,
    /// Iteration of the last one: of several data sets in a validation, the first counts.
    last: Option<u64>,
}

/// See the [module](self).
pub(crate) struct Samples {
    request: TextRequest,
    every: u64,
    shows: bool,
    /// Whether the run has no validations, at whose ends texts are written otherwise.
    is_by_epoch: bool,
    lines: LogFile,
    done: Done,
}

#[hook(
    name = "samples",
    about = "Has the model write text from the same prompts in each evaluation.",
    priority = LOW,
    requires = ["sconce.requests/1", "sconce.values/1"],
    state = [done, lines],
    asks = generate
)]
impl Hook for Samples {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        if config.prompts.is_empty() {
            bail!(
                "`prompts` is empty: give texts to write on from, as in \"prompts\": [\"ROMEO:\"]"
            );
        }
        if let Some(number) = config.prompts.iter().position(String::is_empty) {
            bail!("`prompts[{number}]` is empty: the model needs a token to begin with");
        }
        let plan = setup.plan()?;
        if let Some(plan) = &plan
            && !plan.why_no_text.is_empty()
        {
            bail!("{}", plan.why_no_text);
        }
        let lines = LogFile::new(setup.path_below("file", &config.file)?);
        Ok(Samples {
            is_by_epoch: plan.is_some_and(|plan| plan.phase(Phase::Val).is_none()),
            every: config.every.max(1),
            shows: config.show,
            lines,
            done: Done::default(),
            request: TextRequest {
                prompts: config.prompts,
                tokens: config.tokens,
                temperature: config.temperature,
                top_k: config.top_k,
                top_p: config.top_p,
                min_p: config.min_p,
                repetition_penalty: config.repetition_penalty,
                seed: config.seed,
                stop: config.stop,
            },
        })
    }

    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        // Prompts and options are checked before hours of training.
        let nothing = TextRequest {
            tokens: 0,
            ..self.request.clone()
        };
        task.generate(&nothing).map(drop)
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        if task.phase() == Phase::Val {
            self.sample(task)?;
        }
        Ok(())
    }

    fn after_cycle(&mut self, task: &mut AfterCycle<'_>) -> Result<()> {
        if self.is_by_epoch {
            self.sample(task)?;
        }
        Ok(())
    }
}

impl Samples {
    /// Has the model write, if it is due.
    fn sample(&mut self, task: &mut At<'_, impl BetweenIterations>) -> Result<()> {
        let iteration = task.iteration();
        if self.done.last.replace(iteration) == Some(iteration) {
            return Ok(());
        }
        let is_due = self.done.evaluations.is_multiple_of(self.every);
        self.done.evaluations += 1;
        if !is_due {
            return Ok(());
        }
        let texts = task.generate(&self.request)?;
        let mut lines = String::new();
        for (prompt, written) in self.request.prompts.iter().zip(&texts) {
            let WrittenText { text, tokens, end } = written;
            let line = json!({
                "epoch": task.epoch(), "iteration": iteration, "prompt": prompt, "text": text, "tokens": tokens, "end": end,
            });
            writeln!(lines, "{line}")?;
            if self.shows {
                task.info(on_one_line(&format!("{prompt}{text}")));
            }
        }
        self.lines.write(lines)
    }
}

/// The text with control characters, such as ends of lines, as escapes.
fn on_one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, ScriptedRun};

    use super::*;

    fn line(epoch: u64, iteration: u64, prompt: &str, text: &str) -> String {
        let (tokens, end) = (text.len(), "stop");
        format!(
            "{{\"end\":\"{end}\",\"epoch\":{epoch},\"iteration\":{iteration},\"prompt\":\"{prompt}\",\"text\":\"{text}\",\"tokens\":{tokens}}}\n"
        )
    }

    #[test]
    fn texts_are_written_in_each_validation() -> std::result::Result<(), Failed> {
        let config = json!({"prompts": ["abc", "no"], "every": 2});
        let seen = ScriptedRun::new().epochs(3).drive::<Samples>(config)?;
        let expected = [
            line(1, 4, "abc", "cba"),
            line(1, 4, "no", "on"),
            line(3, 12, "abc", "cba"),
            line(3, 12, "no", "on"),
        ];
        assert_eq!(seen.file("samples.jsonl").unwrap(), expected.concat());
        Ok(())
    }

    #[test]
    fn without_validations_they_are_written_after_each_epoch() -> std::result::Result<(), Failed> {
        let run = || ScriptedRun::new().epochs(2).validation(0);
        let config = || json!({"prompts": ["abc"], "file": "texts.jsonl", "show": false});
        let seen = run().drive::<Samples>(config())?;
        let expected = line(1, 4, "abc", "cba") + &line(2, 8, "abc", "cba");
        assert_eq!(seen.file("texts.jsonl").unwrap(), expected);
        let resumed = run().interrupt_after(6).drive::<Samples>(config())?;
        assert_eq!(resumed.file("texts.jsonl").unwrap(), expected);
        Ok(())
    }

    #[test]
    fn what_cant_be_written_from_is_refused() {
        for (config, words) in [
            (json!({}), "`prompts`"),
            (json!({"prompts": []}), "prompts must have at least 1"),
            (json!({"prompts": ["a", ""]}), "`prompts[1]` is empty"),
        ] {
            let failed = ScriptedRun::new().drive::<Samples>(config);
            let told = failed.expect_err("it is refused").to_string();
            assert!(told.contains(words), "{told}");
        }
    }

    #[test]
    fn ends_of_lines_are_shown_as_escapes() {
        assert_eq!(on_one_line("a\nb\té"), "a\\nb\\té");
    }
}
