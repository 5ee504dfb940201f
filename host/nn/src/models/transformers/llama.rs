//! Llama (Touvron et al., 2023) and the families that differ from it by a few settings: Mistral, Qwen2 and Qwen3.

use serde_json::Value;

use super::family::{Classes, Family, FamilyNames, TiedName, texts};
use super::keys::Keys;
use super::parts::{activation, decoder_head, normal, residual, rms_norm, sequential};
use super::terms::{Head, Shapes, TransformersError};
use crate::{
    AttentionConfig, Combination, EmbeddingConfig, InitConfig, LayerConfig, LinearConfig,
    ParallelConfig, ProjectionBias, ProjectionBiases, ProjectionNames, QueryNormConfig,
    RepeatConfig, RotaryAngles, RotaryConfig, RotaryScaling, SeparateNames,
};

const USED: &[&str] = &[
    "attention_bias",
    "attention_dropout",
    "head_dim",
    "hidden_act",
    "hidden_size",
    "initializer_range",
    "intermediate_size",
    "layer_types",
    "mlp_bias",
    "num_attention_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "pad_token_id",
    "rms_norm_eps",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "sliding_window",
    "tie_word_embeddings",
    "use_sliding_window",
    "vocab_size",
];

/// The number of positions is that of pretraining; there is no table of them.
const NO_EFFECT: &[&str] = &[
    "max_position_embeddings",
    "max_window_layers",
    "pretraining_tp",
];

const REFUSED: &[(&str, &str, &str)] = &[(
    "partial_rotary_factor",
    "1.0",
    "the family turns all elements of its heads",
)];

/// What the families differ in.
struct Variant {
    /// Defaults that the class has for missing keys.
    width: usize,
    inner: usize,
    heads: usize,
    kv_heads: Option<usize>,
    head_width: Option<usize>,
    vocabulary: usize,
    layers: usize,
    window: Option<usize>,
    /// Whether queries, keys and values have biases, whatever `attention_bias` says.
    biased: bool,
    query_norm: bool,
}

const LLAMA_SIZES: Variant = Variant {
    width: 4096,
    inner: 11_008,
    heads: 32,
    kv_heads: None,
    head_width: None,
    vocabulary: 32_000,
    layers: 32,
    window: None,
    biased: false,
    query_norm: false,
};

const MISTRAL_SIZES: Variant = Variant {
    inner: 14_336,
    kv_heads: Some(8),
    window: Some(4096),
    ..LLAMA_SIZES
};

const QWEN2_SIZES: Variant = Variant {
    inner: 22_016,
    kv_heads: Some(32),
    vocabulary: 151_936,
    biased: true,
    ..LLAMA_SIZES
};

const QWEN3_SIZES: Variant = Variant {
    head_width: Some(128),
    biased: false,
    query_norm: true,
    ..QWEN2_SIZES
};

pub(super) static LLAMA: Family = Family {
    model_type: "llama",
    classes: Classes {
        base: "LlamaModel",
        language: Some("LlamaForCausalLM"),
        classification: "LlamaForSequenceClassification",
        generates: true,
    },
    used: USED,
    no_effect: NO_EFFECT,
    refused: REFUSED,
    layers: |keys, shapes| layers(keys, shapes, &LLAMA_SIZES),
    names,
};

pub(super) static MISTRAL: Family = Family {
    model_type: "mistral",
    classes: Classes {
        base: "MistralModel",
        language: Some("MistralForCausalLM"),
        classification: "MistralForSequenceClassification",
        generates: true,
    },
    layers: |keys, shapes| layers(keys, shapes, &MISTRAL_SIZES),
    ..LLAMA
};

pub(super) static QWEN2: Family = Family {
    model_type: "qwen2",
    classes: Classes {
        base: "Qwen2Model",
        language: Some("Qwen2ForCausalLM"),
        classification: "Qwen2ForSequenceClassification",
        generates: true,
    },
    layers: |keys, shapes| layers(keys, shapes, &QWEN2_SIZES),
    ..LLAMA
};

