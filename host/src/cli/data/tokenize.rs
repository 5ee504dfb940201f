//! `sconce tokenize`: makes token files of texts.

use std::path::PathBuf;

use clap::Args;

use crate::cli::show::output;
use crate::data::{DataError, TokenizeOptions, Tokenizer, TokensError, tokenize, train_tokenizer};
use crate::diagnostic::Diagnostic;
use crate::exit;
use crate::session::StartFailure;
use crate::thousands::grouped;

/// Arguments of `sconce tokenize`.
#[derive(Debug, Args)]
pub(in crate::cli) struct TokenizeArgs {
    /// Text files in UTF-8, each of them one document, or `.jsonl` files with a document on each line.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Directory for the tokens: a file for each text, the tokenizer, and an index. A run that was interrupted continues there.
    #[arg(long, value_name = "DIR")]
    output: PathBuf,
    /// The `tokenizer.json` to use.
    #[arg(long, value_name = "FILE", required_unless_present = "train")]
    tokenizer: Option<PathBuf>,
    /// Learns a tokenizer with a vocabulary of this size from the texts first: pairs of bytes, as GPT-2's.
    #[arg(long, value_name = "SIZE", conflicts_with = "tokenizer")]
    train: Option<usize>,
    /// Token after each document. Default: the tokenizer's, such as `<|endoftext|>` or `</s>`.
    #[arg(long, value_name = "TOKEN")]
    end: Option<String>,
    /// Puts nothing after documents.
    #[arg(long, conflicts_with = "end")]
    no_end: bool,
    /// Key of the text in the lines of `.jsonl` files.
    #[arg(long, value_name = "KEY", default_value = "text")]
    field: String,
    /// Number of threads. Default: one for each core. The tokens don't depend on it.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

pub(in crate::cli) fn tokenize_texts(arguments: &TokenizeArgs) -> Result<u8, StartFailure> {
    let tokenizer = match (&arguments.tokenizer, arguments.train) {
        (Some(file), _) => Tokenizer::open(file).map_err(failed)?,
        (None, size) => trained(arguments, size.unwrap_or_default())?,
    };
    let threads = match arguments.threads {
        Some(threads) => usize::from(threads),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let options = TokenizeOptions {
        output: arguments.output.clone(),
        field: arguments.field.clone(),
        end: end(arguments, &tokenizer)?,
        threads,
    };
    let mut sum = 0;
    tokenize(&tokenizer, &arguments.files, &options, |file, done| {
        sum += done.tokens;
        let there = if done.was_there {
            ", there already"
        } else {
            ""
        };
        output::line(&format!(
            "{}: {} bytes, {} tokens{there}",
            file.display(),
            grouped(done.bytes),
            grouped(done.tokens)
        ));
    })
    .map_err(failed)?;
    output::line(&format!(
        "{} tokens of a vocabulary of {} in `{}`: `\"data\": {{\"kind\": \"tokens\", \"files\": [\"{}\"]}}` trains on them",
        grouped(sum),
        grouped(tokenizer.vocabulary() as u64),
        arguments.output.display(),
        arguments.output.display()
    ));
    Ok(exit::DONE)
}

/// Learns a tokenizer.
fn trained(arguments: &TokenizeArgs, size: usize) -> Result<Tokenizer, StartFailure> {
    let learnt = train_tokenizer(size, &arguments.files, &arguments.field).map_err(failed)?;
    if learnt.vocabulary() < size {
        output::diagnostics(&[Diagnostic::warning(format!(
            "the texts have no more pairs: the vocabulary has {} tokens instead of {size}",
            learnt.vocabulary()
        ))]);
    }
    Ok(learnt)
}

/// The token after each document.
fn end(arguments: &TokenizeArgs, tokenizer: &Tokenizer) -> Result<Option<u32>, StartFailure> {
    if arguments.no_end {
        return Ok(None);
    }
    let found = match &arguments.end {
        Some(name) => tokenizer.id(name).ok_or_else(|| {
            let problem = format!("the tokenizer has no token `{name}` for the end of documents");
            Diagnostic::new(problem)
        }),
        None => tokenizer.usual_end().ok_or_else(|| {
            let problem = "the tokenizer has none of the usual tokens for the end of documents";
            Diagnostic::new(problem).hint("name it by `--end TOKEN`, or say `--no-end`")
        }),
    };
    found
        .map(Some)
        .map_err(|problem| StartFailure::usage(vec![problem]))
}

#[expect(clippy::needless_pass_by_value, reason = "it is given to `map_err`")]
fn failed(error: DataError) -> StartFailure {
    let diagnostic = Diagnostic::new(error.to_string());
    if matches!(error, DataError::Tokens(TokensError::Write { .. })) {
        StartFailure::results(vec![diagnostic])
    } else {
        StartFailure::data(vec![diagnostic])
    }
}
