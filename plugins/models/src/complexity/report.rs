//! A model's modules and their costs, as a table, JSON and CSV.

use std::fmt::Write;

use sconce_plugin_api::prelude::*;
use serde_json::{Value, json};

use crate::table;

/// A module, including everything inside it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Row {
    /// Name of the module.
    pub(crate) module: String,
    /// Kind of the module.
    pub(crate) kind: String,
    /// Number of modules around it.
    pub(crate) depth: usize,
    /// Shape of its output for one sample.
    pub(crate) output: Vec<i64>,
    /// Number of trained elements.
    pub(crate) parameters: u64,
    /// Number of elements in buffers.
    pub(crate) buffers: u64,
    /// Multiply-adds of the forward pass of one sample; `None` if not known.
    pub(crate) multiply_adds: Option<u64>,
    /// Number of output elements of its innermost modules, for one sample.
    pub(crate) activations: u64,
    /// Size of these outputs in bytes.
    pub(crate) activation_bytes: u64,
}

/// Size and cost of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Report {
    /// Shape of one sample.
    pub(crate) input: Vec<i64>,
    /// Number of trained elements.
    pub(crate) parameters: u64,
    /// Their size in bytes.
    pub(crate) parameter_bytes: u64,
    /// Number of elements in buffers.
    pub(crate) buffers: u64,
    /// Multiply-adds of the forward pass of one sample.
    pub(crate) multiply_adds: u64,
    /// Two per multiply-add.
    pub(crate) flops: u64,
    /// Number of output elements of its innermost modules, for one sample.
    pub(crate) activations: u64,
    /// Size of these outputs in bytes.
    pub(crate) activation_bytes: u64,
    /// Modules whose multiply-adds are unknown and not counted.
    pub(crate) unknown: Vec<String>,
    /// The modules, outer ones before those inside them.
    pub(crate) modules: Vec<Row>,
}

/// Columns of the table and the CSV file.
const COLUMNS: [&str; 9] = [
    "module",
    "kind",
    "depth",
    "output",
    "parameters",
    "buffers",
    "multiply_adds",
    "activations",
    "activation_bytes",
];

impl Report {
    fn shown(&self, max_depth: Option<usize>) -> impl Iterator<Item = &Row> {
        let modules = self.modules.iter();
        modules.filter(move |row| max_depth.is_none_or(|most| row.depth <= most))
    }

    /// Returns a line for the entire model and a table of its modules.
    pub(crate) fn text(&self, max_depth: Option<usize>) -> String {
        let mut text = self.line();
        let names = COLUMNS
            .iter()
            .copied()
            .filter(|name| !matches!(*name, "depth" | "buffers" | "activation_bytes"));
        let mut lines: Vec<Vec<String>> = vec![names.map(str::to_owned).collect()];
        lines.extend(self.shown(max_depth).map(|row| {
            vec![
                format!("{}{}", "  ".repeat(row.depth), row.module),
                row.kind.clone(),
                shape(&row.output),
                row.parameters.to_string(),
                row.multiply_adds
                    .map_or("?".to_owned(), |count| count.to_string()),
                row.activations.to_string(),
            ]
        }));
        let width = |column: usize| {
            let cells = lines.iter().filter_map(|line| line.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..6).map(width).collect();
        for line in &lines {
            text.push('\n');
            for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
                // Not a format width, which panics from 65,536 on.
                let blanks = " ".repeat(width.saturating_sub(cell.chars().count()));
                // Text is left-aligned, numbers are right-aligned.
                let _ = if column < 3 {
                    write!(text, "  {cell}{blanks}")
                } else {
                    write!(text, "  {blanks}{cell}")
                };
            }
        }
        text
    }

    fn line(&self) -> String {
        let mut line = format!(
            "{} parameters ({} bytes), {} buffers; a sample of {}: {} multiply-adds ({} FLOPs), {} \
             activations ({} bytes)",
            self.parameters,
            self.parameter_bytes,
            self.buffers,
            shape(&self.input),
            self.multiply_adds,
            self.flops,
            self.activations,
            self.activation_bytes
        );
        if !self.unknown.is_empty() {
            let _ = write!(line, "; not counted: {}", self.unknown.join(", "));
        }
        line
    }

    pub(crate) fn json(&self, max_depth: Option<usize>) -> Result<String> {
        let mut all = serde_json::to_value(self).context("the report can't be written as JSON")?;
        let shown: Vec<&Row> = self.shown(max_depth).collect();
        if let Value::Object(object) = &mut all {
            object.insert("modules".to_owned(), json!(shown));
        }
        Ok(format!("{all:#}\n"))
    }

    pub(crate) fn csv(&self, max_depth: Option<usize>) -> Result<Vec<u8>> {
        let header = COLUMNS.map(str::to_owned);
        let row = |row: &Row| {
            [
                row.module.clone(),
                row.kind.clone(),
                row.depth.to_string(),
                shape(&row.output),
                row.parameters.to_string(),
                row.buffers.to_string(),
                row.multiply_adds
                    .map_or(String::new(), |count| count.to_string()),
                row.activations.to_string(),
                row.activation_bytes.to_string(),
            ]
        };
        table::rows([header].into_iter().chain(self.shown(max_depth).map(row)))
    }
}

/// Formats a shape as `32x24x24`; `1` for a scalar.
fn shape(shape: &[i64]) -> String {
    if shape.is_empty() {
        return "1".to_owned();
    }
    let sizes: Vec<String> = shape.iter().map(ToString::to_string).collect();
    sizes.join("x")
}
