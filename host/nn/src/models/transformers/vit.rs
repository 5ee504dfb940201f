//! The vision transformer (Dosovitskiy et al., 2021), with a class token.

use super::family::{Classes, Family, FamilyNames, pairs, texts};
use super::keys::Keys;
use super::parts::{activation, dropout, head, layer_norm, linear, normal, residual};
use super::terms::{Head, Shapes, TransformersError};
use crate::{
    AttentionConfig, Conv2dConfig, Extent, InitConfig, LayerConfig, LayerKind, Plain,
    PositionEmbeddingConfig, ProjectionBias, ProjectionBiases, ProjectionNames, RepeatConfig,
    SelectConfig, SelectedPosition, SeparateNames,
};

pub(super) static VIT: Family = Family {
    model_type: "vit",
    classes: Classes {
        base: "ViTModel",
        language: None,
        classification: "ViTForImageClassification",
        generates: false,
    },
    used: &[
        "attention_probs_dropout_prob",
        "hidden_act",
        "hidden_dropout_prob",
        "hidden_size",
        "image_size",
        "initializer_range",
        "intermediate_size",
        "layer_norm_eps",
        "num_attention_heads",
        "num_channels",
        "num_hidden_layers",
        "patch_size",
        "qkv_bias",
    ],
    no_effect: &["encoder_stride", "pooler_act", "pooler_output_size"],
    refused: &[],
    layers,
    names,
};

fn names(_keys: &Keys<'_>) -> FamilyNames {
    FamilyNames {
        prefixes: texts(&["vit."]),
        // What transformers 5 calls them in memory, and in state dictionaries.
        spellings: pairs(&[
            ("vit.layers.", "vit.encoder.layer."),
            (".attention.q_proj.", ".attention.attention.query."),
            (".attention.k_proj.", ".attention.attention.key."),
            (".attention.v_proj.", ".attention.attention.value."),
            (".attention.o_proj.", ".attention.output.dense."),
            (".mlp.fc1.", ".intermediate.dense."),
            (".mlp.fc2.", ".output.dense."),
        ]),
        ignored: texts(&["vit.pooler.*", "vit.embeddings.mask_token", "classifier.*"]),
        tied: Vec::new(),
        head: texts(&["classifier.*"]),
    }
}

fn layers(keys: &Keys<'_>, shapes: &Shapes<'_>) -> Result<Vec<LayerConfig>, TransformersError> {
    let side = keys.size("image_size", 224)?;
    let patch = keys.size("patch_size", 16)?;
    let channels = keys.size("num_channels", 3)?;
    shapes.expect_images(channels, Some(side))?;
    let width = keys.size("hidden_size", 768)?;
    let init = normal(keys.number("initializer_range", 0.02)?);
    let across = side / patch;
    let projection = Conv2dConfig {
        stride: Extent::Both(patch),
        init,
        ..Conv2dConfig::new(width, patch)
    };
    let positions = PositionEmbeddingConfig {
        positions: Some(across.saturating_mul(across).saturating_add(1)),
        bare: true,
        init,
    };
    let mut layers = vec![
        LayerConfig::named("vit.embeddings.patch_embeddings.projection", projection),
        LayerConfig::new(LayerKind::Positions(Plain {})),
        LayerConfig::named("vit.embeddings.cls_token", LayerKind::ClassToken(Plain {})),
        LayerConfig::named("vit.embeddings.position_embeddings", positions),
    ];
    let dropped = keys.fraction("hidden_dropout_prob", 0.0)?;
    layers.extend(dropout("vit.embeddings.dropout", dropped));
    let blocks = RepeatConfig {
        count: keys.blocks("num_hidden_layers", 12)?,
        layers: block(keys, width, dropped, init)?,
        recompute: shapes.recompute,
    };
    layers.push(LayerConfig::named("vit.encoder.layer", blocks));
    layers.push(layer_norm(
        "vit.layernorm",
        keys.epsilon("layer_norm_eps", 1e-12)?,
    ));
    match shapes.head {
        Head::Classification => {
            let at = SelectedPosition::Index(0);
            layers.push(LayerConfig::new(SelectConfig { at }));
            layers.push(head("classifier", true, init));
        }
        Head::Language => return Err(TransformersError::NoLanguage),
        Head::None => {}
    }
    Ok(layers)
}

fn block(
    keys: &Keys<'_>,
    width: usize,
    dropped: f64,
    init: Option<InitConfig>,
) -> Result<Vec<LayerConfig>, TransformersError> {
    let epsilon = keys.epsilon("layer_norm_eps", 1e-12)?;
    let has_bias = keys.flag("qkv_bias", true)?;
    let attention = AttentionConfig {
        dropout: keys.fraction("attention_probs_dropout_prob", 0.0)?,
        bias: ProjectionBias::Each(ProjectionBiases {
            query: has_bias,
            key: has_bias,
            value: has_bias,
            ..ProjectionBiases::default()
        }),
        init,
        projections: ProjectionNames::Separate(SeparateNames {
            query: "attention.query".to_owned(),
            key: "attention.key".to_owned(),
            value: "attention.value".to_owned(),
            output: "output.dense".to_owned(),
        }),
        ..AttentionConfig::new(keys.size("num_attention_heads", 12)?)
    };
    Ok(vec![
        residual([
            Some(layer_norm("layernorm_before", epsilon)),
            Some(LayerConfig::named("attention", attention)),
            dropout("attention.output.dropout", dropped),
        ]),
        residual([
            Some(layer_norm("layernorm_after", epsilon)),
            Some(linear(
                "intermediate.dense",
                keys.size("intermediate_size", 3072)?,
                init,
            )),
            Some(activation(
                "intermediate.act",
                keys.activation("hidden_act", "gelu")?,
            )),
            Some(linear("output.dense", width, init)),
            dropout("output.dropout", dropped),
        ]),
    ])
}
