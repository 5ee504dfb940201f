//! The choice of the next token from the model's scores.

use std::cmp::Ordering;

use sconce_ops::random::{self, Stream};
use serde::{Deserialize, Serialize};

/// How the next token is chosen. Names, meanings and order are those of `transformers` (5.24): the penalty first, then,
/// if tokens are drawn, temperature, `top_k`, `top_p` and `min_p`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SamplingConfig {
    /// Divisor of the scores, at least 0. At 0 the token with the highest score is taken, the first of equal ones.
    pub temperature: f64,
    /// Keeps the tokens whose scores are at least the k-th highest, those equal to it included. 0: all.
    pub top_k: usize,
    /// Keeps the fewest likeliest tokens whose probabilities add up to this at least, above 0 and at most 1. 1: all.
    pub top_p: f64,
    /// Drops the tokens that are less likely than this times the likeliest, from 0 to 1. 0: none.
    pub min_p: f64,
    /// Divisor of the positive scores, and factor of the negative ones, of all tokens in the prompt and in what was
    /// generated; above 0. 1: no penalty (Keskar et al., 2019).
    pub repetition_penalty: f64,
}

impl Default for SamplingConfig {
    fn default() -> Self {
        SamplingConfig {
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
        }
    }
}

/// Why tokens can't be chosen.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SamplingError {
    /// An option is out of its range.
    #[error("`{name}` must be {range}, found {found}")]
    Range {
        /// Name of the option.
        name: &'static str,
        /// What it may be.
        range: &'static str,
        /// What was given.
        found: f64,
    },
    /// The model gave no scores that can be compared.
    #[error("of the scores of {of} tokens none is a number")]
    NoScores {
        /// Number of scores.
        of: usize,
    },
}

impl SamplingConfig {
    /// Checks the ranges of all options.
    ///
    /// # Errors
    ///
    /// The first that is out of its range.
    pub fn check(&self) -> Result<(), SamplingError> {
        let ranges = [
            (
                "temperature",
                "a number from 0",
                self.temperature,
                self.temperature >= 0.0,
            ),
            (
                "top_p",
                "above 0 and at most 1",
                self.top_p,
                self.top_p > 0.0 && self.top_p <= 1.0,
            ),
            (
                "min_p",
                "from 0 to 1",
                self.min_p,
                (0.0..=1.0).contains(&self.min_p),
            ),
            (
                "repetition_penalty",
                "a number above 0",
                self.repetition_penalty,
                self.repetition_penalty > 0.0,
            ),
        ];
        match ranges
            .into_iter()
            .find(|(.., found, is_right)| !is_right || found.is_infinite())
        {
            Some((name, range, found, _)) => Err(SamplingError::Range { name, range, found }),
            None => Ok(()),
        }
    }
}

/// A token that may come next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The token.
    pub token: u32,
    /// Its probability among all candidates.
    pub probability: f64,
}

/// Chooses tokens of one text.
///
/// Its random numbers depend on the seed, the text's row and the position alone: a text is the same by itself and among others.
#[derive(Debug)]
pub struct Sampler {
    config: SamplingConfig,
    seed: u64,
    row: u64,
    /// Whether a token has occurred, by token; grows as needed.
    seen: Vec<bool>,
}

/// Purpose of the random numbers.
const PURPOSE: &str = "generate";

impl Sampler {
    /// Creates a sampler for the text with the number `row`.
    ///
    /// # Errors
    ///
    /// If an option is out of its range.
    pub fn new(config: SamplingConfig, seed: u64, row: u64) -> Result<Sampler, SamplingError> {
        config.check()?;
        Ok(Sampler {
            config,
            seed,
            row,
            seen: Vec::new(),
        })
    }

    /// Notes a token of the prompt, or one that was generated, for the penalty.
    pub fn note(&mut self, token: u32) {
        let index = token as usize;
        if self.seen.len() <= index {
            self.seen.resize(index + 1, false);
        }
        if let Some(seen) = self.seen.get_mut(index) {
            *seen = true;
        }
    }

    /// Chooses the token at a position of the text, by the scores of all tokens, and notes it.
    ///
    /// # Errors
    ///
    /// If none of the scores is a number.
    pub fn choose(&mut self, scores: &[f32], position: u64) -> Result<u32, SamplingError> {
        let candidates = self.candidates(scores)?;
        let token = match candidates.as_slice() {
            [only] => only.token,
            several => {
                let mut stream = random::stream(self.seed, PURPOSE, self.row, position);
                drawn(several, &mut stream)
            }
        };
        self.note(token);
        Ok(token)
    }

