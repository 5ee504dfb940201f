//! Arguments of `#[hook(…)]`.

use std::collections::BTreeSet;

use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, Expr, ExprField, ExprLit, Ident, Lit, LitStr, Member, Result, Token};

use crate::{points, uses};

/// The arguments in parentheses, validated.
#[derive(Default)]
pub(crate) struct Arguments {
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) priority: u8,
    pub(crate) publishes: Vec<String>,
    pub(crate) requires: Vec<String>,
    /// Requests, beyond those that the block's text says.
    pub(crate) asks: Listed,
    /// What is read of the loop, beyond what the block's text says.
    pub(crate) reads: Listed,
    /// What is read of the loop if it has it, and mount points at which the hook is called if the loop comes by.
    pub(crate) optional: BTreeSet<&'static str>,
    /// Whether it runs on all ranks, rather than on the first alone.
    pub(crate) on_all_ranks: bool,
    /// The fields that are its state.
    pub(crate) state: Vec<Field>,
}

/// Names that the attribute adds to those found in the block's text.
pub(crate) enum Listed {
    Also(BTreeSet<&'static str>),
    /// They are known at the hook's creation alone.
    Unknown,
}

impl Default for Listed {
    fn default() -> Self {
        Listed::Also(BTreeSet::new())
    }
}

/// A part of the hook's state.
pub(crate) struct Field {
    pub(crate) name: Ident,
    /// What follows `self.`.
    pub(crate) path: Expr,
}

const LEVELS: [(&str, u8); 7] = [
    ("HIGHEST", 0),
    ("HIGHER", 10),
    ("HIGH", 20),
    ("NORMAL", 30),
    ("LOW", 40),
    ("LOWER", 50),
    ("LOWEST", 60),
];

struct Argument {
    key: Ident,
    value: Expr,
}

impl Parse for Argument {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let key = input.parse()?;
        input.parse::<Token![=]>()?;
        Ok(Argument {
            key,
            value: input.parse()?,
        })
    }
}

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let given = Punctuated::<Argument, Token![,]>::parse_terminated(input)?;
        let mut arguments = Arguments {
            priority: 30,
            ..Arguments::default()
        };
        for argument in &given {
            arguments.set(argument)?;
        }
        if arguments.name.is_empty() {
            return Err(input.error(
                "`#[hook]` needs a name: `#[hook(name = \"my-hook\", about = \"What it is for.\")]`",
            ));
        }
        if arguments.about.is_empty() {
            return Err(input.error(
                "`#[hook]` needs a sentence on what the hook is for: `about = \"Stops on NaN.\"`",
            ));
        }
        Ok(arguments)
    }
}

impl Arguments {
    fn set(&mut self, argument: &Argument) -> Result<()> {
        let Argument { key, value } = argument;
        match key.to_string().as_str() {
            "name" => self.name = hook_name(value)?,
            "about" => self.about = string(value)?.value(),
            "priority" => self.priority = priority(value)?,
            "publishes" => self.publishes = strings(value)?,
            "requires" => self.requires = strings(value)?,
            "asks" => self.asks = listed(value, "a request", &uses::requests())?,
            "reads" => self.reads = listed(value, "a part of the loop", &uses::parts())?,
            "optional" => {
                let mut names = uses::parts();
                names.extend(points::POINTS.iter().map(|point| point.name));
                self.optional = known(value, "a part of the loop or a mount point", &names)?;
            }
            "ranks" => self.on_all_ranks = is_all(value)?,
            "state" => self.state = fields(value)?,
            other => {
                return Err(Error::new(
                    key.span(),
                    format!(
                        "`#[hook]` has no argument `{other}`; \
                         it has name, about, priority, publishes, requires, asks, reads, optional, ranks, state"
                    ),
                ));
            }
        }
        Ok(())
    }
}

fn string(value: &Expr) -> Result<LitStr> {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => Ok(text.clone()),
        other => Err(Error::new_spanned(other, "a string literal belongs here")),
    }
}

