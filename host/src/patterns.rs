//! Name patterns: `*` for any characters, `?` for one, `[ab]` for one of several, `{a,b}` for one of
//! two.

use globset::{Glob, GlobSet, GlobSetBuilder};

/// Patterns of which a name has to match one.
#[derive(Clone, Debug)]
pub struct Patterns {
    written: Vec<String>,
    set: GlobSet,
}

impl Patterns {
    /// The patterns as they are written.
    ///
    /// # Errors
    ///
    /// A message where one of them is none.
    pub fn new(patterns: &[String]) -> Result<Patterns, String> {
        let mut builder = GlobSetBuilder::new();
        for pattern in patterns {
            let glob = Glob::new(pattern)
                .map_err(|error| format!("`{pattern}` is no name pattern: {}", error.kind()))?;
            builder.add(glob);
        }
        let set = builder.build().map_err(|error| error.to_string())?;
        Ok(Patterns {
            written: patterns.to_vec(),
            set,
        })
    }

    /// Whether a name matches one of them.
    pub fn matches(&self, name: &str) -> bool {
        self.set.is_match(name)
    }

    /// The first pattern that matches none of `names`.
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
    fn what_is_no_pattern_is_told() {
        let message = patterns(&["fc["]).expect_err("wrong");
        assert!(message.contains("`fc[` is no name pattern"), "{message}");
    }
}
