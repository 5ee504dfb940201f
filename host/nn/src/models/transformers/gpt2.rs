//! GPT-2 (Radford et al., 2019).

use super::family::{Classes, Family, FamilyNames, TiedName, texts};
use super::keys::Keys;
use super::parts::{activation, decoder_head, dropout, layer_norm, normal, residual, sequential};
use super::terms::{Head, Shapes, TransformersError};
use crate::{
    AttentionConfig, EmbeddingConfig, InitConfig, LayerConfig, LinearConfig, PackedNames,
    PositionEmbeddingConfig, ProjectionNames, RepeatConfig,
};

pub(super) static GPT2: Family = Family {
    model_type: "gpt2",
    classes: Classes {
        base: "GPT2Model",
        language: Some("GPT2LMHeadModel"),
        classification: "GPT2ForSequenceClassification",
        generates: true,
    },
    used: &[
        "activation_function",
        "attn_pdrop",
        "embd_pdrop",
        "initializer_range",
        "layer_norm_epsilon",
        "n_embd",
        "n_head",
        "n_inner",
        "n_layer",
        "n_positions",
        "resid_pdrop",
        "scale_attn_weights",
        "tie_word_embeddings",
        "vocab_size",
    ],
    no_effect: &[
        "n_ctx",
        "reorder_and_upcast_attn",
        "summary_activation",
        "summary_first_dropout",
        "summary_proj_to_labels",
        "summary_type",
        "summary_use_proj",
    ],
    refused: &[(
        "scale_attn_by_inverse_layer_idx",
        "false",
        "the scores of each layer would be divided by its number",
    )],
    layers,
    names,
};

fn names(keys: &Keys<'_>) -> FamilyNames {
    let is_tied = keys.flag("tie_word_embeddings", true).unwrap_or(true);
    FamilyNames {
        prefixes: texts(&["transformer."]),
        spellings: Vec::new(),
        // Masks, which the first files have among the weights.
        ignored: texts(&["*.attn.bias", "*.attn.masked_bias", "score.*"]),
        tied: if is_tied {
            vec![TiedName::head("lm_head.weight", "transformer.wte.weight")]
        } else {
            Vec::new()
        },
        head: texts(&["score.weight"]),
    }
}

fn layers(keys: &Keys<'_>, shapes: &Shapes<'_>) -> Result<Vec<LayerConfig>, TransformersError> {
    let width = keys.size("n_embd", 768)?;
    let std = keys.number("initializer_range", 0.02)?;
    let init = normal(std);
    let tokens = EmbeddingConfig {
        width: Some(width),
        tokens: Some(keys.size("vocab_size", 50_257)?),
        init,
        ..EmbeddingConfig::default()
    };
    let positions = PositionEmbeddingConfig {
        positions: Some(keys.size("n_positions", 1024)?),
        init,
        ..PositionEmbeddingConfig::default()
    };
    let mut layers = vec![
        LayerConfig::named("transformer.wte", tokens),
        LayerConfig::named("transformer.wpe", positions),
    ];
    layers.extend(dropout(
        "transformer.drop",
        keys.fraction("embd_pdrop", 0.1)?,
    ));
    let count = keys.blocks("n_layer", 12)?;
    let blocks = RepeatConfig {
        count,
        layers: block(keys, width, init, normal(std / (2.0 * count as f64).sqrt()))?,
        recompute: shapes.recompute,
    };
    layers.push(LayerConfig::named("transformer.h", blocks));
    layers.push(layer_norm(
        "transformer.ln_f",
        keys.epsilon("layer_norm_epsilon", 1e-5)?,
    ));
    let is_tied = shapes.head == Head::Language && keys.flag("tie_word_embeddings", true)?;
    let table = is_tied.then_some("transformer.wte");
    layers.extend(decoder_head(shapes.head, table, init));
    Ok(layers)
}

/// A block, whose projections back to the sum start smaller, the more blocks there are.
fn block(
    keys: &Keys<'_>,
    width: usize,
    init: Option<InitConfig>,
    init_of_sums: Option<InitConfig>,
) -> Result<Vec<LayerConfig>, TransformersError> {
    let epsilon = keys.epsilon("layer_norm_epsilon", 1e-5)?;
    let dropped = keys.fraction("resid_pdrop", 0.1)?;
    let attention = AttentionConfig {
        causal: true,
        dropout: keys.fraction("attn_pdrop", 0.1)?,
        scale: (!keys.flag("scale_attn_weights", true)?).then_some(1.0),
        transposed: true,
        init,
        output_init: init_of_sums,
        projections: ProjectionNames::Packed(PackedNames {
            packed: "c_attn".to_owned(),
            output: "c_proj".to_owned(),
        }),
        ..AttentionConfig::new(keys.size("n_head", 12)?)
    };
    let linear = |name: &str, outputs: usize, init: Option<InitConfig>| {
        let options = LinearConfig {
            outputs: Some(outputs),
            transposed: true,
            init,
            ..LinearConfig::default()
        };
        LayerConfig::named(name, options)
    };
    let inner = keys
        .optional_size("n_inner")?
        .unwrap_or(width.saturating_mul(4));
    let mut mlp = vec![
        linear("c_fc", inner, init),
        activation("act", keys.activation("activation_function", "gelu_new")?),
        linear("c_proj", width, init_of_sums),
    ];
    mlp.extend(dropout("dropout", dropped));
    Ok(vec![
        residual([
            Some(layer_norm("ln_1", epsilon)),
            Some(LayerConfig::named("attn", attention)),
            dropout("attn.resid_dropout", dropped),
        ]),
        residual([
            Some(layer_norm("ln_2", epsilon)),
            Some(sequential("mlp", mlp)),
        ]),
    ])
}
