//! BERT (Devlin et al., 2019).

use super::family::{Classes, Family, FamilyNames, TiedName, pairs, texts};
use super::keys::Keys;
use super::parts::{activation, dropout, head, layer_norm, linear, normal, residual, tied_head};
use super::terms::{Head, Shapes, TransformersError};
use crate::{
    Activation, AttentionConfig, Combination, EmbeddingConfig, InitConfig, LayerConfig,
    ParallelConfig, PositionEmbeddingConfig, ProjectionNames, RepeatConfig, SelectConfig,
    SelectedPosition, SeparateNames,
};

pub(super) static BERT: Family = Family {
    model_type: "bert",
    classes: Classes {
        base: "BertModel",
        language: Some("BertForMaskedLM"),
        classification: "BertForSequenceClassification",
        generates: false,
    },
    used: &[
        "attention_probs_dropout_prob",
        "classifier_dropout",
        "hidden_act",
        "hidden_dropout_prob",
        "hidden_size",
        "initializer_range",
        "intermediate_size",
        "layer_norm_eps",
        "max_position_embeddings",
        "num_attention_heads",
        "num_hidden_layers",
        "pad_token_id",
        "tie_word_embeddings",
        "type_vocab_size",
        "vocab_size",
    ],
    no_effect: &[
        "directionality",
        "pooler_fc_size",
        "pooler_num_attention_heads",
        "pooler_num_fc_layers",
        "pooler_size_per_head",
        "pooler_type",
    ],
    refused: &[(
        "position_embedding_type",
        "\"absolute\"",
        "positions are a table of vectors here",
    )],
    layers,
    names,
};

fn names(keys: &Keys<'_>) -> FamilyNames {
    let is_tied = keys.flag("tie_word_embeddings", true).unwrap_or(true);
    let mut tied = vec![TiedName {
        name: "cls.predictions.decoder.bias".to_owned(),
        parameter: "cls.predictions.bias".to_owned(),
        setting: "nothing".to_owned(),
    }];
    if is_tied {
        let table = "bert.embeddings.word_embeddings.weight";
        tied.push(TiedName::head("cls.predictions.decoder.weight", table));
    }
    FamilyNames {
        prefixes: texts(&["bert."]),
        spellings: pairs(&[
            ("LayerNorm.gamma", "LayerNorm.weight"),
            ("LayerNorm.beta", "LayerNorm.bias"),
        ]),
        ignored: texts(&[
            "*.position_ids",
            "*.token_type_ids",
            "cls.*",
            "bert.pooler.*",
            "classifier.*",
        ]),
        tied,
        head: texts(&["classifier.*", "bert.pooler.*"]),
    }
}

fn layers(keys: &Keys<'_>, shapes: &Shapes<'_>) -> Result<Vec<LayerConfig>, TransformersError> {
    let init = normal(keys.number("initializer_range", 0.02)?);
    let mut layers = embeddings(keys, init)?;
    let blocks = RepeatConfig {
        count: keys.blocks("num_hidden_layers", 12)?,
        layers: block(keys, init)?,
        recompute: shapes.recompute,
    };
    layers.push(LayerConfig::named("bert.encoder.layer", blocks));
    let width = keys.size("hidden_size", 768)?;
    match shapes.head {
        Head::Language => {
            let epsilon = keys.epsilon("layer_norm_eps", 1e-12)?;
            layers.push(linear("cls.predictions.transform.dense", width, init));
            let function = keys.activation("hidden_act", "gelu")?;
            layers.push(activation("cls.predictions.transform.act", function));
            layers.push(layer_norm("cls.predictions.transform.LayerNorm", epsilon));
            if !keys.flag("tie_word_embeddings", true)? {
                return Err(keys.refused(
                    "tie_word_embeddings",
                    "the head's weight is the table of the tokens",
                ));
            }
            let table = "bert.embeddings.word_embeddings";
            layers.push(tied_head("cls.predictions", table, true));
        }
        Head::Classification => {
            let at = SelectedPosition::Index(0);
            layers.push(LayerConfig::new(SelectConfig { at }));
            layers.push(linear("bert.pooler.dense", width, init));
            layers.push(activation("bert.pooler.activation", Activation::Tanh));
            let dropped = match keys.value("classifier_dropout") {
                Some(_) => keys.fraction("classifier_dropout", 0.0)?,
                None => keys.fraction("hidden_dropout_prob", 0.1)?,
            };
            layers.extend(dropout("dropout", dropped));
            layers.push(head("classifier", true, init));
        }
        Head::None => {}
    }
    Ok(layers)
}

