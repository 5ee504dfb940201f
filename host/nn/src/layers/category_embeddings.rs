//! Learned vectors of the categories in a table's rows.

use candle_core::{DType, Result, Tensor};

use super::Layer;
use crate::init::Init;
use crate::onnx::{ElementType, Graph, OnnxError, Value};
use crate::parameters::{ParameterScope, ParametersError};
use crate::{Pass, ops};

/// Replaces each input that is the number of a category by a learned vector; other inputs stay as they are, in their
/// places.
#[derive(Clone, Debug)]
pub struct CategoryEmbeddings {
    parts: Vec<Part>,
}

/// A part of a row.
#[derive(Clone, Debug)]
enum Part {
    /// Numbers, which stay as they are.
    Numbers { start: usize, count: usize },
    /// The number of a category, from 1; 0 for one of which nothing is known.
    Category { place: usize, table: Tensor },
}

/// Returns the usual length of vectors for a number of categories, as fastai has it.
fn usual_width(categories: usize) -> usize {
    const LONGEST: f64 = 600.0;
    let width = (1.6 * (categories as f64).powf(0.56)).round();
    width.clamp(1.0, LONGEST) as usize
}

impl CategoryEmbeddings {
    /// Creates a layer for rows whose inputs have these numbers of categories, 0 for numbers of another kind. Registers
    /// `weight1`, `weight2`, … (categories, width), by default standard normal; `width` is the same for all, by default
    /// that of [`output_width`](CategoryEmbeddings::output_width).
    pub fn new(
        scope: &mut ParameterScope<'_>,
        categories: &[usize],
        width: Option<usize>,
        init: Option<Init>,
    ) -> std::result::Result<Self, ParametersError> {
        let init = init.unwrap_or(Init::Normal {
            mean: 0.0,
            std: 1.0,
        });
        let (mut parts, mut tables) = (Vec::new(), 0);
        for (place, &categories) in categories.iter().enumerate() {
            if categories > 0 {
                tables += 1;
                let width = width.unwrap_or_else(|| usual_width(categories));
                let name = format!("weight{tables}");
                let table = scope.parameter(&name, &[categories, width], init)?;
                parts.push(Part::Category { place, table });
            } else if let Some(Part::Numbers { count, .. }) = parts.last_mut() {
                *count += 1;
            } else {
                parts.push(Part::Numbers {
                    start: place,
                    count: 1,
                });
            }
        }
        Ok(CategoryEmbeddings { parts })
    }

    /// Returns the length of a row's output; the default of `width` is 1.6 · categories^0.56, rounded, at most 600.
    pub fn output_width(categories: &[usize], width: Option<usize>) -> usize {
        let widths = categories.iter().map(|&categories| match categories {
            0 => 1,
            categories => width.unwrap_or_else(|| usual_width(categories)),
        });
        widths.fold(0, usize::saturating_add)
    }
}

impl Layer for CategoryEmbeddings {
    /// Maps (samples, inputs) to (samples, output width). An unknown category has zeros as its vector.
    fn forward(&self, x: &Tensor, _pass: &mut Pass<'_>) -> Result<Tensor> {
        let parts = self.parts.iter().map(|part| match part {
            Part::Numbers { start, count } => x.narrow(1, *start, *count),
            Part::Category { place, table } => {
                let number = x.detach().narrow(1, *place, 1)?.round()?;
                let row = (&number - 1.0)?.relu()?.flatten_all()?;
                let row = row.to_dtype(DType::U32)?.contiguous()?;
                let is_known = number.gt(0.0)?.to_dtype(table.dtype())?;
                ops::embedding(table, &row)?.broadcast_mul(&is_known)
            }
        });
        let parts = parts.collect::<Result<Vec<Tensor>>>()?;
        Tensor::cat(&parts, 1)
    }

    fn onnx(&self, graph: &mut Graph, x: &Value) -> std::result::Result<Value, OnnxError> {
        let parts: Vec<Value> = self
            .parts
            .iter()
            .map(|part| match part {
                Part::Numbers { start, count } => graph.narrow(x, 1, *start, *count),
                Part::Category { place, table } => {
                    let number = graph.narrow(x, 1, *place, 1);
                    let number = graph.node("Round", &[&number], &[]);
                    let zero = graph.number(0.0);
                    let is_known = graph.of_two("Greater", &number, &zero);
                    let is_known = graph.cast(&is_known, ElementType::Float);
                    let one = graph.number(1.0);
                    let row = graph.of_two("Sub", &number, &one);
                    let row = graph.node("Relu", &[&row], &[]);
                    let row = graph.cast(&row, ElementType::Int);
                    let row = graph.reshape(&row, &[-1]);
                    let table = graph.weight(table);
                    let vectors = graph.of_two("Gather", &table, &row);
                    graph.of_two("Mul", &vectors, &is_known)
                }
            })
            .collect();
        Ok(graph.joined(&parts, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::Parameters;

    #[test]
    fn numbers_stay_and_categories_become_their_vectors() {
        let device = sconce_ops::device::for_tests();
        let mut parameters = Parameters::new(1, DType::F32, &device);
        let categories = [0, 3, 0, 0, 2];
        let layer =
            CategoryEmbeddings::new(&mut parameters.scope("embed"), &categories, Some(2), None);
        let layer = layer.expect("a layer");
        assert_eq!(CategoryEmbeddings::output_width(&categories, Some(2)), 7);
        let tables: Vec<Vec<Vec<f32>>> = ["embed.weight1", "embed.weight2"]
            .iter()
            .map(|name| {
                let found = parameters
                    .iter()
                    .find(|parameter| parameter.name() == *name);
                let table = found.expect("a table").tensor().to_vec2();
                table.expect("numbers")
            })
            .collect();
        let x = [[0.5_f32, 3.0, -1.0, 2.0, 1.0], [1.5, 0.0, 4.0, 0.0, 2.0]];
        let x = Tensor::new(&x, &device).expect("rows");
        let y = layer.forward(&x, &mut Pass::training()).expect("output");
        let y: Vec<Vec<f32>> = y.to_vec2().expect("numbers");
        let (first, second) = (&tables[0], &tables[1]);
        assert_eq!(
            y[0],
            [&[0.5], &first[2][..], &[-1.0, 2.0], &second[0][..]].concat()
        );
        assert_eq!(
            y[1],
            [&[1.5], &[0.0, 0.0][..], &[4.0, 0.0], &second[1][..]].concat()
        );
        if !device.is_cpu() {
            // A GPU stops at an index beyond a table, and this process's work there with it.
            return;
        }
        let beyond = Tensor::new(&[[0.0_f32, 4.0, 0.0, 0.0, 1.0]], &device).expect("a row");
        let problem = layer.forward(&beyond, &mut Pass::training());
        let problem = problem.map(|_| ()).expect_err("no such category");
        assert!(problem.to_string().contains("3 tokens"), "{problem}");
    }

    /// Compared with fastai's `emb_sz_rule`.
    #[test]
    fn the_usual_width_grows_slowly() {
        let widths = [1, 2, 5, 10, 100, 1000, 1_000_000].map(usual_width);
        assert_eq!(widths, [2, 2, 4, 6, 21, 77, 600]);
    }
}
