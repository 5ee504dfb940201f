//! Texts that a trained model writes, token by token.
//!
//! **Parts.** `text_tokens`: texts as tokens of the model. `cached`: scores of the next token, from what is kept of those before it.
//! [`sampler`]: which token comes next. `hook_text`: what hooks ask for. `text_stream`: from tokens to text that can be shown, and where it ends.
//!
//! **Flow.** [`Generator::of`] checks that a model predicts text, and that it sees no later tokens. [`Generator::write`] has the model
//! score the next token of all texts at once, lets each text's [`Sampler`] choose, and shows what is complete, until each has ended.
//! [`HookText`] does so within a run, for hooks.

mod cached;
mod hook_text;
pub mod sampler;
mod text_stream;
mod text_tokens;

use candle_core::{D, DType, Device, Tensor};
use serde::Serialize;

pub use hook_text::{HookText, why_no_text};
pub use sampler::{Candidate, Sampler, SamplingConfig, SamplingError};
pub use text_stream::{StopTexts, TextStream};

use cached::Cached;
use text_tokens::TextTokens;

use crate::data::Preprocessing;
use crate::model_directory::TrainedModel;
use crate::nn::{Model, Pass};

/// Why no text can be written.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// The model is not one of text.
    #[error("the model doesn't predict text: it was trained on {0}")]
    NoText(String),
    /// What the model predicts at a position depends on the tokens after it.
    #[error(
        "the model sees the tokens after a position: there is no next token to predict. `\"causal\": true` in its `attention` \
         makes it look back only"
    )]
    LooksAhead,
    /// Messages are given to a model that knows no conversations.
    #[error(
        "the model was not trained on conversations: its data have no chat template that would make a text of a message. Give the whole \
         text as the prompt"
    )]
    NoChat,
    /// A prompt is empty.
    #[error("prompt {0} is empty: the model needs a token to begin with")]
    EmptyPrompt(usize),
    /// A prompt has characters that the model doesn't know.
    #[error("prompt {prompt}: {problem}")]
    Prompt {
        /// Its number, from 1.
        prompt: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// An option can't be used, or the scores can't.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// An error of candle.
    #[error("the model can't be run: {0}")]
    Tensor(#[from] candle_core::Error),
}

/// How texts are written.
#[derive(Clone, Debug, Default)]
pub struct GenerationOptions {
    /// Most tokens after each prompt.
    pub tokens: usize,
    /// How the next token is chosen.
    pub sampling: SamplingConfig,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Texts that end what is written; they are not part of it.
    pub stop: Vec<String>,
}

/// Why a text has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TextEnd {
    /// It has as many tokens as were asked for.
    Length,
    /// A text that ends it was found, or the token at the end of documents.
    Stop,
    /// No more of it was wanted.
    Closed,
}

/// A text that a model has written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GeneratedText {
    /// What follows the prompt.
    pub text: String,
    /// Number of its tokens.
    pub tokens: usize,
    /// Why it has ended.
    pub end: TextEnd,
}

/// What a model of text makes tokens by.
fn text_of(preprocessing: &Preprocessing) -> Result<TextTokens<'_>, GenerateError> {
    TextTokens::of(preprocessing).ok_or_else(|| {
        let inputs = preprocessing.describe_inputs();
        let kinds: Vec<String> = inputs.into_iter().map(|input| input.kind).collect();
        GenerateError::NoText(kinds.join(", "))
    })
}

/// A model that writes text.
pub struct Generator<'a> {
    model: &'a dyn Model,
    device: &'a Device,
    text: TextTokens<'a>,
}

/// A text that is being written.
struct Row<D> {
    number: usize,
    tokens: Vec<u32>,
    sampler: Sampler,
    /// Token at the end of documents.
    end: Option<u32>,
    stream: TextStream<D>,
    stops: StopTexts,
    written: GeneratedText,
}

impl<'a> Generator<'a> {
    /// Takes a model of text.
    ///
    /// # Errors
    ///
    /// If it doesn't predict text, or sees the tokens after a position.
    pub fn of(model: &'a TrainedModel) -> Result<Generator<'a>, GenerateError> {
        let generator =
            Generator::unchecked(model.network(), model.preprocessing(), model.device())?;
        generator.looks_back_only()?;
        Ok(generator)
    }

    /// Takes a model that is known to see no tokens after a position.
    fn unchecked(
        model: &'a dyn Model,
        preprocessing: &'a Preprocessing,
        device: &'a Device,
    ) -> Result<Generator<'a>, GenerateError> {
        Ok(Generator {
            model,
            device,
            text: text_of(preprocessing)?,
        })
    }

