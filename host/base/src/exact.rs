//! Floating-point values that survive JSON bit for bit.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An `f64` that JSON preserves exactly, including infinities and NaN: it is stored as a string with
/// the shortest decimal that reads back as the same value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Exact(pub f64);

impl Serialize for Exact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:?}", self.0))
    }
}

impl<'de> Deserialize<'de> for Exact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let number = text.parse().map_err(serde::de::Error::custom)?;
        Ok(Exact(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_back_to_the_bit() {
        for number in [
            0.1 + 0.2,
            -0.0,
            f64::MIN_POSITIVE / 3.0,
            f64::MAX,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
        ] {
            let text = serde_json::to_string(&Exact(number)).expect("JSON");
            let back: Exact = serde_json::from_str(&text).expect("a number");
            let same = back.0.to_bits() == number.to_bits() || back.0.is_nan() && number.is_nan();
            assert!(same, "{text}");
        }
        assert!(serde_json::from_str::<Exact>("\"x\"").is_err());
    }
}