pub(super) static QWEN3: Family = Family {
    model_type: "qwen3",
    classes: Classes {
        base: "Qwen3Model",
        language: Some("Qwen3ForCausalLM"),
        classification: "Qwen3ForSequenceClassification",
        generates: true,
    },
    layers: |keys, shapes| layers(keys, shapes, &QWEN3_SIZES),
    ..LLAMA
};

fn names(keys: &Keys<'_>) -> FamilyNames {
    let is_tied = keys.flag("tie_word_embeddings", false).unwrap_or(false);
    FamilyNames {
        prefixes: texts(&["model."]),
        spellings: Vec::new(),
        // Frequencies, which files of transformers 4 have among the weights.
        ignored: texts(&["*.rotary_emb.inv_freq", "score.*"]),
        tied: if is_tied {
            vec![TiedName::head(
                "lm_head.weight",
                "model.embed_tokens.weight",
            )]
        } else {
            Vec::new()
        },
        head: texts(&["score.weight"]),
    }
}

fn layers(
    keys: &Keys<'_>,
    shapes: &Shapes<'_>,
    variant: &Variant,
) -> Result<Vec<LayerConfig>, TransformersError> {
    let width = keys.size("hidden_size", variant.width)?;
    let epsilon = keys.epsilon("rms_norm_eps", 1e-6)?;
    let init = normal(keys.number("initializer_range", 0.02)?);
    let tokens = EmbeddingConfig {
        width: Some(width),
        tokens: Some(keys.size("vocab_size", variant.vocabulary)?),
        padding: keys.token("pad_token_id")?,
        init,
        ..EmbeddingConfig::default()
    };
    let blocks = RepeatConfig {
        count: keys.blocks("num_hidden_layers", variant.layers)?,
        layers: vec![
            residual([
                Some(rms_norm("input_layernorm", epsilon)),
                Some(attention(keys, variant, epsilon, init)?),
            ]),
            residual([
                Some(rms_norm("post_attention_layernorm", epsilon)),
                Some(mlp(keys, variant, width, init)?),
            ]),
        ],
        recompute: shapes.recompute,
    };
    let mut layers = vec![
        LayerConfig::named("model.embed_tokens", tokens),
        LayerConfig::named("model.layers", blocks),
        rms_norm("model.norm", epsilon),
    ];
    let is_tied = shapes.head == Head::Language && keys.flag("tie_word_embeddings", false)?;
    let table = is_tied.then_some("model.embed_tokens");
    layers.extend(decoder_head(shapes.head, table, init));
    Ok(layers)
}

fn attention(
    keys: &Keys<'_>,
    variant: &Variant,
    epsilon: f64,
    init: Option<InitConfig>,
) -> Result<LayerConfig, TransformersError> {
    let heads = keys.size("num_attention_heads", variant.heads)?;
    let has_bias = keys.flag("attention_bias", false)?;
    let options = AttentionConfig {
        kv_heads: Some(keys.size("num_key_value_heads", variant.kv_heads.unwrap_or(heads))?),
        head_width: keys.optional_size("head_dim")?.or(variant.head_width),
        causal: true,
        window: window(keys, variant)?,
        rotary: RotaryConfig::Angles(rotary(keys)?),
        query_norm: variant.query_norm.then(|| QueryNormConfig {
            epsilon,
            ..QueryNormConfig::default()
        }),
        dropout: keys.fraction("attention_dropout", 0.0)?,
        bias: if variant.biased {
            ProjectionBias::Each(ProjectionBiases {
                output: false,
                ..ProjectionBiases::default()
            })
        } else {
            ProjectionBias::All(has_bias)
        },
        init,
        projections: ProjectionNames::Separate(SeparateNames {
            query: "q_proj".to_owned(),
            key: "k_proj".to_owned(),
            value: "v_proj".to_owned(),
            output: "o_proj".to_owned(),
        }),
        ..AttentionConfig::new(heads)
    };
    Ok(LayerConfig::named("self_attn", options))
}

