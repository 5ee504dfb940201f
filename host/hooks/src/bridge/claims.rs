//! Exclusive claims: what only one hook of a run can have.

use std::cell::RefCell;

use sconce_plugin_api::ext::check_name;

/// What hooks have claimed, each with the claiming hook's name.
#[derive(Debug, Default)]
pub(super) struct Claims(RefCell<Vec<(String, String)>>);

impl Claims {
    /// Records a hook's claim; returns whether it is new. The error names the hook that already has it.
    pub(super) fn add(&self, what: &str, hook: String) -> Result<bool, String> {
        check_name("a claim", what)?;
        let mut claims = self.0.borrow_mut();
        match claims.iter().find(|(known, _)| known == what) {
            Some((_, owner)) if *owner != hook => Err(format!(
                "the hooks `{owner}` and `{hook}` both want {what}, which only one can have"
            )),
            Some(_) => Ok(false),
            None => {
                claims.push((what.to_owned(), hook));
                Ok(true)
            }
        }
    }

    /// Takes the last claim back.
    pub(super) fn take_back(&self) {
        self.0.borrow_mut().pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_hook_has_another_cant_claim() {
        let claims = Claims::default();
        let claim = |what: &str, hook: &str| claims.add(what, hook.to_owned());
        assert_eq!(claim("the place", "a"), Ok(true));
        assert_eq!(claim("the place", "a"), Ok(false), "it has it already");
        assert_eq!(claim("another place", "b"), Ok(true));
        let error = claim("the place", "b").expect_err("it is taken");
        assert!(error.contains("`a` and `b` both want the place"), "{error}");
        assert!(claim("", "b").is_err());
    }
}
