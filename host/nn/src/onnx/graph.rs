//! A graph of ONNX operations while it is made.

use std::collections::HashMap;

use candle_core::{DType, Device, Result, Tensor, TensorId};

use super::proto::{
    AttributeProto, DimensionProto, GraphProto, NodeProto, TensorProto, TensorShapeProto,
    TensorTypeProto, TypeProto, ValueInfoProto,
};
use crate::parameters::{ParameterKind, Parameters};

/// Name of a value: an input, a weight, or what an operation gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value(String);

/// Type of a value's elements, by its number in ONNX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementType {
    /// Numbers of 32 bits.
    Float = 1,
    /// Bytes.
    Byte = 2,
    /// Whole numbers of 64 bits.
    Int = 7,
    /// Texts.
    Text = 8,
    /// Numbers of 64 bits.
    Double = 11,
}

/// A dimension of an input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// A size.
    Fixed(usize),
    /// A size that may be any, by its name.
    Free(&'static str),
}

/// An option of an operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    /// A whole number.
    Int(i64),
    /// Whole numbers.
    Ints(Vec<i64>),
    /// A number.
    Float(f64),
    /// A text.
    Text(&'static str),
}

/// A graph of ONNX operations.
pub struct Graph {
    /// Names of the model's parameters and buffers, and which they are.
    parameters: HashMap<TensorId, (String, ParameterKind)>,
    proto: GraphProto,
    /// Number of operations of each operator within the module that is written.
    counts: HashMap<&'static str, usize>,
    /// Name of the module that is written; empty outside of all.
    module: String,
    /// A weight that two layers share is one.
    weights: Vec<GraphWeight>,
    known: HashMap<String, Value>,
}

/// A weight of a graph.
pub(super) struct GraphWeight {
    pub(super) name: String,
    pub(super) tensor: Tensor,
    /// Of what is computed of the model's tensors: a buffer.
    pub(super) kind: ParameterKind,
}

impl Graph {
    /// Creates an empty graph, for a model with these parameters.
    pub fn new(parameters: &Parameters) -> Graph {
        let named = parameters.iter().map(|parameter| {
            let name = parameter.name().to_owned();
            (parameter.tensor().id(), (name, parameter.kind()))
        });
        Graph {
            parameters: named.collect(),
            proto: GraphProto {
                name: Some("model".to_owned()),
                ..GraphProto::default()
            },
            counts: HashMap::new(),
            module: String::new(),
            weights: Vec::new(),
            known: HashMap::new(),
        }
    }

    /// Declares an input; the first dimension is usually the free `batch`.
    pub fn input(&mut self, name: &str, kind: ElementType, shape: &[Dimension]) -> Value {
        self.proto.input.push(declared(name, kind, shape));
        Value(name.to_owned())
    }

    /// Declares a value as an output, under a name that no other value has.
    pub fn output(&mut self, value: &Value, name: &str, kind: ElementType, shape: &[Dimension]) {
        self.push("Identity", &[value], &[], name.to_owned());
        self.proto.output.push(declared(name, kind, shape));
    }

    /// A parameter or buffer of the model, under its own name; another tensor under one made for it. Its elements become `f32`.
    pub fn weight(&mut self, tensor: &Tensor) -> Value {
        let known = self.parameters.get(&tensor.id()).cloned();
        let (name, kind) = known.unwrap_or_else(|| (self.place("table"), ParameterKind::Buffer));
        if let Some(value) = self.known.get(&name) {
            return value.clone();
        }
        let value = Value(name.clone());
        self.weights.push(GraphWeight {
            name: name.clone(),
            tensor: tensor.detach(),
            kind,
        });
        self.known.insert(name, value.clone());
        value
    }

    /// Numbers that are no weights, of this shape; one number has the shape `[]`.
    pub fn numbers(&mut self, numbers: &[f32], shape: &[usize]) -> Value {
        let raw = numbers.iter().flat_map(|number| number.to_le_bytes());
        self.constant(ElementType::Float, shape, raw.collect())
    }

    /// A number, of any rank by broadcasting.
    pub fn number(&mut self, number: f64) -> Value {
        self.numbers(&[number as f32], &[])
    }

    /// A number of 64 bits, of any rank by broadcasting.
    pub fn double(&mut self, number: f64) -> Value {
        self.constant(ElementType::Double, &[], number.to_le_bytes().to_vec())
    }

