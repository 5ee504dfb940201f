//! Builds convolutions.

use super::builder::Builder;
use super::made::{Made, flops};
use super::problem::{LayerProblem, no_room, wants};
use crate::init::Init;
use crate::layers::{Conv1d, Conv2d, ConvOptions, ConvTranspose2d};
use crate::ops::{Window, transposed_size};
use crate::{Conv1dConfig, Conv2dConfig, ConvTranspose2dConfig, Extent, InitConfig, Signal};

impl Builder<'_> {
    pub(super) fn conv1d(
        &mut self,
        config: &Conv1dConfig,
        name: &str,
        input: &Signal,
    ) -> Result<Made, LayerProblem> {
        let Conv1dConfig {
            channels,
            kernel,
            stride,
            padding,
            dilation,
            groups,
            bias,
            init,
        } = config;
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

    pub(super) fn conv2d(
        &mut self,
        config: &Conv2dConfig,
        name: &str,
        input: &Signal,
    ) -> Result<Made, LayerProblem> {
        let Conv2dConfig {
            channels,
            kernel,
            stride,
            padding,
            dilation,
            groups,
            bias,
            init,
        } = config;
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

    pub(super) fn conv_transpose2d(
        &mut self,
        config: &ConvTranspose2dConfig,
        name: &str,
        input: &Signal,
    ) -> Result<Made, LayerProblem> {
        let &[inputs, height, width] = &input.shape[..] else {
            return Err(wants("images (channels, height, width)", input));
        };
        let (channels, groups) = (config.channels, config.groups);
        divides(groups, inputs, channels)?;
        let window = Window {
            kernel: at_least_one("kernel", config.kernel)?,
            stride: at_least_one("stride", config.stride)?,
            padding: config.padding.pair(),
            dilation: at_least_one("dilation", config.dilation)?,
        };
        let added = config.output_padding.pair();
        if added.0 >= window.stride.0 || added.1 >= window.stride.1 {
            return Err(LayerProblem::new(format!(
                "has an `output_padding` of {added:?}; it must be less than the stride {:?}",
                window.stride
            )));
        }
        let Window {
            kernel,
            stride,
            padding,
            dilation,
        } = window;
        let down = transposed_size(height, (kernel.0, stride.0, padding.0, dilation.0), added.0);
        let across = transposed_size(width, (kernel.1, stride.1, padding.1, dilation.1), added.1);
        let (Some(down), Some(across)) = (down, across) else {
            return Err(LayerProblem::new(format!(
                "leaves nothing of its output inside a padding of {padding:?}, its input is {input}"
            )));
        };
        let options = conv_options(window, groups, config.bias, config.init);
        let mut scope = self.parameters.scope(name);
        let layer = ConvTranspose2d::new(&mut scope, inputs, channels, (kernel, added), options)?;
        Ok(Made {
            layer: Box::new(layer),
            output: Signal::numbers([channels, down, across]),
            flops: flops([inputs, height, width, channels / groups, kernel.0, kernel.1]),
        })
    }
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

pub(super) fn at_least_one(key: &str, extent: Extent) -> Result<(usize, usize), LayerProblem> {
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
