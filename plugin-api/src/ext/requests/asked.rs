//! What a request asks for, decoded from its number and text.
//!
//! The host and the test kit (`testing`) both decode requests here, so that a hook that passes its tests is not
//! refused in a run. What depends on the task (whether a parameter or a group of this name exists) is checked by each.

use serde::{Deserialize, Serialize};

use super::{Request, TextRequest, check_tag};
use crate::Point;
use crate::state::MOST;

/// A request with its arguments, each valid by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Asked {
    /// Stop the training.
    Stop {
        /// The reason, for the user.
        reason: String,
        /// Whether the current epoch and its validation are still finished.
        after_epoch: bool,
    },
    /// Skip this batch.
    SkipBatch,
    /// Skip this update.
    SkipUpdate,
    /// Set the learning rate.
    SetLearningRate {
        /// The parameter group; `None`: all groups.
        group: Option<String>,
        /// The rate, finite and not negative.
        rate: f64,
    },
    /// Set the momentum.
    SetMomentum {
        /// The parameter group; `None`: all groups.
        group: Option<String>,
        /// The momentum, from 0 to below 1.
        momentum: f64,
    },
    /// Set the weight decay.
    SetWeightDecay {
        /// The parameter group; `None`: all groups.
        group: Option<String>,
        /// The weight decay, finite and not negative.
        decay: f64,
    },
    /// Multiply this batch's loss by a finite factor.
    ScaleLoss(f64),
    /// Save a checkpoint.
    Save {
        /// Its tag.
        tag: String,
        /// Whether only the parameters are saved.
        parameters_only: bool,
        /// Whether it is written while the training continues.
        in_background: bool,
    },
    /// Run a validation.
    Validate,
    /// Roll back to the checkpoint with this tag.
    RollBack(String),
    /// Replace the parameters by the published set of this name.
    Swap(String),
    /// Restore the parameters after a swap.
    SwapBack,
    /// Load the parameters of a checkpoint.
    LoadParameters {
        /// The checkpoint's tag.
        tag: String,
        /// The published set to use instead of its parameters.
        set: Option<String>,
    },
    /// Delete the checkpoint with this tag.
    Delete(String),
    /// Give a checkpoint a second tag.
    Copy {
        /// The checkpoint's tag.
        from: String,
        /// The tag that it gets too.
        to: String,
    },
    /// Export the parameters of a checkpoint to a file of their own.
    Publish {
        /// The checkpoint's tag.
        tag: String,
        /// The first part of the file's name.
        name: String,
        /// The published set to use instead of its parameters.
        set: Option<String>,
    },
    /// Call the hook at the module points from now on, or don't.
    Listen(bool),
    /// Train a parameter or buffer at this ratio of its group's learning rate.
    Freeze {
        /// The parameter's name.
        name: String,
        /// The ratio, finite and not negative; see [`check_ratio`].
        ratio: f64,
    },
    /// Accumulate the gradients of this number of batches per update, at least 1.
    SetAccumulation(u64),
    /// Recompute the batch norms' running statistics from this number of training samples; `None`: from all.
    Renew(Option<u64>),
    /// Have the model write text.
    #[serde(skip)]
    Generate(TextRequest),
    /// Never call the hook at this mount point.
    #[serde(skip)]
    LeaveOut(Point),
    /// The hook publishes the metric, or the family of metrics, of this name.
    #[serde(skip)]
    DeclareMetric(String),
    /// The hook makes no requests but those of these names, some of which may be a newer version's.
    #[serde(skip)]
    DeclareAsks(Vec<String>),
    /// The hook reads no more of the loop than what has these names, some of which may be a newer version's.
    #[serde(skip)]
    DeclareReads(Vec<String>),
    /// Of all modules, call the hook at those of these names alone.
    #[serde(skip)]
    SelectModules(Vec<String>),
}

