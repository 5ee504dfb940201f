//! The modules of a crate, as its sources say: what each defines, imports and names.
//!
//! Names are resolved as far as circles need: through modules, imports and re-exports, to the module that defines what is named.
//! Methods, and what macros make, are not followed. What is compiled for tests alone is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, Item, UseTree};

/// What links two modules within one, by their names.
type Links = BTreeMap<(String, String), Vec<String>>;

/// A path of module names from the crate's root.
type ModulePath = Vec<String>;

/// A module, in a file of its own or within another's.
#[derive(Default)]
struct Module {
    /// What it defines.
    items: BTreeSet<String>,
    /// The names that it imports, and the paths that they stand for.
    imports: BTreeMap<String, Vec<String>>,
    /// Modules from which it imports everything.
    globs: Vec<Vec<String>>,
    /// The paths that its code names, but for re-exports.
    named: Vec<Vec<String>>,
}

/// A crate's modules.
#[derive(Default)]
pub(super) struct Sources {
    modules: BTreeMap<ModulePath, Module>,
}

impl Sources {
    /// Reads the crate whose root is in this file.
    pub(super) fn read(root: &Path) -> Sources {
        let mut sources = Sources::default();
        let inside = root.parent().expect("a directory").to_owned();
        sources.read_file(root, &inside, Vec::new());
        sources
    }

    /// Reads a module's file; those of the modules within it are in `inside`.
    fn read_file(&mut self, file: &Path, inside: &Path, path: ModulePath) {
        let text = std::fs::read_to_string(file).expect("a source file");
        let parsed = syn::parse_file(&text);
        let parsed = parsed.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        if !is_for_tests(&parsed.attrs) {
            self.read_items(&parsed.items, inside, path);
        }
    }

    fn read_items(&mut self, items: &[Item], inside: &Path, path: ModulePath) {
        let mut module = Module::default();
        for item in items {
            if is_for_tests(attributes(item)) {
                continue;
            }
            match item {
                Item::Mod(inner) => {
                    let name = inner.ident.to_string();
                    let mut within = path.clone();
                    within.push(name.clone());
                    if let Some((_, items)) = &inner.content {
                        self.read_items(items, &inside.join(&name), within);
                    } else {
                        let (file, inside) = file_of(&name, &inner.attrs, inside);
                        self.read_file(&file, &inside, within);
                    }
                }
                Item::Use(import) => {
                    let is_exported = !matches!(import.vis, syn::Visibility::Inherited);
                    module.import(&import.tree, Vec::new(), is_exported);
                }
                other => {
                    module.items.extend(defined(other));
                    paths(other.to_token_stream(), &mut module.named);
                }
            }
        }
        self.modules.insert(path, module);
    }

    /// The module in which what a path names from a module is defined, if that is in this crate.
    fn resolve(&self, from: &[String], path: &[String], depth: usize) -> Option<ModulePath> {
        // Imports may go in circles, too.
        if depth > 16 {
            return None;
        }
        let (first, rest) = path.split_first()?;
        let module = self.modules.get(from)?;
        match first.as_str() {
            "crate" => self.descend(&[], rest, depth),
            "self" => self.descend(from, rest, depth),
            "super" => {
                let (_, parent) = from.split_last()?;
                self.descend(parent, rest, depth)
            }
            name => {
                let mut within = from.to_vec();
                within.push(name.to_owned());
                if module.items.contains(name)
                    || self.modules.contains_key(&within)
                    || module.imports.contains_key(name)
                {
                    return self.descend(from, path, depth);
                }
                None
            }
        }
    }

    /// What a path names that begins within a module.
    fn descend(&self, module: &[String], path: &[String], depth: usize) -> Option<ModulePath> {
        let Some((name, rest)) = path.split_first() else {
            return Some(module.to_vec());
        };
        if name == "super" {
            let (_, parent) = module.split_last()?;
            return self.descend(parent, rest, depth);
        }
        let mut within = module.to_vec();
        within.push(name.clone());
        if self.modules.contains_key(&within) {
            return self.descend(&within, rest, depth);
        }
        let here = self.modules.get(module)?;
        if here.items.contains(name) {
            return Some(module.to_vec());
        }
        if let Some(target) = here.imports.get(name) {
            let mut target = target.clone();
            target.extend_from_slice(rest);
            return self.resolve(module, &target, depth + 1);
        }
        here.globs.iter().find_map(|glob| {
            let mut target = glob.clone();
            target.extend_from_slice(path);
            self.resolve(module, &target, depth + 1)
        })
    }

    /// Which modules name something of which others, and what.
    fn edges(&self) -> BTreeMap<(&[String], ModulePath), BTreeSet<&str>> {
        let mut edges: BTreeMap<_, BTreeSet<&str>> = BTreeMap::new();
        for (path, module) in &self.modules {
            for named in &module.named {
                if let Some(to) = self.resolve(path, named, 0).filter(|to| to != path) {
                    let names = edges.entry((path.as_slice(), to)).or_default();
                    names.insert(named.last().map_or("", String::as_str));
                }
            }
        }
        edges
    }

