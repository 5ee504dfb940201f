//! Parameter groups: learning rate and weight decay by parameter name.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Parameters;
use sconce_base::nearest::nearest;
use sconce_base::patterns::Patterns;

/// A parameter group in the manifest.
///
/// For example, no weight decay for norms and biases:
/// `{"name": "no-decay", "parameters": ["*.bias", "*norm*"], "weight_decay": 0}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupConfig {
    /// Unique name; `default` is the group of all other parameters.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Names of the parameters; `*` matches any characters and `?` one, e.g. `fc1.*`. A parameter belongs
    /// to the first group that matches it.
    #[schemars(length(min = 1))]
    pub parameters: Vec<String>,
    /// Multiplier of the optimizer's learning rate for this group; 0 or more.
    #[serde(default = "one")]
    #[schemars(range(min = 0.0))]
    pub learning_rate_scale: f64,
    /// Weight decay of this group, 0 or more. Default: the optimizer's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub weight_decay: Option<f64>,
}

fn one() -> f64 {
    1.0
}

/// Why groups do not fit a model.
#[derive(Debug, thiserror::Error)]
pub enum GroupsError {
    /// Two parameter groups have the same name.
    #[error(
        "two parameter groups are called `{0}` (`default` is the group of all other parameters)"
    )]
    DoubledGroup(String),
    /// A name pattern of a parameter group is invalid.
    #[error("a parameter group: {0}")]
    Pattern(String),
    /// A name pattern of a parameter group matches no parameter.
    #[error(
        "`{pattern}` of the group `{group}` matches no parameter{}",
        nearest.as_ref().map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
    )]
    IdlePattern {
        /// Name of the group.
        group: String,
        /// Pattern without a match.
        pattern: String,
        /// Nearest parameter name.
        nearest: Option<String>,
    },
}

/// Name of the group of parameters that no other group matches.
pub const DEFAULT_GROUP: &str = "default";

/// A parameter group of an optimizer.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterGroup {
    /// Name of the group.
    pub name: Box<str>,
    /// Current learning rate.
    pub learning_rate: f64,
    /// Multiplier of the optimizer's learning rate.
    pub scale: f64,
    /// Current weight decay.
    pub weight_decay: f64,
    /// Weight decay that it was configured with.
    pub configured_decay: f64,
    /// Momentum (or first beta), if it differs from the optimizer's.
    pub momentum: Option<f64>,
}

/// The settings of a group whose parameters only its optimizer knows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupRates<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its learning rate.
    pub learning_rate: f64,
    /// Its weight decay.
    pub weight_decay: f64,
}

/// Parameter groups of an optimizer; the first is the default group.
#[derive(Clone, Debug, PartialEq)]
pub struct Groups {
    groups: Vec<ParameterGroup>,
    /// Group index of each entry of the registry; entries beyond the end are in the default group.
    of: Vec<usize>,
}

impl Groups {
    /// Creates one group for all parameters.
    pub fn single(learning_rate: f64, weight_decay: f64) -> Groups {
        let group = ParameterGroup {
            name: DEFAULT_GROUP.into(),
            learning_rate,
            scale: 1.0,
            weight_decay,
            configured_decay: weight_decay,
            momentum: None,
        };
        Groups {
            groups: vec![group],
            of: Vec::new(),
        }
    }

