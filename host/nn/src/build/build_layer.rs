//! Builds the layers that contain no others: output shape, parameters and FLOPs of each.

use super::builder::{Builder, LayerProblem, Made};
use crate::Inputs;
use crate::init::Init;
use crate::layers::{
    Attention, AttentionOptions, BatchNorm, BatchNormOptions, CategoryEmbeddings, Conv1d, Conv2d,
    ConvOptions, Dropout, Embedding, LayerNorm, LinearOptions, Pool2d, PositionEmbedding, RmsNorm,
    Rotary, Stateless,
};
use crate::ops::{self, PoolKind, Window};
use crate::shapes::product;
use crate::{Activation, Extent, InitConfig, Layer, LayerConfig, Linear, Signal};

/// Base of the angles of rotary position embeddings (Su et al., 2021).
const ROTARY_BASE: f64 = 10_000.0;

impl Builder<'_> {
    /// Builds a layer under its full name.
    pub(crate) fn leaf(
        &mut self,
        config: &LayerConfig,
        name: &str,
        input: &Signal,
    ) -> Result<Made, LayerProblem> {
        match config {
            LayerConfig::Embedding { width, init, .. } => {
                return self.embedding(name, input, *width, *init);
            }
            LayerConfig::EmbedCategories { width, init, .. } => {
                return self.embed_categories(name, input, *width, *init);
            }
            LayerConfig::Flatten { .. } | LayerConfig::Reshape { .. }
                if !matches!(input.content, Inputs::Columns(_)) => {}
            _ => wants_numbers(input)?,
        }
        match config {
            LayerConfig::Linear {
                outputs,
                bias,
                init,
                ..
            } => {
                let options = LinearOptions {
                    bias: *bias,
                    init: init.map(Init::from),
                };
                self.linear(name, input, outputs.unwrap_or(self.outputs), options)
            }
            LayerConfig::Conv1d { .. } => self.conv1d(config, name, input),
            LayerConfig::Conv2d { .. } => self.conv2d(config, name, input),
            LayerConfig::MaxPool2d {
                kernel,
                stride,
                padding,
                ..
            } => pool(input, sliding(PoolKind::Max, *kernel, *stride, *padding)?),
            LayerConfig::AvgPool2d {
                kernel,
                stride,
                padding,
                ..
            } => pool(input, sliding(PoolKind::Mean, *kernel, *stride, *padding)?),
            LayerConfig::AdaptiveMaxPool2d { size, .. } => {
                let (kind, size) = (PoolKind::Max, size.pair());
                pool(input, Pool2d::Adaptive { kind, size })
            }
            LayerConfig::AdaptiveAvgPool2d { size, .. } => {
                let (kind, size) = (PoolKind::Mean, size.pair());
                pool(input, Pool2d::Adaptive { kind, size })
            }
            LayerConfig::BatchNorm {
                momentum, epsilon, ..
            } => {
                let options = BatchNormOptions {
                    epsilon: *epsilon,
                    momentum: *momentum,
                };
                let channels = first(input)?;
                let layer = BatchNorm::new(&mut self.parameters.scope(name), channels, options)?;
                Ok(same(layer, input))
            }
            LayerConfig::LayerNorm { epsilon, .. } => {
                let layer =
                    LayerNorm::new(&mut self.parameters.scope(name), last(input)?, *epsilon)?;
                Ok(same(layer, input))
            }
            LayerConfig::RmsNorm { epsilon, .. } => {
                let layer = RmsNorm::new(&mut self.parameters.scope(name), last(input)?, *epsilon)?;
                Ok(same(layer, input))
            }
            LayerConfig::Dropout { share, .. } => Ok(same(Dropout::new(*share, name), input)),
            LayerConfig::PositionEmbedding { init, .. } => {
                let (length, width) = rows(input)?;
                let mut scope = self.parameters.scope(name);
                let layer =
                    PositionEmbedding::new(&mut scope, length, width, init.map(Init::from))?;
                Ok(same(layer, input))
            }
            LayerConfig::Attention { .. } => self.attention(config, name, input),
            LayerConfig::Activation { function, .. } => Ok(same(*function, input)),
            LayerConfig::Relu { .. } => Ok(same(Activation::Relu, input)),
            LayerConfig::Gelu { .. } => Ok(same(Activation::Gelu, input)),
            LayerConfig::Silu { .. } => Ok(same(Activation::Silu, input)),
            LayerConfig::Tanh { .. } => Ok(same(Activation::Tanh, input)),
            LayerConfig::Sigmoid { .. } => Ok(same(Activation::Sigmoid, input)),
            LayerConfig::Flatten { .. } => reshape(input, vec![input.count()]),
            LayerConfig::Reshape { shape, .. } => reshape(input, shape.clone()),
            LayerConfig::Positions { .. } => positions(input),
            LayerConfig::MeanPositions { .. } => {
                let (_, width) = rows(input)?;
                Ok(Made {
                    layer: Box::new(Stateless(ops::mean_positions)),
                    output: Signal::numbers([width]),
                    flops: 0,
                })
            }
            LayerConfig::Embedding { .. }
            | LayerConfig::EmbedCategories { .. }
            | LayerConfig::Sequential { .. }
            | LayerConfig::Residual { .. } => Err(LayerProblem::new("is not a layer by itself")),
        }
    }

    fn linear(
        &mut self,
        name: &str,
        input: &Signal,
        outputs: usize,
        options: LinearOptions,
    ) -> Result<Made, LayerProblem> {
        let inputs = last(input)?;
        let mut shape = input.shape.clone();
        if let Some(last) = shape.last_mut() {
            *last = outputs;
        }
        let layer = Linear::with(&mut self.parameters.scope(name), inputs, outputs, options)?;
        let output = Signal::numbers(shape);
        let flops = flops([inputs, output.count()]);
        Ok(Made {
            layer: Box::new(layer),
            output,
            flops,
        })
    }

    fn conv1d(
        &mut self,
        config: &LayerConfig,
        name: &str,
        input: &Signal,
    ) -> Result<Made, LayerProblem> {
        let LayerConfig::Conv1d {
            channels,
            kernel,
            stride,
            padding,
            dilation,
            groups,
            bias,
            init,
            ..
        } = config
        else {
            return Err(LayerProblem::new("is not a `conv1d`"));
        };
        let &[inputs, length] = &input.shape[..] else {
            return Err(wants("sequences (channels, length)", input));
        };
        divides(*groups, inputs, *channels)?;
        let window = Window {
            kernel: (1, *kernel),
            stride: (1, *stride),
            padding: (0, *padding),
            dilation: (1, *dilation),
        };
        let (_, windows) = window
            .counts(1, length)
            .ok_or_else(|| no_room(input, (1, *kernel)))?;
        let options = conv_options(window, *groups, *bias, *init);
        let mut scope = self.parameters.scope(name);
        let layer = Conv1d::new(&mut scope, inputs, *channels, *kernel, options)?;
        Ok(Made {
            layer: Box::new(layer),
            output: Signal::numbers([*channels, windows]),
            flops: flops([*channels, windows, inputs / groups, *kernel]),
        })
    }

    fn conv2d(
        &mut self,
        config: &LayerConfig,
        name: &str,
        input: &Signal,
    ) -> Result<Made, LayerProblem> {
        let LayerConfig::Conv2d {
            channels,
            kernel,
            stride,
            padding,
            dilation,
            groups,
            bias,
            init,
            ..
        } = config
        else {
            return Err(LayerProblem::new("is not a `conv2d`"));
        };
        let &[inputs, height, width] = &input.shape[..] else {
            return Err(wants("images (channels, height, width)", input));
        };
        divides(*groups, inputs, *channels)?;
        let window = Window {
            kernel: at_least_one("kernel", *kernel)?,
            stride: at_least_one("stride", *stride)?,
            padding: padding.pair(),
            dilation: at_least_one("dilation", *dilation)?,
        };
        let (rows, columns) = window
            .counts(height, width)
            .ok_or_else(|| no_room(input, window.kernel))?;
        let options = conv_options(window, *groups, *bias, *init);
        let mut scope = self.parameters.scope(name);
        let layer = Conv2d::new(&mut scope, inputs, *channels, window.kernel, options)?;
        Ok(Made {
            layer: Box::new(layer),
            output: Signal::numbers([*channels, rows, columns]),
            flops: flops([
                *channels,
                rows,
                columns,
                inputs / groups,
                window.kernel.0,
                window.kernel.1,
            ]),
        })
    }

    fn embedding(
        &mut self,
        name: &str,
        input: &Signal,
        width: usize,
        init: Option<InitConfig>,
    ) -> Result<Made, LayerProblem> {
        let Inputs::Tokens(tokens) = input.content else {
            return Err(wants("tokens", input));
        };
        let mut scope = self.parameters.scope(name);
        let layer = Embedding::new(&mut scope, tokens, width, init.map(Init::from))?;
        let mut shape = input.shape.clone();
        shape.push(width);
        Ok(Made {
            layer: Box::new(layer),
            output: Signal::numbers(shape),
            flops: 0,
        })
    }

    fn embed_categories(
        &mut self,
        name: &str,
        input: &Signal,
        width: Option<usize>,
        init: Option<InitConfig>,
    ) -> Result<Made, LayerProblem> {
        let Inputs::Columns(categories) = &input.content else {
            return Err(LayerProblem::new(format!(
                "wants a table's rows with categories to embed, its input is {input}; list columns in `data.embed`"
            )));
        };
        let mut scope = self.parameters.scope(name);
        let layer = CategoryEmbeddings::new(&mut scope, categories, width, init.map(Init::from))?;
        Ok(Made {
            layer: Box::new(layer),
            output: Signal::numbers([CategoryEmbeddings::output_width(categories, width)]),
            flops: 0,
        })
    }

    fn attention(
        &mut self,
        config: &LayerConfig,
        name: &str,
        input: &Signal,
    ) -> Result<Made, LayerProblem> {
        let LayerConfig::Attention {
            heads,
            causal,
            rotary,
            dropout,
            bias,
            init,
            ..
        } = config
        else {
            return Err(LayerProblem::new("is not an `attention`"));
        };
        let (length, width) = rows(input)?;
        if !width.is_multiple_of(*heads) {
            return Err(LayerProblem::new(format!(
                "divides vectors of {width} into {heads} heads; the width must be a multiple of \
                 the heads"
            )));
        }
        let (dtype, device) = (self.parameters.dtype(), self.parameters.device().clone());
        let rotary = match rotary {
            true => Some(Rotary::new(
                length,
                width / heads,
                ROTARY_BASE,
                dtype,
                &device,
            )?),
            false => None,
        };
        let options = AttentionOptions {
            heads: *heads,
            causal: *causal,
            rotary,
            dropout: *dropout,
            bias: *bias,
            init: init.map(Init::from),
        };
        let layer = Attention::new(&mut self.parameters.scope(name), width, name, options)?;
        // Four projections over the width, and two matrix multiplications over pairs of positions.
        Ok(Made {
            layer: Box::new(layer),
            output: input.clone(),
            flops: flops([length, 4, width, width])
                .saturating_add(flops([2, length, length, width])),
        })
    }
}

