//! Operations of candle that cut gradients without an error: suspects for the gradient audit.

/// An operation of candle that passes no gradient back and raises no error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Name in candle; a test finds each in `docs/candle-gradients.md`.
    pub operation: &'static str,
    /// Replacement, if there is one.
    pub instead: Option<&'static str>,
    /// Words in parameter names that suggest it: of the layer itself or of one before it.
    suggested_by: &'static [&'static str],
}

const NORM: &[&str] = &["norm", "ln"];
const ATTENTION: &[&str] = &[
    "attn",
    "attention",
    "q",
    "k",
    "v",
    "qkv",
    "query",
    "key",
    "value",
    "qproj",
    "kproj",
    "vproj",
    "wq",
    "wk",
];

/// Cutting operations that occur in models, the most likely first.
pub const CUTS: &[Cut] = &[
    Cut {
        operation: "LayerNorm",
        instead: Some("sconce::nn::layers::LayerNorm"),
        suggested_by: NORM,
    },
    Cut {
        operation: "RmsNorm",
        instead: Some("sconce::nn::layers::RmsNorm"),
        suggested_by: &["norm", "rms"],
    },
    Cut {
        operation: "ops::softmax_last_dim",
        instead: Some("sconce::nn::ops::softmax"),
        suggested_by: ATTENTION,
    },
    Cut {
        operation: "rotary_emb::rope",
        instead: Some("sconce::nn::layers::Rotary"),
        suggested_by: ATTENTION,
    },
    Cut {
        operation: "attention::flash_attn",
        instead: Some("sconce::nn::layers::Attention"),
        suggested_by: ATTENTION,
    },
    Cut {
        operation: "detach",
        instead: None,
        suggested_by: &[],
    },
];

/// Returns the operations that a parameter's name suggests.
fn suspects(parameter: &str) -> Vec<&'static Cut> {
    let parameter = parameter.to_lowercase();
    let is_suggested = |word: &str| {
        parameter.split(['.', '_']).any(|part| {
            let part = part.trim_end_matches(|c: char| c.is_ascii_digit());
            part == word || (word.len() > 3 && part.contains(word))
        })
    };
    let cuts = CUTS.iter();
    cuts.filter(|cut| cut.suggested_by.iter().any(|word| is_suggested(word)))
        .collect()
}

fn list(cuts: &[&Cut]) -> String {
    let cut = |cut: &&Cut| match cut.instead {
        Some(instead) => format!("`{}` (instead: `{instead}`)", cut.operation),
        None => format!("`{}`", cut.operation),
    };
    cuts.iter().map(cut).collect::<Vec<_>>().join(", ")
}

/// Returns where to look if these parameters got no gradient. They are in registry order, so the
/// last one is nearest to the operation that cuts it.
pub(super) fn advice(missing: &[&String]) -> String {
    let Some(last) = missing.last() else {
        return String::new();
    };
    let likely = suspects(last);
    let others: Vec<&Cut> = CUTS.iter().filter(|cut| !likely.contains(cut)).collect();
    let start = "either the loss does not depend on them, or an operation without a backward pass cuts \
                 the gradient without an error";
    if likely.is_empty() {
        return format!("{start}; in candle: {}", list(&others));
    }
    format!(
        "{start}; near the last of them, `{last}`, look for candle's {}\n  others that cut it: {}",
        list(&likely),
        list(&others)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(parameter: &str) -> Vec<&'static str> {
        suspects(parameter)
            .iter()
            .map(|cut| cut.operation)
            .collect()
    }

    #[test]
    fn names_of_parameters_suggest_operations() {
        for parameter in ["norm.bias", "blocks.3.ln1.weight", "final_layernorm.weight"] {
            assert_eq!(names(parameter)[0], "LayerNorm", "{parameter}");
        }
        for parameter in [
            "blocks.0.attn.proj.bias",
            "layers.1.q_proj.weight",
            "Wk.weight",
        ] {
            assert_eq!(names(parameter)[0], "ops::softmax_last_dim", "{parameter}");
        }
        // Here no suspicious word is a word of its own.
        for parameter in ["fc1.weight", "vln.weight", "kernel.quick"] {
            assert!(names(parameter).is_empty(), "{parameter}");
        }
    }

    #[test]
    fn the_likely_come_first_and_all_are_named_once() {
        let missing = ["fc1.weight".to_owned(), "norm.bias".to_owned()];
        let missing: Vec<&String> = missing.iter().collect();
        for (missing, first) in [
            (&missing[..], "`norm.bias`"),
            (&missing[..1], "in candle: `LayerNorm`"),
        ] {
            let advice = advice(missing);
            assert!(advice.contains(first), "{advice}");
            for cut in CUTS {
                let name = format!("`{}`", cut.operation);
                assert_eq!(advice.matches(&name).count(), 1, "{advice}");
            }
        }
    }
}
