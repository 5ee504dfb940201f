//! Layers that several families have.

use super::terms::Head;
use crate::{
    Activation, ActivationConfig, DropoutConfig, InitConfig, LayerConfig, LayerKind, LinearConfig,
    NamedPosition, NormConfig, ResidualConfig, SelectConfig, SelectedPosition, SequentialLayers,
};

/// A normal distribution, with the `initializer_range` of a configuration.
#[expect(clippy::unnecessary_wraps, reason = "it is the option of a layer")]
pub(super) fn normal(std: f64) -> Option<InitConfig> {
    Some(InitConfig::Normal { mean: 0.0, std })
}

/// A linear layer with a bias.
pub(super) fn linear(name: &str, outputs: usize, init: Option<InitConfig>) -> LayerConfig {
    let options = LinearConfig {
        outputs: Some(outputs),
        init,
        ..LinearConfig::default()
    };
    LayerConfig::named(name, options)
}

/// A head, whose outputs are those that the targets need.
pub(super) fn head(name: &str, bias: bool, init: Option<InitConfig>) -> LayerConfig {
    let options = LinearConfig {
        bias: Some(bias),
        init,
        ..LinearConfig::default()
    };
    LayerConfig::named(name, options)
}

/// The end of a model whose positions see those before them: a head for each position, which uses the table of the tokens if there is one,
/// or one for the last.
pub(super) fn decoder_head(
    kind: Head,
    table: Option<&str>,
    init: Option<InitConfig>,
) -> Vec<LayerConfig> {
    match kind {
        Head::Language => vec![match table {
            Some(table) => tied_head("lm_head", table, false),
            None => head("lm_head", false, init),
        }],
        Head::Classification => {
            let at = SelectedPosition::Named(NamedPosition::Last);
            let last = LayerConfig::new(SelectConfig { at });
            vec![last, head("score", false, init)]
        }
        Head::None => Vec::new(),
    }
}

/// A head that uses the table of the tokens.
pub(super) fn tied_head(name: &str, table: &str, bias: bool) -> LayerConfig {
    let options = LinearConfig {
        bias: bias.then_some(true),
        tied: Some(table.to_owned()),
        ..LinearConfig::default()
    };
    LayerConfig::named(name, options)
}

pub(super) fn layer_norm(name: &str, epsilon: f64) -> LayerConfig {
    LayerConfig::named(name, LayerKind::LayerNorm(NormConfig { epsilon }))
}

pub(super) fn rms_norm(name: &str, epsilon: f64) -> LayerConfig {
    LayerConfig::named(name, LayerKind::RmsNorm(NormConfig { epsilon }))
}

pub(super) fn activation(name: &str, function: Activation) -> LayerConfig {
    LayerConfig::named(name, ActivationConfig { function })
}

/// Dropout, if there is any.
pub(super) fn dropout(name: &str, share: f64) -> Option<LayerConfig> {
    (share > 0.0).then(|| LayerConfig::named(name, DropoutConfig { share }))
}

/// x + layers(x), of the layers that there are.
pub(super) fn residual(layers: impl IntoIterator<Item = Option<LayerConfig>>) -> LayerConfig {
    LayerConfig::new(ResidualConfig::new(layers.into_iter().flatten().collect()))
}

pub(super) fn sequential(name: &str, layers: Vec<LayerConfig>) -> LayerConfig {
    let recompute = false;
    LayerConfig::named(name, SequentialLayers { layers, recompute })
}
