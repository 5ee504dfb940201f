//! Operations of ONNX as expressions of `PyTorch`.

use super::super::proto::AttributeProto;
use super::python_value::{PythonValue, single};

/// An operation without its inputs.
#[derive(Clone, Copy)]
pub(super) struct Operation<'a> {
    pub(super) operator: &'a str,
    pub(super) attributes: &'a [AttributeProto],
}

/// How an operation is written.
pub(super) enum Written {
    /// A line of its own, which gives a variable this value.
    Line(PythonValue),
    /// Within the lines that use it.
    Part(PythonValue),
}

/// Why an operation can't be written.
type Reason = String;

impl Operation<'_> {
    /// Whether the numbers of its constant inputs become part of the text.
    pub(super) fn reads_numbers(&self) -> bool {
        self.operator == "Resize"
    }

    /// It as an expression of its inputs.
    pub(super) fn written(&self, inputs: &[PythonValue]) -> Result<Written, Reason> {
        if let Some(sizes) = self.of_sizes(inputs)? {
            return Ok(Written::Part(sizes));
        }
        if let Some(texts) = self.of_texts(inputs)? {
            return Ok(Written::Line(texts));
        }
        let x = || tensor(inputs, 0);
        let expression = match self.operator {
            // The output's name for what is there.
            "Identity" => return Ok(Written::Part(PythonValue::Tensor(x()?))),
            "Transpose" if self.ints("perm")? == [1, 0] => {
                return Ok(Written::Part(PythonValue::Tensor(format!("{}.T", x()?))));
            }
            "Transpose" => format!("{}.permute({})", x()?, list(&self.ints("perm")?)),
            "Exp" | "Sqrt" | "Relu" | "Sigmoid" | "Tanh" | "Round" | "IsNaN" => {
                format!("torch.{}({})", self.operator.to_lowercase(), x()?)
            }
            "Gelu" => match self.text("approximate") {
                Some(kind) => format!("F.gelu({}, approximate=\"{kind}\")", x()?),
                None => format!("F.gelu({})", x()?),
            },
            "Softmax" => format!("torch.softmax({}, {})", x()?, self.int("axis", -1)),
            "Cast" => format!("{}.{}()", x()?, self.cast()?),
            "Where" => {
                let [condition, one, other] = [x()?, tensor(inputs, 1)?, tensor(inputs, 2)?];
                format!("torch.where({condition}, {one}, {other})")
            }
            "Range" => format!("torch.arange({}, device=device)", number(inputs, 1)?),
            "Concat" => {
                let all = (0..inputs.len()).map(|index| tensor(inputs, index));
                let all = all.collect::<Result<Vec<_>, _>>()?.join(", ");
                format!("torch.cat(({all}), {})", self.int("axis", 0))
            }
            "Reshape" => reshaped(&x()?, inputs.get(1))?,
            "Unsqueeze" => {
                let axes = sizes(inputs, 1)?;
                axes.iter()
                    .fold(x()?, |x, axis| format!("{x}.unsqueeze({axis})"))
            }
            "Expand" => {
                let shape = sizes(inputs, 1)?.join(", ");
                let x = x()?;
                format!("{x}.expand(torch.broadcast_shapes({x}.shape, ({shape})))")
            }
            "Slice" => sliced(&x()?, inputs)?,
            "Gather" => self.gathered(inputs)?,
            "ReduceMax" | "ReduceMean" => {
                let axes = sizes(inputs, 1)?.join(", ");
                let keeps = self.int("keepdims", 1) == 1;
                let what = if self.operator == "ReduceMax" {
                    "amax"
                } else {
                    "mean"
                };
                format!("{}.{what}(({axes},), keepdim={})", x()?, python(keeps))
            }
            _ => match (self.elementwise(inputs)?, self.of_layer(inputs)?) {
                (Some(text), _) | (None, Some(text)) => text,
                (None, None) => return Err("PyTorch's form of it is not known here".to_owned()),
            },
        };
        Ok(Written::Line(PythonValue::Tensor(expression)))
    }

    /// Operations on sizes, which are numbers of Python; none if it gives a tensor.
    fn of_sizes(&self, inputs: &[PythonValue]) -> Result<Option<PythonValue>, Reason> {
        use PythonValue::{Number, Shape, Sizes};
        Ok(match (self.operator, inputs) {
            ("Shape", _) => {
                let x = tensor(inputs, 0)?;
                match self.attribute("start").and_then(|start| start.i) {
                    Some(start) => Some(Sizes(vec![format!("{x}.shape[{start}]")])),
                    None => Some(Shape(format!("{x}.shape"))),
                }
            }
            ("Squeeze", [Sizes(sizes), ..]) => match sizes.as_slice() {
                [size] => Some(Number(size.clone())),
                _ => return Err("several sizes are not one number".to_owned()),
            },
            ("Concat", [Sizes(_), ..]) => {
                let lists = (0..inputs.len()).map(|index| sizes(inputs, index));
                let lists = lists.collect::<Result<Vec<_>, _>>()?;
                Some(Sizes(lists.concat()))
            }
            (_, [Sizes(one), Sizes(other)]) => {
                let symbol = match self.operator {
                    "Add" => "+",
                    "Sub" => "-",
                    "Mul" => "*",
                    "Div" => "//",
                    _ => return Ok(None),
                };
                let pairs = one.iter().zip(other);
                let results = pairs.map(|(one, other)| format!("({one} {symbol} {other})"));
                Some(Sizes(results.collect()))
            }
            _ => None,
        })
    }

    /// Operations on texts, by numpy; none if no input is one.
    fn of_texts(&self, inputs: &[PythonValue]) -> Result<Option<PythonValue>, Reason> {
        use PythonValue::{Tensor, Texts};
        Ok(match (self.operator, inputs) {
            ("Equal", [Texts(one), Texts(other)]) => {
                let same = format!("torch.from_numpy({one} == {other}).to(device)");
                Some(Tensor(same))
            }
            ("Where", [Tensor(condition), Texts(one), Texts(other)]) => {
                let chosen = format!("np.where({condition}.cpu().numpy(), {one}, {other})");
                Some(Texts(chosen))
            }
            (_, inputs) if inputs.iter().any(|input| matches!(input, Texts(_))) => {
                return Err("PyTorch has no texts".to_owned());
            }
            _ => None,
        })
    }

    /// Operations on two tensors, element by element, and products.
    fn elementwise(&self, inputs: &[PythonValue]) -> Result<Option<String>, Reason> {
        let symbol = match self.operator {
            "Add" => "+",
            "Sub" => "-",
            "Mul" => "*",
            "Div" => "/",
            "And" => "&",
            "Equal" => "==",
            "Greater" => ">",
            "LessOrEqual" => "<=",
            "MatMul" => "@",
            _ => return Ok(None),
        };
        let (one, other) = (tensor(inputs, 0)?, tensor(inputs, 1)?);
        Ok(Some(format!("{one} {symbol} {other}")))
    }

    /// Operations that are layers there, too.
    fn of_layer(&self, inputs: &[PythonValue]) -> Result<Option<String>, Reason> {
        let at = |index| tensor(inputs, index);
        let epsilon = || single(self.float("epsilon", 1e-5));
        Ok(Some(match self.operator {
            "LayerNormalization" => {
                let (x, weight, bias) = (at(0)?, at(1)?, optional(inputs, 2)?);
                format!(
                    "F.layer_norm({x}, {weight}.shape, {weight}, {bias}, {})",
                    epsilon()
                )
            }
            "BatchNormalization" => {
                let [x, weight, bias, mean, variance] = [at(0)?, at(1)?, at(2)?, at(3)?, at(4)?];
                format!(
                    "F.batch_norm({x}, {mean}, {variance}, {weight}, {bias}, False, 0.0, {})",
                    epsilon()
                )
            }
            "InstanceNormalization" => {
                let (x, weight, bias) = (at(0)?, at(1)?, at(2)?);
                format!(
                    "F.instance_norm({x}, weight={weight}, bias={bias}, eps={})",
                    epsilon()
                )
            }
            "Conv" | "ConvTranspose" => self.convolution(inputs)?,
            "MaxPool" | "AveragePool" => {
                let kernel = self.ints("kernel_shape")?;
                let what = if self.operator == "MaxPool" {
                    "max"
                } else {
                    "avg"
                };
                let options = [
                    list(&kernel),
                    list(&self.ints("strides")?),
                    list(&self.padding()?),
                ];
                let [kernel_text, stride, padding] = options;
                let rank = kernel.len();
                format!(
                    "F.{what}_pool{rank}d({}, ({kernel_text}), ({stride}), ({padding}))",
                    at(0)?
                )
            }
            "GlobalMaxPool" => format!("F.adaptive_max_pool2d({}, 1)", at(0)?),
            "GlobalAveragePool" => format!("F.adaptive_avg_pool2d({}, 1)", at(0)?),
            "Resize" => self.resized(inputs)?,
            "LSTM" | "GRU" => {
                let [x, of_inputs, of_states, biases] = [at(0)?, at(1)?, at(2)?, at(3)?];
                let (run, order) = match self.operator {
                    "LSTM" => ("torch.lstm", "(0, 2, 3, 1)"),
                    _ => ("torch.gru", "(1, 0, 2)"),
                };
                format!("recurrent({run}, {order}, {x}, {of_inputs}, {of_states}, {biases})")
            }
            _ => return Ok(None),
        }))
    }

    fn convolution(&self, inputs: &[PythonValue]) -> Result<String, Reason> {
        let (x, weight, bias) = (tensor(inputs, 0)?, tensor(inputs, 1)?, optional(inputs, 2)?);
        let rank = self.ints("kernel_shape")?.len();
        let stride = list(&self.ints("strides")?);
        let dilation = list(&self.ints("dilations")?);
        let (padding, groups) = (list(&self.padding()?), self.int("group", 1));
        Ok(if self.operator == "Conv" {
            format!(
                "F.conv{rank}d({x}, {weight}, {bias}, ({stride},), ({padding},), ({dilation},), {groups})"
            )
        } else {
            let added = list(&self.ints("output_padding")?);
            format!(
                "F.conv_transpose{rank}d({x}, {weight}, {bias}, ({stride},), ({padding},), ({added},), {groups}, ({dilation},))"
            )
        })
    }

    /// Padding on each side, which is the same before and after.
    fn padding(&self) -> Result<Vec<i64>, Reason> {
        let pads = self.ints("pads")?;
        let (before, after) = pads.split_at(pads.len() / 2);
        if before != after {
            return Err("its padding differs before and after".to_owned());
        }
        Ok(before.to_vec())
    }

    fn resized(&self, inputs: &[PythonValue]) -> Result<String, Reason> {
        let Some(PythonValue::Table(factors)) = inputs.get(2) else {
            return Err("its factors are not constants".to_owned());
        };
        let factors = factors.numbers.iter().skip(2);
        let factors: Vec<String> = factors.map(|&factor| single(factor as f32)).collect();
        let (x, factors) = (tensor(inputs, 0)?, factors.join(", "));
        let mode = match self.text("mode").as_deref() {
            Some("linear") => "mode=\"bilinear\", align_corners=False",
            _ => "mode=\"nearest\"",
        };
        Ok(format!(
            "F.interpolate({x}, scale_factor=({factors}), {mode})"
        ))
    }

    /// Rows of a table, or one place of a dimension.
    fn gathered(&self, inputs: &[PythonValue]) -> Result<String, Reason> {
        let x = tensor(inputs, 0)?;
        match (inputs.get(1), self.int("axis", 0)) {
            (Some(PythonValue::Number(index)), axis) => Ok(format!("{x}.select({axis}, {index})")),
            (Some(PythonValue::Tensor(rows)), 0) => Ok(format!("F.embedding({rows}, {x})")),
            _ => Err("it gathers along another dimension".to_owned()),
        }
    }

    fn cast(&self) -> Result<&'static str, Reason> {
        match self.int("to", 0) {
            1 => Ok("float"),
            7 => Ok("long"),
            11 => Ok("double"),
            kind => Err(format!("the element type {kind} is not supported")),
        }
    }

    fn attribute(&self, name: &str) -> Option<&AttributeProto> {
        let mut all = self.attributes.iter();
        all.find(|attribute| attribute.name.as_deref() == Some(name))
    }

    fn int(&self, name: &str, default: i64) -> i64 {
        let number = self.attribute(name).and_then(|attribute| attribute.i);
        number.unwrap_or(default)
    }

    fn float(&self, name: &str, default: f32) -> f32 {
        let number = self.attribute(name).and_then(|attribute| attribute.f);
        number.unwrap_or(default)
    }

    fn text(&self, name: &str) -> Option<String> {
        let bytes = self.attribute(name)?.s.as_ref()?;
        let is_plain = bytes.iter().all(u8::is_ascii_alphabetic);
        is_plain.then(|| String::from_utf8_lossy(bytes).into_owned())
    }

    fn ints(&self, name: &str) -> Result<Vec<i64>, Reason> {
        let found = self.attribute(name).map(|attribute| attribute.ints.clone());
        found.ok_or_else(|| format!("it says no `{name}`"))
    }
}

