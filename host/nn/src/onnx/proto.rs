//! The messages of ONNX files that are written here, as in `onnx.proto` of version 1.15.

use prost::Message;

/// A file: a graph, and which operators it is made of.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ModelProto {
    /// Version of the format.
    #[prost(int64, optional, tag = "1")]
    pub ir_version: Option<i64>,
    /// Program that wrote it.
    #[prost(string, optional, tag = "2")]
    pub producer_name: Option<String>,
    /// Version of that program.
    #[prost(string, optional, tag = "3")]
    pub producer_version: Option<String>,
    /// The graph.
    #[prost(message, optional, tag = "7")]
    pub graph: Option<GraphProto>,
    /// Sets of operators, by version.
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSetIdProto>,
    /// Texts about the model, by key.
    #[prost(message, repeated, tag = "14")]
    pub metadata_props: Vec<StringStringEntryProto>,
}

/// A version of a set of operators.
#[derive(Clone, PartialEq, Message)]
pub(super) struct OperatorSetIdProto {
    /// Name of the set; empty for ONNX's own.
    #[prost(string, optional, tag = "1")]
    pub domain: Option<String>,
    /// Its version.
    #[prost(int64, optional, tag = "2")]
    pub version: Option<i64>,
}

/// A key with a text.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StringStringEntryProto {
    /// The key.
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    /// The text.
    #[prost(string, optional, tag = "2")]
    pub value: Option<String>,
}

/// Nodes in an order in which each comes after those that it needs.
#[derive(Clone, PartialEq, Message)]
pub(super) struct GraphProto {
    /// The nodes.
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<NodeProto>,
    /// Its name.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    /// Weights and constants.
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<TensorProto>,
    /// What it is given.
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfoProto>,
    /// What it gives.
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfoProto>,
}

/// An operation.
#[derive(Clone, PartialEq, Message)]
pub(super) struct NodeProto {
    /// Names of the values that it is given.
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    /// Names of the values that it gives.
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    /// Its own name.
    #[prost(string, optional, tag = "3")]
    pub name: Option<String>,
    /// Its operator.
    #[prost(string, optional, tag = "4")]
    pub op_type: Option<String>,
    /// Its options.
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<AttributeProto>,
}

/// An option of an operation.
#[derive(Clone, PartialEq, Message)]
pub(super) struct AttributeProto {
    /// Its name.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// A number.
    #[prost(float, optional, tag = "2")]
    pub f: Option<f32>,
    /// A whole number.
    #[prost(int64, optional, tag = "3")]
    pub i: Option<i64>,
    /// A text.
    #[prost(bytes = "vec", optional, tag = "4")]
    pub s: Option<Vec<u8>>,
    /// Whole numbers.
    #[prost(int64, repeated, packed = "false", tag = "8")]
    pub ints: Vec<i64>,
    /// Which of them it has: 1 `f`, 2 `i`, 3 `s`, 7 `ints`.
    #[prost(int32, optional, tag = "20")]
    pub r#type: Option<i32>,
}

/// A tensor with its elements.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorProto {
    /// Its shape.
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub dims: Vec<i64>,
    /// Number of its type.
    #[prost(int32, optional, tag = "2")]
    pub data_type: Option<i32>,
    /// Elements that are texts.
    #[prost(bytes = "vec", repeated, tag = "6")]
    pub string_data: Vec<Vec<u8>>,
    /// Its name.
    #[prost(string, optional, tag = "8")]
    pub name: Option<String>,
    /// Elements of other types, little endian.
    #[prost(bytes = "vec", optional, tag = "9")]
    pub raw_data: Option<Vec<u8>>,
    /// Where its elements are in another file: `location`, `offset`, `length`.
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<StringStringEntryProto>,
    /// 1 if its elements are in another file.
    #[prost(int32, optional, tag = "14")]
    pub data_location: Option<i32>,
}

/// A value's name and type.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ValueInfoProto {
    /// Its name.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// Its type.
    #[prost(message, optional, tag = "2")]
    pub r#type: Option<TypeProto>,
}

/// A value's type.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TypeProto {
    /// Of a tensor.
    #[prost(message, optional, tag = "1")]
    pub tensor_type: Option<TensorTypeProto>,
}

/// A tensor's type.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorTypeProto {
    /// Number of the elements' type.
    #[prost(int32, optional, tag = "1")]
    pub elem_type: Option<i32>,
    /// Its shape.
    #[prost(message, optional, tag = "2")]
    pub shape: Option<TensorShapeProto>,
}

/// A shape.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorShapeProto {
    /// Its dimensions.
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<DimensionProto>,
}

/// A dimension.
#[derive(Clone, PartialEq, Message)]
pub(super) struct DimensionProto {
    /// Its size,
    #[prost(int64, optional, tag = "1")]
    pub dim_value: Option<i64>,
    /// or the name of a size that may be any.
    #[prost(string, optional, tag = "2")]
    pub dim_param: Option<String>,
}
