//! The lines of `forward`: those operations of a graph that its output needs, in their order.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use candle_core::Tensor;

use super::super::OnnxError;
use super::super::graph::{ElementType, GraphWeight};
use super::super::proto::{GraphProto, NodeProto, ValueInfoProto};
use super::operations::{Operation, Written};
use super::python_value::PythonValue;
use super::{literal, state_name};

/// A function that runs recurrent layers as ONNX has their weights.
const RECURRENT: &str = r#"

def recurrent(run, order, x, of_inputs, of_states, biases):
    """States (length, directions, batch, width) of x (length, batch, inputs); `order` is that of PyTorch's gates among ONNX's."""
    directions, _, width = of_states.shape
    gates = lambda weight: torch.cat([weight.split(width)[gate] for gate in order])
    weights = []
    for direction in range(directions):
        own = [of_inputs[direction], of_states[direction], *biases[direction].chunk(2)]
        weights += [gates(weight) for weight in own]
    zeros = x.new_zeros(directions, x.shape[1], width)
    begin = (zeros, zeros) if run is torch.lstm else zeros
    states = run(x, begin, weights, True, 1, 0.0, torch.is_grad_enabled(), directions == 2, False)[0]
    return states.unflatten(2, (directions, width)).permute(0, 2, 1, 3)
"#;

/// The function while it is written.
pub(super) struct Forward<'a> {
    graph: &'a GraphProto,
    values: HashMap<String, PythonValue>,
    arguments: Vec<String>,
    lines: String,
    /// Module of the last line.
    module: String,
    /// Number of variables of each operator.
    counts: HashMap<String, usize>,
    tables: Vec<(String, Tensor)>,
    has_recurrent: bool,
}

impl<'a> Forward<'a> {
    /// An empty function.
    pub(super) fn of(graph: &'a GraphProto, weights: &[GraphWeight]) -> Forward<'a> {
        let mut values = HashMap::new();
        for weight in weights {
            let place = literal(&state_name(&weight.name));
            let value = PythonValue::Tensor(format!("w[{place}]"));
            values.insert(weight.name.clone(), value);
        }
        for constant in &graph.initializer {
            let name = constant.name.clone().unwrap_or_default();
            values.insert(name, PythonValue::constant(constant));
        }
        values.insert(String::new(), PythonValue::Nothing);
        Forward {
            graph,
            values,
            arguments: Vec::new(),
            lines: String::new(),
            module: String::new(),
            counts: HashMap::new(),
            tables: Vec::new(),
            has_recurrent: false,
        }
    }

    /// Writes what the output needs, and returns it.
    pub(super) fn write(&mut self, output: &str) -> Result<(), OnnxError> {
        self.take_inputs();
        let needed = needed(self.graph, output);
        for node in &self.graph.node {
            let name = node.output.first().map_or("", String::as_str);
            if needed.contains(name) {
                self.operation(node, name)?;
            }
        }
        if let Some(PythonValue::Tensor(result)) = self.values.get(output) {
            let result = result.clone();
            self.line(&format!("return {result}"));
        }
        Ok(())
    }

    /// Arguments of the function.
    pub(super) fn arguments(&self) -> String {
        self.arguments.join(", ")
    }

    /// Its lines, indented.
    pub(super) fn lines(&self) -> &str {
        &self.lines
    }

    /// Where constants and columns are made: where the weights are.
    pub(super) fn device(&self) -> &'static str {
        if self.lines.contains("device=device") || self.lines.contains("to(device)") {
            "        device = next(iter(w.values())).device\n"
        } else {
            ""
        }
    }

    /// Whether it uses numpy.
    pub(super) fn has_columns(&self) -> bool {
        self.lines.contains("np.")
    }