    /// Creates groups with these rates, whose parameters are not known here; the first is the default group. Without any there is
    /// one, whose rate is 0.
    pub fn of_rates<'a>(rates: impl IntoIterator<Item = GroupRates<'a>>) -> Groups {
        let mut groups = Groups::single(0.0, 0.0);
        let mut default = None;
        let of = |rates: GroupRates<'_>| {
            let default = *default.get_or_insert(rates.learning_rate);
            ParameterGroup {
                name: rates.name.into(),
                learning_rate: rates.learning_rate,
                scale: if default > 0.0 {
                    rates.learning_rate / default
                } else {
                    1.0
                },
                weight_decay: rates.weight_decay,
                configured_decay: rates.weight_decay,
                momentum: None,
            }
        };
        let listed: Vec<ParameterGroup> = rates.into_iter().map(of).collect();
        if !listed.is_empty() {
            groups.groups = listed;
        }
        groups
    }

    /// Adds the groups of the manifest.
    ///
    /// # Errors
    ///
    /// If two have the same name, or a pattern is invalid or matches no parameter.
    pub fn split(
        mut self,
        configs: &[GroupConfig],
        parameters: &Parameters,
    ) -> Result<Groups, GroupsError> {
        self.of = vec![0; parameters.len()];
        for config in configs {
            let same = |group: &ParameterGroup| *group.name == *config.name;
            if self.groups.iter().any(same) {
                return Err(GroupsError::DoubledGroup(config.name.clone()));
            }
            let patterns = Patterns::new(&config.parameters).map_err(GroupsError::Pattern)?;
            let names = parameters.iter().map(crate::Parameter::name);
            if let Some(idle) = patterns.idle(names.clone()) {
                return Err(GroupsError::IdlePattern {
                    group: config.name.clone(),
                    pattern: idle.to_owned(),
                    nearest: nearest(idle, names).map(str::to_owned),
                });
            }
            let index = self.groups.len();
            for (group, name) in self.of.iter_mut().zip(names) {
                if *group == 0 && patterns.matches(name) {
                    *group = index;
                }
            }
            let default = self.default();
            let weight_decay = config.weight_decay.unwrap_or(default.weight_decay);
            self.groups.push(ParameterGroup {
                name: config.name.as_str().into(),
                learning_rate: default.learning_rate * config.learning_rate_scale,
                scale: config.learning_rate_scale,
                weight_decay,
                configured_decay: weight_decay,
                momentum: None,
            });
        }
        Ok(self)
    }

    /// Iterates over all groups, the default group first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &ParameterGroup> {
        self.groups.iter()
    }

    /// Returns the group at `index`.
    pub fn at(&self, index: usize) -> Option<&ParameterGroup> {
        self.groups.get(index)
    }

    /// Returns the default group, of parameters that no other group matches.
    pub fn default(&self) -> &ParameterGroup {
        // `single`, the only constructor, creates it.
        &self.groups[0]
    }

    /// Returns the group of the registry's entry at `index`.
    pub fn of(&self, index: usize) -> &ParameterGroup {
        let group = self.of.get(index).copied().unwrap_or(0);
        self.groups.get(group).unwrap_or_else(|| self.default())
    }

    /// Sets the learning rate of the default group, and scales those of the others.
    pub fn set_learning_rate(&mut self, learning_rate: f64) {
        for group in &mut self.groups {
            group.learning_rate = learning_rate * group.scale;
        }
    }

    /// Sets the learning rate of one group.
    ///
    /// # Errors
    ///
    /// A message if there is no such group; it suggests the nearest name.
    pub fn set_learning_rate_of(&mut self, name: &str, learning_rate: f64) -> Result<(), String> {
        self.named(name)?.learning_rate = learning_rate;
        Ok(())
    }

    /// Sets the momentum of all groups; none means the optimizer's.
    pub fn set_momentum(&mut self, momentum: Option<f64>) {
        for group in &mut self.groups {
            group.momentum = momentum;
        }
    }

    /// Sets the momentum of one group.
    ///
    /// # Errors
    ///
    /// A message if there is no such group; it suggests the nearest name.
    pub fn set_momentum_of(&mut self, name: &str, momentum: f64) -> Result<(), String> {
        self.named(name)?.momentum = Some(momentum);
        Ok(())
    }

    /// Sets the weight decay of all groups.
    pub fn set_weight_decay(&mut self, weight_decay: f64) {
        for group in &mut self.groups {
            group.weight_decay = weight_decay;
        }
    }

    /// Sets the weight decay of one group.
    ///
    /// # Errors
    ///
    /// A message if there is no such group; it suggests the nearest name.
    pub fn set_weight_decay_of(&mut self, name: &str, weight_decay: f64) -> Result<(), String> {
        self.named(name)?.weight_decay = weight_decay;
        Ok(())
    }

    /// Gives each group the weight decay that it was configured with.
    pub fn reset_weight_decay(&mut self) {
        for group in &mut self.groups {
            group.weight_decay = group.configured_decay;
        }
    }

    /// Copies learning rates, momenta and weight decay from the same groups in `other`.
    pub fn follow(&mut self, other: &Groups) {
        for (group, other) in self.groups.iter_mut().zip(&other.groups) {
            group.learning_rate = other.learning_rate;
            group.momentum = other.momentum;
            group.weight_decay = other.weight_decay;
        }
    }

    fn named(&mut self, name: &str) -> Result<&mut ParameterGroup, String> {
        let unknown = || self.unknown(name);
        let place = self.groups.iter().position(|group| *group.name == *name);
        let place = place.ok_or_else(unknown)?;
        Ok(&mut self.groups[place])
    }

    fn unknown(&self, name: &str) -> String {
        let names: Vec<&str> = self.groups.iter().map(|group| &*group.name).collect();
        let hint = nearest(name, names.iter().copied()).map_or_else(
            || format!("; there are {}", names.join(", ")),
            |near| format!("; did you mean `{near}`?"),
        );
        format!("no parameter group is called `{name}`{hint}")
    }

    /// Returns the group of the entry at `index` with its learning rate multiplied by `share`, the
    /// parameter's own multiplier.
    pub fn shared(&self, index: usize, share: f64) -> Cow<'_, ParameterGroup> {
        let group = self.of(index);
        if (share - 1.0).abs() < f64::EPSILON {
            return Cow::Borrowed(group);
        }
        Cow::Owned(ParameterGroup {
            learning_rate: group.learning_rate * share,
            ..group.clone()
        })
    }

    /// Configures the weight decay of all groups.
    pub fn configure_weight_decay(&mut self, weight_decay: f64) {
        for group in &mut self.groups {
            group.weight_decay = weight_decay;
            group.configured_decay = weight_decay;
        }
    }
}