    /// Tokens of a prompt, with its number for messages.
    ///
    /// # Errors
    ///
    /// If it is empty, or has characters that the vocabulary lacks.
    pub fn tokens_of(&self, prompt: &str, number: usize) -> Result<Vec<u32>, GenerateError> {
        self.encoded(prompt, number, true)
    }

    /// Tokens of a conversation up to the answer to a user's message, and the text that ends an answer, if there is one.
    ///
    /// # Errors
    ///
    /// If the model was not trained on conversations, or their template fails.
    pub fn question(
        &self,
        message: &str,
        number: usize,
    ) -> Result<(Vec<u32>, Option<String>), GenerateError> {
        let question = self.text.question(message).ok_or(GenerateError::NoChat)?;
        let question = question.map_err(|problem| GenerateError::Prompt {
            prompt: number,
            problem,
        })?;
        // The template itself writes what begins a text.
        let tokens = self.encoded(&question.text, number, false)?;
        Ok((tokens, question.end))
    }

    fn encoded(
        &self,
        prompt: &str,
        number: usize,
        is_whole: bool,
    ) -> Result<Vec<u32>, GenerateError> {
        if prompt.is_empty() {
            return Err(GenerateError::EmptyPrompt(number));
        }
        let tokens = self.text.encode(prompt, is_whole);
        tokens.map_err(|problem| GenerateError::Prompt {
            prompt: number,
            problem,
        })
    }

    /// Writes on from each prompt. `show` gets a prompt's index and what has been written, as soon as it is complete; it returns
    /// whether more is wanted.
    ///
    /// A text doesn't depend on the others, but for the last bits of scores.
    ///
    /// # Errors
    ///
    /// If a prompt is empty, an option is out of its range, or the model can't be run.
    pub fn write(
        &self,
        prompts: &[Vec<u32>],
        options: &GenerationOptions,
        mut show: impl FnMut(usize, &str) -> bool,
    ) -> Result<Vec<GeneratedText>, GenerateError> {
        let decode = |tokens: &[u32]| self.text.decode(tokens);
        let mut rows = Vec::with_capacity(prompts.len());
        for (number, prompt) in prompts.iter().enumerate() {
            rows.push(Row::new(number, prompt, options, self.text.end(), decode)?);
        }
        let mut cached = Cached::default();
        for _ in 0..options.tokens {
            let mut active: Vec<&mut Row<_>> = rows
                .iter_mut()
                .filter(|row| row.written.end == TextEnd::Length)
                .collect();
            if active.is_empty() {
                break;
            }
            let tokens: Vec<&[u32]> = active.iter().map(|row| row.tokens.as_slice()).collect();
            let scores = if self.model.continues() {
                cached.scores(self, &tokens)?
            } else {
                self.scores(&tokens)?
            };
            for (row, scores) in active.iter_mut().zip(&scores) {
                row.choose(scores, &mut show)?;
            }
        }
        Ok(rows.into_iter().map(|row| row.finish(&mut show)).collect())
    }

    /// Scores of the token after each row: a number for each token of the vocabulary.
    fn scores(&self, rows: &[&[u32]]) -> candle_core::Result<Vec<Vec<f32>>> {
        let rows: Vec<&[u32]> = rows.iter().map(|row| self.window(row)).collect();
        let outputs = self.outputs(&rows, self.text.context(), 0)?;
        let last = rows.iter().enumerate().map(|(index, row)| {
            let position = row.len().saturating_sub(1);
            scores_at(&outputs, index, position)
        });
        last.collect()
    }