impl Asked {
    /// Checks arguments that did not come from [`Request::decode`], but from a file.
    ///
    /// # Errors
    ///
    /// A message that says which values are valid.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Asked::Save { tag, .. }
            | Asked::RollBack(tag)
            | Asked::Delete(tag)
            | Asked::LoadParameters { tag, .. } => check_tag(tag),
            Asked::Copy { from, to } => check_tag(from).and_then(|()| check_tag(to)),
            Asked::Publish { tag, name, .. } => check_tag(tag).and_then(|()| check_tag(name)),
            Asked::Freeze { ratio, .. } => {
                not_negative("a share of the learning rate", *ratio).map(drop)
            }
            Asked::Renew(Some(samples)) if *samples > MOST => {
                Err(format!("samples are at most {MOST}, found {samples}"))
            }
            _ => Ok(()),
        }
    }

    /// Whether it saves parameters only, which the states in other checkpoints may refer to.
    fn is_save_of(&self, parameters: bool) -> bool {
        matches!(self, Asked::Save { parameters_only, .. } if *parameters_only == parameters)
    }
}

/// Puts requests that were made at the same mount point into the order in which they are served: of saves that follow
/// each other, those of parameters only come first.
///
/// A full checkpoint contains the states of all hooks, which may refer to what has been saved before it.
pub fn serving_order<T>(requests: &mut [T], asked: impl Fn(&T) -> &Asked) {
    let is_save = |request: &T| matches!(asked(request), Asked::Save { .. });
    for group in requests.chunk_by_mut(|one, next| is_save(one) && is_save(next)) {
        group.sort_by_key(|request| asked(request).is_save_of(false));
    }
}

impl Request {
    /// What the request asks for with this number and text.
    ///
    /// # Errors
    ///
    /// A message that says which values are valid.
    pub fn decode(self, number: f64, text: &str) -> Result<Asked, String> {
        Ok(match self {
            Request::Stop | Request::StopAfterEpoch => Asked::Stop {
                reason: text.to_owned(),
                after_epoch: self == Request::StopAfterEpoch,
            },
            Request::SkipBatch => Asked::SkipBatch,
            Request::SkipUpdate => Asked::SkipUpdate,
            Request::SetLearningRate => Asked::SetLearningRate {
                group: group(text),
                rate: not_negative("a learning rate", number)?,
            },
            Request::SetMomentum => {
                if !(0.0..1.0).contains(&number) {
                    return Err(format!("a momentum is from 0 to below 1, found {number}"));
                }
                Asked::SetMomentum {
                    group: group(text),
                    momentum: number,
                }
            }
            Request::SetWeightDecay => Asked::SetWeightDecay {
                group: group(text),
                decay: not_negative("a weight decay", number)?,
            },
            Request::ScaleLoss => {
                if !number.is_finite() {
                    return Err(format!("a loss scale is finite, found {number}"));
                }
                Asked::ScaleLoss(number)
            }
            Request::SaveCheckpoint | Request::SaveInBackground => Asked::Save {
                tag: tag(text)?,
                parameters_only: number > 0.0,
                in_background: self == Request::SaveInBackground,
            },
            Request::Validate => Asked::Validate,
            Request::RollBack => Asked::RollBack(tag(text)?),
            Request::SwapParameters => Asked::Swap(text.to_owned()),
            Request::SwapBack => Asked::SwapBack,
            Request::LoadParameters => {
                let (from, set) = in_two(text);
                Asked::LoadParameters {
                    tag: tag(from)?,
                    set,
                }
            }
            Request::DeleteCheckpoint => Asked::Delete(tag(text)?),
            Request::CopyCheckpoint => {
                let (from, to) = text.split_once('/').unwrap_or((text, ""));
                Asked::Copy {
                    from: tag(from)?,
                    to: tag(to)?,
                }
            }
            Request::PublishWeights => {
                let (from, rest) = text.split_once('/').unwrap_or((text, ""));
                let (name, set) = in_two(rest);
                Asked::Publish {
                    tag: tag(from)?,
                    name: tag(name)?,
                    set,
                }
            }
            Request::ListenAtModules => Asked::Listen(number > 0.0),
            Request::Freeze => Asked::Freeze {
                name: text.to_owned(),
                ratio: not_negative("a share of the learning rate", number)?,
            },
            Request::SetAccumulation => {
                let batches = whole(number).filter(|batches| *batches > 0);
                Asked::SetAccumulation(batches.ok_or_else(|| {
                    format!("the batches of an update are a whole number from 1 on, found {number}")
                })?)
            }
            Request::RenewStatistics => {
                let samples = whole(number)
                    .ok_or_else(|| format!("samples are a whole number, found {number}"))?;
                Asked::Renew((samples > 0).then_some(samples))
            }
            Request::LeaveOutPoint => Asked::LeaveOut(
                whole(number)
                    .and_then(|number| Point::from_number(u32::try_from(number).ok()?))
                    .ok_or_else(|| format!("there is no mount point {number}"))?,
            ),
            Request::DeclareMetric => {
                if text.is_empty() {
                    return Err("a metric has a name".to_owned());
                }
                Asked::DeclareMetric(text.to_owned())
            }
            Request::DeclareAsks => Asked::DeclareAsks(names(text)),
            Request::DeclareReads => Asked::DeclareReads(names(text)),
            Request::SelectModules => Asked::SelectModules(names(text)),
            Request::Generate => Asked::Generate(text_request(text)?),
        })
    }
}

