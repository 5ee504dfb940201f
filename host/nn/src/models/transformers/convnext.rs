//! `ConvNeXt` (Liu et al., 2022).

use super::family::{Classes, Family, FamilyNames, texts};
use super::keys::Keys;
use super::parts::{activation, head, layer_norm, linear, normal};
use super::terms::{Head, Shapes, TransformersError};
use crate::{
    AdaptivePoolConfig, Conv2dConfig, DropPathConfig, Extent, InitConfig, LayerConfig, LayerKind,
    Plain, ResidualConfig, ScaleConfig, TransposeConfig,
};

pub(super) static CONVNEXT: Family = Family {
    model_type: "convnext",
    classes: Classes {
        base: "ConvNextModel",
        language: None,
        classification: "ConvNextForImageClassification",
        generates: false,
    },
    used: &[
        "depths",
        "drop_path_rate",
        "hidden_act",
        "hidden_sizes",
        "initializer_range",
        "layer_norm_eps",
        "layer_scale_init_value",
        "num_channels",
        "num_stages",
        "patch_size",
    ],
    no_effect: &["image_size", "out_features", "out_indices", "stage_names"],
    refused: &[],
    layers,
    names,
};

/// Constant of all norms but the last, which `layer_norm_eps` is of.
const EPSILON: f64 = 1e-6;

fn names(_keys: &Keys<'_>) -> FamilyNames {
    FamilyNames {
        prefixes: texts(&["convnext."]),
        ignored: texts(&["classifier.*"]),
        head: texts(&["classifier.*"]),
        ..FamilyNames::default()
    }
}

fn layers(keys: &Keys<'_>, shapes: &Shapes<'_>) -> Result<Vec<LayerConfig>, TransformersError> {
    shapes.expect_images(keys.size("num_channels", 3)?, None)?;
    let init = normal(keys.number("initializer_range", 0.02)?);
    let sizes = keys.sizes("hidden_sizes", &[96, 192, 384, 768])?;
    let depths = keys.depths("depths", &[3, 3, 9, 3], sizes.len())?;
    if keys.size("num_stages", sizes.len())? != sizes.len() {
        return Err(keys.refused("num_stages", "`hidden_sizes` has another number of stages"));
    }
    let patch = keys.size("patch_size", 4)?;
    let mut layers = Vec::new();
    let total: usize = depths.iter().sum();
    let most = keys.fraction("drop_path_rate", 0.0)?;
    let mut before = 0;
    for (stage, (&channels, &depth)) in sizes.iter().zip(&depths).enumerate() {
        if stage == 0 {
            layers.push(conv(
                "convnext.embeddings.patch_embeddings",
                channels,
                patch,
                init,
            ));
            layers.extend(over_channels([layer_norm(
                "convnext.embeddings.layernorm",
                EPSILON,
            )]));
        } else {
            let name = format!("convnext.encoder.stages.{stage}.downsampling_layer");
            layers.extend(over_channels([layer_norm(&format!("{name}.0"), EPSILON)]));
            layers.push(conv(&format!("{name}.1"), channels, 2, init));
        }
        for number in 0..depth {
            let name = format!("convnext.encoder.stages.{stage}.layers.{number}");
            // From none in the first block to all of it in the last.
            let dropped = most * f64::from(before) / (total - 1).max(1) as f64;
            let block = ResidualConfig {
                recompute: shapes.recompute,
                ..ResidualConfig::new(block(keys, channels, dropped, init)?)
            };
            layers.push(LayerConfig::named(name, block));
            before += 1;
        }
    }
    match shapes.head {
        Head::Classification => {
            let size = Extent::Both(1);
            let pool = LayerKind::AdaptiveAvgPool2d(AdaptivePoolConfig { size });
            layers.push(LayerConfig::named("convnext.pooler", pool));
            layers.push(LayerConfig::new(LayerKind::Flatten(Plain {})));
            layers.push(layer_norm(
                "convnext.layernorm",
                keys.epsilon("layer_norm_eps", 1e-12)?,
            ));
            layers.push(head("classifier", true, init));
        }
        Head::Language => return Err(TransformersError::NoLanguage),
        Head::None => {}
    }
    Ok(layers)
}

/// A convolution whose windows are side by side.
fn conv(name: &str, channels: usize, kernel: usize, init: Option<InitConfig>) -> LayerConfig {
    let options = Conv2dConfig {
        stride: Extent::Both(kernel),
        init,
        ..Conv2dConfig::new(channels, kernel)
    };
    LayerConfig::named(name, options)
}

/// Layers over the last dimension, for the channels of images.
fn over_channels(layers: impl IntoIterator<Item = LayerConfig>) -> Vec<LayerConfig> {
    let axes = |axes: [usize; 3]| {
        let axes = Some(axes.to_vec());
        LayerConfig::new(TransposeConfig { axes })
    };
    let mut all = vec![axes([1, 2, 0])];
    all.extend(layers);
    all.push(axes([2, 0, 1]));
    all
}

fn block(
    keys: &Keys<'_>,
    channels: usize,
    dropped: f64,
    init: Option<InitConfig>,
) -> Result<Vec<LayerConfig>, TransformersError> {
    let depthwise = Conv2dConfig {
        padding: Extent::Both(3),
        groups: channels,
        init,
        ..Conv2dConfig::new(channels, 7)
    };
    let mut inside = vec![
        layer_norm("layernorm", EPSILON),
        linear("pwconv1", channels.saturating_mul(4), init),
        activation("act", keys.activation("hidden_act", "gelu")?),
        linear("pwconv2", channels, init),
    ];
    let scale = keys.number("layer_scale_init_value", 1e-6)?;
    if scale > 0.0 {
        let options = ScaleConfig { init: scale };
        inside.push(LayerConfig::named("layer_scale_parameter", options));
    }
    let mut layers = vec![LayerConfig::named("dwconv", depthwise)];
    layers.extend(over_channels(inside));
    if dropped > 0.0 {
        let options = DropPathConfig { share: dropped };
        layers.push(LayerConfig::named("drop_path", options));
    }
    Ok(layers)
}
