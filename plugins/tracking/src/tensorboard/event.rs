//! The messages of TensorBoard's event files, field by field as in TensorFlow's `event.proto`,
//! `summary.proto`, `histogram.proto` and `tensor.proto`; unused fields are omitted.

use prost::{Enumeration, Message};

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Event {
    /// Seconds since 1970.
    #[prost(double, tag = "1")]
    pub(crate) wall_time: f64,
    #[prost(int64, tag = "2")]
    pub(crate) step: i64,
    #[prost(oneof = "What", tags = "3, 5, 7")]
    pub(crate) what: Option<What>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum What {
    #[prost(string, tag = "3")]
    FileVersion(String),
    #[prost(message, tag = "5")]
    Summary(Summary),
    #[prost(message, tag = "7")]
    SessionLog(SessionLog),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Summary {
    #[prost(message, repeated, tag = "1")]
    pub(crate) values: Vec<Value>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Value {
    #[prost(string, tag = "1")]
    pub(crate) tag: String,
    #[prost(message, optional, tag = "9")]
    pub(crate) metadata: Option<Metadata>,
    #[prost(oneof = "Content", tags = "2, 4, 5, 8")]
    pub(crate) content: Option<Content>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Content {
    #[prost(float, tag = "2")]
    Scalar(f32),
    #[prost(message, tag = "4")]
    Image(Image),
    #[prost(message, tag = "5")]
    Histogram(Histogram),
    #[prost(message, tag = "8")]
    Tensor(Tensor),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Metadata {
    #[prost(message, optional, tag = "1")]
    pub(crate) plugin: Option<Plugin>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Plugin {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Image {
    #[prost(int32, tag = "1")]
    pub(crate) height: i32,
    #[prost(int32, tag = "2")]
    pub(crate) width: i32,
    /// 1: grey, 3: RGB.
    #[prost(int32, tag = "3")]
    pub(crate) colorspace: i32,
    /// A PNG file.
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) encoded: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Histogram {
    #[prost(double, tag = "1")]
    pub(crate) min: f64,
    #[prost(double, tag = "2")]
    pub(crate) max: f64,
    #[prost(double, tag = "3")]
    pub(crate) count: f64,
    #[prost(double, tag = "4")]
    pub(crate) sum: f64,
    #[prost(double, tag = "5")]
    pub(crate) sum_of_squares: f64,
    /// The right edge of each bucket.
    #[prost(double, repeated, tag = "6")]
    pub(crate) limits: Vec<f64>,
    #[prost(double, repeated, tag = "7")]
    pub(crate) buckets: Vec<f64>,
}

/// A tensor of strings.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Tensor {
    /// 7: `DT_STRING`.
    #[prost(int32, tag = "1")]
    pub(crate) dtype: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) shape: Option<Shape>,
    #[prost(bytes = "vec", repeated, tag = "8")]
    pub(crate) texts: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Shape {
    #[prost(message, repeated, tag = "2")]
    pub(crate) dimensions: Vec<Dimension>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Dimension {
    #[prost(int64, tag = "1")]
    pub(crate) size: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SessionLog {
    #[prost(enumeration = "Status", tag = "1")]
    pub(crate) status: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Enumeration)]
#[repr(i32)]
pub(crate) enum Status {
    Unspecified = 0,
    /// A reader discards this step and later ones.
    Start = 1,
}

impl Value {
    /// A scalar under a tag.
    pub(crate) fn scalar(tag: String, value: f64) -> Value {
        Value {
            tag,
            metadata: None,
            content: Some(Content::Scalar(value as f32)),
        }
    }

    /// A text, which TensorBoard reads as Markdown.
    pub(crate) fn text(tag: String, text: String) -> Value {
        let plugin = Plugin {
            name: "text".to_owned(),
        };
        let shape = Shape {
            dimensions: vec![Dimension { size: 1 }],
        };
        let tensor = Tensor {
            dtype: 7,
            shape: Some(shape),
            texts: vec![text.into_bytes()],
        };
        Value {
            tag,
            metadata: Some(Metadata {
                plugin: Some(plugin),
            }),
            content: Some(Content::Tensor(tensor)),
        }
    }
}
