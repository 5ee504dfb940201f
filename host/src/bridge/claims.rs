//! `sconce.claims/1`: what only one hook of a run can have.

use std::cell::RefCell;
use std::ffi::c_void;

use sconce_plugin_api::abi::{ErrorAbi, Status, TextAbi};
use sconce_plugin_api::ext::{ClaimsTable, check_name};

use super::{refuse, shared};

pub(super) static TABLE: ClaimsTable = ClaimsTable { claim };

/// What hooks have claimed, and the names of their entries.
#[derive(Debug, Default)]
pub(super) struct Claims(RefCell<Vec<(String, String)>>);

impl Claims {
    /// A hook claims something; the error names the hook that has it.
    fn add(&self, what: &str, hook: String) -> Result<(), String> {
        check_name("a claim", what)?;
        let mut claims = self.0.borrow_mut();
        match claims.iter().find(|(known, _)| known == what) {
            Some((_, owner)) if *owner != hook => Err(format!(
                "the hooks `{owner}` and `{hook}` both want {what}, which only one can have"
            )),
            Some(_) => Ok(()),
            None => {
                claims.push((what.to_owned(), hook));
                Ok(())
            }
        }
    }
}

unsafe extern "C" fn claim(context: *const c_void, what: TextAbi, error: *mut ErrorAbi) -> u32 {
    // SAFETY: the context is the one that the host handed out for this call, in which text and error are
    // borrowed.
    unsafe {
        let (Some(shared), Some(what)) = (shared(context), what.read()) else {
            return Status::INVALID.0;
        };
        match shared.claims.add(what, shared.hook_name()) {
            Ok(()) => Status::OK.0,
            Err(message) => refuse(error, Status::INVALID, &message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_hook_has_another_cant_claim() {
        let claims = Claims::default();
        let claim = |what: &str, hook: &str| claims.add(what, hook.to_owned());
        assert_eq!(claim("the place", "a"), Ok(()));
        assert_eq!(claim("the place", "a"), Ok(()), "it has it already");
        assert_eq!(claim("another place", "b"), Ok(()));
        let error = claim("the place", "b").expect_err("it is taken");
        assert!(error.contains("`a` and `b` both want the place"), "{error}");
        assert!(claim("", "b").is_err());
    }
}