    /// The last tokens of a row that the model sees: at most its context, and from there on a number that grows again from half of
    /// it, so that what was computed for them holds for the tokens after them, too. It depends on the row's length alone.
    fn window<'t>(&self, row: &'t [u32]) -> &'t [u32] {
        let context = self.text.context();
        let step = (context / 2).max(1);
        let beyond = row.len().saturating_sub(context);
        let start = beyond.div_ceil(step) * step;
        row.get(start.min(row.len().saturating_sub(1))..)
            .unwrap_or_default()
    }

    /// Outputs (rows, length, vocabulary) for rows of at most `length` tokens, filled up with `filler`.
    fn outputs(&self, rows: &[&[u32]], length: usize, filler: u32) -> candle_core::Result<Tensor> {
        let mut tokens = Vec::with_capacity(rows.len() * length);
        for row in rows {
            tokens.extend_from_slice(row);
            tokens.extend(std::iter::repeat_n(
                filler,
                length.saturating_sub(row.len()),
            ));
        }
        let inputs = Tensor::from_vec(tokens, (rows.len(), length), self.device)?;
        let outputs = self.model.forward(&inputs, &mut Pass::evaluation())?;
        let outputs = outputs.detach();
        outputs
            .to_dtype(DType::F32)?
            .to_device(&candle_core::Device::Cpu)
    }

    /// Fills up a text with two different tokens: what comes before them must be the same.
    fn looks_back_only(&self) -> Result<(), GenerateError> {
        let context = self.text.context();
        // The layers that can be continued look back only.
        if context < 2 || self.model.continues() {
            return Ok(());
        }
        let (half, last) = (context / 2, self.text.vocabulary().saturating_sub(1) as u32);
        let row = vec![0; half];
        let seen = |filler| self.outputs(&[&row], context, filler)?.narrow(1, 0, half);
        let (one, other) = (seen(0)?, seen(last)?);
        let difference = (&one - &other)?.abs()?.flatten_all()?.max(D::Minus1)?;
        let size = one.abs()?.flatten_all()?.max(D::Minus1)?;
        let (difference, size): (f32, f32) = (difference.to_scalar()?, size.to_scalar()?);
        if difference > 1e-3 * size.max(1.0) {
            return Err(GenerateError::LooksAhead);
        }
        Ok(())
    }
}

impl<D: Fn(&[u32]) -> String> Row<D> {
    fn new(
        number: usize,
        prompt: &[u32],
        options: &GenerationOptions,
        end: Option<u32>,
        decode: D,
    ) -> Result<Row<D>, GenerateError> {
        if prompt.is_empty() {
            return Err(GenerateError::EmptyPrompt(number + 1));
        }
        let mut sampler = Sampler::new(options.sampling, options.seed, number as u64)?;
        for &token in prompt {
            sampler.note(token);
        }
        Ok(Row {
            number,
            tokens: prompt.to_vec(),
            sampler,
            end,
            stream: TextStream::after(prompt, decode),
            stops: StopTexts::new(&options.stop),
            written: GeneratedText {
                text: String::new(),
                tokens: 0,
                end: TextEnd::Length,
            },
        })
    }

    fn choose(
        &mut self,
        scores: &[f32],
        show: &mut impl FnMut(usize, &str) -> bool,
    ) -> Result<(), GenerateError> {
        let token = self.sampler.choose(scores, self.tokens.len() as u64)?;
        self.tokens.push(token);
        self.written.tokens += 1;
        if Some(token) == self.end {
            self.written.end = TextEnd::Stop;
            return Ok(());
        }
        let text = self.stream.push(token);
        let (text, is_end) = self.stops.push(&text);
        let goes_on = self.show(&text, show);
        if is_end {
            self.written.end = TextEnd::Stop;
        } else if !goes_on {
            self.written.end = TextEnd::Closed;
        }
        Ok(())
    }

    fn show(&mut self, text: &str, show: &mut impl FnMut(usize, &str) -> bool) -> bool {
        self.written.text.push_str(text);
        text.is_empty() || show(self.number, text)
    }

    /// Shows what was held back.
    fn finish(self, show: &mut impl FnMut(usize, &str) -> bool) -> GeneratedText {
        let Row {
            number,
            stream,
            mut stops,
            mut written,
            ..
        } = self;
        // Nothing is held back where a text has ended it.
        if written.end != TextEnd::Closed {
            let (text, is_end) = stops.push(&stream.finish());
            let text = text
                + &if is_end {
                    String::new()
                } else {
                    stops.finish()
                };
            if !text.is_empty() {
                written.text.push_str(&text);
                show(number, &text);
            }
        }
        written
    }
}

/// Scores at a position of outputs (rows, length, vocabulary).
fn scores_at(outputs: &Tensor, row: usize, position: usize) -> candle_core::Result<Vec<f32>> {
    let scores = outputs.narrow(0, row, 1)?.narrow(1, position, 1)?;
    scores.flatten_all()?.to_dtype(DType::F32)?.to_vec1()
}
