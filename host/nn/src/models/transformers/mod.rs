//! Models of `transformers`, described by their own `config.json`.
//!
//! - `config`: what the manifest says, the file it names, and the layers of what that describes
//! - `exported`: the `config.json` of a model that has been trained
//! - `terms`: what a model is built for, and why it can't be; `families`: the list of families
//! - `family`: what is known of a family of models: its keys, and the names in its files; `keys`: the values of a `config.json`
//! - `gpt2`, `llama` (with mistral, qwen2 and qwen3), `bert`, `vit`, `resnet`, `convnext`: the families, each a function from
//!   configuration to layers; `parts`: layers that several of them have
//!
//! **Flow.** The manifest's `config` is read once, when the manifest is ([`TransformersConfig::read`]). `model_type` selects the family,
//! whose lists say for each key whether it is used, of no effect, or refused if it isn't the default. Its function gives the layers, whose
//! parameters have the names and shapes of the files that `transformers` writes.

mod bert;
mod config;
mod convnext;
mod exported;
mod families;
mod family;
mod gpt2;
mod keys;
mod llama;
mod parts;
mod resnet;
mod terms;
#[cfg(test)]
mod tests;
mod vit;

pub use config::{ConfigSource, TransformersConfig};
pub use exported::{ExportedConfig, TokenRoles};
pub use family::{FamilyNames, TiedName};
pub use terms::{Head, TransformersError};
