//! Files of weights in formats other than safetensors: detection and advice on conversion.
//!
//! Of them only `PyTorch`'s are read; the advice on these is for what is in them and can't be.

use std::path::Path;

use crate::shell_word::shell_word;
use crate::signature::{self, ZIP};

/// A format of weights that has to be converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Foreign {
    Torch,
    NumpyArchive,
    Hdf5,
    Onnx,
    TensorFlow,
    Flax,
}

/// How many bytes of an archive are searched for the name of its first file.
const FIRST_NAME: usize = 256;

impl Foreign {
    fn of(path: &Path, bytes: &[u8]) -> Option<Foreign> {
        let ending = path.extension().unwrap_or_default().to_string_lossy();
        let ending = ending.to_lowercase();
        let start = bytes.get(..FIRST_NAME).unwrap_or(bytes);
        let has = |word: &[u8]| start.windows(word.len()).any(|part| part == word);
        if bytes.starts_with(ZIP) && (ending == "npz" || has(b".npy")) {
            return Some(Foreign::NumpyArchive);
        }
        // A pickle starts with its protocol version, 2 to 5.
        let is_pickle = matches!(bytes, [0x80, 2..=5, ..]);
        if is_pickle || (bytes.starts_with(ZIP) && (has(b".pkl") || is_torch_ending(&ending))) {
            return Some(Foreign::Torch);
        }
        if bytes.starts_with(b"\x89HDF") {
            return Some(Foreign::Hdf5);
        }
        match ending.as_str() {
            "onnx" => Some(Foreign::Onnx),
            "msgpack" => Some(Foreign::Flax),
            "h5" | "keras" => Some(Foreign::Hdf5),
            "index" | "meta" | "pb" => Some(Foreign::TensorFlow),
            "npz" => Some(Foreign::NumpyArchive),
            _ if is_torch_ending(&ending) => Some(Foreign::Torch),
            _ => None,
        }
    }

    fn what(self) -> &'static str {
        match self {
            Foreign::Torch => "a file of PyTorch's",
            Foreign::NumpyArchive => "an archive of NumPy's arrays",
            Foreign::Hdf5 => "a file of Keras's or HDF5's",
            Foreign::Onnx => "an ONNX model",
            Foreign::TensorFlow => "a checkpoint of TensorFlow's",
            Foreign::Flax => "a file of Flax's",
        }
    }

    /// Shell command that converts the file.
    fn command(self, from: &Path, to: &Path) -> String {
        let (from, to) = (python_text(from), python_text(to));
        let python = match self {
            Foreign::Torch => format!(
                "import torch, safetensors.torch as s; \
                 w = torch.load({from}, map_location='cpu', weights_only=True); \
                 w = w.get('state_dict', w); \
                 s.save_file({{k: v.clone().contiguous() for k, v in w.items() \
                 if hasattr(v, 'clone')}}, {to})"
            ),
            Foreign::NumpyArchive => format!(
                "import numpy, safetensors.numpy as s; \
                 s.save_file(dict(numpy.load({from})), {to})"
            ),
            Foreign::Hdf5 => format!(
                "import h5py, safetensors.numpy as s; w = {{}}; \
                 h5py.File({from}).visititems(lambda n, d: w.update({{n.replace('/', '.'): d[()]}}) \
                 if hasattr(d, 'shape') else None); s.save_file(w, {to})"
            ),
            Foreign::Onnx => format!(
                "import onnx, onnx.numpy_helper as n, safetensors.numpy as s; \
                 s.save_file({{t.name: n.to_array(t).copy() \
                 for t in onnx.load({from}).graph.initializer}}, {to})"
            ),
            Foreign::TensorFlow => format!(
                "import tensorflow as t, safetensors.numpy as s; \
                 r = t.train.load_checkpoint({from}); \
                 s.save_file({{k: r.get_tensor(k) for k in r.get_variable_to_shape_map()}}, {to})"
            ),
            Foreign::Flax => format!(
                "import flax, safetensors.flax as s; \
                 w = flax.serialization.msgpack_restore(open({from}, 'rb').read()); \
                 s.save_file(flax.traverse_util.flatten_dict(w, sep='.'), {to})"
            ),
        };
        format!("python -c {}", shell_word(&python))
    }
}

/// A path as a literal of Python's, in single quotes where they do.
fn python_text(path: &Path) -> String {
    let text = path.to_string_lossy();
    if text.contains(|c: char| c == '\'' || c == '\\' || c.is_control()) {
        // What JSON escapes, Python escapes alike.
        return serde_json::Value::from(text).to_string();
    }
    format!("'{text}'")
}

/// Whether a file with these first bytes is one of `PyTorch`'s.
pub(super) fn is_torch(path: &Path, start: &[u8]) -> bool {
    Foreign::of(path, start) == Some(Foreign::Torch)
}

/// Whether an extension belongs to `PyTorch` or a library built on it.
fn is_torch_ending(ending: &str) -> bool {
    matches!(ending, "pt" | "pth" | "bin" | "ckpt" | "pkl" | "pickle")
}

/// Describes a file that is not a safetensors file, and how to convert it; `None` if its format is
/// unknown.
pub(super) fn conversion(path: &Path, bytes: &[u8]) -> Option<(String, String)> {
    let Some(foreign) = Foreign::of(path, bytes) else {
        let known = signature::of(bytes)?;
        let advice = known.advice.replace("FILE", &path.display().to_string());
        return known.is_packed.then(|| (known.what.to_owned(), advice));
    };
    let command = foreign.command(path, &path.with_extension("safetensors"));
    let mut advice = format!("convert it:\n  {command}");
    if foreign != Foreign::Torch {
        advice.push_str(
            "\n  names and the order of dimensions are that program's: compare them with \
             `sconce summary`'s",
        );
    }
    Some((foreign.what().to_owned(), advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_keeps_the_name_of_any_file() {
        for (name, quoted) in [
            ("w.npz", "numpy.load('w.npz')"),
            ("the best.npz", "numpy.load('the best.npz')"),
            ("it's $5.npz", "numpy.load(\"it's $5.npz\")"),
        ] {
            let advice = conversion(Path::new(name), b"PK\x03\x04 a.npy");
            let (_, advice) = advice.expect("an archive of NumPy's");
            let command = advice.lines().nth(1).expect("a command");
            let words = shlex::split(command).expect("a command line");
            assert_eq!(words[..2], ["python", "-c"]);
            assert_eq!(words.len(), 3, "{command}");
            assert!(words[2].contains(quoted), "{command}");
        }
        let advice = conversion(Path::new("w.npz"), b"PK\x03\x04 a.npy");
        let plain = "python -c \"import numpy, safetensors.numpy as s; \
                     s.save_file(dict(numpy.load('w.npz')), 'w.safetensors')\"";
        assert!(advice.is_some_and(|(_, advice)| advice.contains(plain)));
    }
}