fn strings(value: &Expr) -> Result<Vec<String>> {
    match value {
        Expr::Array(array) => array
            .elems
            .iter()
            .map(|element| Ok(string(element)?.value()))
            .collect(),
        other => Err(Error::new_spanned(
            other,
            "a list of string literals belongs here: `[\"one\", \"two\"]`",
        )),
    }
}

/// A list of names among these, or `unknown`.
fn listed(value: &Expr, what: &str, names: &BTreeSet<&'static str>) -> Result<Listed> {
    match value {
        Expr::Path(path) if path.path.is_ident("unknown") => Ok(Listed::Unknown),
        value => Ok(Listed::Also(known(value, what, names)?)),
    }
}

/// Names among these: one, or a list of them.
fn known(
    value: &Expr,
    what: &str,
    names: &BTreeSet<&'static str>,
) -> Result<BTreeSet<&'static str>> {
    let elements = match value {
        Expr::Array(array) => array.elems.iter().collect(),
        one => vec![one],
    };
    let find = |element: &Expr| {
        let name = match element {
            Expr::Path(path) => path.path.get_ident().map(Ident::to_string),
            _ => None,
        };
        let found = names.get(&*name.unwrap_or_default()).copied();
        found.ok_or_else(|| {
            let all: Vec<&str> = names.iter().copied().collect();
            let message = format!("not the name of {what}; there are: {}", all.join(", "));
            Error::new_spanned(element, message)
        })
    };
    elements.into_iter().map(find).collect()
}

/// Fields by name: one, or a list of them.
fn fields(value: &Expr) -> Result<Vec<Field>> {
    let elements = match value {
        Expr::Array(array) => array.elems.iter().collect(),
        one => vec![one],
    };
    let mut fields: Vec<Field> = Vec::new();
    for element in elements {
        let name = field(element).ok_or_else(|| {
            Error::new_spanned(
                element,
                "the state is fields of the hook by name: `state = counters`, `state = [best, inner.waited]`",
            )
        })?;
        if fields.iter().any(|field| field.name == name) {
            return Err(Error::new_spanned(
                element,
                format!("the state has `{name}` already"),
            ));
        }
        let path = element.clone();
        fields.push(Field { name, path });
    }
    Ok(fields)
}

/// The last name of `field` or `field.of_it`.
fn field(path: &Expr) -> Option<Ident> {
    match path {
        Expr::Path(path) => path.path.get_ident().cloned(),
        Expr::Field(ExprField {
            base,
            member: Member::Named(name),
            ..
        }) => field(base).map(|_| name.clone()),
        _ => None,
    }
}

fn is_all(value: &Expr) -> Result<bool> {
    let literal = string(value)?;
    match literal.value().as_str() {
        "all" => Ok(true),
        "first" => Ok(false),
        _ => Err(Error::new_spanned(
            literal,
            "a hook runs on \"all\" ranks, or on the \"first\" alone",
        )),
    }
}

fn hook_name(value: &Expr) -> Result<String> {
    let literal = string(value)?;
    let name = literal.value();
    let starts_well = name.starts_with(|c: char| c.is_ascii_lowercase());
    let rest_is_well = name
        .chars()
        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    if starts_well && rest_is_well && !name.ends_with('-') {
        Ok(name)
    } else {
        Err(Error::new_spanned(
            literal,
            "a hook's name is made of lower-case words and hyphens, as \"early-stopping\"",
        ))
    }
}

fn priority(value: &Expr) -> Result<u8> {
    let level = match value {
        Expr::Lit(ExprLit {
            lit: Lit::Int(number),
            ..
        }) => number.base10_parse::<u8>().ok().filter(|n| *n <= 100),
        Expr::Path(path) => path.path.segments.last().and_then(|segment| {
            let name = segment.ident.to_string();
            LEVELS
                .iter()
                .find(|(level, _)| *level == name)
                .map(|(_, number)| *number)
        }),
        _ => None,
    };
    level.ok_or_else(|| {
        Error::new_spanned(
            value,
            "a priority is HIGHEST, HIGHER, HIGH, NORMAL, LOW, LOWER, LOWEST, or a number from 0 \
             (first) to 100 (last)",
        )
    })
}
