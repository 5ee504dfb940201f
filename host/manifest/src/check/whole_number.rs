//! Range checks of integers: JSON Schema accepts `3.0`, and integers that the Rust types can't represent.

use sconce_schema::{Keyword, ValidationError};
use serde_json::{Map, Value};

use super::wording::shortened;

/// The keyword with an integer's type: written by `schemars`, without effect in JSON Schema itself.
pub(super) const KEYWORD: &str = "format";

/// Builds the check of a number against the type that its `format` names.
///
/// # Errors
///
/// None: formats that don't name an integer type are accepted without a check.
#[expect(clippy::unnecessary_wraps, reason = "the crate wants it")]
pub(super) fn keyword<'a>(
    parent: &'a Map<String, Value>,
    format: &'a Value,
) -> Result<Box<dyn for<'i> Keyword<'i>>, ValidationError<'a>> {
    let bounds = format.as_str().and_then(bounds);
    // Violations of the schema's own bounds are reported separately.
    let own = |key: &str| parent.get(key).and_then(Value::as_f64);
    Ok(Box::new(WholeNumber {
        bounds,
        above: own("maximum"),
        below: own("minimum"),
    }))
}

/// Minimum and maximum of a type.
fn bounds(format: &str) -> Option<(i128, i128)> {
    Some(match format {
        "uint8" => (0, i128::from(u8::MAX)),
        "uint16" => (0, i128::from(u16::MAX)),
        "uint32" => (0, i128::from(u32::MAX)),
        "uint64" | "uint" => (0, i128::from(u64::MAX)),
        "int8" => (i128::from(i8::MIN), i128::from(i8::MAX)),
        "int16" => (i128::from(i16::MIN), i128::from(i16::MAX)),
        "int32" => (i128::from(i32::MIN), i128::from(i32::MAX)),
        "int64" | "int" => (i128::from(i64::MIN), i128::from(i64::MAX)),
        _ => return None,
    })
}

struct WholeNumber {
    bounds: Option<(i128, i128)>,
    above: Option<f64>,
    below: Option<f64>,
}

impl WholeNumber {
    fn problem(&self, value: &Value) -> Option<String> {
        let (least, most) = self.bounds?;
        let number = value.as_f64()?;
        // Already reported: outside the schema's bounds, or not an integer at all.
        let is_told = self.above.is_some_and(|most| number > most)
            || self.below.is_some_and(|least| number < least)
            || number.fract() != 0.0;
        if is_told {
            return None;
        }
        let found = shortened(value);
        let exact = value.as_i64().map(i128::from);
        let exact = exact.or_else(|| value.as_u64().map(i128::from));
        #[expect(
            clippy::cast_possible_truncation,
            reason = "clamped, and that is far enough"
        )]
        let whole = exact.unwrap_or(number as i128);
        if whole > most {
            Some(format!("must be at most {most}, found {found}"))
        } else if whole < least {
            Some(format!("must be at least {least}, found {found}"))
        } else {
            exact
                .is_none()
                .then(|| format!("expected a whole number, found {found}; write `{whole}`"))
        }
    }
}

impl<'i> Keyword<'i> for WholeNumber {
    fn validate(&self, value: &'i Value) -> Result<(), ValidationError<'i>> {
        match self.problem(value) {
            Some(message) => Err(ValidationError::custom(message)),
            None => Ok(()),
        }
    }

    fn is_valid(&self, value: &'i Value) -> bool {
        self.problem(value).is_none()
    }
}
