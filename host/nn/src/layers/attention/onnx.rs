//! Attention as a graph of ONNX, which has no operation for it in this version.

use super::Attention;
use super::projections::Projections;
use super::visible::Sight;
use crate::onnx::{Attribute, Graph, OnnxError, Value};

impl Attention {
    /// Its operations: softmax(Q · Kᵀ · scale) · V for each head, over the visible keys.
    pub(super) fn in_onnx(&self, graph: &mut Graph, x: &Value) -> Result<Value, OnnxError> {
        let (heads, kv_heads, each) = (self.sizes.heads, self.sizes.kv_heads, self.sizes.each);
        let [q, k, v] = self.projections.in_onnx(graph, x, self.sizes.widths())?;
        let length = graph.size(x, 1);
        let q = self.heads_in_onnx(graph, &q, heads, Some((0, &length)));
        let k = self.heads_in_onnx(graph, &k, kv_heads, Some((1, &length)));
        let v = self.heads_in_onnx(graph, &v, kv_heads, None);
        let [k, v] = [k, v].map(|x| repeated(graph, &x, heads / kv_heads.max(1), [heads, each]));
        let scale = self.scale.unwrap_or_else(|| 1.0 / (each as f64).sqrt());
        let scale = graph.number(scale);
        let q = graph.of_two("Mul", &q, &scale);
        let k = graph.transpose(&k, &[0, 1, 3, 2]);
        let scores = graph.of_two("MatMul", &q, &k);
        let scores = self.sight.in_onnx(graph, &scores, &length);
        let weights = graph.node("Softmax", &[&scores], &[("axis", Attribute::Int(-1))]);
        let mixed = graph.of_two("MatMul", &weights, &v);
        let mixed = graph.transpose(&mixed, &[0, 2, 1, 3]);
        let mixed = graph.reshape(&mixed, &[0, 0, (heads * each) as i64]);
        self.output.in_onnx(graph, &mixed)
    }

    /// Heads (batch, heads, length, width of a head) from (batch, length, width). Queries (0) and keys (1) are normed and turned.
    fn heads_in_onnx(
        &self,
        graph: &mut Graph,
        x: &Value,
        heads: usize,
        turned: Option<(usize, &Value)>,
    ) -> Value {
        let each = self.sizes.each;
        let mut x = graph.reshape(x, &[0, 0, heads as i64, each as i64]);
        let Some((which, length)) = turned else {
            return graph.transpose(&x, &[0, 2, 1, 3]);
        };
        if let Some(norm) = self.norms.as_ref().and_then(|norms| norms.get(which)) {
            x = norm.in_onnx(graph, &x);
        }
        let x = graph.transpose(&x, &[0, 2, 1, 3]);
        match &self.rotary {
            Some(rotary) => rotary.in_onnx(graph, &x, each, length),
            None => x,
        }
    }
}

/// Each head as often as heads of queries use it.
fn repeated(graph: &mut Graph, x: &Value, times: usize, [heads, each]: [usize; 2]) -> Value {
    if times == 1 {
        return x.clone();
    }
    let place = graph.ints(&[2]);
    let one = graph.of_two("Unsqueeze", x, &place);
    let all = graph.joined(&vec![one; times], 2);
    // The length is what is left.
    graph.reshape(&all, &[0, heads as i64, -1, each as i64])
}

impl Projections {
    /// Queries, keys and values: (batch, length, width) each, of these widths.
    fn in_onnx(
        &self,
        graph: &mut Graph,
        x: &Value,
        (of_queries, of_keys): (usize, usize),
    ) -> Result<[Value; 3], OnnxError> {
        match self {
            Projections::Separate([query, key, value]) => Ok([
                query.in_onnx(graph, x)?,
                key.in_onnx(graph, x)?,
                value.in_onnx(graph, x)?,
            ]),
            Projections::Packed(packed) => {
                let qkv = packed.in_onnx(graph, x)?;
                let parts = [
                    (0, of_queries),
                    (of_queries, of_keys),
                    (of_queries + of_keys, of_keys),
                ];
                Ok(parts.map(|(start, count)| graph.narrow(&qkv, 2, start, count)))
            }
        }
    }
}

impl Sight {
    /// Scores with −∞ where a query doesn't see a key.
    fn in_onnx(self, graph: &mut Graph, scores: &Value, length: &Value) -> Value {
        if !self.causal {
            return scores.clone();
        }
        let [keys, queries] = [0, 1].map(|dimension| {
            let numbers = graph.count_to(length);
            let place = graph.ints(&[dimension]);
            graph.of_two("Unsqueeze", &numbers, &place)
        });
        let mut visible = graph.of_two("LessOrEqual", &keys, &queries);
        if let Some(window) = self.window {
            let window = graph.ints(&[window as i64]);
            let end = graph.of_two("Add", &keys, &window);
            let is_near = graph.of_two("Greater", &end, &queries);
            visible = graph.of_two("And", &visible, &is_near);
        }
        let never = graph.number(f64::NEG_INFINITY);
        graph.node("Where", &[&visible, scores, &never], &[])
    }
}

impl crate::layers::Rotary {
    /// Turns heads (…, length, `each`) of the first positions.
    fn in_onnx(&self, graph: &mut Graph, x: &Value, each: usize, length: &Value) -> Value {
        let pairs = self.table().pairs();
        let [cosines, sines] = self.table().tables().map(|table| {
            let table = graph.numbers(&table, &[self.table().positions(), pairs]);
            graph.slice(&table, 0, 0, length)
        });
        let first = graph.narrow(x, 3, 0, pairs);
        let second = graph.narrow(x, 3, pairs, pairs);
        let mut turned = |operator, [one, other]: [&Value; 2]| {
            let along = graph.of_two("Mul", one, &cosines);
            let across = graph.of_two("Mul", other, &sines);
            graph.of_two(operator, &along, &across)
        };
        let mut parts = vec![
            turned("Sub", [&first, &second]),
            turned("Add", [&second, &first]),
        ];
        if each > 2 * pairs {
            parts.push(graph.narrow(x, 3, 2 * pairs, each - 2 * pairs));
        }
        graph.joined(&parts, 3)
    }
}
