//! Name patterns: `*` for any characters, `?` for one, `[ab]` for one of several, `{a,b}` for one of
//! two. A leading `!` excludes names: from those that the other patterns select, or from all.

use globset::{Glob, GlobSet, GlobSetBuilder};

/// A set of patterns: a name must match one of them, and none of those with a leading `!`.
#[derive(Clone, Debug)]
pub struct Patterns {
    written: Vec<String>,
    /// Each pattern without its `!`.
    set: GlobSet,
    chosen: GlobSet,
    excluded: GlobSet,
}

impl Patterns {
    /// Parses the patterns.
    ///
    /// # Errors
    ///
    /// A message for the first invalid pattern.
    pub fn new(patterns: &[String]) -> Result<Patterns, String> {
        let mut builders: [GlobSetBuilder; 3] = std::array::from_fn(|_| GlobSetBuilder::new());
        let [all, chosen, excluded] = &mut builders;
        for pattern in patterns {
            let without = pattern.strip_prefix('!');
            let text = without.unwrap_or(pattern);
            if text.is_empty() && without.is_some() {
                return Err(
                    "`!` is not a name pattern: what it takes away comes after it".to_owned(),
                );
            }
            let glob = Glob::new(text)
                .map_err(|error| format!("`{pattern}` is not a name pattern: {}", error.kind()))?;
            all.add(glob.clone());
            if without.is_some() {
                excluded.add(glob);
            } else {
                chosen.add(glob);
            }
        }
        let [set, chosen, excluded] =
            builders.map(|builder| builder.build().map_err(|error| error.to_string()));
        Ok(Patterns {
            written: patterns.to_vec(),
            set: set?,
            chosen: chosen?,
            excluded: excluded?,
        })
    }

    /// Whether the patterns select a name.
    pub fn matches(&self, name: &str) -> bool {
        let has_choice = !self.chosen.is_empty() || self.excluded.is_empty();
        (!has_choice || self.chosen.is_match(name)) && !self.excluded.is_match(name)
    }

    /// Returns the first pattern that matches none of `names`.
    pub fn idle<'a>(&self, names: impl Iterator<Item = &'a str>) -> Option<&str> {
        let mut used = vec![false; self.written.len()];
        for name in names {
            for index in self.set.matches(name) {
                if let Some(used) = used.get_mut(index) {
                    *used = true;
                }
            }
        }
        let idle = used.iter().position(|used| !used)?;
        self.written.get(idle).map(String::as_str)
    }
}

impl PartialEq for Patterns {
    fn eq(&self, other: &Self) -> bool {
        self.written == other.written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(written: &[&str]) -> Result<Patterns, String> {
        let written: Vec<String> = written.iter().map(|&text| text.to_owned()).collect();
        Patterns::new(&written)
    }

    #[test]
    fn stars_reach_over_dots() {
        let some = patterns(&["block*.attn", "fc?"]).expect("patterns");
        for name in ["block1.attn", "block1.inner.attn", "fc2"] {
            assert!(some.matches(name), "{name}");
        }
        for name in ["block1.attn.q", "fc10", "fc"] {
            assert!(!some.matches(name), "{name}");
        }
        assert_eq!(some.idle(["fc1", "conv"].into_iter()), Some("block*.attn"));
        assert_eq!(some.idle(["fc1", "block.attn"].into_iter()), None);
    }

    #[test]
    fn names_are_taken_away() {
        let some = patterns(&["fc*", "!fc2.*", "!*.bias"]).expect("patterns");
        for (name, is_chosen) in [
            ("fc1.weight", true),
            ("fc1.bias", false),
            ("fc2.weight", false),
            ("conv.weight", false),
        ] {
            assert_eq!(some.matches(name), is_chosen, "{name}");
        }
        assert_eq!(
            some.idle(["fc1.weight", "fc1.bias"].into_iter()),
            Some("!fc2.*")
        );
        let others = patterns(&["!fc*"]).expect("patterns");
        assert!(others.matches("conv.weight") && !others.matches("fc1.weight"));
        assert!(!patterns(&[]).expect("none").matches("fc1"));
        assert!(patterns(&["!"]).is_err());
    }

    #[test]
    fn what_is_no_pattern_is_reported() {
        let message = patterns(&["fc["]).expect_err("wrong");
        assert!(message.contains("`fc[` is not a name pattern"), "{message}");
    }
}