/// The sum of what tokens, their types and their positions are embedded as, and its norm.
fn embeddings(
    keys: &Keys<'_>,
    init: Option<InitConfig>,
) -> Result<Vec<LayerConfig>, TransformersError> {
    let width = Some(keys.size("hidden_size", 768)?);
    let words = EmbeddingConfig {
        width,
        tokens: Some(keys.size("vocab_size", 30_522)?),
        padding: if keys.is_null("pad_token_id") {
            None
        } else {
            Some(keys.token("pad_token_id")?.unwrap_or(0))
        },
        init,
        ..EmbeddingConfig::default()
    };
    let types = EmbeddingConfig {
        width,
        tokens: Some(keys.size("type_vocab_size", 2)?),
        input: Some("token_types".to_owned()),
        default: Some(0),
        init,
        ..EmbeddingConfig::default()
    };
    let positions = PositionEmbeddingConfig {
        positions: Some(keys.size("max_position_embeddings", 512)?),
        init,
        ..PositionEmbeddingConfig::default()
    };
    let sum = ParallelConfig {
        branches: vec![
            vec![LayerConfig::named("bert.embeddings.word_embeddings", words)],
            vec![LayerConfig::named(
                "bert.embeddings.token_type_embeddings",
                types,
            )],
        ],
        combine: Combination::Add,
        axis: 0,
    };
    let epsilon = keys.epsilon("layer_norm_eps", 1e-12)?;
    let mut layers = vec![
        LayerConfig::new(sum),
        LayerConfig::named("bert.embeddings.position_embeddings", positions),
        layer_norm("bert.embeddings.LayerNorm", epsilon),
    ];
    let dropped = keys.fraction("hidden_dropout_prob", 0.1)?;
    layers.extend(dropout("bert.embeddings.dropout", dropped));
    Ok(layers)
}

/// A block, whose norms follow the sums.
fn block(keys: &Keys<'_>, init: Option<InitConfig>) -> Result<Vec<LayerConfig>, TransformersError> {
    let width = keys.size("hidden_size", 768)?;
    let epsilon = keys.epsilon("layer_norm_eps", 1e-12)?;
    let dropped = keys.fraction("hidden_dropout_prob", 0.1)?;
    let attention = AttentionConfig {
        dropout: keys.fraction("attention_probs_dropout_prob", 0.1)?,
        init,
        projections: ProjectionNames::Separate(SeparateNames {
            query: "self.query".to_owned(),
            key: "self.key".to_owned(),
            value: "self.value".to_owned(),
            output: "output.dense".to_owned(),
        }),
        ..AttentionConfig::new(keys.size("num_attention_heads", 12)?)
    };
    let inner = keys.size("intermediate_size", 3072)?;
    let function = keys.activation("hidden_act", "gelu")?;
    Ok(vec![
        residual([
            Some(LayerConfig::named("attention", attention)),
            dropout("attention.output.dropout", dropped),
        ]),
        layer_norm("attention.output.LayerNorm", epsilon),
        residual([
            Some(linear("intermediate.dense", inner, init)),
            Some(activation("intermediate.act", function)),
            Some(linear("output.dense", width, init)),
            dropout("output.dropout", dropped),
        ]),
        layer_norm("output.LayerNorm", epsilon),
    ])
}