    /// A whole number, of any rank by broadcasting.
    pub fn int(&mut self, number: i64) -> Value {
        self.constant(ElementType::Int, &[], number.to_le_bytes().to_vec())
    }

    /// The whole numbers from 0 to below a size.
    pub fn count_to(&mut self, size: &Value) -> Value {
        let (zero, one, axis) = (self.int(0), self.int(1), self.ints(&[0]));
        let size = self.of_two("Squeeze", size, &axis);
        self.node("Range", &[&zero, &size, &one], &[])
    }

    /// Whole numbers: sizes, axes, places.
    pub fn ints(&mut self, numbers: &[i64]) -> Value {
        let raw = numbers.iter().flat_map(|number| number.to_le_bytes());
        self.constant(ElementType::Int, &[numbers.len()], raw.collect())
    }

    /// Texts, in one dimension.
    pub fn texts(&mut self, texts: &[String]) -> Value {
        let name = self.place("texts");
        self.proto.initializer.push(TensorProto {
            dims: vec![texts.len() as i64],
            data_type: Some(ElementType::Text as i32),
            string_data: texts.iter().map(|text| text.clone().into_bytes()).collect(),
            name: Some(name.clone()),
            ..TensorProto::default()
        });
        Value(name)
    }

    fn constant(&mut self, kind: ElementType, shape: &[usize], raw: Vec<u8>) -> Value {
        // The same constant is written once.
        let key = format!("{kind:?} {shape:?} {raw:?}");
        if let Some(value) = self.known.get(&key) {
            return value.clone();
        }
        let name = format!("constant_{}", self.proto.initializer.len());
        self.proto.initializer.push(TensorProto {
            dims: dims(shape),
            data_type: Some(kind as i32),
            name: Some(name.clone()),
            raw_data: Some(raw),
            ..TensorProto::default()
        });
        let value = Value(name);
        self.known.insert(key, value.clone());
        value
    }

    /// In the place of an input that an operation need not have.
    pub fn nothing(&self) -> Value {
        Value(String::new())
    }