#[cfg(test)]
mod tests {
    use candle_core::DType;

    use super::*;
    use crate::init::Init;

    fn parameters() -> Parameters {
        let mut parameters = Parameters::new(1, DType::F32, &sconce_ops::device::for_tests());
        for layer in ["fc1", "fc2"] {
            for name in ["weight", "bias"] {
                let mut scope = parameters.scope(layer);
                scope.parameter(name, &[1], Init::ZEROS).expect("one");
            }
        }
        parameters
    }

    fn group(name: &str, pattern: &str, scale: f64) -> GroupConfig {
        GroupConfig {
            name: name.to_owned(),
            parameters: vec![pattern.to_owned()],
            learning_rate_scale: scale,
            weight_decay: Some(0.0),
        }
    }

    #[test]
    fn a_parameter_belongs_to_the_first_group_that_names_it() {
        let configs = [group("bias", "*.bias", 1.0), group("head", "fc2.*", 10.0)];
        let groups = Groups::single(0.1, 0.01).split(&configs, &parameters());
        let mut groups = groups.expect("groups");
        let names: Vec<&str> = (0..4).map(|index| &*groups.of(index).name).collect();
        assert_eq!(names, ["default", "bias", "head", "bias"]);
        groups.set_learning_rate(0.5);
        let rates: Vec<f64> = groups.iter().map(|group| group.learning_rate).collect();
        assert_eq!(rates, [0.5, 0.5, 5.0]);
        assert_eq!(groups.set_learning_rate_of("head", 0.25), Ok(()));
        let rates: Vec<f64> = groups.iter().map(|group| group.learning_rate).collect();
        assert_eq!(rates, [0.5, 0.5, 0.25]);
        let mistyped = groups.set_learning_rate_of("haed", 0.25);
        assert_eq!(
            mistyped.expect_err("mistyped"),
            "no parameter group is called `haed`; did you mean `head`?"
        );
    }

    #[test]
    fn a_pattern_that_names_nothing_and_a_doubled_name_are_reported() {
        let split = |configs: &[GroupConfig]| {
            let groups = Groups::single(0.1, 0.01).split(configs, &parameters());
            groups.expect_err("wrong").to_string()
        };
        let idle = split(&[group("head", "fc2.wieght", 1.0)]);
        assert!(idle.contains("`fc2.wieght` of the group `head`"), "{idle}");
        assert!(idle.contains("did you mean `fc2.weight`?"), "{idle}");
        let doubled = split(&[group("default", "*", 1.0)]);
        assert!(doubled.contains("`default`"), "{doubled}");
    }
}
