//! Text that a run's model writes for hooks (`sconce_plugin_api::ext::Request::Generate`).

use std::cell::OnceCell;

use sconce_plugin_api::{TextRequest, WrittenText};

use super::{GenerateError, GenerationOptions, Generator, SamplingConfig, TextEnd, text_of};
use crate::bridge::WritesText;
use crate::task::{Task, TaskModel};

/// The model of a task, for hooks that have it write.
pub struct HookText {
    /// None if the task has no model that can be used apart.
    model: Option<TaskModel>,
    /// Whether it sees no tokens after a position, once that is known; otherwise what is wrong.
    checked: OnceCell<Result<(), String>>,
}

/// Why a task's model can't write text; none if it can, as far as is known before it has been run.
pub fn why_no_text(task: &dyn Task) -> Option<String> {
    match task.model() {
        None => Some(NO_MODEL.to_owned()),
        Some(model) => {
            let text = text_of(&model.preprocessing);
            text.err().map(|error| error.to_string())
        }
    }
}

const NO_MODEL: &str = "the task is a program's own, which gives no model of text";

impl HookText {
    /// The model of a task.
    pub fn of(task: &dyn Task) -> HookText {
        HookText {
            model: task.model(),
            checked: OnceCell::new(),
        }
    }

    fn generator(&self) -> Result<Generator<'_>, String> {
        let model = self.model.as_ref().ok_or_else(|| NO_MODEL.to_owned())?;
        let (network, device) = (model.network.as_ref(), &model.device);
        let generator = Generator::unchecked(network, &model.preprocessing, device)
            .map_err(|error| error.to_string())?;
        let looks_back = || {
            let checked = generator.looks_back_only();
            checked.map_err(|error| error.to_string())
        };
        self.checked.get_or_init(looks_back).clone()?;
        Ok(generator)
    }
}

impl WritesText for HookText {
    fn write(&self, request: &TextRequest) -> Result<Vec<WrittenText>, String> {
        let generator = self.generator()?;
        let options = options(request);
        let written = written(&generator, request, &options);
        written.map_err(|error| error.to_string())
    }
}

fn written(
    generator: &Generator<'_>,
    request: &TextRequest,
    options: &GenerationOptions,
) -> Result<Vec<WrittenText>, GenerateError> {
    options.sampling.check()?;
    let prompts = request.prompts.iter().zip(1..);
    let prompts = prompts.map(|(prompt, number)| generator.tokens_of(prompt, number));
    let prompts: Vec<Vec<u32>> = prompts.collect::<Result<_, _>>()?;
    let texts = generator.write(&prompts, options, |_, _| true)?;
    let texts = texts.into_iter().map(|text| WrittenText {
        text: text.text,
        tokens: text.tokens as u64,
        end: match text.end {
            TextEnd::Length => "length",
            TextEnd::Stop => "stop",
            TextEnd::Closed => "closed",
        }
        .to_owned(),
    });
    Ok(texts.collect())
}

fn options(request: &TextRequest) -> GenerationOptions {
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    GenerationOptions {
        tokens: count(request.tokens),
        sampling: SamplingConfig {
            temperature: request.temperature,
            top_k: count(request.top_k),
            top_p: request.top_p,
            min_p: request.min_p,
            repetition_penalty: request.repetition_penalty,
        },
        seed: request.seed,
        stop: request.stop.clone(),
    }
}
