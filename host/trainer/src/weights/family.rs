//! What a name in a file of weights is in the model.

use std::collections::HashSet;

use sconce_base::patterns::Patterns;
use sconce_nn::models::{FamilyNames, TiedName};

/// What a name in a file is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meaning<'a> {
    /// A name of the model's.
    Own(String),
    Tied(&'a TiedName),
    Ignored,
    Unknown,
}

/// The names of a family, ready to be compared with.
pub(super) struct Names<'a> {
    family: &'a FamilyNames,
    ignored: Option<Patterns>,
    heads: Vec<Patterns>,
}

impl<'a> Names<'a> {
    /// Takes the names of a family; a message for an invalid pattern.
    pub(super) fn of(family: &'a FamilyNames) -> Result<Names<'a>, String> {
        let patterns = |written: &[String]| {
            let some = (!written.is_empty()).then(|| Patterns::new(written));
            some.transpose()
        };
        let heads = (family.head.iter()).map(|head| Patterns::new(std::slice::from_ref(head)));
        Ok(Names {
            family,
            ignored: patterns(&family.ignored)?,
            heads: heads.collect::<Result<_, _>>()?,
        })
    }

    /// Names that files may have for parameters of another name.
    pub(super) fn tied(&self) -> &'a [TiedName] {
        &self.family.tied
    }

    /// Whether a parameter belongs to a part of the head of which nothing matches: of BERT's, a file may have the pooler alone.
    pub(super) fn is_new(&self, parameter: &str, matched: &[String]) -> bool {
        let lacks = |head: &Patterns| !matched.iter().any(|name| head.matches(name));
        let mut heads = self.heads.iter();
        heads.any(|head| head.matches(parameter) && lacks(head))
    }

    /// What a name in a file is, where these are the model's.
    pub(super) fn meaning(&self, name: &str, own: &HashSet<&str>) -> Meaning<'a> {
        let spellings = self.spellings(name);
        if let Some(own) = spellings.iter().find(|name| own.contains(name.as_str())) {
            return Meaning::Own(own.clone());
        }
        let mut tied = self.family.tied.iter();
        if let Some(tied) = tied.find(|tied| spellings.contains(&tied.name)) {
            return Meaning::Tied(tied);
        }
        let is_ignored = |patterns: &Patterns| spellings.iter().any(|name| patterns.matches(name));
        if self.ignored.as_ref().is_some_and(is_ignored) {
            return Meaning::Ignored;
        }
        Meaning::Unknown
    }

    /// All names that may be meant, the file's own first.
    fn spellings(&self, name: &str) -> Vec<String> {
        let mut all = vec![name.to_owned()];
        let rewritten = (self.family.spellings.iter())
            .fold(name.to_owned(), |name, (from, to)| name.replace(from, to));
        if rewritten != name {
            all.push(rewritten);
        }
        for prefix in &self.family.prefixes {
            for name in all.clone() {
                all.push(match name.strip_prefix(prefix.as_str()) {
                    Some(rest) => rest.to_owned(),
                    None => format!("{prefix}{name}"),
                });
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(all: &[&str]) -> Vec<String> {
        all.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn names_of_a_family_are_the_models_in_every_version() {
        let family = FamilyNames {
            prefixes: texts(&["vit.", "module."]),
            spellings: vec![
                (
                    ".attention.attention.query.".into(),
                    ".attention.q_proj.".into(),
                ),
                (".encoder.layer.".into(), ".layers.".into()),
                (".gamma".into(), ".weight".into()),
            ],
            ignored: texts(&["*.attn.bias", "cls.*"]),
            tied: vec![TiedName {
                name: "lm_head.weight".into(),
                parameter: "vit.wte.weight".into(),
                setting: "tie".into(),
            }],
            head: texts(&["classifier.*", "vit.pooler.*"]),
        };
        let names = Names::of(&family).expect("patterns");
        let own = HashSet::from([
            "vit.layers.0.attention.q_proj.weight",
            "vit.norm.weight",
            "classifier.weight",
        ]);
        for (name, meaning) in [
            ("vit.norm.weight", Meaning::Own("vit.norm.weight".into())),
            ("norm.gamma", Meaning::Own("vit.norm.weight".into())),
            (
                "module.vit.encoder.layer.0.attention.attention.query.weight",
                Meaning::Own("vit.layers.0.attention.q_proj.weight".into()),
            ),
            ("lm_head.weight", Meaning::Tied(&family.tied[0])),
            ("vit.lm_head.weight", Meaning::Tied(&family.tied[0])),
            ("h.0.attn.bias", Meaning::Ignored),
            ("cls.predictions.bias", Meaning::Ignored),
            ("norm.beta", Meaning::Unknown),
        ] {
            assert_eq!(names.meaning(name, &own), meaning, "{name}");
        }
        let pooler = texts(&["vit.pooler.weight"]);
        for matched in [&texts(&["vit.norm.weight"]), &pooler] {
            assert!(names.is_new("classifier.bias", matched));
        }
        assert!(!names.is_new("vit.pooler.bias", &pooler));
        assert!(!names.is_new("classifier.bias", &texts(&["classifier.weight"])));
        assert!(!names.is_new("vit.norm.weight", &[]));
        let nothing = FamilyNames::default();
        let names = Names::of(&nothing).expect("no patterns");
        assert_eq!(names.meaning("norm.gamma", &own), Meaning::Unknown);
        assert!(!names.is_new("classifier.bias", &[]));
    }
}
