//! Attention in the manifest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values::InitConfig;

/// Multi-head self-attention over (length, width).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AttentionConfig {
    /// Number of attention heads; without `head_width`, the width must be a multiple of it.
    #[schemars(range(min = 1))]
    pub heads: usize,
    /// Number of heads of keys and values, a divisor of `heads`: each serves as many heads of queries. Default: `heads`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub kv_heads: Option<usize>,
    /// Width of a head. Default: the width, divided by the heads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub head_width: Option<usize>,
    /// Whether a position attends only to itself and earlier positions.
    #[serde(default)]
    pub causal: bool,
    /// Number of positions that a position attends to, itself and those right before it; with `causal`. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub window: Option<usize>,
    /// Whether queries and keys get rotary position embeddings, or which.
    #[serde(default)]
    pub rotary: RotaryConfig,
    /// Root mean square norms of the queries and keys of each head, before they are rotated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query_norm: Option<QueryNormConfig>,
    /// Factor of the scores, above 0. Default: 1 / √(width of a head).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub scale: Option<f64>,
    /// Fraction of attention weights dropped during training, from 0 to below 1.
    #[serde(default)]
    #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1.0))]
    pub dropout: f64,
    /// Whether the projections have biases: one value for all, or one for each.
    #[serde(default)]
    pub bias: ProjectionBias,
    /// Whether the weights of the projections are (inputs, outputs), as GPT-2's, and not (outputs, inputs).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub transposed: bool,
    /// Initialisation of the projections' weights. Default: PyTorch's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init: Option<InitConfig>,
    /// Initialisation of the weight of the projection of the concatenated heads. Default: `init`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_init: Option<InitConfig>,
    /// Names of the projections; they may contain dots.
    #[serde(default, skip_serializing_if = "ProjectionNames::is_default")]
    pub projections: ProjectionNames,
}

impl AttentionConfig {
    /// Attention of this many heads, with defaults for everything else.
    pub fn new(heads: usize) -> AttentionConfig {
        AttentionConfig {
            heads,
            kv_heads: None,
            head_width: None,
            causal: false,
            window: None,
            rotary: RotaryConfig::default(),
            query_norm: None,
            scale: None,
            dropout: 0.0,
            bias: ProjectionBias::default(),
            transposed: false,
            init: None,
            output_init: None,
            projections: ProjectionNames::default(),
        }
    }
}

/// Names of an attention's projections, which their parameters' names begin with, after the layer's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ProjectionNames {
    /// One projection to queries, keys and values, side by side.
    Packed(PackedNames),
    /// A projection to each.
    Separate(SeparateNames),
}

impl Default for ProjectionNames {
    fn default() -> Self {
        ProjectionNames::Packed(PackedNames {
            packed: "qkv".to_owned(),
            output: "proj".to_owned(),
        })
    }
}

impl ProjectionNames {
    fn is_default(&self) -> bool {
        *self == ProjectionNames::default()
    }
}

/// Names of one projection to queries, keys and values, and of that of the outputs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PackedNames {
    /// Name of the projection to queries, keys and values.
    pub packed: String,
    /// Name of the projection of the concatenated heads.
    pub output: String,
}

/// Names of the projections to queries, to keys and to values, and of that of the outputs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SeparateNames {
    /// Name of the projection to queries.
    pub query: String,
    /// Name of the projection to keys.
    pub key: String,
    /// Name of the projection to values.
    pub value: String,
    /// Name of the projection of the concatenated heads.
    pub output: String,
}

/// Whether an attention's projections have biases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ProjectionBias {
    /// All of them, or none.
    All(bool),
    /// Each of them.
    Each(ProjectionBiases),
}

impl Default for ProjectionBias {
    fn default() -> Self {
        ProjectionBias::All(true)
    }
}

impl ProjectionBias {
    /// Returns it for each projection.
    pub fn each(self) -> ProjectionBiases {
        match self {
            ProjectionBias::Each(each) => each,
            ProjectionBias::All(all) => ProjectionBiases {
                packed: all,
                query: all,
                key: all,
                value: all,
                output: all,
            },
        }
    }
}

/// Which of an attention's projections have biases; those not named have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "one for each projection")]
pub struct ProjectionBiases {
    /// The projection to queries, keys and values.
    pub packed: bool,
    /// The projection to queries.
    pub query: bool,
    /// The projection to keys.
    pub key: bool,
    /// The projection to values.
    pub value: bool,
    /// The projection of the concatenated heads.
    pub output: bool,
}

impl Default for ProjectionBiases {
    fn default() -> Self {
        ProjectionBias::All(true).each()
    }
}

/// Root mean square norms of the queries and keys of each head (Qwen3), with a weight for each element of a head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct QueryNormConfig {
    /// Name of the norm of queries.
    pub query: String,
    /// Name of the norm of keys.
    pub key: String,
    /// Constant added to the mean square; above 0.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub epsilon: f64,
}

impl Default for QueryNormConfig {
    fn default() -> Self {
        QueryNormConfig {
            query: "q_norm".to_owned(),
            key: "k_norm".to_owned(),
            epsilon: 1e-6,
        }
    }
}

/// Whether queries and keys get rotary position embeddings, or which.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum RotaryConfig {
    /// The usual ones, or none.
    Switch(bool),
    /// Those with these angles.
    Angles(RotaryAngles),
}

impl Default for RotaryConfig {
    fn default() -> Self {
        RotaryConfig::Switch(false)
    }
}