    /// The circles of imports among the modules within each module: each as the links that make it.
    pub(super) fn circles(&self) -> Vec<String> {
        // By the module whose modules they link, and by these.
        let mut links: BTreeMap<&[String], Links> = BTreeMap::new();
        for ((from, to), names) in self.edges() {
            let shared = from
                .iter()
                .zip(&to)
                .take_while(|(one, other)| one == other)
                .count();
            let (Some(one), Some(other), Some(within)) =
                (from.get(shared), to.get(shared), from.get(..shared))
            else {
                // A module and one within it: the inner one is a part of the outer.
                continue;
            };
            let link = format!("{} names {names:?} of {}", from.join("::"), to.join("::"));
            let ends = (one.clone(), other.clone());
            links
                .entry(within)
                .or_default()
                .entry(ends)
                .or_default()
                .push(link);
        }
        let mut circles = Vec::new();
        for (within, links) in &links {
            for circle in circles_of(&links.keys()) {
                let inside = links
                    .iter()
                    .filter(|((one, other), _)| circle.contains(one) && circle.contains(other));
                let texts: Vec<&str> = inside
                    .flat_map(|(_, links)| links)
                    .map(String::as_str)
                    .collect();
                circles.push(format!(
                    "in `{}`: {circle:?}\n  {}",
                    within.join("::"),
                    texts.join("\n  ")
                ));
            }
        }
        circles
    }
}

impl Module {
    fn import(&mut self, tree: &UseTree, mut path: Vec<String>, is_exported: bool) {
        match tree {
            UseTree::Path(inner) => {
                path.push(inner.ident.to_string());
                self.import(&inner.tree, path, is_exported);
            }
            UseTree::Name(inner) => {
                let name = inner.ident.to_string();
                let name = if name == "self" {
                    path.last().cloned().unwrap_or_default()
                } else {
                    path.push(name.clone());
                    name
                };
                self.stand_for(name, path, is_exported);
            }
            UseTree::Rename(inner) => {
                if inner.ident != "self" {
                    path.push(inner.ident.to_string());
                }
                self.stand_for(inner.rename.to_string(), path, is_exported);
            }
            UseTree::Glob(_) => {
                if !is_exported {
                    self.named.push(path.clone());
                }
                self.globs.push(path);
            }
            UseTree::Group(inner) => {
                for tree in &inner.items {
                    self.import(tree, path.clone(), is_exported);
                }
            }
        }
    }

    fn stand_for(&mut self, name: String, path: Vec<String>, is_exported: bool) {
        if !is_exported {
            self.named.push(path.clone());
        }
        self.imports.insert(name, path);
    }
}

/// The file of a module that is declared without a body, and the directory of those within it.
fn file_of(name: &str, attributes: &[Attribute], inside: &Path) -> (PathBuf, PathBuf) {
    let given = attributes.iter().find_map(|attribute| {
        let value = attribute.meta.require_name_value().ok()?;
        let is_path = value.path.is_ident("path");
        is_path.then(|| value.value.to_token_stream().to_string())
    });
    if let Some(given) = given {
        let file = inside.join(given.trim_matches('"'));
        let directory = file.parent().expect("a directory").to_owned();
        return (file, directory);
    }
    let directory = inside.join(name);
    let file = inside.join(format!("{name}.rs"));
    if file.exists() {
        (file, directory)
    } else {
        (directory.join("mod.rs"), directory)
    }
}

/// The names that an item defines.
fn defined(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// The paths in an item's tokens, of two names or more.
fn paths(tokens: TokenStream, found: &mut Vec<Vec<String>>) {
    let mut path: Vec<String> = Vec::new();
    let mut colons = 0;
    let mut finish = |path: &mut Vec<String>| {
        if path.len() > 1 {
            found.push(std::mem::take(path));
        }
        path.clear();
    };
    let mut groups = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Ident(name) => {
                if colons != 2 {
                    finish(&mut path);
                }
                path.push(name.to_string());
                colons = 0;
            }
            TokenTree::Punct(point) if point.as_char() == ':' => colons += 1,
            TokenTree::Group(group) => {
                finish(&mut path);
                groups.push(group.stream());
                colons = 0;
            }
            _ => {
                finish(&mut path);
                colons = 0;
            }
        }
    }
    finish(&mut path);
    for group in groups {
        paths(group, found);
    }
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let text = attribute
            .meta
            .to_token_stream()
            .to_string()
            .replace(' ', "");
        text == "test" || text.starts_with("cfg(test") || text.starts_with("cfg(all(test")
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The sets of names that lead to each other.
fn circles_of<'a>(
    links: &(impl Iterator<Item = &'a (String, String)> + Clone),
) -> Vec<BTreeSet<String>> {
    let reached_from = |start: &String| {
        let mut reached = BTreeSet::new();
        let mut waiting = vec![start];
        while let Some(from) = waiting.pop() {
            for (_, to) in links.clone().filter(|(one, _)| one == from) {
                if reached.insert(to.clone()) {
                    waiting.push(to);
                }
            }
        }
        reached
    };
    let names: BTreeSet<&String> = links.clone().map(|(from, _)| from).collect();
    let reached: BTreeMap<&String, BTreeSet<String>> = names
        .iter()
        .map(|name| (*name, reached_from(name)))
        .collect();
    let mut circles: Vec<BTreeSet<String>> = Vec::new();
    for (name, own) in &reached {
        if own.contains(*name) && !circles.iter().any(|circle| circle.contains(*name)) {
            let leads_back =
                |other: &&String| reached.get(*other).is_some_and(|all| all.contains(*name));
            circles.push(own.iter().filter(leads_back).cloned().collect());
        }
    }
    circles
}
