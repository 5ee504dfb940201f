//! Tokens of rows, made by all threads.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::fields::{Fields, RowText};
use super::lines::{Content, wrong};
use super::source::RowSource;
use super::store::{NO_CLASS, RowStore, RowToken, RowWriter, RowsDescription};
use crate::ContentHash;
use crate::error::{DataError, unreadable};
use crate::files::data_files::note_hash;
use crate::parallel;
use crate::tokens::tokenizer::Tokenizer;
use crate::tokens::tokenizer::chat::ChatTemplate;
use crate::tokens::writing::unwritten;
use sconce_base::regular_file::open_regular;

/// Most classes that labels may be.
const MOST_CLASSES: usize = 1 << 16;

/// How rows become tokens.
pub(super) struct Recipe<'a> {
    pub(super) tokenizer: &'a Tokenizer,
    pub(super) fields: Fields,
    /// What makes text of conversations.
    pub(super) chat: Option<&'a ChatTemplate>,
    /// Number of tokens per sample.
    pub(super) context: usize,
    /// Token after a completion.
    pub(super) end: Option<u32>,
    /// Whether each row must have a class, if it is about classes.
    pub(super) needs_label: bool,
}

/// A row's tokens.
struct MadeRow {
    tokens: Vec<RowToken>,
    class: Option<String>,
    is_cut: bool,
}

/// Returns the rows of a file, kept in this directory: those of an earlier run if file and recipe are the same.
pub(super) fn rows_in(
    kept: &Path,
    file: &Path,
    recipe: &Recipe<'_>,
) -> Result<RowStore, DataError> {
    let hashed = open_regular(file).and_then(ContentHash::of_reader);
    let (hash, bytes) = hashed.map_err(|error| unreadable(file, error))?;
    note_hash(file, bytes, hash);
    let Recipe {
        tokenizer,
        fields,
        chat,
        context,
        end,
        needs_label,
    } = recipe;
    let key = format!(
        "rows {hash} {} {fields:?} {chat:?} {context} {end:?} {needs_label}",
        tokenizer.hash()
    );
    let name = ContentHash::of(key.as_bytes()).digits();
    let directory = kept.join(&name);
    if let Some(store) = RowStore::open(&directory, file)? {
        return Ok(store);
    }
    let new = kept.join(format!("{name}.{}", std::process::id()));
    make(file, recipe, &new)?;
    let renamed = fs::rename(&new, &directory);
    let Some(store) = RowStore::open(&directory, file)? else {
        let gone = || std::io::Error::other("it has gone");
        return Err(unwritten(&directory, renamed.err().unwrap_or_else(gone)));
    };
    if renamed.is_err() {
        // Another run was first.
        drop(fs::remove_dir_all(&new));
    }
    Ok(store)
}

fn make(file: &Path, recipe: &Recipe<'_>, directory: &Path) -> Result<(), DataError> {
    let mut writer = RowWriter::create(directory)?;
    let mut found = RowsDescription::default();
    let mut classes = BTreeMap::new();
    let mut lines = RowSource::open(file, Some(&recipe.fields.keys()))?;
    loop {
        let some = lines.some()?;
        if some.is_empty() {
            break;
        }
        let made = parallel::map(&some, parallel::cores(), |line| recipe.row(&line.content));
        for (line, made) in some.iter().zip(made) {
            let failed = |problem| wrong(file, line.number, problem);
            let Some(row) = made.map_err(failed)? else {
                found.dropped += 1;
                continue;
            };
            found.cut += u64::from(row.is_cut);
            found.rows += 1;
            let class = match row.class {
                None => NO_CLASS,
                Some(class) => {
                    let next = classes.len();
                    if next >= MOST_CLASSES {
                        let problem = format!(
                            "this is class {next}, and at most {MOST_CLASSES} are expected"
                        );
                        return Err(wrong(file, line.number, problem));
                    }
                    *classes.entry(class).or_insert(next as u32)
                }
            };
            writer.add(&row.tokens, class)?;
        }
    }
    found.classes = vec![String::new(); classes.len()];
    for (class, index) in classes {
        if let Some(slot) = found.classes.get_mut(index as usize) {
            *slot = class;
        }
    }
    writer.finish(&found)
}

impl Recipe<'_> {
    /// The tokens of a line; none if nothing of it would be learnt.
    fn row(&self, row: &Content) -> Result<Option<MadeRow>, String> {
        let text = self.fields.take(row.object()?, self.needs_label)?;
        match text {
            RowText::Labelled(text, class) => self.labelled(&text, class).map(Some),
            RowText::Completed(prompt, completion) => self.completed(&prompt, &completion),
            RowText::Chat(messages) => self.conversation(&messages),
        }
    }

    fn labelled(&self, text: &str, class: Option<String>) -> Result<MadeRow, String> {
        let mut ids = self.tokenizer.encode(text, true)?;
        let is_cut = ids.len() > self.context;
        if is_cut {
            ids.truncate(self.context);
            // What ends every text stays its end, as BERT's `[SEP]`.
            let around = self.tokenizer.encode("", true)?;
            if let ([_, .., end], Some(last)) = (around.as_slice(), ids.last_mut()) {
                *last = *end;
            }
        }
        Ok(MadeRow {
            tokens: marked(ids, false).collect(),
            class,
            is_cut,
        })
    }

    fn completed(&self, prompt: &str, completion: &str) -> Result<Option<MadeRow>, String> {
        let prompt = self.tokenizer.encode(prompt, true)?;
        let completion = self.tokenizer.encode(completion, false)?;
        let learnt = completion.into_iter().chain(self.end);
        let tokens = marked(prompt, false).chain(marked(learnt, true));
        Ok(self.learnt(tokens.collect()))
    }

    fn conversation(&self, messages: &[Value]) -> Result<Option<MadeRow>, String> {
        let Some(chat) = self.chat else {
            return Err("there is no chat template for its messages".to_owned());
        };
        let mut tokens = Vec::new();
        for (text, is_learnt) in chat.segments(messages)? {
            tokens.extend(marked(self.tokenizer.encode(&text, false)?, is_learnt));
        }
        Ok(self.learnt(tokens))
    }

    /// A row of these tokens, as far as it fits; none if nothing of it would be learnt.
    fn learnt(&self, mut tokens: Vec<RowToken>) -> Option<MadeRow> {
        // The last token is a target alone.
        let most = self.context.saturating_add(1);
        let is_cut = tokens.len() > most;
        tokens.truncate(most);
        // The first token is not a target.
        let is_learnt = tokens.iter().skip(1).any(|token| token.is_learnt);
        is_learnt.then_some(MadeRow {
            tokens,
            class: None,
            is_cut,
        })
    }
}

fn marked(ids: impl IntoIterator<Item = u32>, is_learnt: bool) -> impl Iterator<Item = RowToken> {
    ids.into_iter().map(move |id| RowToken { id, is_learnt })
}
