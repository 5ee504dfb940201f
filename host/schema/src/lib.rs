#![doc = include_str!("../README.md")]

use jsonschema::Validator;
pub use jsonschema::error::{TypeKind, ValidationErrorKind};
pub use jsonschema::{Keyword, ValidationError};
use serde_json::{Map, Value};

/// Builds the check of a keyword from the schema that contains it and from the keyword's value.
///
/// # Errors
///
/// If the value is not one for this keyword.
pub type KeywordBuilder = for<'a> fn(
    &'a Map<String, Value>,
    &'a Value,
) -> Result<Box<dyn for<'i> Keyword<'i>>, ValidationError<'a>>;

/// A compiled schema, for checking many values.
#[derive(Debug)]
pub struct CompiledSchema(Box<Validator>);

impl CompiledSchema {
    /// Compiles a schema.
    ///
    /// # Errors
    ///
    /// If it is not a valid schema.
    pub fn new(schema: &Value) -> Result<CompiledSchema, ValidationError<'static>> {
        let validator = jsonschema::validator_for(schema)?;
        Ok(CompiledSchema(Box::new(validator)))
    }

    /// Compiles a schema in which one keyword has a meaning of its own.
    ///
    /// # Errors
    ///
    /// If it is not a valid schema, or the builder refuses a value of the keyword.
    pub fn with_keyword(
        schema: &Value,
        keyword: &str,
        build: KeywordBuilder,
    ) -> Result<CompiledSchema, ValidationError<'static>> {
        let validator = jsonschema::options()
            .with_keyword(keyword, move |parent, value, _| build(parent, value))
            .build(schema)?;
        Ok(CompiledSchema(Box::new(validator)))
    }

    /// Compiles a schema that rejects every text of one format, so that each is reported.
    ///
    /// # Errors
    ///
    /// If it is not a valid schema.
    pub fn rejecting_format(
        schema: &Value,
        format: &str,
    ) -> Result<CompiledSchema, ValidationError<'static>> {
        let validator = jsonschema::options()
            .with_format(format, |_: &str| false)
            .should_validate_formats(true)
            .build(schema)?;
        Ok(CompiledSchema(Box::new(validator)))
    }

    /// Whether the schema accepts a value.
    pub fn accepts(&self, value: &Value) -> bool {
        self.0.is_valid(value)
    }

    /// All that the schema finds wrong with a value; nothing if it accepts it.
    pub fn errors<'i>(&'i self, value: &'i Value) -> Vec<ValidationError<'i>> {
        self.0.iter_errors(value).collect()
    }
}

/// Checks that a value is a JSON Schema, by the schema of schemas that it names.
///
/// # Errors
///
/// If it is not, with the first reason.
pub fn check_schema(schema: &Value) -> Result<(), ValidationError<'_>> {
    jsonschema::meta::validate(schema)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_keyword_of_ones_own_decides() {
        struct Even;
        impl<'i> Keyword<'i> for Even {
            fn validate(&self, value: &'i Value) -> Result<(), ValidationError<'i>> {
                if self.is_valid(value) {
                    Ok(())
                } else {
                    Err(ValidationError::custom("is odd"))
                }
            }

            fn is_valid(&self, value: &'i Value) -> bool {
                value.as_u64().is_none_or(|number| number % 2 == 0)
            }
        }

        let schema = json!({"properties": {"n": {"even": true}}});
        let schema = CompiledSchema::with_keyword(&schema, "even", |_, _| Ok(Box::new(Even)));
        let schema = schema.expect("a schema");
        assert!(schema.accepts(&json!({"n": 2})));
        let odd = json!({"n": 3});
        let errors = schema.errors(&odd);
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].to_string(), "is odd");
        assert_eq!(errors[0].instance_path().as_str(), "/n");
    }

    #[test]
    fn texts_of_a_format_are_found_wherever_they_are() {
        let schema = json!({"type": "array", "items": {"type": "string", "format": "metric"}});
        let schema = CompiledSchema::rejecting_format(&schema, "metric").expect("a schema");
        assert_eq!(schema.errors(&json!(["a", "b"])).len(), 2);
        assert!(schema.accepts(&json!([])));
    }

    #[test]
    fn what_is_not_a_schema_is_an_error() {
        let wrong = json!({"type": "whole"});
        assert!(CompiledSchema::new(&wrong).is_err());
        assert!(check_schema(&wrong).is_err());
        assert!(check_schema(&json!({"type": "integer"})).is_ok());
    }
}