    /// The tokens that may come next, in the order of their numbers; their probabilities add up to 1.
    ///
    /// # Errors
    ///
    /// If none of the scores is a number.
    pub fn candidates(&self, scores: &[f32]) -> Result<Vec<Candidate>, SamplingError> {
        let mut kept: Vec<Scored> = scores
            .iter()
            .zip(0..)
            .filter(|(score, _)| !score.is_nan() && **score != f32::NEG_INFINITY)
            .map(|(&score, token)| Scored {
                token,
                score: self.penalised(token, score),
            })
            .collect();
        let highest =
            kept.iter().copied().reduce(
                |best, next| {
                    if next.score > best.score { next } else { best }
                },
            );
        let Some(highest) = highest else {
            return Err(SamplingError::NoScores { of: scores.len() });
        };
        let config = self.config;
        if config.temperature == 0.0 || highest.score.is_infinite() {
            return Ok(vec![Candidate {
                token: highest.token,
                probability: 1.0,
            }]);
        }
        for scored in &mut kept {
            scored.score = (scored.score - highest.score) / config.temperature;
        }
        keep_top_k(&mut kept, config.top_k);
        keep_top_p(&mut kept, config.top_p);
        // The highest score is 0 by now: its probability is e⁰ of the same sum.
        kept.retain(|scored| scored.score.exp() >= config.min_p);
        let sum: f64 = kept.iter().map(|scored| scored.score.exp()).sum();
        let candidates = kept.into_iter().map(|Scored { token, score }| Candidate {
            token,
            probability: score.exp() / sum,
        });
        Ok(candidates.collect())
    }

    fn penalised(&self, token: u32, score: f32) -> f64 {
        let score = f64::from(score);
        match self.seen.get(token as usize) {
            Some(true) if score < 0.0 => score * self.config.repetition_penalty,
            Some(true) => score / self.config.repetition_penalty,
            _ => score,
        }
    }
}

#[derive(Clone, Copy)]
struct Scored {
    token: u32,
    score: f64,
}

/// The highest score first; of equal ones the larger token, which `transformers` keeps longer.
fn highest_first(a: &Scored, b: &Scored) -> Ordering {
    b.score.total_cmp(&a.score).then(b.token.cmp(&a.token))
}

fn keep_top_k(kept: &mut Vec<Scored>, k: usize) {
    if k == 0 || k >= kept.len() {
        return;
    }
    let mut scores: Vec<f64> = kept.iter().map(|scored| scored.score).collect();
    let (_, &mut least, _) = scores.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a));
    kept.retain(|scored| scored.score >= least);
}

/// How many of the likeliest are looked at first; of these there are nearly always enough.
const FIRST: usize = 128;

fn keep_top_p(kept: &mut Vec<Scored>, p: f64) {
    if p >= 1.0 {
        return;
    }
    let wanted = p * kept.iter().map(|scored| scored.score.exp()).sum::<f64>();
    let mut looked_at = FIRST;
    let count = loop {
        let head = if looked_at < kept.len() {
            let (head, ..) = kept.select_nth_unstable_by(looked_at, highest_first);
            head
        } else {
            &mut kept[..]
        };
        head.sort_unstable_by(highest_first);
        let mut sum = 0.0;
        // The one that reaches the sum stays.
        let reaching = head.iter().position(|scored| {
            sum += scored.score.exp();
            sum >= wanted
        });
        match reaching {
            Some(index) => break index + 1,
            None if looked_at >= kept.len() => break kept.len(),
            None => looked_at = looked_at.saturating_mul(8),
        }
    };
    kept.truncate(count);
    kept.sort_unstable_by_key(|scored| scored.token);
}