    /// Adds an operation of which one output, the first, is used.
    pub fn node(
        &mut self,
        operator: &'static str,
        inputs: &[&Value],
        attributes: &[(&'static str, Attribute)],
    ) -> Value {
        let name = self.place(operator);
        self.push(operator, inputs, attributes, name)
    }

    fn push(
        &mut self,
        operator: &'static str,
        inputs: &[&Value],
        attributes: &[(&'static str, Attribute)],
        name: String,
    ) -> Value {
        self.proto.node.push(NodeProto {
            input: inputs.iter().map(|Value(name)| name.clone()).collect(),
            output: vec![name.clone()],
            name: Some(name.clone()),
            op_type: Some(operator.to_owned()),
            attribute: attributes
                .iter()
                .map(|(name, value)| value.named(name))
                .collect(),
        });
        Value(name)
    }

    /// Adds an operation on two values.
    pub fn of_two(&mut self, operator: &'static str, one: &Value, other: &Value) -> Value {
        self.node(operator, &[one, other], &[])
    }

    /// The same elements in another shape; 0 keeps a dimension, and -1 is what is left.
    pub fn reshape(&mut self, x: &Value, shape: &[i64]) -> Value {
        let shape = self.ints(shape);
        self.of_two("Reshape", x, &shape)
    }

    /// The dimensions in another order.
    pub fn transpose(&mut self, x: &Value, order: &[i64]) -> Value {
        self.node(
            "Transpose",
            &[x],
            &[("perm", Attribute::Ints(order.to_vec()))],
        )
    }

    /// The elements as those of another type.
    pub fn cast(&mut self, x: &Value, to: ElementType) -> Value {
        self.node("Cast", &[x], &[("to", Attribute::Int(to as i64))])
    }

    /// Values side by side in a dimension; a single one as it is.
    pub fn joined(&mut self, values: &[Value], dimension: i64) -> Value {
        if let [only] = values {
            return only.clone();
        }
        let values: Vec<&Value> = values.iter().collect();
        self.node("Concat", &values, &[("axis", Attribute::Int(dimension))])
    }

    /// (x − mean) / deviation as `f32`, computed with 64 bits; the pairs are of this shape.
    pub fn standardised(&mut self, x: &Value, pairs: &[(f64, f64)], shape: &[usize]) -> Value {
        let (means, deviations): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        let [mean, deviation] = [means, deviations].map(|numbers| {
            let raw = numbers.iter().flat_map(|number| number.to_le_bytes());
            self.constant(ElementType::Double, shape, raw.collect())
        });
        let x = self.cast(x, ElementType::Double);
        let x = self.of_two("Sub", &x, &mean);
        let x = self.of_two("Div", &x, &deviation);
        self.cast(&x, ElementType::Float)
    }

    /// The size of a dimension, as one whole number.
    pub fn size(&mut self, x: &Value, dimension: i64) -> Value {
        let mut range = vec![("start", Attribute::Int(dimension))];
        // After the last one comes the end, which has no number from there.
        if dimension != -1 {
            range.push(("end", Attribute::Int(dimension + 1)));
        }
        self.node("Shape", &[x], &range)
    }

    /// A range of a dimension; `end` is one whole number.
    pub fn slice(&mut self, x: &Value, dimension: i64, start: i64, end: &Value) -> Value {
        let (start, axis) = (self.ints(&[start]), self.ints(&[dimension]));
        self.node("Slice", &[x, &start, end, &axis], &[])
    }

    /// A range of a dimension of fixed size.
    pub fn narrow(&mut self, x: &Value, dimension: i64, start: usize, count: usize) -> Value {
        let end = self.ints(&[(start + count) as i64]);
        self.slice(x, dimension, start as i64, &end)
    }

    /// Writes the operations of a module under its name.
    pub(crate) fn within<T>(&mut self, module: &str, write: impl FnOnce(&mut Graph) -> T) -> T {
        let outer = std::mem::replace(&mut self.module, module.to_owned());
        let counts = std::mem::take(&mut self.counts);
        let result = write(self);
        (self.module, self.counts) = (outer, counts);
        result
    }

    /// Name of the module that is written.
    pub(crate) fn module(&self) -> &str {
        &self.module
    }

    fn place(&mut self, what: &'static str) -> String {
        let count = self.counts.entry(what).or_default();
        *count += 1;
        match (self.module.as_str(), *count) {
            ("", count) => format!("/{what}_{count}"),
            (module, 1) => format!("{module}/{what}"),
            (module, count) => format!("{module}/{what}_{count}"),
        }
    }

    /// The graph without its weights, and these.
    pub(super) fn finish(self) -> (GraphProto, Vec<GraphWeight>) {
        (self.proto, self.weights)
    }
}

impl Attribute {
    fn named(&self, name: &str) -> AttributeProto {
        let empty = AttributeProto {
            name: Some(name.to_owned()),
            ..AttributeProto::default()
        };
        match self {
            Attribute::Float(number) => AttributeProto {
                f: Some(*number as f32),
                r#type: Some(1),
                ..empty
            },
            Attribute::Int(number) => AttributeProto {
                i: Some(*number),
                r#type: Some(2),
                ..empty
            },
            Attribute::Text(text) => AttributeProto {
                s: Some(text.as_bytes().to_vec()),
                r#type: Some(3),
                ..empty
            },
            Attribute::Ints(numbers) => AttributeProto {
                ints: numbers.clone(),
                r#type: Some(7),
                ..empty
            },
        }
    }
}

/// A tensor's elements as `f32`, little endian.
pub(super) fn raw(tensor: &Tensor) -> Result<Vec<u8>> {
    let tensor = tensor.to_device(&Device::Cpu)?.to_dtype(DType::F32)?;
    let numbers: Vec<f32> = tensor.flatten_all()?.to_vec1()?;
    Ok(numbers.into_iter().flat_map(f32::to_le_bytes).collect())
}

pub(super) fn dims(shape: &[usize]) -> Vec<i64> {
    shape.iter().map(|&size| size as i64).collect()
}

fn declared(name: &str, kind: ElementType, shape: &[Dimension]) -> ValueInfoProto {
    let dim = shape.iter().map(|dimension| match dimension {
        Dimension::Fixed(size) => DimensionProto {
            dim_value: Some(*size as i64),
            dim_param: None,
        },
        Dimension::Free(name) => DimensionProto {
            dim_value: None,
            dim_param: Some((*name).to_owned()),
        },
    });
    let shape = TensorShapeProto { dim: dim.collect() };
    let tensor_type = TensorTypeProto {
        elem_type: Some(kind as i32),
        shape: Some(shape),
    };
    ValueInfoProto {
        name: Some(name.to_owned()),
        r#type: Some(TypeProto {
            tensor_type: Some(tensor_type),
        }),
    }
}
