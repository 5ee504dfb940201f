//! Builds embeddings of tokens, categories and positions.

use super::builder::Builder;
use super::made::{Made, made, same};
use super::problem::{LayerProblem, rows, wants};
use crate::init::Init;
use crate::layers::{
    CategoryEmbeddings, ClassToken, Embedding, EmbeddingOptions, MaskTokens, NamedTokens,
    PositionEmbedding,
};
use crate::{
    EmbedCategoriesConfig, EmbeddingConfig, Inputs, MaskTokensConfig, PositionEmbeddingConfig,
    Signal,
};

impl Builder<'_> {
    pub(super) fn embedding(
        &mut self,
        config: &EmbeddingConfig,
        name: &str,
        input: &Signal,
    ) -> Result<Made, LayerProblem> {
        let (source, named) = self.tokens_of(config, input)?;
        let Inputs::Tokens(known) = source.content else {
            return Err(wants("tokens", &source));
        };
        let tied = match &config.tied {
            Some(other) => Some((other, self.weight_of(other)?)),
            None => None,
        };
        let (rows, width) = if let Some((other, weight)) = &tied {
            tied_table(config, other, weight.dims())?
        } else {
            let width = config
                .width
                .ok_or_else(|| LayerProblem::new("needs a `width`, the length of its vectors"))?;
            (config.tokens.unwrap_or(known), width)
        };
        if rows < known {
            return Err(LayerProblem::new(format!(
                "has a table of {rows} rows, its input is {source}: rows are missing for tokens from {rows} on"
            )));
        }
        for (key, token) in [("padding", config.padding), ("default", config.default)] {
            if let Some(token) = token.filter(|&token| token as usize >= rows) {
                return Err(LayerProblem::new(format!(
                    "has a `{key}` of {token}, its table has {rows} rows"
                )));
            }
        }
        let options = EmbeddingOptions {
            init: config.init.map(Init::from),
            padding: config.padding,
        };
        let layer = if let Some((_, weight)) = tied {
            Embedding::tied(weight, options)
        } else {
            let mut scope = self.parameters.scope(name);
            let layer = Embedding::with(&mut scope, rows, width, options)?;
            self.lend(name, layer.weight());
            layer
        };
        let mut output = Signal {
            content: Inputs::Numbers,
            ..source
        };
        output.shape.push(width);
        Ok(match named {
            Some(named) => made(named.of(layer), output),
            None => made(layer, output),
        })
    }

    /// The tokens that an embedding reads, and by which name, if they are not the layer's input.
    fn tokens_of(
        &self,
        config: &EmbeddingConfig,
        input: &Signal,
    ) -> Result<(Signal, Option<NamedTokens>), LayerProblem> {
        let Some(name) = &config.input else {
            if config.default.is_some() {
                return Err(LayerProblem::new(
                    "has a `default` without an `input` whose place it would take",
                ));
            }
            return Ok((input.clone(), None));
        };
        let named = NamedTokens {
            name: name.clone(),
            default: config.default,
        };
        let found = self.named.iter().find(|(known, _)| known == name);
        match (found, config.default) {
            (Some((_, signal)), _) => Ok((signal.clone(), Some(named))),
            (None, Some(_)) if !matches!(input.content, Inputs::Tokens(_)) => {
                Err(wants("tokens", input))
            }
            (None, Some(token)) => {
                let content = Inputs::Tokens(token as usize + 1);
                let signal = Signal {
                    content,
                    ..input.clone()
                };
                Ok((signal, Some(named)))
            }
            (None, None) => {
                let known_names: Vec<_> = self
                    .named
                    .iter()
                    .map(|(name, _)| format!("`{name}`"))
                    .collect();
                let known = if known_names.is_empty() {
                    "have no inputs with names".to_owned()
                } else {
                    format!("have {}", known_names.join(", "))
                };
                Err(LayerProblem::new(format!(
                    "reads the input `{name}`, and the data {known}; set `default` to the token that is meant where it is missing"
                )))
            }
        }
    }

    pub(super) fn embed_categories(
        &mut self,
        config: &EmbedCategoriesConfig,
        name: &str,
        input: &Signal,
    ) -> Result<Made, LayerProblem> {
        let Inputs::Columns(categories) = &input.content else {
            return Err(LayerProblem::new(format!(
                "wants a table's rows with categories to embed, its input is {input}; list columns in `data.embed`"
            )));
        };
        let mut scope = self.parameters.scope(name);
        let (width, init) = (config.width, config.init.map(Init::from));
        let layer = CategoryEmbeddings::new(&mut scope, categories, width, init)?;
        let width = CategoryEmbeddings::output_width(categories, width);
        Ok(made(layer, Signal::numbers([width])))
    }

    pub(super) fn position_embedding(
        &mut self,
        config: &PositionEmbeddingConfig,
        name: &str,
        input: &Signal,
    ) -> Result<Made, LayerProblem> {
        let (length, width) = rows(input)?;
        let positions = config.positions.unwrap_or(length);
        if positions < length {
            return Err(LayerProblem::new(format!(
                "has a table of {positions} positions, its input is {input}; take samples of at most {positions} positions"
            )));
        }
        let init = config.init.map(Init::from);
        let layer = if config.bare {
            PositionEmbedding::bare(self.parameters, name, positions, width, init)?
        } else {
            PositionEmbedding::new(&mut self.parameters.scope(name), positions, width, init)?
        };
        Ok(same(layer, input))
    }

    pub(super) fn class_token(&mut self, name: &str, input: &Signal) -> Result<Made, LayerProblem> {
        let (length, width) = rows(input)?;
        let layer = ClassToken::new(self.parameters, name, width)?;
        let mut output = input.clone();
        output.shape = vec![length.saturating_add(1), width];
        Ok(made(layer, output))
    }

    pub(super) fn mask_tokens(
        &mut self,
        config: &MaskTokensConfig,
        name: &str,
        input: &Signal,
    ) -> Result<Made, LayerProblem> {
        let (_, width) = rows(input)?;
        let layer = MaskTokens::new(self.parameters, name, width, &config.mask)?;
        Ok(same(layer, input))
    }
}

/// Rows and width of the table of another layer.
fn tied_table(
    config: &EmbeddingConfig,
    other: &str,
    shape: &[usize],
) -> Result<(usize, usize), LayerProblem> {
    let &[rows, width] = shape else {
        return Err(LayerProblem::new(format!(
            "uses the weight of `{other}`, which is {shape:?} and no table"
        )));
    };
    let wanted = (config.tokens.unwrap_or(rows), config.width.unwrap_or(width));
    if wanted != (rows, width) {
        return Err(LayerProblem::new(format!(
            "uses the weight of `{other}`, which is {shape:?}, as a table of {} rows of {}",
            wanted.0, wanted.1
        )));
    }
    Ok((rows, width))
}
