//! Operations, what their gradients are worth, and the page that says so.

use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use candle_core::{DType, Device, Result, Tensor, Var};
use sconce::nn::gradient_check::{GradientFinding, GradientReport, check_gradients};

/// Inputs of an operation, by their names.
pub(super) type Inputs = Vec<(&'static str, Var)>;

type Function = Box<dyn Fn(&[Tensor]) -> Result<Tensor>>;

struct Operation {
    name: &'static str,
    inputs: Inputs,
    function: Function,
    instead: &'static str,
    /// Where it was found by hand.
    verdict: Option<String>,
}

/// Operations under headings.
#[derive(Default)]
pub(super) struct Operations {
    sections: Vec<(&'static str, Vec<Operation>)>,
}

/// An operation's line of the page.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) verdict: String,
    pub(super) instead: &'static str,
}

impl Row {
    /// Whether the operation can be trained through, or has nothing to train.
    pub(super) fn is_right(&self) -> bool {
        self.verdict == "trains" || self.verdict == "none, and none needed"
    }
}

/// Numbers of either sign that keep away from 0 and from each other, in no order, by their name.
pub(super) fn input(name: &'static str, shape: &[usize]) -> (&'static str, Var) {
    (
        name,
        Var::from_tensor(&spread(name, shape, 0.0)).expect("a variable"),
    )
}

/// The same from 0.3 up.
pub(super) fn positive(name: &'static str, shape: &[usize]) -> (&'static str, Var) {
    let count: usize = shape.iter().product();
    let lift = 0.3 + spacing(count) * count as f64 / 2.0;
    (
        name,
        Var::from_tensor(&spread(name, shape, lift)).expect("a variable"),
    )
}

/// Numbers as an input's, but constant.
pub(super) fn constant(name: &str, shape: &[usize]) -> Tensor {
    spread(name, shape, 0.0)
}

/// Indices.
pub(super) fn indices(indices: &[u32], shape: &[usize]) -> Tensor {
    Tensor::from_slice(indices, shape, &Device::Cpu).expect("indices")
}

fn spacing(count: usize) -> f64 {
    (4.0 / count as f64).min(0.3)
}

fn spread(name: &str, shape: &[usize], lift: f64) -> Tensor {
    let count: usize = shape.iter().product();
    let order = sconce::random::stream(1, name, 0, 0).permutation(count);
    // Each name has its own place between the steps, so that two inputs have no ties either.
    let place = 0.1 + 0.3 * sconce::random::stream(2, name, 0, 0).unit();
    let middle = count.div_ceil(2) as f64;
    let values = order
        .iter()
        .map(|&step| (f64::from(step) - middle + place) * spacing(count) + lift);
    Tensor::from_vec(values.collect::<Vec<f64>>(), shape, &Device::Cpu).expect("a tensor")
}

impl Operations {
    pub(super) fn section(&mut self, title: &'static str) {
        self.sections.push((title, Vec::new()));
    }

    /// An operation, and what to use instead where it is of no use.
    pub(super) fn add(
        &mut self,
        name: &'static str,
        inputs: impl Into<Inputs>,
        function: impl Fn(&[Tensor]) -> Result<Tensor> + 'static,
        instead: &'static str,
    ) {
        let (_, operations) = self.sections.last_mut().expect("a section first");
        operations.push(Operation {
            name,
            inputs: inputs.into(),
            function: Box::new(function),
            instead,
            verdict: None,
        });
    }

    /// An operation whose verdict was found in another way.
    pub(super) fn row(&mut self, name: &'static str, verdict: String, instead: &'static str) {
        self.add(name, [], |_| candle_core::bail!("not checked"), instead);
        let (_, operations) = self.sections.last_mut().expect("a section first");
        let operation = operations.last_mut().expect("the one just added");
        operation.verdict = Some(verdict);
    }

    pub(super) fn rows(&self) -> Vec<(&'static str, Vec<Row>)> {
        let row = |operation: &Operation| Row {
            name: operation.name,
            verdict: operation.verdict(),
            instead: operation.instead,
        };
        let section = |(title, operations): &(&'static str, Vec<Operation>)| {
            (*title, operations.iter().map(row).collect())
        };
        self.sections.iter().map(section).collect()
    }
}

impl Operation {
    fn verdict(&self) -> String {
        if let Some(verdict) = &self.verdict {
            return verdict.clone();
        }
        let vars: Vec<Var> = self.inputs.iter().map(|(_, var)| var.clone()).collect();
        let report = check(&vars, &self.function);
        if let GradientReport::Fails(message) = &report {
            // What candle has for f32 alone.
            let singles: Vec<Var> = vars.iter().map(single).collect();
            let in_single = check(&singles, &self.function);
            if !matches!(in_single, GradientReport::Fails(_)) {
                return format!("{}, in `f32` alone", self.words(&in_single));
            }
            return format!("fails: {}", first_line(message));
        }
        let words = self.words(&report);
        if !report.is_right() {
            return words;
        }
        let again = [false, true].map(|first| check(&vars, |inputs| self.beside(inputs, first)));
        match again.iter().find(|report| !report.is_right()) {
            Some(_) => format!("{words}, but **wrong** where the input has another use too"),
            None => words,
        }
    }

    /// The output beside another use of all inputs, before it or behind it.
    fn beside(&self, inputs: &[Tensor], first: bool) -> Result<Tensor> {
        let mut parts = Vec::new();
        for input in inputs {
            parts.push(input.sqr()?.flatten_all()?);
        }
        let dtype = inputs.first().map_or(DType::F64, Tensor::dtype);
        let output = (self.function)(inputs)?.to_dtype(dtype)?.flatten_all()?;
        parts.insert(if first { 0 } else { parts.len() }, output);
        Tensor::cat(&parts, 0)
    }

    /// One verdict, or each input's where they differ.
    fn words(&self, report: &GradientReport) -> String {
        let findings = match report {
            GradientReport::Fails(message) => return format!("fails: {}", first_line(message)),
            GradientReport::Checked(findings) => findings,
        };
        let verdicts: Vec<String> = findings.iter().map(finding).collect();
        if verdicts.iter().all(|verdict| *verdict == verdicts[0]) {
            return verdicts[0].clone();
        }
        let named = self.inputs.iter().zip(&verdicts);
        let named: Vec<String> = named
            .map(|((name, _), verdict)| format!("{name} {verdict}"))
            .collect();
        named.join("; ")
    }
}

fn single(var: &Var) -> Var {
    let single = var.as_tensor().to_dtype(DType::F32);
    Var::from_tensor(&single.expect("f32")).expect("a variable")
}

/// candle has assertions that are not errors.
fn check(vars: &[Var], function: impl Fn(&[Tensor]) -> Result<Tensor>) -> GradientReport {
    let checked = catch_unwind(AssertUnwindSafe(|| check_gradients(vars, function)));
    checked.unwrap_or_else(|_| GradientReport::Fails("panics".to_owned()))
}

fn finding(finding: &GradientFinding) -> String {
    match finding {
        GradientFinding::Agrees { .. } => "trains".to_owned(),
        GradientFinding::Differs { error, .. } if *error < 1e-4 => {
            "trains, to four digits or more".to_owned()
        }
        GradientFinding::Differs {
            factor: Some(factor),
            ..
        } => format!("**wrong**: {factor:.3} times what it should be"),
        GradientFinding::Differs { factor: None, .. } => "**wrong**".to_owned(),
        GradientFinding::NoGradient { needed: true } => "**cut silently**".to_owned(),
        GradientFinding::NoGradient { needed: false } => "none, and none needed".to_owned(),
    }
}

/// A message without a backtrace, in one cell of a table.
fn first_line(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    line.trim().replace('|', "\\|")
}

/// The page: what can't be trained through first, then all others.
pub(super) fn page(version: &str, sections: &[(&'static str, Vec<Row>)]) -> String {
    let wrong = sections
        .iter()
        .flat_map(|(_, rows)| rows)
        .filter(|row| !row.is_right());
    let mut page = format!(
        "# candle's gradients\n\n\
         Which of candle {version}'s operations can be trained through: first those that can't, and what to use instead.\n\n\
         ## Wrong, cut or failing\n\n{}\n\
         | gradient | meaning |\n|---|---|\n\
         | **wrong** | the gradient is wrong; with its factor where that is constant |\n\
         | **cut silently** | no gradient comes, and no error: whatever lies before it stays as it is |\n\
         | fails | forward or backward end in an error with these words |\n\
         | trains | right, to six digits |\n\
         | none, and none needed | the output is constant between its steps |\n\n\
         Every line is the outcome of `sconce::nn::gradient_check` on the CPU: backward against central differences, away from ties and kinks, with an\n\
         input of one use and with one that is used elsewhere too. Sconce's own layers are checked in the same way and all train. The page is written by\n\
         `UPDATE_EXPECT=1 cargo test -p sconce-tests --test it candle_gradients`; without `UPDATE_EXPECT` that test fails where it is out of date.\n",
        table(wrong)
    );
    for (title, rows) in sections {
        let right = table(rows.iter().filter(|row| row.is_right()));
        let _ = write!(page, "\n## {title}\n\n{right}");
    }
    page
}

fn table<'a>(rows: impl Iterator<Item = &'a Row>) -> String {
    let mut table = "| operation | gradient | instead |\n|---|---|---|\n".to_owned();
    for Row {
        name,
        verdict,
        instead,
    } in rows
    {
        let _ = writeln!(table, "| {name} | {verdict} | {instead} |");
    }
    table
}
