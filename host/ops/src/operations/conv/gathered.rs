//! Convolutions of images with few windows: those of many images as one matrix.
//!
//! By itself such an image reads the whole kernel for a handful of products. Together they are a product of matrices large enough for packed
//! blocks, (windows, depth) · (depth, outputs); and so are both gradients.

use std::ops::Range;

use super::after::{self, Scratch};
use super::sizes::Conv;
use crate::kernels::{
    Blocked, Factors, Matrix, add_blocked, add_rows, multiply_blocked, region, transpose,
};
use crate::options::{After, UnfoldSizes};

/// Windows of an image up to which they are gathered.
const FEW: usize = 16;

/// Elements of the windows that are gathered at once: about as many as fit a core's share of the caches.
const ELEMENTS: usize = 1 << 20;

/// A convolution by the windows of many images at once.
#[derive(Clone, Copy)]
pub(super) struct Gathered {
    conv: Conv,
    after: After,
    /// Number of images whose windows are gathered at once.
    at_once: usize,
}

impl Gathered {
    /// A convolution of images with few windows, if it is one, where products by packed blocks are supported and pay.
    pub(super) fn of(conv: &Conv, after: After) -> Option<Gathered> {
        let (depth, windows) = conv.image.matrix();
        let most = (ELEMENTS / (depth * windows).max(1)).max(1);
        let at_once = conv.batch.div_ceil(conv.batch.div_ceil(most).max(1));
        let pays = windows <= FEW && Blocked::pays(at_once * windows, depth, conv.outputs);
        (conv.groups == 1 && pays).then_some(Gathered {
            conv: *conv,
            after,
            at_once,
        })
    }

    /// The images that are processed together.
    fn parts(&self) -> impl Iterator<Item = Range<usize>> {
        let (batch, at_once) = (self.conv.batch, self.at_once);
        (0..batch)
            .step_by(at_once)
            .map(move |first| first..batch.min(first + at_once))
    }

    fn sizes(&self, images: &Range<usize>) -> UnfoldSizes {
        UnfoldSizes {
            batch: images.len(),
            ..self.conv.image
        }
    }

    /// Where the inputs of these images are.
    fn inputs(&self, images: &Range<usize>) -> Range<usize> {
        let size = self.conv.input_size();
        images.start * size..images.end * size
    }

    /// The windows of images, (depth, images · windows).
    fn windows(&self, x: &[f32], images: &Range<usize>) -> Vec<f32> {
        let sizes = self.sizes(images);
        let (depth, all) = sizes.matrix();
        let mut matrix = vec![0.0; depth * all];
        sizes.unfold(&x[self.inputs(images)], &mut matrix);
        matrix
    }

    /// Number of threads worth using for a product of some images.
    fn threads(&self, images: &Range<usize>) -> usize {
        let (depth, all) = self.sizes(images).matrix();
        region::parts(2 * all * depth * self.conv.outputs)
    }

    /// Computes the outputs and, with pooling, their positions in the squares.
    pub(super) fn forward(
        &self,
        x: &[f32],
        weight: &[f32],
        bias: Option<&[f32]>,
    ) -> (Vec<f32>, Vec<u8>) {
        let Conv {
            image,
            batch,
            outputs,
            ..
        } = self.conv;
        let (depth, windows) = image.matrix();
        let kept = outputs * self.conv.kept(self.after);
        let pooled = if self.after.pool { kept } else { 0 };
        let mut y = vec![0.0; batch * kept];
        let mut squares = vec![0; batch * pooled];
        let mut whole = vec![0.0; outputs * windows];
        for images in self.parts() {
            let columns = self.windows(x, &images);
            let product = Blocked::new(Factors {
                left: Matrix::new(&columns, depth, images.len() * windows).t(),
                right: Matrix::new(weight, outputs, depth).t(),
                row: bias,
            });
            let [rows] = multiply_blocked(self.threads(&images), [Some(product)]);
            // It was asked for, so it is there.
            let rows = rows.unwrap_or_default();
            for (index, rows) in images.zip(rows.chunks_exact(outputs * windows)) {
                let y = &mut y[index * kept..][..kept];
                let to = if self.after.pool { &mut whole } else { &mut *y };
                transpose(rows, outputs, (windows, outputs), to, windows);
                self.after.finish(to, None, windows);
                if self.after.pool {
                    let squares = &mut squares[index * pooled..][..pooled];
                    after::pool(&whole, (image.rows, image.columns), y, squares);
                }
            }
        }
        (y, squares)
    }

    /// Computes the gradients of input (if wanted), weight and bias from the outputs and their gradient.
    pub(super) fn backward(
        &self,
        (x, weight): (&[f32], &[f32]),
        (y, g): (&[f32], &[f32]),
        squares: &[u8],
        of_input: bool,
    ) -> [Vec<f32>; 3] {
        let Conv { image, outputs, .. } = self.conv;
        let (depth, windows) = image.matrix();
        let sides = (image.rows, image.columns);
        let kept = outputs * self.conv.kept(self.after);
        let mut of_x = vec![0.0; if of_input { x.len() } else { 0 }];
        let (mut of_weight, mut of_bias) = (vec![0.0; weight.len()], vec![0.0; outputs]);
        let mut scratch = Scratch::new(self.after, outputs, sides);
        for images in self.parts() {
            let (all, threads) = (images.len() * windows, self.threads(&images));
            // Of these images' outputs before pooling: (images · windows, outputs).
            let mut rows = vec![0.0; all * outputs];
            for (index, rows) in images.clone().zip(rows.chunks_exact_mut(windows * outputs)) {
                let own = index * kept..(index + 1) * kept;
                let squares = squares.get(own.clone()).unwrap_or_default();
                let (y, g) = (&y[own.clone()], &g[own]);
                let g = self.after.gradient(g, y, squares, sides, &mut scratch);
                transpose(g, windows, (outputs, windows), rows, outputs);
            }
            add_rows(&mut of_bias, &rows, outputs, 0);
            let columns = self.windows(x, &images);
            let of_outputs = Matrix::new(&rows, all, outputs).t();
            let product = |left, right| {
                let row = None;
                Blocked::new(Factors { left, right, row })
            };
            let seen = Matrix::new(&columns, depth, all).t();
            add_blocked(threads, product(of_outputs, seen), &mut of_weight);
            let weight = Matrix::new(weight, outputs, depth).t();
            let of_columns = of_input.then(|| product(weight, of_outputs));
            if let [Some(of_columns)] = multiply_blocked(threads, [of_columns]) {
                let of_x = &mut of_x[self.inputs(&images)];
                self.sizes(&images).fold(&of_columns, of_x);
            }
        }
        [of_x, of_weight, of_bias]
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Result;

    use crate::Window;
    use crate::kernels::has_tiles;
    use crate::operations::conv::comparison::compare;
    use crate::operations::conv::{Single, Terms};

    #[test]
    fn outputs_and_gradients_are_those_of_windows_as_a_matrix() -> Result<()> {
        let window = |stride| Window {
            kernel: (3, 3),
            stride: (stride, stride),
            padding: (1, 1),
            dilation: (1, 1),
        };
        // The first takes several parts.
        for (dims, outputs, stride) in [
            ([90, 300, 3, 3], 16, 1),
            ([5, 24, 6, 5], 40, 2),
            ([40, 7, 2, 3], 17, 1),
        ] {
            compare(dims, outputs, window(stride), 1, |conv, after| {
                let single = Single::of(conv, after, Terms::Singles);
                matches!(single, Some(Single::Gathered(_))) == has_tiles()
            })?;
        }
        Ok(())
    }
}
