//! LSTM and GRU.

use candle_core::{Result, Tensor};

use super::Layer;
use crate::Pass;
use crate::init::Init;
use crate::onnx::{Attribute, Graph, OnnxError, Value};
use crate::ops::{self, RecurrentKind};
use crate::parameters::{self, ParameterScope};

/// A recurrent network over sequences, with PyTorch's shapes, names and initialisation: the states at all positions.
#[derive(Clone, Debug)]
pub struct Recurrent {
    kind: RecurrentKind,
    /// For each layer its directions.
    layers: Vec<Vec<Direction>>,
}

/// Options of [`Recurrent`].
#[derive(Clone, Copy, Debug)]
pub struct RecurrentOptions {
    /// LSTM or GRU.
    pub kind: RecurrentKind,
    /// Length of the state.
    pub hidden: usize,
    /// Number of layers, each over the states of the one before.
    pub layers: usize,
    /// Whether a second pass goes from the last position to the first.
    pub is_bidirectional: bool,
    /// Whether the gates have biases.
    pub bias: bool,
}

#[derive(Clone, Debug)]
struct Direction {
    of_inputs: Tensor,
    of_state: Tensor,
    /// Of the inputs and of the state.
    biases: [Tensor; 2],
}

impl Recurrent {
    /// Creates a network over vectors of `width`. It registers `weight_ih_l0` (gates · hidden, width), `weight_hh_l0` (gates · hidden, hidden),
    /// `bias_ih_l0` and `bias_hh_l0` (gates · hidden); of the second direction with `_reverse` at the end, of further layers `l1`, ….
    pub fn new(
        scope: &mut ParameterScope<'_>,
        width: usize,
        options: RecurrentOptions,
    ) -> std::result::Result<Self, parameters::ParametersError> {
        let ends: &[&str] = if options.is_bidirectional {
            &["", "_reverse"]
        } else {
            &[""]
        };
        let (mut layers, mut width) = (Vec::new(), width);
        for layer in 0..options.layers {
            let mut directions = Vec::new();
            for end in ends {
                let end = format!("l{layer}{end}");
                directions.push(Direction::new(scope, &end, width, options)?);
            }
            width = options.hidden.saturating_mul(directions.len());
            layers.push(directions);
        }
        Ok(Recurrent {
            kind: options.kind,
            layers,
        })
    }

    /// Maps (batch, length, width) to (batch, length, directions · hidden).
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let mut x = x.clone();
        for directions in &self.layers {
            let mut states: Option<Tensor> = None;
            for (number, direction) in directions.iter().enumerate() {
                let [of_inputs, of_state] = &direction.biases;
                let gates = ops::linear(&x, &direction.of_inputs, Some(of_inputs))?;
                let weight = &direction.of_state;
                let own = ops::recurrent(&gates, weight, of_state, self.kind, number > 0)?;
                states = Some(match states {
                    None => own,
                    Some(before) => ops::concatenated(&before, &own, 2)?,
                });
            }
            x = states.unwrap_or(x);
        }
        Ok(x)
    }
}

impl Direction {
    fn new(
        scope: &mut ParameterScope<'_>,
        end: &str,
        width: usize,
        options: RecurrentOptions,
    ) -> std::result::Result<Direction, parameters::ParametersError> {
        let bound = 1.0 / (options.hidden as f64).sqrt();
        let init = Init::Uniform {
            low: -bound,
            high: bound,
        };
        let rows = options.hidden.saturating_mul(options.kind.gates());
        let of_inputs = scope.parameter(&format!("weight_ih_{end}"), &[rows, width], init)?;
        let of_state =
            scope.parameter(&format!("weight_hh_{end}"), &[rows, options.hidden], init)?;
        let mut bias = |name: &str| {
            if options.bias {
                scope.parameter(&format!("{name}_{end}"), &[rows], init)
            } else {
                let zeros = Tensor::zeros(rows, of_inputs.dtype(), of_inputs.device());
                zeros.map_err(|source| {
                    let name = name.to_owned();
                    parameters::ParametersError::Tensor { name, source }
                })
            }
        };
        let biases = [bias("bias_ih")?, bias("bias_hh")?];
        Ok(Direction {
            of_inputs,
            of_state,
            biases,
        })
    }
}

impl Layer for Recurrent {
    fn forward(&self, x: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        if pass.visibility().is_some() {
            candle_core::bail!(
                "recurrent layers take sequences without padding, and of one document"
            )
        }
        Recurrent::forward(self, x)
    }

    fn onnx(&self, graph: &mut Graph, x: &Value) -> std::result::Result<Value, OnnxError> {
        let mut x = x.clone();
        for directions in &self.layers {
            x = self.layer_in_onnx(graph, &x, directions)?;
        }
        Ok(x)
    }
}

impl Recurrent {
    /// One layer's states (batch, length, directions · hidden), from (batch, length, width).
    fn layer_in_onnx(
        &self,
        graph: &mut Graph,
        x: &Value,
        directions: &[Direction],
    ) -> std::result::Result<Value, OnnxError> {
        let (mut of_inputs, mut of_states, mut biases) = (Vec::new(), Vec::new(), Vec::new());
        let mut hidden = 0;
        for direction in directions {
            hidden = direction.of_state.dim(1)?;
            let first = graph.ints(&[0]);
            let mut ordered = |weight: &Tensor| {
                let weight = graph.weight(weight);
                self.ordered_in_onnx(graph, &weight, hidden)
            };
            let [one, other] = [ordered(&direction.of_inputs), ordered(&direction.of_state)];
            let own = direction.biases.each_ref().map(ordered);
            let bias = graph.joined(&own, 0);
            of_inputs.push(graph.of_two("Unsqueeze", &one, &first));
            of_states.push(graph.of_two("Unsqueeze", &other, &first));
            biases.push(graph.of_two("Unsqueeze", &bias, &first));
        }
        let weights = [of_inputs, of_states, biases].map(|each| graph.joined(&each, 0));
        let [of_inputs, of_states, biases] = &weights;
        let x = graph.transpose(x, &[1, 0, 2]);
        let direction = match directions.len() {
            1 => "forward",
            _ => "bidirectional",
        };
        let mut options = vec![
            ("hidden_size", Attribute::Int(hidden as i64)),
            ("direction", Attribute::Text(direction)),
        ];
        let operator = match self.kind {
            RecurrentKind::Lstm => "LSTM",
            RecurrentKind::Gru => {
                // The reset gate is applied to what the state gives, as in PyTorch.
                options.push(("linear_before_reset", Attribute::Int(1)));
                "GRU"
            }
        };
        let states = graph.node(operator, &[&x, of_inputs, of_states, biases], &options);
        let states = graph.transpose(&states, &[2, 0, 1, 3]);
        Ok(graph.reshape(&states, &[0, 0, (hidden * directions.len()) as i64]))
    }

    /// Rows of gates in ONNX's order: input, output, forget, cell for LSTM, which PyTorch has as input, forget, cell, output; update,
    /// reset, new for GRU, which it has as reset, update, new.
    fn ordered_in_onnx(&self, graph: &mut Graph, rows: &Value, hidden: usize) -> Value {
        let order: &[usize] = match self.kind {
            RecurrentKind::Lstm => &[0, 3, 1, 2],
            RecurrentKind::Gru => &[1, 0, 2],
        };
        let gates: Vec<Value> = order
            .iter()
            .map(|gate| graph.narrow(rows, 0, gate * hidden, hidden))
            .collect();
        graph.joined(&gates, 0)
    }
}