fn drawn(candidates: &[Candidate], stream: &mut Stream) -> u32 {
    let mut left = stream.unit();
    let mut last = 0;
    for candidate in candidates {
        last = candidate.token;
        left -= candidate.probability;
        if left < 0.0 {
            break;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cases that `tests/reference/sampling.py` has written by `transformers`: scores, options, tokens that are kept.
    #[derive(Deserialize)]
    struct Case {
        /// None: −∞.
        scores: Vec<Option<f32>>,
        seen: Vec<u32>,
        options: SamplingConfig,
        kept: Vec<u32>,
        probabilities: Vec<f64>,
    }

    #[test]
    fn what_may_come_next_is_what_transformers_keeps() {
        let text = include_str!("../../../../tests/reference/sampling.json");
        let cases: Vec<Case> = serde_json::from_str(text).unwrap();
        assert!(cases.len() > 50);
        for case in cases {
            let mut sampler = Sampler::new(case.options, 0, 0).unwrap();
            for &token in &case.seen {
                sampler.note(token);
            }
            let scores = case.scores.iter();
            let scores: Vec<f32> = scores
                .map(|score| score.unwrap_or(f32::NEG_INFINITY))
                .collect();
            let found = sampler.candidates(&scores).unwrap();
            let tokens: Vec<u32> = found.iter().map(|candidate| candidate.token).collect();
            assert_eq!(tokens, case.kept, "{:?}", case.options);
            for (candidate, &expected) in found.iter().zip(&case.probabilities) {
                let difference = (candidate.probability - expected).abs();
                assert!(
                    difference < 1e-6,
                    "{:?}: {candidate:?}, {expected}",
                    case.options
                );
            }
        }
    }

    #[test]
    fn a_large_vocabulary_keeps_what_a_full_sort_would() {
        let scores: Vec<f32> = (0..50_000_u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / 1e7)
            .collect();
        for top_p in [0.001, 0.3, 0.9, 0.999] {
            let config = SamplingConfig {
                top_p,
                ..SamplingConfig::default()
            };
            let found = Sampler::new(config, 0, 0)
                .unwrap()
                .candidates(&scores)
                .unwrap();
            let mut order: Vec<usize> = (0..scores.len()).collect();
            order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(b.cmp(&a)));
            let all: f64 = scores.iter().map(|&score| f64::from(score).exp()).sum();
            let mut sum = 0.0;
            let count = order.iter().take_while(|&&token| {
                let is_kept = sum < top_p * all;
                sum += f64::from(scores[token]).exp();
                is_kept
            });
            let count = count.count();
            let mut expected: Vec<u32> = order[..count].iter().map(|&token| token as u32).collect();
            expected.sort_unstable();
            let tokens: Vec<u32> = found.iter().map(|candidate| candidate.token).collect();
            assert_eq!(tokens.len(), expected.len(), "{top_p}");
            assert_eq!(tokens, expected, "{top_p}");
        }
    }

    #[test]
    fn tokens_are_drawn_as_often_as_they_are_likely() {
        let mut sampler = Sampler::new(SamplingConfig::default(), 3, 0).unwrap();
        let scores = [0.5_f32.ln(), 0.2_f32.ln(), 0.3_f32.ln()];
        let mut counts = [0.0_f64; 3];
        for position in 0..20_000 {
            counts[sampler.choose(&scores, position).unwrap() as usize] += 1.0 / 20_000.0;
        }
        for (count, expected) in counts.into_iter().zip([0.5, 0.2, 0.3]) {
            assert!((count - expected).abs() < 0.015, "{counts:?}");
        }
    }

    #[test]
    fn scores_that_are_no_numbers_are_never_chosen() {
        let mut sampler = Sampler::new(SamplingConfig::default(), 0, 0).unwrap();
        let chosen = sampler.choose(&[f32::NAN, f32::NEG_INFINITY, -1.0], 0);
        assert_eq!(chosen, Ok(2));
        assert_eq!(sampler.choose(&[0.0, f32::INFINITY], 0), Ok(1));
        let none = sampler.choose(&[f32::NAN; 2], 0);
        assert_eq!(none, Err(SamplingError::NoScores { of: 2 }));
    }

    #[test]
    fn options_out_of_range_are_named() {
        let config = SamplingConfig {
            top_p: 0.0,
            ..SamplingConfig::default()
        };
        let message = Sampler::new(config, 0, 0).unwrap_err().to_string();
        assert_eq!(message, "`top_p` must be above 0 and at most 1, found 0");
        let config = SamplingConfig {
            temperature: f64::NAN,
            ..SamplingConfig::default()
        };
        assert!(Sampler::new(config, 0, 0).is_err());
    }
}
