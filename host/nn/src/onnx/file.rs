//! A file of ONNX.

use candle_core::Tensor;
use prost::Message;

use super::OnnxError;
use super::graph::{ElementType, Graph, GraphWeight, dims, raw};
use super::proto::{ModelProto, OperatorSetIdProto, StringStringEntryProto, TensorProto};

/// Version of ONNX's operators: that of `Gelu`, and two before those of attention, which few runtimes have.
const OPSET: i64 = 20;

/// Version of the file format that goes with it.
const IR_VERSION: i64 = 9;

/// Largest file with weights in it, in bytes: no message may have 2 GiB.
pub(super) const LARGEST: u64 = 1 << 30;

/// A model as ONNX.
pub struct OnnxModel {
    model: ModelProto,
    weights: Vec<GraphWeight>,
}

impl OnnxModel {
    /// Finishes a graph; `facts` are texts about the model, by key.
    pub fn of(graph: Graph, facts: &[(&str, String)]) -> OnnxModel {
        let (graph, weights) = graph.finish();
        let facts = facts.iter().map(|(key, text)| entry(key, text.clone()));
        let model = ModelProto {
            ir_version: Some(IR_VERSION),
            producer_name: Some("sconce".to_owned()),
            producer_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            graph: Some(graph),
            opset_import: vec![OperatorSetIdProto {
                domain: None,
                version: Some(OPSET),
            }],
            metadata_props: facts.collect(),
        };
        OnnxModel { model, weights }
    }

    /// Whether the weights need a file of their own.
    pub fn is_large(&self) -> bool {
        let sizes = self
            .weights
            .iter()
            .map(|weight| 4 * weight.tensor.elem_count() as u64);
        sizes.sum::<u64>() > LARGEST
    }

    /// The bytes of a file with everything in it.
    ///
    /// # Errors
    ///
    /// If a weight can't be read.
    pub fn whole(mut self) -> Result<Vec<u8>, OnnxError> {
        for GraphWeight { name, tensor, .. } in std::mem::take(&mut self.weights) {
            let raw_data = Some(raw(&tensor)?);
            self.add(TensorProto {
                raw_data,
                ..described(name, &tensor)
            });
        }
        Ok(self.model.encode_to_vec())
    }

    /// The bytes of a file that refers to another one, `data`, for its weights. `write` gets these one after the other.
    ///
    /// # Errors
    ///
    /// If a weight can't be read or written.
    pub fn beside<E: From<OnnxError>>(
        mut self,
        data: &str,
        mut write: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<Vec<u8>, E> {
        let mut offset = 0;
        for GraphWeight { name, tensor, .. } in std::mem::take(&mut self.weights) {
            let bytes = raw(&tensor).map_err(OnnxError::from)?;
            write(&bytes)?;
            let place = [
                ("location", data.to_owned()),
                ("offset", offset.to_string()),
                ("length", bytes.len().to_string()),
            ];
            offset += bytes.len();
            self.add(TensorProto {
                external_data: place.map(|(key, text)| entry(key, text)).into(),
                data_location: Some(1),
                ..described(name, &tensor)
            });
        }
        Ok(self.model.encode_to_vec())
    }

    fn add(&mut self, tensor: TensorProto) {
        if let Some(graph) = &mut self.model.graph {
            graph.initializer.push(tensor);
        }
    }
}

fn entry(key: &str, text: String) -> StringStringEntryProto {
    StringStringEntryProto {
        key: Some(key.to_owned()),
        value: Some(text),
    }
}

fn described(name: String, tensor: &Tensor) -> TensorProto {
    TensorProto {
        dims: dims(tensor.dims()),
        data_type: Some(ElementType::Float as i32),
        name: Some(name),
        ..TensorProto::default()
    }
}