    /// Functions that it needs, below the class.
    pub(super) fn helpers(&self) -> &'static str {
        if self.has_recurrent { RECURRENT } else { "" }
    }

    /// Constants that it reads as weights.
    pub(super) fn take_tables(&mut self) -> Vec<(String, Tensor)> {
        std::mem::take(&mut self.tables)
    }

    /// Columns of a table come as one argument: a dictionary or a data frame.
    fn take_inputs(&mut self) {
        let is_column = |input: &ValueInfoProto| {
            let kind = kind_of(input);
            kind == ElementType::Double as i32 || kind == ElementType::Text as i32
        };
        if self.graph.input.iter().any(is_column) {
            self.arguments.push("columns".to_owned());
        }
        for input in &self.graph.input {
            let name = input.name.clone().unwrap_or_default();
            let value = if is_column(input) {
                self.column(&name, kind_of(input))
            } else {
                let argument = identifier(&name);
                self.arguments.push(argument.clone());
                PythonValue::Tensor(argument)
            };
            self.values.insert(name, value);
        }
    }

    fn column(&mut self, name: &str, kind: i32) -> PythonValue {
        let column = self.variable("column");
        let place = literal(name);
        if kind == ElementType::Text as i32 {
            self.line(&format!(
                "{column} = np.asarray(columns[{place}], dtype=str).reshape(-1, 1)"
            ));
            return PythonValue::Texts(column);
        }
        let numbers = format!("np.asarray(columns[{place}], dtype=float).reshape(-1, 1)");
        self.line(&format!(
            "{column} = torch.as_tensor({numbers}, device=device)"
        ));
        PythonValue::Tensor(column)
    }

    fn operation(&mut self, node: &NodeProto, name: &str) -> Result<(), OnnxError> {
        let operator = node.op_type.as_deref().unwrap_or_default();
        let mut inputs = Vec::with_capacity(node.input.len());
        for input in &node.input {
            let value = self.values.get(input).cloned();
            inputs.push(value.unwrap_or(PythonValue::Nothing));
        }
        let operation = Operation {
            operator,
            attributes: &node.attribute,
        };
        // Few operations read a table's numbers themselves.
        if !operation.reads_numbers() {
            for (value, input) in inputs.iter_mut().zip(&node.input) {
                if let PythonValue::Table(table) = value {
                    let place = format!("tables.{}", self.tables.len());
                    self.tables.push((place.clone(), table.tensor()?));
                    *value = PythonValue::Tensor(format!("w[{}]", literal(&place)));
                    self.values.insert(input.clone(), value.clone());
                }
            }
        }
        self.has_recurrent |= matches!(operator, "LSTM" | "GRU");
        let written = operation.written(&inputs);
        let written = written.map_err(|reason| OnnxError::Operation {
            operation: name.to_owned(),
            reason,
        })?;
        let value = match written {
            Written::Part(value) => value,
            Written::Line(value) => {
                self.heading(name);
                let variable = self.variable(&operator.to_lowercase());
                let (PythonValue::Tensor(expression) | PythonValue::Texts(expression)) = &value
                else {
                    return Err(OnnxError::Operation {
                        operation: name.to_owned(),
                        reason: "it gives no tensor".to_owned(),
                    });
                };
                self.line(&format!("{variable} = {expression}"));
                match value {
                    PythonValue::Texts(_) => PythonValue::Texts(variable),
                    _ => PythonValue::Tensor(variable),
                }
            }
        };
        self.values.insert(name.to_owned(), value);
        Ok(())
    }

    /// The module's name, before its first line.
    fn heading(&mut self, operation: &str) {
        let module = operation.rsplit_once('/').map_or("", |(module, _)| module);
        if module != self.module {
            module.clone_into(&mut self.module);
            if !module.is_empty() {
                let module: String = module.chars().map(plain).collect();
                self.line(&format!("# {module}"));
            }
        }
    }

    fn variable(&mut self, what: &str) -> String {
        let count = self.counts.entry(what.to_owned()).or_default();
        *count += 1;
        format!("{what}_{count}")
    }

    fn line(&mut self, line: &str) {
        // Writing to a string can't fail.
        let _ = writeln!(self.lines, "        {line}");
    }
}

/// Names of the values that the output needs, with itself.
fn needed<'a>(graph: &'a GraphProto, output: &'a str) -> HashSet<&'a str> {
    let mut needed = HashSet::from([output]);
    // Each operation comes after those that it needs.
    for node in graph.node.iter().rev() {
        if node
            .output
            .iter()
            .any(|name| needed.contains(name.as_str()))
        {
            needed.extend(node.input.iter().map(String::as_str));
        }
    }
    needed
}

fn kind_of(input: &ValueInfoProto) -> i32 {
    let of_tensor = input.r#type.as_ref().and_then(|of| of.tensor_type.as_ref());
    of_tensor.and_then(|of| of.elem_type).unwrap_or_default()
}

/// An input's name as that of an argument: none that Python uses otherwise.
fn identifier(name: &str) -> String {
    let plain: String = name.chars().map(plain).collect();
    let plain = plain.replace(['.', '-'], "_");
    match plain.as_str() {
        "tokens" | "image" | "input" | "token_types" => plain,
        _ => format!("input_{plain}"),
    }
}

/// A character of a name within the text of the program.
fn plain(character: char) -> char {
    if character.is_ascii_alphanumeric() || matches!(character, '.' | '-') {
        character
    } else {
        '_'
    }
}
