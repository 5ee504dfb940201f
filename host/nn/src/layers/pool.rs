//! Layers that make images smaller or larger: pooling and upsampling.

use candle_core::{Result, Tensor};

use super::{FusionRole, Layer};
use crate::Pass;
use crate::onnx::{Attribute, Graph, OnnxError, Value};
use crate::ops::{PoolKind, Upsampling, Windows, pool2d, upsample2d};

/// Maximum or mean over windows of (…, height, width).
#[derive(Clone, Copy, Debug)]
pub enum Pool2d {
    /// Windows of one size.
    Sliding {
        /// Whether a window's output is its maximum or its mean.
        kind: PoolKind,
        /// Kernel size (height, width).
        kernel: (usize, usize),
        /// Step from one window to the next.
        stride: (usize, usize),
        /// Padding on all sides: ignored by a maximum, zeros for a mean.
        padding: (usize, usize),
    },
    /// A fixed number of windows, for any input size.
    Adaptive {
        /// Whether a window's output is its maximum or its mean.
        kind: PoolKind,
        /// Number of windows (vertically, horizontally), the size of the output.
        size: (usize, usize),
    },
}

impl Pool2d {
    /// Returns the windows over an image of (height, width); none if not even one fits.
    pub fn windows(&self, height: usize, width: usize) -> Option<(Windows, Windows)> {
        match *self {
            Pool2d::Sliding {
                kernel,
                stride,
                padding,
                ..
            } => Some((
                Windows::sliding(height, kernel.0, stride.0, padding.0)?,
                Windows::sliding(width, kernel.1, stride.1, padding.1)?,
            )),
            Pool2d::Adaptive { size, .. } => Some((
                Windows::adaptive(height, size.0),
                Windows::adaptive(width, size.1),
            )),
        }
    }

    /// Whether it is max pooling over adjacent windows of 2 × 2.
    pub(crate) fn is_of_squares(self) -> bool {
        match self {
            Pool2d::Sliding {
                kind: PoolKind::Max,
                kernel,
                stride,
                padding,
            } => kernel == (2, 2) && stride == (2, 2) && padding == (0, 0),
            _ => false,
        }
    }

    /// Maps (…, height, width) to (…, output height, output width).
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let &[.., height, width] = x.dims() else {
            candle_core::bail!("pooling wants (…, height, width), found {:?}", x.dims())
        };
        let Some((down, across)) = self.windows(height, width) else {
            candle_core::bail!("an image of {height}×{width} has no room for a window: {self:?}")
        };
        let (Pool2d::Sliding { kind, .. } | Pool2d::Adaptive { kind, .. }) = *self;
        pool2d(x, kind, down, across)
    }
}

/// Pools one dimension into `count` windows: each from ⌊i · size / count⌋ to ⌈(i + 1) · size / count⌉, whatever the size.
fn adaptive_in_onnx(
    graph: &mut Graph,
    x: &Value,
    kind: PoolKind,
    dimension: i64,
    count: usize,
) -> Value {
    let operator = match kind {
        PoolKind::Max => "ReduceMax",
        PoolKind::Mean => "ReduceMean",
    };
    let size = graph.size(x, dimension);
    let (axis, divisor) = (graph.ints(&[dimension]), graph.ints(&[count as i64]));
    let up = graph.ints(&[count as i64 - 1]);
    let windows: Vec<Value> = (0..count as i64)
        .map(|index| {
            let [start, end] = [index, index + 1].map(|index| {
                let index = graph.ints(&[index]);
                graph.of_two("Mul", &size, &index)
            });
            let start = graph.of_two("Div", &start, &divisor);
            let end = graph.of_two("Add", &end, &up);
            let end = graph.of_two("Div", &end, &divisor);
            let window = graph.node("Slice", &[x, &start, &end, &axis], &[]);
            graph.of_two(operator, &window, &axis)
        })
        .collect();
    graph.joined(&windows, dimension)
}

impl Layer for Pool2d {
    fn forward(&self, x: &Tensor, _pass: &mut Pass<'_>) -> Result<Tensor> {
        Pool2d::forward(self, x)
    }

    fn role(&self) -> FusionRole<'_> {
        FusionRole::Pool2d(*self)
    }

    fn onnx(&self, graph: &mut Graph, x: &Value) -> std::result::Result<Value, OnnxError> {
        Ok(match *self {
            Pool2d::Sliding {
                kind,
                kernel,
                stride,
                padding,
            } => {
                let both = |(height, width): (usize, usize)| vec![height as i64, width as i64];
                let mut options = vec![
                    ("kernel_shape", Attribute::Ints(both(kernel))),
                    ("strides", Attribute::Ints(both(stride))),
                    // Before and after.
                    ("pads", Attribute::Ints(both(padding).repeat(2))),
                ];
                match kind {
                    PoolKind::Max => graph.node("MaxPool", &[x], &options),
                    PoolKind::Mean => {
                        options.push(("count_include_pad", Attribute::Int(1)));
                        graph.node("AveragePool", &[x], &options)
                    }
                }
            }
            Pool2d::Adaptive { kind, size: (1, 1) } => {
                let operator = match kind {
                    PoolKind::Max => "GlobalMaxPool",
                    PoolKind::Mean => "GlobalAveragePool",
                };
                graph.node(operator, &[x], &[])
            }
            Pool2d::Adaptive {
                kind,
                size: (height, width),
            } => {
                let rows = adaptive_in_onnx(graph, x, kind, -2, height);
                adaptive_in_onnx(graph, &rows, kind, -1, width)
            }
        })
    }
}

/// Images enlarged by whole factors.
#[derive(Clone, Copy, Debug)]
pub struct Upsample {
    /// Factors (down, across).
    pub factors: (usize, usize),
    /// How the elements in between are found.
    pub kind: Upsampling,
}

impl Upsample {
    /// Maps (batch, channels, height, width) to images that are as many times as high and as wide as the factors say.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        upsample2d(x, self.factors, self.kind)
    }
}

impl Layer for Upsample {
    fn forward(&self, x: &Tensor, _pass: &mut Pass<'_>) -> Result<Tensor> {
        Upsample::forward(self, x)
    }

    fn onnx(&self, graph: &mut Graph, x: &Value) -> std::result::Result<Value, OnnxError> {
        let (down, across) = self.factors;
        let factors = graph.numbers(&[1.0, 1.0, down as f32, across as f32], &[4]);
        let (mode, places) = match self.kind {
            Upsampling::Nearest => ("nearest", "asymmetric"),
            Upsampling::Bilinear => ("linear", "half_pixel"),
        };
        let options = [
            ("mode", Attribute::Text(mode)),
            ("coordinate_transformation_mode", Attribute::Text(places)),
            ("nearest_mode", Attribute::Text("floor")),
        ];
        // Without regions and sizes.
        let none = graph.nothing();
        Ok(graph.node("Resize", &[x, &none, &factors], &options))
    }
}