/// Two operations for each of as many multiply-adds as the product of these sizes.
fn flops<const N: usize>(sizes: [usize; N]) -> u64 {
    sizes
        .into_iter()
        .fold(2, |flops, size| flops.saturating_mul(size as u64))
}

/// A layer that keeps the shape.
fn same(layer: impl Layer + 'static, input: &Signal) -> Made {
    Made {
        layer: Box::new(layer),
        output: input.clone(),
        flops: 0,
    }
}

fn reshape(input: &Signal, shape: Vec<usize>) -> Result<Made, LayerProblem> {
    let count = product(&shape);
    if count != input.count() {
        return Err(LayerProblem::new(format!(
            "makes {shape:?}, {count} numbers, of {input}, {} numbers",
            input.count()
        )));
    }
    let output = Signal {
        shape: shape.clone(),
        content: input.content.clone(),
    };
    let layer = Stateless(move |x: &candle_core::Tensor| {
        let batch = x.dim(0)?;
        let dims: Vec<usize> = std::iter::once(batch)
            .chain(shape.iter().copied())
            .collect();
        ops::reshape(x, dims)
    });
    Ok(Made {
        layer: Box::new(layer),
        output,
        flops: 0,
    })
}

/// The layer from channels to positions: the dimensions after the channels become one, in front of them.
fn positions(input: &Signal) -> Result<Made, LayerProblem> {
    let (channels, length) = match input.shape[..] {
        [channels, height, width] => (channels, height * width),
        [channels, length] => (channels, length),
        _ => {
            let what = "images (channels, height, width) or sequences (channels, length)";
            return Err(wants(what, input));
        }
    };
    let layer = Stateless(move |x: &candle_core::Tensor| {
        let x = ops::reshape(x, (x.dim(0)?, channels, length))?;
        ops::transpose(&x)
    });
    Ok(Made {
        layer: Box::new(layer),
        output: Signal::numbers([length, channels]),
        flops: 0,
    })
}

