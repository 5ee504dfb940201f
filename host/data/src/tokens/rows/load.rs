//! Loading of rows and their division into parts.

use std::path::Path;
use std::sync::Arc;

use super::fields::Fields;
use super::lines::wrong;
use super::making::{Recipe, rows_in};
use super::packed::PackedRows;
use super::parquet::ParquetRows;
use super::source::RowSource;
use super::store::RowStore;
use super::{JsonlConfig, RowDataset, RowsTransform};
use crate::dataset::fitted::Fitted;
use crate::error::TokensError;
use crate::split::{self, Part};
use crate::tokens::TokensTransform;
use crate::tokens::cached::kept_in;
use crate::tokens::tokenizer::Tokenizer;
use crate::tokens::tokenizer::chat::ChatTemplate;
use crate::{DataError, Dataset};

/// Name of the file with a tokenizer's chat template.
const TEMPLATE: &str = "tokenizer_config.json";

/// Makes tokens of rows, or takes those that were made before, and divides them.
///
/// # Errors
///
/// If a file can't be read, a row is not as the others, with its line, or a label is not one of the training's.
pub(crate) fn load(
    config: &JsonlConfig,
    base: &Path,
    seed: u64,
) -> Result<Fitted<RowsTransform>, DataError> {
    let tokenizer = Tokenizer::open(&base.join(&config.tokenizer))?;
    load_in(&kept_in()?, &Arc::new(tokenizer), config, base, seed)
}

/// As [`load`], of a file that must be a Parquet file.
///
/// # Errors
///
/// As there, and if it is another one.
pub(crate) fn load_parquet(
    config: &JsonlConfig,
    base: &Path,
    seed: u64,
) -> Result<Fitted<RowsTransform>, DataError> {
    ParquetRows::open(&base.join(&config.file), Some(&[]))?;
    load(config, base, seed)
}

/// As [`load`], with tokens that are kept in this directory.
pub(in crate::tokens) fn load_in(
    kept: &Path,
    tokenizer: &Arc<Tokenizer>,
    config: &JsonlConfig,
    base: &Path,
    seed: u64,
) -> Result<Fitted<RowsTransform>, DataError> {
    if config.context == 0 {
        return Err(DataError::Range {
            key: "context",
            range: "at least 1",
            found: 0.0,
        });
    }
    let file = base.join(&config.file);
    let first = RowSource::open(&file, None)?.first(&file)?;
    let fields = Fields::of(config, &first).map_err(|problem| wrong(&file, 1, problem))?;
    let end = match (&fields, &config.end) {
        (Fields::Labelled { .. } | Fields::Chat { .. }, _) => None,
        (Fields::Completed { .. }, None) => tokenizer.usual_end(),
        (Fields::Completed { .. }, Some(name)) => Some(tokenizer.id(name).ok_or_else(|| {
            TokensError::Rows(format!("`data.end`: the tokenizer has no token `{name}`"))
        })?),
    };
    let chat = match (&fields, &config.template) {
        (Fields::Chat { .. }, Some(template)) => Some(ChatTemplate::open(&base.join(template))?),
        (Fields::Chat { .. }, None) => {
            let tokenizer = Tokenizer::file_of(base.join(&config.tokenizer));
            let beside = tokenizer.with_file_name(TEMPLATE);
            Some(ChatTemplate::open(&beside)?)
        }
        _ => None,
    };
    let rows = |file: &Path| {
        let recipe = Recipe {
            tokenizer,
            fields: fields.clone(),
            chat: chat.as_ref(),
            context: config.context,
            end,
            needs_label: true,
        };
        rows_in(kept, file, &recipe)
    };
    let store = rows(&file)?;
    let total = store.len();
    let val = split::portion(config.val.as_ref(), "val", total)?;
    let test = split::portion(config.test.as_ref(), "test", total)?;
    let split_seed = config.split_seed.unwrap_or(seed);
    let parts = split::split(split_seed, total, val.taken(), test.taken())?;
    let tokens = TokensTransform::new(
        config.context,
        tokenizer.vocabulary(),
        end,
        Some(Arc::clone(tokenizer)),
    );
    let learnt = RowsTransform::new(tokens, fields.clone(), chat.clone(), classes_of(&store));
    let all = learnt.dataset(store)?;
    if config.packing && !learnt.predicts_tokens() {
        let problem = "`data.packing` is for rows that are learnt token by token, and these have a class each: leave it out";
        return Err(TokensError::Rows(problem.to_owned()).into());
    }
    let samples = |rows: RowDataset, is_training: bool| -> Arc<dyn Dataset> {
        if config.packing {
            Arc::new(PackedRows::new(rows, seed, is_training))
        } else {
            Arc::new(rows)
        }
    };
    let phase = |part: Part<&Path>, own: Vec<u32>| -> Result<Option<Arc<dyn Dataset>>, DataError> {
        Ok(match part {
            Part::Nothing => None,
            Part::Count(_) | Part::Fold(_) => Some(samples(all.with_rows(own), false)),
            Part::Own(file) => {
                let own = learnt.dataset(rows(&base.join(file))?)?;
                Some(samples(own, false))
            }
        })
    };
    Ok(Fitted {
        val: phase(val, parts.val)?,
        test: phase(test, parts.test)?,
        train: samples(all.with_rows(parts.train), true),
        learnt,
    })
}

/// The classes of rows: numbers in their order, anything else in that of the alphabet.
fn classes_of(store: &RowStore) -> Vec<String> {
    let mut classes = store.description.classes.clone();
    let number = |class: &String| class.parse::<i64>().ok();
    if classes.iter().all(|class| number(class).is_some()) {
        classes.sort_by_key(number);
    } else {
        classes.sort();
    }
    classes
}
