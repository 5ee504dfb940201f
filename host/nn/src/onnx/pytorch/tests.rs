//! Texts of modules; what they compute is compared with ONNX Runtime by `tests/onnx.py`.

use candle_core::{DType, Device, Tensor};

use super::*;
use crate::onnx::{Attribute, Dimension, ElementType, Value};
use crate::parameters::Parameters;

fn graph() -> Graph {
    Graph::new(&Parameters::new(1, DType::F32, &Device::Cpu))
}

fn written(mut graph: Graph, result: &Value) -> String {
    graph.output(result, "output", ElementType::Float, &[]);
    let facts = [("classes", "[\"a\\\"b\"]".to_owned())];
    let module = PytorchModel::of(graph, "output", &facts).expect("a module");
    module.text().to_owned()
}

#[test]
fn sizes_are_numbers_of_python_and_what_is_not_needed_is_left_out() {
    let mut graph = graph();
    let shape = [Dimension::Free("batch"), Dimension::Free("length")];
    let x = graph.input("tokens", ElementType::Int, &shape);
    let table = Tensor::zeros((5, 4), DType::F32, &Device::Cpu).expect("zeros");
    let table = graph.weight(&table);
    let rows = graph.of_two("Gather", &table, &x);
    let length = graph.size(&rows, 1);
    let half = graph.ints(&[2]);
    let half = graph.of_two("Div", &length, &half);
    let first = graph.slice(&rows, 1, 0, &half);
    let last = graph.narrow(&first, -1, 1, 2);
    let flat = graph.reshape(&last, &[0, -1]);
    graph.node("Exp", &[&flat], &[]);
    let text = written(graph, &flat);
    for line in [
        "CLASSES = [\"a\\\"b\"]",
        "BUFFERS = [\"table_1\"]",
        "    def forward(self, tokens):",
        "gather_1 = F.embedding(tokens, w[\"table_1\"])",
        "slice_1 = gather_1[:, 0:(gather_1.shape[1] // 2)]",
        "slice_2 = slice_1[..., 1:3]",
        "reshape_1 = slice_2.reshape(slice_2.shape[0], -1)",
        "return reshape_1\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains("torch.exp"), "{text}");
}

#[test]
fn no_name_of_a_model_becomes_code() {
    let mut graph = graph();
    let evil = "a\"]\nimport os\n#";
    let x = graph.input(evil, ElementType::Float, &[Dimension::Free("batch")]);
    let column = graph.input("\"\nimport os", ElementType::Double, &[Dimension::Fixed(1)]);
    let column = graph.cast(&column, ElementType::Float);
    let sum = graph.within(evil, |graph| {
        let weight = Tensor::zeros(1, DType::F32, &Device::Cpu).expect("zeros");
        let weight = graph.weight(&weight);
        let sum = graph.of_two("Add", &x, &weight);
        graph.of_two("Add", &sum, &column)
    });
    let text = written(graph, &sum);
    let is_code = |line: &str| line.trim_start().starts_with("import os");
    assert!(!text.lines().any(is_code), "{text}");
    assert!(text.contains("# a___import_os__"), "{text}");
}

#[test]
fn an_operation_that_is_not_known_is_named() {
    let mut graph = graph();
    let x = graph.input("input", ElementType::Float, &[Dimension::Free("batch")]);
    let y = graph.within("layer", |graph| graph.node("Erf", &[&x], &[]));
    graph.output(&y, "output", ElementType::Float, &[]);
    let error = PytorchModel::of(graph, "output", &[])
        .err()
        .expect("an error");
    assert!(error.to_string().contains("`layer/Erf`"), "{error}");

    let mut graph = self::graph();
    let x = graph.input("input", ElementType::Float, &[Dimension::Free("batch")]);
    let pads = [
        ("kernel_shape", Attribute::Ints(vec![2])),
        ("strides", Attribute::Ints(vec![1])),
        ("pads", Attribute::Ints(vec![0, 1])),
    ];
    let y = graph.node("MaxPool", &[&x], &pads);
    graph.output(&y, "output", ElementType::Float, &[]);
    let error = PytorchModel::of(graph, "output", &[])
        .err()
        .expect("an error");
    assert!(error.to_string().contains("padding"), "{error}");
}