/// The window of all layers; none with one, where the layers differ.
fn window(keys: &Keys<'_>, variant: &Variant) -> Result<Option<usize>, TransformersError> {
    let is_full = |kind: &Value| kind.as_str() == Some("full_attention");
    let kinds = keys.value("layer_types").and_then(Value::as_array);
    if kinds.is_some_and(|kinds| !kinds.iter().all(is_full)) {
        return Err(keys.refused("layer_types", "all layers attend alike here"));
    }
    if keys.flag("use_sliding_window", false)? {
        return Err(keys.refused(
            "use_sliding_window",
            "only some layers would have the window",
        ));
    }
    // `null` means none, other than a missing key.
    match variant.window {
        Some(default) if !keys.is_null("sliding_window") => {
            Ok(Some(keys.size("sliding_window", default)?))
        }
        _ => Ok(None),
    }
}

/// The angles, which transformers 4 writes as `rope_theta` and `rope_scaling`, and 5 as `rope_parameters`.
fn rotary(keys: &Keys<'_>) -> Result<RotaryAngles, TransformersError> {
    let (key, settings) = match keys.value("rope_parameters") {
        Some(settings) => ("rope_parameters", Some(settings)),
        None => ("rope_scaling", keys.value("rope_scaling")),
    };
    let number = |name: &str| {
        settings
            .and_then(|settings| settings.get(name))
            .and_then(Value::as_f64)
    };
    let base = match number("rope_theta") {
        Some(base) => base,
        None => keys.number("rope_theta", 10_000.0)?,
    };
    let kind = ["rope_type", "type"]
        .iter()
        .find_map(|name| settings?.get(name)?.as_str());
    let needed = |name: &str| {
        let value = number(name).filter(|value| *value > 0.0);
        value.ok_or_else(|| keys.refused(key, &format!("it has no `{name}` above 0")))
    };
    let scaling = match kind {
        None | Some("default") => None,
        Some("linear") => Some(RotaryScaling::Linear {
            factor: needed("factor")?,
        }),
        Some("llama3") => Some(RotaryScaling::Llama3 {
            factor: needed("factor")?,
            low_frequency_factor: needed("low_freq_factor")?,
            high_frequency_factor: needed("high_freq_factor")?,
            original_positions: needed("original_max_position_embeddings")? as usize,
        }),
        Some(_) => {
            let reason = "angles are `default`, `linear` or `llama3` here";
            return Err(keys.refused(key, reason));
        }
    };
    if number("partial_rotary_factor").is_some_and(|share| share < 1.0) {
        return Err(keys.refused(key, "the family turns all elements of its heads"));
    }
    if base <= 1.0 {
        return Err(keys.refused(key, "the base of the angles must be above 1"));
    }
    Ok(RotaryAngles {
        base,
        scaling,
        ..RotaryAngles::default()
    })
}

/// down(act(gate(x)) · up(x)).
fn mlp(
    keys: &Keys<'_>,
    variant: &Variant,
    width: usize,
    init: Option<InitConfig>,
) -> Result<LayerConfig, TransformersError> {
    let inner = keys.size("intermediate_size", variant.inner)?;
    let bias = keys.flag("mlp_bias", false)?;
    let linear = |name: &str, outputs: usize| {
        let options = LinearConfig {
            outputs: Some(outputs),
            bias: Some(bias),
            init,
            ..LinearConfig::default()
        };
        LayerConfig::named(name, options)
    };
    let gated = ParallelConfig {
        branches: vec![
            vec![
                linear("gate_proj", inner),
                activation("act_fn", keys.activation("hidden_act", "silu")?),
            ],
            vec![linear("up_proj", inner)],
        ],
        combine: Combination::Multiply,
        axis: 0,
    };
    Ok(sequential(
        "mlp",
        vec![LayerConfig::new(gated), linear("down_proj", width)],
    ))
}