fn pool(input: &Signal, pool: Pool2d) -> Result<Made, LayerProblem> {
    let &[channels, height, width] = &input.shape[..] else {
        return Err(wants("images (channels, height, width)", input));
    };
    let (Pool2d::Sliding { kernel, .. } | Pool2d::Adaptive { size: kernel, .. }) = pool;
    let (down, across) = pool
        .windows(height, width)
        .ok_or_else(|| no_room(input, kernel))?;
    Ok(Made {
        layer: Box::new(pool),
        output: Signal::numbers([channels, down.count(), across.count()]),
        flops: 0,
    })
}

fn sliding(
    kind: PoolKind,
    kernel: Extent,
    stride: Option<Extent>,
    padding: Extent,
) -> Result<Pool2d, LayerProblem> {
    let stride = at_least_one("stride", stride.unwrap_or(kernel))?;
    let kernel = at_least_one("kernel", kernel)?;
    let padding = padding.pair();
    if padding.0 > kernel.0 / 2 || padding.1 > kernel.1 / 2 {
        return Err(LayerProblem::new(format!(
            "has a padding of {padding:?}; it may be half of the window {kernel:?} at most"
        )));
    }
    Ok(Pool2d::Sliding {
        kind,
        kernel,
        stride,
        padding,
    })
}

