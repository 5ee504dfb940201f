//! Assigns the tags that an entry writes, so that several entries do not interfere.
//!
//! A tag is a directory: two entries that write the same one replace and, with `keep_last`, delete each
//! other's checkpoints. So a default tag already used by an earlier entry of the manifest is prefixed with
//! the entry's name, as in `checkpoint-2-epoch-{epoch}`, and a configured tag that is already used is an
//! error.

use sconce_plugin_api::prelude::*;
use serde_json::Value;

use crate::config::{Best, Config};
use crate::template::Template;

/// Templates of an entry's tags.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tags {
    /// For checkpoints saved by epochs.
    pub(crate) epoch: Template,
    /// For those saved by iterations and minutes.
    pub(crate) iteration: Template,
    /// For one at the end of an interrupted epoch.
    pub(crate) broken_off: Template,
    /// Second tag of the newest checkpoint.
    pub(crate) last: Option<Template>,
    /// For the best ones of each metric, with the metric's name filled in.
    pub(crate) best: Vec<Template>,
}

/// Assigns the tags of the entry being created.
///
/// # Errors
///
/// If it would write a tag twice for different reasons, or one that an earlier entry writes.
pub(crate) fn assign(config: &Config, setup: &Setup<'_>) -> Result<Tags> {
    let manifest = setup.manifest()?;
    let entries = manifest.get("hooks").and_then(Value::as_array);
    let is_ours = |entry: &&Value| {
        let hook = entry.get("hook").and_then(Value::as_str);
        hook.and_then(|hook| hook.rsplit('/').next()) == Some("checkpoint")
    };
    let ours: Vec<&Value> = entries.into_iter().flatten().filter(is_ours).collect();
    let is_alone = ours.len() < 2;
    let mut taken = Vec::new();
    for entry in ours {
        let name = entry
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if name == setup.name() {
            break;
        }
        // Errors in an earlier entry are reported by that entry.
        let earlier = entry.get("config").cloned().unwrap_or_default();
        let earlier = serde_json::from_value(earlier).ok().map(Config::checked);
        if let Some(Ok(earlier)) = earlier
            && let Ok(tags) = Tags::of(&earlier, name, is_alone, &taken)
        {
            let written = tags.written(&earlier).into_iter();
            taken.extend(written.map(|tag| (tag.clone(), name.to_owned())));
        }
    }
    Tags::of(config, setup.name(), is_alone, &taken)
}

/// A tag and the entry that writes it.
type Taken = (Template, String);

impl Tags {
    fn of(config: &Config, name: &str, is_alone: bool, taken: &[Taken]) -> Result<Tags> {
        let named = |tag: &str| Template::new(&format!("{}-{tag}", plain(name)));
        let free = |default: Template| {
            let is_taken = taken.iter().any(|(other, _)| other.may_equal(&default));
            if is_taken {
                named(&default.to_string())
            } else {
                default
            }
        };
        let own = |default: &str| match &config.tag {
            Some(tag) => tag.clone(),
            None => free(Template::new(default)),
        };
        let best = |best: &Best| {
            let metric = best.monitor.to_string();
            match &best.tag {
                Some(tag) => tag.with_metric(&metric),
                None if best.keep == 1 => free(Template::new("best-{metric}").with_metric(&metric)),
                None => free(Template::new("best-{metric}-epoch-{epoch}").with_metric(&metric)),
            }
        };
        let tags = Tags {
            epoch: own("epoch-{epoch}"),
            iteration: own("iteration-{iteration}"),
            broken_off: if is_alone {
                Template::new("iteration-{iteration}")
            } else {
                // Other entries may save by iterations.
                named("iteration-{iteration}")
            },
            last: config.last.clone(),
            best: config.best.iter().map(best).collect(),
        };
        tags.check(config, name, taken)?;
        Ok(tags)
    }

    /// Returns the templates that this configuration uses.
    fn written(&self, config: &Config) -> Vec<&Template> {
        let mut written: Vec<&Template> = Vec::new();
        let by_epochs = config.epochs.is_some();
        let by_iterations = config.iterations.is_some() || config.minutes.is_some();
        if by_epochs {
            written.extend([&self.epoch, &self.broken_off]);
        }
        if by_iterations || config.save_last.0 && !by_epochs {
            written.push(&self.iteration);
        }
        written.extend(self.last.as_ref());
        written.extend(&self.best);
        written
    }

