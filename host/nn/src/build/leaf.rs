//! Builds a layer that contains no others: output shape, parameters and FLOPs.

use super::builder::Builder;
use super::made::{Made, made, same};
use super::problem::{LayerProblem, first, last, rows, wants_numbers, wants_one_length};
use crate::config::GroupNormConfig;
use crate::layers::{
    BatchNorm, BatchNormOptions, DropPath, Dropout, GroupNorm, LayerNorm, Rearrangement, RmsNorm,
    Scale, UnitNorm,
};
use crate::ops::{PoolKind, RecurrentKind};
use crate::{Inputs, LayerKind, Signal};

impl Builder<'_> {
    /// Builds a layer under its full name.
    pub(super) fn leaf(
        &mut self,
        kind: &LayerKind,
        name: &str,
        input: &Signal,
    ) -> Result<Made, LayerProblem> {
        match kind {
            LayerKind::Embedding(_) | LayerKind::EmbedCategories(_) => {}
            LayerKind::Flatten(_) | LayerKind::Reshape(_)
                if !matches!(input.content, Inputs::Columns(_)) => {}
            _ => wants_numbers(input)?,
        }
        if !takes_any_length(kind) {
            wants_one_length(input)?;
        }
        if let Some(activation) = kind.activation() {
            return Ok(same(activation, input));
        }
        match kind {
            LayerKind::Linear(config) => self.linear(config, name, input),
            LayerKind::Conv1d(config) => self.conv1d(config, name, input),
            LayerKind::Conv2d(config) => self.conv2d(config, name, input),
            LayerKind::ConvTranspose2d(config) => self.conv_transpose2d(config, name, input),
            LayerKind::Upsample(config) => super::pooling::upsample(config, input),
            LayerKind::MaxPool2d(config) => super::pooling::sliding(PoolKind::Max, config, input),
            LayerKind::AvgPool2d(config) => super::pooling::sliding(PoolKind::Mean, config, input),
            LayerKind::AdaptiveMaxPool2d(config) => {
                super::pooling::adaptive(PoolKind::Max, config, input)
            }
            LayerKind::AdaptiveAvgPool2d(config) => {
                super::pooling::adaptive(PoolKind::Mean, config, input)
            }
            LayerKind::BatchNorm(config) => {
                let options = BatchNormOptions {
                    epsilon: config.epsilon,
                    momentum: config.momentum,
                };
                let channels = first(input)?;
                let layer = BatchNorm::new(&mut self.parameters.scope(name), channels, options)?;
                Ok(same(layer, input))
            }
            LayerKind::GroupNorm(config) => self.group_norm(config, name, input),
            LayerKind::LayerNorm(config) => {
                let (width, mut scope) = (last(input)?, self.parameters.scope(name));
                Ok(same(
                    LayerNorm::new(&mut scope, width, config.epsilon)?,
                    input,
                ))
            }
            LayerKind::RmsNorm(config) => {
                let (width, mut scope) = (last(input)?, self.parameters.scope(name));
                Ok(same(
                    RmsNorm::new(&mut scope, width, config.epsilon)?,
                    input,
                ))
            }
            LayerKind::UnitNorm(_) => {
                let layer = UnitNorm::new(self.parameters, last(input)?)?;
                Ok(same(layer, input))
            }
            LayerKind::Dropout(config) => Ok(same(Dropout::new(config.share, name), input)),
            LayerKind::DropPath(config) => Ok(same(DropPath::new(config.share, name), input)),
            LayerKind::Scale(config) => {
                let width = last(input)?;
                Ok(same(
                    Scale::new(self.parameters, name, width, config.init)?,
                    input,
                ))
            }
            LayerKind::Embedding(config) => self.embedding(config, name, input),
            LayerKind::EmbedCategories(config) => self.embed_categories(config, name, input),
            LayerKind::PositionEmbedding(config) => self.position_embedding(config, name, input),
            LayerKind::ClassToken(_) => self.class_token(name, input),
            LayerKind::MaskTokens(config) => self.mask_tokens(config, name, input),
            LayerKind::Lstm(config) => self.recurrent(RecurrentKind::Lstm, config, name, input),
            LayerKind::Gru(config) => self.recurrent(RecurrentKind::Gru, config, name, input),
            LayerKind::Attention(config) => self.attention(config, name, input),
            LayerKind::Flatten(_) => super::rearranging::reshape(input, vec![input.count()]),
            LayerKind::Reshape(config) => super::rearranging::reshape(input, config.shape.clone()),
            LayerKind::Transpose(config) => super::rearranging::transpose(input, config),
            LayerKind::Positions(_) => super::rearranging::positions(input),
            LayerKind::MeanPositions(_) => {
                let (_, width) = rows(input)?;
                Ok(made(Rearrangement::MeanPositions, Signal::numbers([width])))
            }
            LayerKind::Select(config) => super::rearranging::select(input, config.at),
            LayerKind::Activation(_)
            | LayerKind::Relu(_)
            | LayerKind::Gelu(_)
            | LayerKind::GeluTanh(_)
            | LayerKind::QuickGelu(_)
            | LayerKind::Silu(_)
            | LayerKind::Tanh(_)
            | LayerKind::Sigmoid(_)
            | LayerKind::Sequential(_)
            | LayerKind::Residual(_)
            | LayerKind::Repeat(_)
            | LayerKind::Parallel(_) => Err(LayerProblem::new("is not a layer by itself")),
        }
    }
}

impl Builder<'_> {
    fn group_norm(
        &mut self,
        config: &GroupNormConfig,
        name: &str,
        input: &Signal,
    ) -> Result<Made, LayerProblem> {
        let channels = first(input)?;
        if !channels.is_multiple_of(config.groups) {
            return Err(LayerProblem::new(format!(
                "divides {channels} channels into {} groups; they must be a multiple of it",
                config.groups
            )));
        }
        let mut scope = self.parameters.scope(name);
        let layer = GroupNorm::new(&mut scope, config.groups, channels, config.epsilon)?;
        Ok(same(layer, input))
    }
}

/// Whether a layer treats all positions alike, or selects among them, so that their number may vary.
fn takes_any_length(kind: &LayerKind) -> bool {
    kind.activation().is_some()
        || matches!(
            kind,
            LayerKind::Linear(_)
                | LayerKind::LayerNorm(_)
                | LayerKind::RmsNorm(_)
                | LayerKind::UnitNorm(_)
                | LayerKind::Dropout(_)
                | LayerKind::DropPath(_)
                | LayerKind::Scale(_)
                | LayerKind::Embedding(_)
                | LayerKind::PositionEmbedding(_)
                | LayerKind::ClassToken(_)
                | LayerKind::MaskTokens(_)
                | LayerKind::Attention(_)
                | LayerKind::Lstm(_)
                | LayerKind::Gru(_)
                | LayerKind::MeanPositions(_)
                | LayerKind::Select(_)
        )
}
