//! The values of a `config.json`.

use serde_json::{Map, Value};

use super::terms::TransformersError;

/// Most repetitions of a block that a configuration can ask for.
const MOST_BLOCKS: usize = 10_000;

/// The values of a `config.json`, read with the defaults of the family's class: a file may lack keys, and `null` is like none.
pub(super) struct Keys<'a> {
    /// Those that the family lists as used.
    used: &'static [&'static str],
    values: &'a Map<String, Value>,
}

type Read<T> = Result<T, TransformersError>;

impl<'a> Keys<'a> {
    pub(super) fn new(used: &'static [&'static str], values: &'a Map<String, Value>) -> Keys<'a> {
        Keys { used, values }
    }

    /// The value of a key that the family lists as used; none if it is missing or `null`.
    pub(super) fn value(&self, key: &str) -> Option<&'a Value> {
        debug_assert!(self.used.contains(&key), "`{key}` is not listed");
        self.values.get(key).filter(|value| !value.is_null())
    }

    fn wrong(&self, key: &str, wanted: &str) -> TransformersError {
        let found = self.values.get(key).unwrap_or(&Value::Null);
        TransformersError::Value {
            key: key.to_owned(),
            wanted: wanted.to_owned(),
            found: found.to_string().chars().take(60).collect(),
        }
    }

    /// A size of at least 1, if there is one.
    pub(super) fn optional_size(&self, key: &str) -> Read<Option<usize>> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        let size = value.as_u64().and_then(|size| usize::try_from(size).ok());
        match size.filter(|&size| size > 0) {
            Some(size) => Ok(Some(size)),
            None => Err(self.wrong(key, "a whole number of at least 1")),
        }
    }

    /// A size of at least 1.
    pub(super) fn size(&self, key: &str, default: usize) -> Read<usize> {
        Ok(self.optional_size(key)?.unwrap_or(default))
    }

    /// A number of blocks, from 1 to 10,000.
    pub(super) fn blocks(&self, key: &str, default: usize) -> Read<usize> {
        let count = self.size(key, default)?;
        if count > MOST_BLOCKS {
            return Err(self.wrong(key, "at most 10000 layers"));
        }
        Ok(count)
    }

    /// A token, if there is one.
    pub(super) fn token(&self, key: &str) -> Read<Option<u32>> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        let token = value.as_u64().and_then(|token| u32::try_from(token).ok());
        token.map(Some).ok_or_else(|| self.wrong(key, "a token"))
    }

    /// A list of sizes of at least 1.
    pub(super) fn sizes(&self, key: &str, default: &[usize]) -> Read<Vec<usize>> {
        let Some(value) = self.value(key) else {
            return Ok(default.to_vec());
        };
        let sizes: Option<Vec<usize>> = serde_json::from_value(value.clone()).ok();
        let fits = |sizes: &Vec<usize>| !sizes.contains(&0) && (1..=16).contains(&sizes.len());
        sizes
            .filter(fits)
            .ok_or_else(|| self.wrong(key, "a list of at most 16 whole numbers of at least 1"))
    }

    /// A number of blocks for each of so many stages.
    pub(super) fn depths(&self, key: &str, default: &[usize], stages: usize) -> Read<Vec<usize>> {
        let depths = self.sizes(key, default)?;
        if depths.len() != stages || depths.iter().any(|&depth| depth > MOST_BLOCKS) {
            let wanted = format!("{stages} numbers from 1 to 10000, one for each stage");
            return Err(self.wrong(key, &wanted));
        }
        Ok(depths)
    }

    /// Whether the file has the key and says `null`.
    pub(super) fn is_null(&self, key: &str) -> bool {
        self.values.get(key).is_some_and(Value::is_null)
    }

    /// A finite number of at least 0.
    pub(super) fn number(&self, key: &str, default: f64) -> Read<f64> {
        let Some(value) = self.value(key) else {
            return Ok(default);
        };
        let number = value
            .as_f64()
            .filter(|number| *number >= 0.0 && number.is_finite());
        number.ok_or_else(|| self.wrong(key, "a number of at least 0"))
    }

    /// A constant added to a variance: above 0.
    pub(super) fn epsilon(&self, key: &str, default: f64) -> Read<f64> {
        let epsilon = self.number(key, default)?;
        if epsilon == 0.0 {
            return Err(self.wrong(key, "a number above 0"));
        }
        Ok(epsilon)
    }

    /// A fraction that is dropped, from 0 to below 1.
    pub(super) fn fraction(&self, key: &str, default: f64) -> Read<f64> {
        let fraction = self.number(key, default)?;
        if fraction >= 1.0 {
            return Err(self.wrong(key, "a number from 0 to below 1"));
        }
        Ok(fraction)
    }

    pub(super) fn flag(&self, key: &str, default: bool) -> Read<bool> {
        let Some(value) = self.value(key) else {
            return Ok(default);
        };
        value
            .as_bool()
            .ok_or_else(|| self.wrong(key, "true or false"))
    }

    pub(super) fn text(&self, key: &str, default: &'a str) -> Read<&'a str> {
        let Some(value) = self.value(key) else {
            return Ok(default);
        };
        value.as_str().ok_or_else(|| self.wrong(key, "a text"))
    }

    /// A nonlinearity, by the name that `transformers` has for it.
    pub(super) fn activation(&self, key: &str, default: &'a str) -> Read<crate::Activation> {
        use crate::Activation;
        Ok(match self.text(key, default)? {
            "relu" => Activation::Relu,
            "gelu" | "gelu_python" => Activation::Gelu,
            "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" => Activation::GeluTanh,
            "quick_gelu" => Activation::QuickGelu,
            "silu" | "swish" => Activation::Silu,
            "tanh" => Activation::Tanh,
            "sigmoid" => Activation::Sigmoid,
            "linear" => Activation::Identity,
            _ => {
                let wanted = "`relu`, `gelu`, `gelu_new`, `gelu_pytorch_tanh`, `quick_gelu`, `silu`, `tanh` or `sigmoid`";
                return Err(self.wrong(key, wanted));
            }
        })
    }

    /// An error for a value that can't be had here.
    pub(super) fn refused(&self, key: &str, reason: &str) -> TransformersError {
        let found = self.values.get(key).unwrap_or(&Value::Null);
        TransformersError::Refused {
            key: key.to_owned(),
            found: found.to_string().chars().take(60).collect(),
            reason: reason.to_owned(),
        }
    }
}