    fn check(&self, config: &Config, name: &str, taken: &[Taken]) -> Result<()> {
        for tag in self.written(config) {
            if let Some((other, entry)) = taken.iter().find(|(other, _)| other.may_equal(tag)) {
                bail!(
                    "the tag `{tag}` may be one of the entry `{entry}`, which writes `{other}`: the two \
                     would replace and delete each other's checkpoints; give this entry tags of its own, \
                     as `{}-{tag}`",
                    plain(name)
                );
            }
        }
        // A constant tag can refer to only one checkpoint.
        let fixed: Vec<&Template> = (self.best.iter().chain(&self.last))
            .filter(|tag| !tag.varies())
            .collect();
        for (index, tag) in fixed.iter().enumerate() {
            if fixed.iter().take(index).any(|other| other == tag) {
                bail!(
                    "the tag `{tag}` is that of two of `best` and `last`: give each its own `tag`"
                );
            }
        }
        Ok(())
    }
}

/// Converts an entry's name into a part of a tag.
fn plain(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    name.chars()
        .map(|c| if is_plain(c) { c } else { '-' })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tags(entries: &[Value]) -> Result<Tags> {
        let mut taken: Vec<Taken> = Vec::new();
        let mut last = None;
        for (index, config) in entries.iter().enumerate() {
            let config: Config = serde_json::from_value(config.clone())?;
            let config = config.checked()?;
            let name = format!("entry {index}");
            let tags = Tags::of(&config, &name, entries.len() < 2, &taken)?;
            taken.extend(
                tags.written(&config)
                    .into_iter()
                    .map(|tag| (tag.clone(), name.clone())),
            );
            last = Some(tags);
        }
        last.ok_or_else(|| HookError::new("no entries"))
    }

    #[test]
    fn a_default_tag_that_is_taken_gets_the_entrys_name() {
        let found = tags(&[json!({}), json!({"epochs": 10})]).expect("tags");
        assert_eq!(found.epoch.to_string(), "entry-1-epoch-{epoch}");
        // Default tags stay as they are if they are unused.
        let best = json!({"epochs": 0, "save_last": false, "best": [{"monitor": "accuracy"}]});
        let found = tags(&[json!({}), best.clone()]).expect("tags");
        assert_eq!(found.best[0].to_string(), "best-accuracy");
        let found = tags(&[json!({"iterations": 5}), json!({"epochs": 2})]).expect("tags");
        assert_eq!(found.epoch.to_string(), "epoch-{epoch}");
        let found = tags(&[json!({}), json!({"iterations": 5})]).expect("tags");
        assert_eq!(found.iteration.to_string(), "iteration-{iteration}");
        assert_eq!(
            found.broken_off.to_string(),
            "entry-1-iteration-{iteration}"
        );
        let found = tags(&[best.clone(), best]).expect("tags");
        assert_eq!(found.best[0].to_string(), "entry-1-best-accuracy");
    }

    #[test]
    fn a_written_tag_that_is_taken_is_an_error_and_tells_the_other_entry() {
        for (first, second) in [
            (json!({"tag": "only"}), json!({"tag": "only"})),
            (
                json!({"last": "last"}),
                json!({"tag": "x{epoch}", "last": "last"}),
            ),
            (json!({}), json!({"tag": "epoch-{epoch:3}"})),
            (json!({}), json!({"tag": "epoch-{update}"})),
            (json!({}), json!({"tag": "epoch-7"})),
            (
                json!({"best": [{"monitor": "accuracy"}]}),
                json!({"tag": "x{epoch}", "best": [{"monitor": "accuracy", "tag": "best-{metric}"}]}),
            ),
        ] {
            let told = tags(&[first.clone(), second.clone()]).map_err(|error| error.to_string());
            let told = told.expect_err(&format!("{first} {second}"));
            assert!(
                told.contains("of the entry `entry 0`") && told.contains("`entry-1-"),
                "{told}"
            );
        }
        let twice = json!({"best": [
            {"monitor": "accuracy", "tag": "best"}, {"monitor": "loss", "tag": "best"}
        ]});
        let told = tags(&[twice]).expect_err("twice").to_string();
        assert!(told.contains("two of `best` and `last`"), "{told}");
    }
}