/// An input as an operand of tensors.
fn tensor(inputs: &[PythonValue], index: usize) -> Result<String, Reason> {
    match inputs.get(index) {
        Some(PythonValue::Tensor(text) | PythonValue::Number(text)) => Ok(text.clone()),
        Some(PythonValue::Sizes(sizes)) if sizes.len() == 1 => Ok(sizes.concat()),
        _ => Err(format!("input {} is not a tensor", index + 1)),
    }
}

fn optional(inputs: &[PythonValue], index: usize) -> Result<String, Reason> {
    match inputs.get(index) {
        None | Some(PythonValue::Nothing) => Ok("None".to_owned()),
        Some(_) => tensor(inputs, index),
    }
}

fn number(inputs: &[PythonValue], index: usize) -> Result<String, Reason> {
    match inputs.get(index) {
        Some(PythonValue::Number(text)) => Ok(text.clone()),
        _ => Err(format!("input {} is not a number", index + 1)),
    }
}

fn sizes(inputs: &[PythonValue], index: usize) -> Result<Vec<String>, Reason> {
    match inputs.get(index) {
        Some(PythonValue::Sizes(sizes)) => Ok(sizes.clone()),
        _ => Err(format!("input {} is not a list of sizes", index + 1)),
    }
}

/// 0 keeps a dimension.
fn reshaped(x: &str, shape: Option<&PythonValue>) -> Result<String, Reason> {
    match shape {
        Some(PythonValue::Shape(shape)) => Ok(format!("{x}.reshape({shape})")),
        Some(PythonValue::Sizes(sizes)) => {
            let sizes = sizes.iter().enumerate();
            let sizes = sizes.map(|(dimension, size)| match size.as_str() {
                "0" => format!("{x}.shape[{dimension}]"),
                size => size.to_owned(),
            });
            Ok(format!(
                "{x}.reshape({})",
                sizes.collect::<Vec<_>>().join(", ")
            ))
        }
        _ => Err("its shape is not a constant".to_owned()),
    }
}

/// A range of one dimension.
fn sliced(x: &str, inputs: &[PythonValue]) -> Result<String, Reason> {
    let one = |index: usize| match sizes(inputs, index)?.as_slice() {
        [size] => Ok(size.clone()),
        _ => Err("it cuts several dimensions".to_owned()),
    };
    let (start, end, axis) = (one(1)?, one(2)?, one(3)?);
    let axis: i64 = axis
        .parse()
        .map_err(|_| "its dimension is not a constant")?;
    let others = |count: i64| vec![":"; count.max(0) as usize];
    let mut places: Vec<String> = Vec::new();
    if axis < 0 {
        places.push("...".to_owned());
    }
    places.extend(others(axis).into_iter().map(str::to_owned));
    places.push(format!("{start}:{end}"));
    places.extend(others(-axis - 1).into_iter().map(str::to_owned));
    Ok(format!("{x}[{}]", places.join(", ")))
}

fn list(numbers: &[i64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(i64::to_string).collect();
    numbers.join(", ")
}

fn python(truth: bool) -> &'static str {
    if truth { "True" } else { "False" }
}
