//! Trained models.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCFunction, PyModule, PyTuple};
use sconce::embedded::{Predicted, Predictor, Provided, StartFailure};

use super::function::function;
use super::{failure, forked, memory};

/// Number of the next samples: each has a path of its own, as several threads may predict.
static NEXT: AtomicU64 = AtomicU64::new(0);

pub(super) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let doc = c"Opens the model in a directory; returns the function that predicts.";
    let load = function(module.py(), c"load", doc, load)?;
    module.add("load", load)
}

fn load(arguments: &Bound<'_, PyTuple>) -> PyResult<Py<PyCFunction>> {
    let py = arguments.py();
    let directory: PathBuf = arguments.get_item(0)?.extract()?;
    let opened = py.detach(|| Predictor::open(&directory));
    // One prediction at a time: layers are for one thread.
    let model = Mutex::new(opened.map_err(|problem| failure::of_start(py, &problem))?);
    let doc = c"Predictions for samples: a path, or an array or bytes and what describes them.";
    Ok(function(py, c"predict", doc, move |arguments| {
        predict(&model, arguments)
    })?
    .unbind())
}

/// Values as bytes of `f32`, their shape, names of the last dimension, whether they are probabilities, notes.
type Predictions = (Py<PyBytes>, Vec<usize>, Vec<String>, bool, Vec<String>);

fn predict(model: &Mutex<Predictor>, arguments: &Bound<'_, PyTuple>) -> PyResult<Predictions> {
    let py = arguments.py();
    forked::refuse_in_copies(py)?;
    let data = memory::provided(&arguments.get_item(1)?)?;
    let given: PathBuf = arguments.get_item(0)?.extract()?;
    let predicted = py.detach(|| -> Result<Predicted, StartFailure> {
        let model = model.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((path, file)) = data.into_iter().next() else {
            return model.predict(&given);
        };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = path.join(number.to_string());
        let _provided = Provided::new(&path, file).map_err(StartFailure::task)?;
        model.predict(&path)
    });
    let predicted = predicted.map_err(|problem| failure::of_start(py, &problem))?;
    let bytes: Vec<u8> = predicted
        .values
        .iter()
        .flat_map(|value| value.to_ne_bytes())
        .collect();
    Ok((
        PyBytes::new(py, &bytes).unbind(),
        predicted.shape,
        predicted.names,
        predicted.is_classes,
        predicted.notes,
    ))
}