fn conv_options(
    window: Window,
    groups: usize,
    bias: bool,
    init: Option<InitConfig>,
) -> ConvOptions {
    ConvOptions {
        stride: window.stride,
        padding: window.padding,
        dilation: window.dilation,
        groups,
        bias,
        init: init.map(Init::from),
    }
}

fn at_least_one(key: &str, extent: Extent) -> Result<(usize, usize), LayerProblem> {
    let pair = extent.pair();
    if pair.0 == 0 || pair.1 == 0 {
        return Err(LayerProblem::new(format!(
            "has a `{key}` of 0; it must be at least 1"
        )));
    }
    Ok(pair)
}

fn divides(groups: usize, inputs: usize, outputs: usize) -> Result<(), LayerProblem> {
    if groups > 0 && inputs.is_multiple_of(groups) && outputs.is_multiple_of(groups) {
        return Ok(());
    }
    Err(LayerProblem::new(format!(
        "divides {inputs} input and {outputs} output channels into {groups} groups; both must be \
         multiples of it"
    )))
}

fn wants_numbers(input: &Signal) -> Result<(), LayerProblem> {
    match input.content {
        Inputs::Numbers => Ok(()),
        Inputs::Columns(_) => Err(LayerProblem::new(format!(
            "wants numbers, its input is {input}; put `embed-categories` in front of it, or take the columns out of \
             `data.embed`"
        ))),
        Inputs::Tokens(_) => Err(LayerProblem::new(format!(
            "wants numbers, its input is {input}; put an `embedding` in front of it"
        ))),
    }
}

fn wants(what: &str, input: &Signal) -> LayerProblem {
    LayerProblem::new(format!("wants {what}, its input is {input}"))
}

fn no_room(input: &Signal, kernel: (usize, usize)) -> LayerProblem {
    LayerProblem::new(format!(
        "has a window of {kernel:?}, larger than its input, which is {input}; make the window \
         smaller, pad, or take out layers in front of it that shrink"
    ))
}

fn first(input: &Signal) -> Result<usize, LayerProblem> {
    let first = input.shape.first().copied();
    first.ok_or_else(|| wants("(channels, …)", input))
}

fn last(input: &Signal) -> Result<usize, LayerProblem> {
    let last = input.shape.last().copied();
    last.ok_or_else(|| wants("(…, width)", input))
}

/// Returns (length, width).
fn rows(input: &Signal) -> Result<(usize, usize), LayerProblem> {
    match input.shape[..] {
        [length, width] => Ok((length, width)),
        _ => Err(wants("(length, width)", input)),
    }
}
