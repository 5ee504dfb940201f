//! An extension's declaration in `sconce.h`.

use std::fmt::Write;

use quote::ToTokens;
use syn::{Attribute, Expr, Lit, Meta, Type};

use super::{Argument, Definition, Form, Method, Output, Value};

/// The width of the header.
const WIDTH: usize = 120;

impl Definition {
    pub(super) fn c_declaration(&self) -> String {
        let name = snake(&self.item.ident.to_string());
        let mut text = comment(&self.item.attrs, "");
        let _ = writeln!(
            text,
            "#define SCONCE_{}_ID \"{}\"",
            name.to_uppercase(),
            self.id.value()
        );
        let _ = writeln!(text, "typedef struct sconce_{name}_table {{");
        for method in &self.methods {
            text += &comment(&method.docs, "  ");
            text += &method.c_field();
        }
        let _ = writeln!(text, "}} sconce_{name}_table;");
        text
    }
}

impl Method {
    /// The table's field, at most as wide as the header.
    fn c_field(&self) -> String {
        let mut arguments = Vec::new();
        if self.is_called_on_run {
            arguments.push("const void *context".to_owned());
        }
        arguments.extend(self.arguments.iter().map(Argument::in_c));
        if let Some(value) = self.result.value() {
            arguments.push(value.place_in_c());
        }
        if self.has_error() {
            arguments.push("sconce_error *error".to_owned());
        }
        let result = match &self.result {
            Output::Plain(value) => value.in_c(),
            Output::Nothing if !self.is_called_on_run => "void".to_owned(),
            _ => "uint32_t".to_owned(),
        };
        let begin = format!("  {result} (*{})(", self.name);
        let indent = " ".repeat(begin.len());
        let mut lines = vec![begin];
        let last = arguments.len().saturating_sub(1);
        for (number, argument) in arguments.iter().enumerate() {
            let end = if number == last { ");" } else { ", " };
            let line = lines.last().map_or(0, String::len);
            if line + argument.len() + end.trim_end().len() > WIDTH && number > 0 {
                lines.push(indent.clone());
            }
            if let Some(line) = lines.last_mut() {
                *line += argument;
                *line += end;
            }
        }
        let lines = lines.iter().map(|line| line.trim_end());
        lines.collect::<Vec<_>>().join("\n") + "\n"
    }
}

impl Argument {
    fn in_c(&self) -> String {
        let name = &self.name;
        match &self.form {
            Form::Plain(plain) => declared(plain, &name.to_string()),
            Form::Bool => format!("uint32_t {name}"),
            Form::Text => format!("sconce_text {name}"),
            Form::Slice(element) => {
                format!(
                    "const {}, size_t {}",
                    declared(element, &format!("*{name}")),
                    self.length()
                )
            }
            Form::SliceMut(element) => {
                format!(
                    "{}, size_t {}",
                    declared(element, &format!("*{name}")),
                    self.length()
                )
            }
            Form::Reference(to) => format!("const {}", declared(to, &format!("*{name}"))),
        }
    }
}

impl Value {
    fn in_c(&self) -> String {
        match self {
            Value::Plain(plain) => c_name(plain),
            Value::Bool => "uint32_t".to_owned(),
            Value::Text => "sconce_text".to_owned(),
        }
    }

    /// The argument that says where the value goes.
    fn place_in_c(&self) -> String {
        match self {
            Value::Plain(plain) => declared(plain, "*value"),
            Value::Bool => "uint32_t *value".to_owned(),
            Value::Text => "sconce_text *value".to_owned(),
        }
    }
}

/// A declaration of a name with a type.
fn declared(given: &Type, name: &str) -> String {
    if let Type::Ptr(pointer) = given {
        let is_const = if pointer.const_token.is_some() {
            "const "
        } else {
            ""
        };
        return format!("{is_const}{}", declared(&pointer.elem, &format!("*{name}")));
    }
    format!("{} {name}", c_name(given))
}

fn c_name(given: &Type) -> String {
    if let Type::Ptr(_) = given {
        return declared(given, "").trim_end().to_owned();
    }
    let name = given.to_token_stream().to_string().replace(' ', "");
    match name.rsplit("::").next().unwrap_or_default() {
        "f64" => "double".to_owned(),
        "usize" => "size_t".to_owned(),
        "c_void" => "void".to_owned(),
        number @ ("u8" | "u16" | "u32" | "u64") => format!("uint{}_t", &number[1..]),
        number @ ("i32" | "i64") => format!("int{}_t", &number[1..]),
        other => format!(
            "sconce_{}",
            snake(other.strip_suffix("Abi").unwrap_or(other))
        ),
    }
}

/// `GpuFigures` as `gpu_figures`.
fn snake(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

/// Documentation as a comment, without the links.
fn comment(attributes: &[Attribute], indent: &str) -> String {
    let lines = attributes
        .iter()
        .filter_map(|attribute| match &attribute.meta {
            Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
                Expr::Lit(literal) => match &literal.lit {
                    Lit::Str(text) => Some(text.value()),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        });
    let lines: Vec<_> = lines.collect();
    // The paragraphs of the description alone: sections such as "# Safety" are about Rust.
    let end = lines
        .iter()
        .position(|line| line.trim_start().starts_with('#'));
    let text = lines[..end.unwrap_or(lines.len())].join("\n");
    let words: Vec<_> = without_links(&text)
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    if words.is_empty() {
        return String::new();
    }
    let mut wrapped = vec![format!("{indent}/*")];
    for word in &words {
        let is_full = wrapped
            .last()
            .is_some_and(|line| line.len() + word.len() + 4 > WIDTH);
        if is_full {
            wrapped.push(format!("{indent} *"));
        }
        if let Some(line) = wrapped.last_mut() {
            line.push(' ');
            *line += word;
        }
    }
    wrapped.join("\n") + " */\n"
}

/// "[x](y)" as "x".
fn without_links(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(begin) = rest.find('[') {
        let (before, behind) = rest.split_at(begin);
        out += before;
        let Some(end) = behind.find(']') else {
            rest = behind;
            break;
        };
        out += &behind[1..end];
        rest = &behind[end + 1..];
        let target = rest.strip_prefix('(');
        if let Some((_, behind)) = target.and_then(|target| target.split_once(')')) {
            rest = behind;
        }
    }
    out + rest
}