impl RotaryConfig {
    /// Returns the angles, if there are any.
    pub fn angles(self) -> Option<RotaryAngles> {
        match self {
            RotaryConfig::Switch(is_on) => is_on.then(RotaryAngles::default),
            RotaryConfig::Angles(angles) => Some(angles),
        }
    }
}

/// Angles of rotary position embeddings (Su et al., 2021): at position p, pair i of n is turned by p / base^(i / n).
///
/// The pairs are of the two halves of what is turned, (i, i + n).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RotaryAngles {
    /// Base of the angles, above 1.
    #[schemars(extend("exclusiveMinimum" = 1.0))]
    pub base: f64,
    /// Fraction of a head's elements that is turned, the first ones; above 0, at most 1.
    #[schemars(range(max = 1.0), extend("exclusiveMinimum" = 0.0))]
    pub share: f64,
    /// Change of the angles for contexts longer than those of pretraining. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scaling: Option<RotaryScaling>,
}

impl Default for RotaryAngles {
    fn default() -> Self {
        RotaryAngles {
            base: 10_000.0,
            share: 1.0,
            scaling: None,
        }
    }
}

/// Change of rotary angles for longer contexts, as in `transformers`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum RotaryScaling {
    /// All angles are divided by a factor.
    Linear {
        /// The factor, above 0.
        #[schemars(extend("exclusiveMinimum" = 0.0))]
        factor: f64,
    },
    /// Angles of low frequency are divided by a factor, those of high frequency stay, and those in between are mixed.
    Llama3 {
        /// The factor of low frequencies, above 0.
        #[schemars(extend("exclusiveMinimum" = 0.0))]
        factor: f64,
        /// Turns within the original positions up to which a frequency is low.
        #[schemars(extend("exclusiveMinimum" = 0.0))]
        low_frequency_factor: f64,
        /// Turns within the original positions from which a frequency is high; more than `low_frequency_factor`.
        #[schemars(extend("exclusiveMinimum" = 0.0))]
        high_frequency_factor: f64,
        /// Number of positions of pretraining.
        #[schemars(range(min = 1))]
        original_positions: usize,
    },
}

impl RotaryScaling {
    /// Returns an angle per position from that without scaling.
    pub fn scaled(self, angle: f64) -> f64 {
        match self {
            RotaryScaling::Linear { factor } => angle / factor,
            RotaryScaling::Llama3 {
                factor,
                low_frequency_factor: low,
                high_frequency_factor: high,
                original_positions,
            } => {
                let turns = original_positions as f64 * angle / std::f64::consts::TAU;
                if turns > high {
                    return angle;
                }
                if turns < low {
                    return angle / factor;
                }
                let share_of_high = (turns - low) / (high - low);
                (1.0 - share_of_high) * angle / factor + share_of_high * angle
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_their_defaults_and_wrong_ones_are_refused() {
        let parse = |text: &str| serde_json::from_str::<AttentionConfig>(text);
        assert_eq!(
            parse(r#"{"heads": 3}"#).expect("a layer"),
            AttentionConfig::new(3)
        );
        let all = parse(
            r#"{"heads": 4, "kv_heads": 2, "head_width": 8, "causal": true, "window": 5,
                "rotary": {"base": 5e5, "scaling": {"kind": "linear", "factor": 2}},
                "query_norm": {"epsilon": 1e-5}, "scale": 0.5, "bias": {"output": false},
                "projections": {"query": "q", "key": "k", "value": "v", "output": "o.dense"}}"#,
        )
        .expect("a layer");
        let angles = all.rotary.angles().expect("angles");
        assert_eq!(angles.share.to_bits(), 1_f64.to_bits());
        let bias = all.bias.each();
        assert!(bias.query && bias.key && bias.value && !bias.output);
        let written = serde_json::to_string(&all).expect("a text");
        assert_eq!(parse(&written).expect("the same layer"), all);
        for wrong in [
            r#"{"heads": 3, "kv_head": 1}"#,
            r#"{"heads": 3, "rotary": {"bases": 1}}"#,
            r#"{"heads": 3, "projections": {"query": "q", "output": "o"}}"#,
            r#"{"heads": 3, "bias": {"queries": true}}"#,
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    const LLAMA_ANGLES: [(u8, f64); 9] = [
        (0, 1.0),
        (20, 0.016_560_440_883_040_428),
        (28, 0.003_211_446_106_433_868_4),
        (30, 0.001_371_893_682_517_111_3),
        (32, 0.000_524_846_022_017_300_1),
        (34, 0.000_178_507_791_133_597_5),
        (36, 7.784_655_463_183_299e-05),
        (50, 4.411_534_519_022_098e-06),
        (63, 3.068_925_877_869_333e-07),
    ];

    /// The numbers of `transformers` 5.24, `_compute_llama3_parameters`, for Llama 3.1's configuration.
    #[test]
    fn angles_are_scaled_as_in_transformers() {
        let scaling = RotaryScaling::Llama3 {
            factor: 8.0,
            low_frequency_factor: 1.0,
            high_frequency_factor: 4.0,
            original_positions: 8192,
        };
        for (pair, expected) in LLAMA_ANGLES {
            let angle = 500_000_f64.powf(-f64::from(pair) / 64.0);
            let found = scaling.scaled(angle);
            assert!(
                (found / expected - 1.0).abs() < 1e-6,
                "{pair}: {found} {expected}"
            );
        }
        let linear = RotaryScaling::Linear { factor: 4.0 };
        assert!((linear.scaled(0.5) - 0.125).abs() < 1e-15);
    }
}
