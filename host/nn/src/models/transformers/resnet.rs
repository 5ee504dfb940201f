//! Residual networks (He et al., 2016), with the names of `transformers`; the kind `resnet` has torchvision's.

use super::family::{Classes, Family, FamilyNames, texts};
use super::keys::Keys;
use super::parts::{activation, head, sequential};
use super::terms::{Head, Shapes, TransformersError};
use crate::{
    Activation, AdaptivePoolConfig, BatchNormConfig, Conv2dConfig, Extent, InitConfig, LayerConfig,
    LayerKind, Plain, PoolConfig, ResidualConfig,
};

pub(super) static RESNET: Family = Family {
    model_type: "resnet",
    classes: Classes {
        base: "ResNetModel",
        language: None,
        classification: "ResNetForImageClassification",
        generates: false,
    },
    used: &[
        "depths",
        "downsample_in_bottleneck",
        "downsample_in_first_stage",
        "embedding_size",
        "hidden_act",
        "hidden_sizes",
        "layer_type",
        "num_channels",
    ],
    no_effect: &["out_features", "out_indices", "stage_names"],
    refused: &[],
    layers,
    names,
};

fn names(_keys: &Keys<'_>) -> FamilyNames {
    FamilyNames {
        prefixes: texts(&["resnet."]),
        ignored: texts(&["classifier.*"]),
        head: texts(&["classifier.*"]),
        ..FamilyNames::default()
    }
}

fn layers(keys: &Keys<'_>, shapes: &Shapes<'_>) -> Result<Vec<LayerConfig>, TransformersError> {
    shapes.expect_images(keys.size("num_channels", 3)?, None)?;
    let function = keys.activation("hidden_act", "relu")?;
    let mut inputs = keys.size("embedding_size", 64)?;
    let pool = PoolConfig {
        stride: Some(Extent::Both(2)),
        padding: Extent::Both(1),
        ..PoolConfig::new(3)
    };
    let mut embedder = convolution("embedder", (inputs, 7, 2), Some(function));
    embedder.push(LayerConfig::named("pooler", LayerKind::MaxPool2d(pool)));
    let mut layers = vec![sequential("resnet.embedder", embedder)];
    let sizes = keys.sizes("hidden_sizes", &[256, 512, 1024, 2048])?;
    let depths = keys.depths("depths", &[3, 4, 6, 3], sizes.len())?;
    let block = Block {
        is_bottleneck: match keys.text("layer_type", "bottleneck")? {
            "bottleneck" => true,
            "basic" => false,
            _ => return Err(keys.refused("layer_type", "blocks are `basic` or `bottleneck`")),
        },
        strides_first: keys.flag("downsample_in_bottleneck", false)?,
        function,
    };
    for (stage, (&outputs, &depth)) in sizes.iter().zip(&depths).enumerate() {
        let halves = stage > 0 || keys.flag("downsample_in_first_stage", false)?;
        for number in 0..depth {
            let stride = if halves && number == 0 { 2 } else { 1 };
            let options = ResidualConfig {
                recompute: shapes.recompute,
                ..block.residual(inputs, outputs, stride)
            };
            let name = format!("resnet.encoder.stages.{stage}.layers.{number}");
            layers.push(LayerConfig::named(name, options));
            inputs = outputs;
        }
    }
    match shapes.head {
        Head::Classification => {
            let size = Extent::Both(1);
            let pool = LayerKind::AdaptiveAvgPool2d(AdaptivePoolConfig { size });
            layers.push(LayerConfig::named("resnet.pooler", pool));
            layers.push(LayerConfig::new(LayerKind::Flatten(Plain {})));
            layers.push(head("classifier.1", true, None));
        }
        Head::Language => return Err(TransformersError::NoLanguage),
        Head::None => {}
    }
    Ok(layers)
}

/// A convolution of (outputs, kernel, stride), its norm and a function.
fn convolution(
    name: &str,
    (outputs, kernel, stride): (usize, usize, usize),
    function: Option<Activation>,
) -> Vec<LayerConfig> {
    let conv = Conv2dConfig {
        stride: Extent::Both(stride),
        padding: Extent::Both(kernel / 2),
        bias: false,
        init: Some(InitConfig::KaimingNormal { a: 0.0 }),
        ..Conv2dConfig::new(outputs, kernel)
    };
    let mut layers = vec![
        LayerConfig::named(format!("{name}.convolution"), conv),
        LayerConfig::named(format!("{name}.normalization"), BatchNormConfig::default()),
    ];
    layers.extend(function.map(|function| activation(&format!("{name}.activation"), function)));
    layers
}

/// What the blocks have in common.
struct Block {
    is_bottleneck: bool,
    /// Whether the first convolution of a bottleneck has the stride, and not the second.
    strides_first: bool,
    function: Activation,
}

impl Block {
    fn residual(&self, inputs: usize, outputs: usize, stride: usize) -> ResidualConfig {
        let function = Some(self.function);
        let layers = if self.is_bottleneck {
            let inside = (outputs / 4).max(1);
            let (first, second) = if self.strides_first {
                (stride, 1)
            } else {
                (1, stride)
            };
            [
                convolution("layer.0", (inside, 1, first), function),
                convolution("layer.1", (inside, 3, second), function),
                convolution("layer.2", (outputs, 1, 1), None),
            ]
            .concat()
        } else {
            [
                convolution("layer.0", (outputs, 3, stride), function),
                convolution("layer.1", (outputs, 3, 1), None),
            ]
            .concat()
        };
        let shortcut = if inputs != outputs || stride != 1 {
            convolution("shortcut", (outputs, 1, stride), None)
        } else {
            Vec::new()
        };
        ResidualConfig {
            shortcut,
            activation: self.function,
            ..ResidualConfig::new(layers)
        }
    }
}