/// Checks the ratio of a parameter's learning rate against what it is: a buffer is frozen (0) or not (1), as no
/// learning rate moves it.
///
/// # Errors
///
/// A message that names the buffer.
pub fn check_ratio(name: &str, ratio: f64, is_buffer: bool) -> Result<(), String> {
    let is_whole = ratio == 0.0 || (ratio - 1.0).abs() < f64::EPSILON;
    if is_buffer && !is_whole {
        return Err(format!(
            "`{name}` is a buffer, which no learning rate moves: its share is 0 or 1, found {ratio}"
        ));
    }
    Ok(())
}

fn not_negative(what: &str, number: f64) -> Result<f64, String> {
    if number.is_finite() && number >= 0.0 {
        return Ok(number);
    }
    Err(format!("{what} is finite and not negative, found {number}"))
}

/// Most tokens of a text that is asked for.
const MOST_TOKENS: u64 = 1 << 20;

fn text_request(json: &str) -> Result<TextRequest, String> {
    let request: TextRequest = serde_json::from_str(json)
        .map_err(|error| format!("text is asked for by a JSON object of its options: {error}"))?;
    if request.tokens > MOST_TOKENS {
        return Err(format!(
            "a text has at most {MOST_TOKENS} tokens, found {}",
            request.tokens
        ));
    }
    Ok(request)
}

/// A number as a count, if it is one that JSON and floats can represent.
fn whole(number: f64) -> Option<u64> {
    let is_count = (0.0..=MOST as f64).contains(&number) && number.fract() == 0.0;
    is_count.then_some(number as u64)
}

/// The parts of a text before and after the first slash; the whole text and `None` if it has none.
fn in_two(text: &str) -> (&str, Option<String>) {
    match text.split_once('/') {
        Some((first, second)) => (first, Some(second.to_owned())),
        None => (text, None),
    }
}

