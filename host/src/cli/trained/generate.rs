//! `sconce generate`: text that a trained model writes.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use sconce_base::regular_file::read_regular;
use serde::Serialize;

use crate::allocator;
use crate::cli::show::output;
use crate::cli::trained::TrainedArgs;
use crate::diagnostic::Diagnostic;
use crate::exit;
use crate::generate::{GenerateError, GeneratedText, GenerationOptions, Generator, SamplingConfig};
use crate::session::{StartFailure, TaskBuilder};

/// Arguments of `sconce generate`.
#[derive(Debug, Args)]
pub(in crate::cli) struct GenerateArgs {
    #[command(flatten)]
    trained: TrainedArgs,
    /// Text to write on from; several are written on at once.
    #[arg(
        long = "prompt",
        value_name = "TEXT",
        required_unless_present = "prompts"
    )]
    prompt: Vec<String>,
    /// File with a prompt in each line.
    #[arg(long, value_name = "FILE")]
    prompts: Option<PathBuf>,
    /// Takes each prompt as a user's message, which the chat template of the model's data makes a conversation of; writes the answer
    /// alone, up to what ends it there.
    #[arg(long)]
    chat: bool,
    /// Most tokens after each prompt.
    #[arg(long, value_name = "N", default_value_t = 200)]
    tokens: usize,
    /// Divisor of the scores: below 1 likely tokens become likelier. At 0 the likeliest is always taken.
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    temperature: f64,
    /// Draws from the k likeliest tokens.
    #[arg(long, value_name = "K", default_value_t = 0, hide_default_value = true)]
    top_k: usize,
    /// Draws from the fewest likeliest tokens whose probabilities add up to this.
    #[arg(
        long,
        value_name = "P",
        default_value_t = 1.0,
        hide_default_value = true
    )]
    top_p: f64,
    /// Doesn't draw tokens that are less likely than this times the likeliest.
    #[arg(
        long,
        value_name = "P",
        default_value_t = 0.0,
        hide_default_value = true
    )]
    min_p: f64,
    /// Makes tokens less likely that have occurred; 1: as likely.
    #[arg(
        long,
        value_name = "X",
        default_value_t = 1.0,
        hide_default_value = true
    )]
    repetition_penalty: f64,
    /// Seed of the random numbers: the same seed, the same text.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Text at which to end, which is not written.
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Output format. Default: text for one prompt, as it is written; JSON lines for several.
    #[arg(long, value_enum)]
    format: Option<GenerateFormat>,
}

/// Output format of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum GenerateFormat {
    /// The prompt and what follows it.
    Text,
    /// One JSON object per prompt: `prompt`, `text`, `tokens`, `end`.
    Jsonl,
}

/// A line of JSON.
#[derive(Serialize)]
struct Line<'a> {
    prompt: &'a str,
    #[serde(flatten)]
    text: &'a GeneratedText,
}

pub(in crate::cli) fn generate(
    arguments: &GenerateArgs,
    tasks: &dyn TaskBuilder,
) -> Result<u8, StartFailure> {
    let mut options = GenerationOptions {
        tokens: arguments.tokens,
        sampling: arguments.sampling(),
        seed: arguments.seed,
        stop: arguments.stop.clone(),
    };
    options
        .sampling
        .check()
        .map_err(|error| failed(&error.into()))?;
    let prompts = arguments.all_prompts()?;
    let Some(model) = arguments.trained.model(tasks)? else {
        let problem = "text is written by a model that is complete in itself";
        let hint = "give the directory of a run, or of a checkpoint, in the manifest's place";
        return Err(usage(Diagnostic::new(problem).hint(hint)));
    };
    let _precision = model.precision().begin(model.device());
    let generator = Generator::of(&model).map_err(|error| failed(&error))?;
    let tokens = arguments.tokens_of(&prompts, &generator, &mut options.stop);
    let tokens = tokens.map_err(|error| failed(&error))?;
    allocator::keep_memory_for_steps();
    let is_shown = match arguments.format {
        Some(format) => format == GenerateFormat::Text,
        None => prompts.len() == 1,
    };
    if let ([prompt], true) = (prompts.as_slice(), is_shown) {
        if !arguments.chat {
            output::part(prompt);
        }
        let written = generator.write(&tokens, &options, |_, text| {
            output::part(text);
            output::is_open()
        });
        written.map_err(|error| failed(&error))?;
        output::part("\n");
        return Ok(exit::DONE);
    }
    let written = generator.write(&tokens, &options, |_, _| output::is_open());
    for (prompt, text) in prompts
        .iter()
        .zip(&written.map_err(|error| failed(&error))?)
    {
        if is_shown {
            let prompt = if arguments.chat { "" } else { prompt };
            output::block(&format!("{prompt}{}\n", text.text));
        } else {
            output::json_line(&Line { prompt, text });
        }
    }
    Ok(exit::DONE)
}

impl GenerateArgs {
    fn sampling(&self) -> SamplingConfig {
        SamplingConfig {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
        }
    }

    /// Tokens of the prompts; texts that end answers are added to `stop`.
    fn tokens_of(
        &self,
        prompts: &[String],
        generator: &Generator<'_>,
        stop: &mut Vec<String>,
    ) -> Result<Vec<Vec<u32>>, GenerateError> {
        let mut tokens = Vec::with_capacity(prompts.len());
        for (prompt, number) in prompts.iter().zip(1..) {
            if !self.chat {
                tokens.push(generator.tokens_of(prompt, number)?);
                continue;
            }
            let (question, end) = generator.question(prompt, number)?;
            tokens.push(question);
            stop.extend(end.filter(|end| !stop.contains(end)));
        }
        Ok(tokens)
    }

    fn all_prompts(&self) -> Result<Vec<String>, StartFailure> {
        let mut prompts = self.prompt.clone();
        if let Some(file) = &self.prompts {
            let unreadable = |reason: String| {
                let problem = format!("can't read `{}`: {reason}", file.display());
                usage(Diagnostic::new(problem))
            };
            let bytes = read_regular(file).map_err(|error| unreadable(error.to_string()))?;
            let text = String::from_utf8(bytes).map_err(|error| unreadable(error.to_string()))?;
            prompts.extend(text.lines().map(str::to_owned));
        }
        Ok(prompts)
    }
}

fn failed(error: &GenerateError) -> StartFailure {
    usage(Diagnostic::new(error.to_string()))
}

fn usage(diagnostic: Diagnostic) -> StartFailure {
    StartFailure::usage(vec![diagnostic])
}