/// The names between a text's commas.
fn names(text: &str) -> Vec<String> {
    let names = text.split(',').map(str::trim);
    names
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

fn group(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn tag(text: &str) -> Result<String, String> {
    check_tag(text)?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_no_run_can_serve_are_refused() {
        for (request, number, text, words) in [
            (Request::SetLearningRate, -0.1, "", "a learning rate is"),
            (Request::SetLearningRate, f64::NAN, "", "a learning rate is"),
            (Request::SetMomentum, 1.0, "", "below 1, found 1"),
            (Request::SetWeightDecay, -0.1, "", "a weight decay is"),
            (Request::ScaleLoss, f64::INFINITY, "", "finite, found inf"),
            (Request::SetAccumulation, 0.0, "", "from 1 on, found 0"),
            (Request::SetAccumulation, 1e300, "", "a whole number"),
            (Request::RenewStatistics, 0.5, "", "found 0.5"),
            (Request::Freeze, -1.0, "a", "not negative, found -1"),
            (Request::SaveCheckpoint, 0.0, "../x", "a checkpoint's tag"),
            (Request::CopyCheckpoint, 0.0, "best", "a checkpoint's tag"),
            (Request::PublishWeights, 0.0, "best/", "a checkpoint's tag"),
            (Request::LeaveOutPoint, 1e9, "", "no mount point"),
            (Request::LeaveOutPoint, -1.0, "", "no mount point"),
            (Request::DeclareMetric, 0.0, "", "has a name"),
            (
                Request::Generate,
                0.0,
                "ROMEO:",
                "a JSON object of its options",
            ),
            (
                Request::Generate,
                0.0,
                r#"{"prompt": "a"}"#,
                "unknown field",
            ),
            (
                Request::Generate,
                0.0,
                r#"{"tokens": 1048577}"#,
                "at most 1048576",
            ),
        ] {
            let told = request.decode(number, text).expect_err(request.name());
            assert!(told.contains(words), "{}: {told}", request.name());
        }
    }

    #[test]
    fn texts_are_taken_apart_at_slashes() {
        let load = Request::LoadParameters.decode(0.0, "best/ema/fast");
        let set = Some("ema/fast".to_owned());
        assert_eq!(
            load,
            Ok(Asked::LoadParameters {
                tag: "best".to_owned(),
                set
            })
        );
        let publish = Request::PublishWeights.decode(0.0, "best/model");
        assert_eq!(
            publish,
            Ok(Asked::Publish {
                tag: "best".to_owned(),
                name: "model".to_owned(),
                set: None
            })
        );
        let asks = |text| Request::DeclareAsks.decode(0.0, text);
        assert_eq!(asks(""), Ok(Asked::DeclareAsks(Vec::new())));
        let both = vec!["stop".to_owned(), "freeze".to_owned()];
        assert_eq!(asks("stop, freeze"), Ok(Asked::DeclareAsks(both)));
        let rate = Request::SetLearningRate.decode(0.5, "head");
        assert_eq!(
            rate,
            Ok(Asked::SetLearningRate {
                group: Some("head".to_owned()),
                rate: 0.5
            })
        );
    }

    #[test]
    fn parameters_are_saved_before_full_checkpoints_whose_states_may_refer_to_them() {
        let save = |tag: &str, parameters_only| Asked::Save {
            tag: tag.to_owned(),
            parameters_only,
            in_background: false,
        };
        let mut requests = vec![
            save("a", false),
            save("b", false),
            save("c", true),
            Asked::Validate,
            save("d", false),
            save("e", true),
        ];
        serving_order(&mut requests, |asked| asked);
        let tags: Vec<&str> = (requests.iter())
            .map(|asked| match asked {
                Asked::Save { tag, .. } => tag,
                _ => "validate",
            })
            .collect();
        // Nothing is moved across a request that may change what is saved.
        assert_eq!(tags, ["c", "a", "b", "validate", "e", "d"]);
    }

    #[test]
    fn tags_from_files_are_checked() {
        let wrong = || "../x".to_owned();
        for asked in [
            Asked::Delete(wrong()),
            Asked::RollBack(wrong()),
            Asked::Copy {
                from: "a".to_owned(),
                to: wrong(),
            },
        ] {
            assert!(asked.check().is_err(), "{asked:?}");
        }
        assert_eq!(Asked::Delete("x".to_owned()).check(), Ok(()));
    }

    #[test]
    fn a_buffer_is_frozen_or_not() {
        assert!(check_ratio("norm.running_mean", 0.5, true).is_err());
        for (ratio, is_buffer) in [(0.0, true), (1.0, true), (0.5, false)] {
            assert_eq!(check_ratio("x", ratio, is_buffer), Ok(()));
        }
    }
}
