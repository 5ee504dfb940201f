//! The states of a plugin's signature. An altered plugin has none: it is refused.

use std::fmt;

use serde::Serialize;

/// Who has signed a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum SignatureState {
    /// There is no signature.
    #[default]
    Unsigned,
    /// It is signed with a key that is not among the trusted ones. That does not say whether the signature is right.
    UnknownKey {
        /// Id of the key, in hexadecimal digits.
        id: String,
    },
    /// It is signed with a trusted key.
    Trusted {
        /// Name of the key.
        name: String,
        /// What the signer wrote into the signature, such as time and file name.
        comment: String,
    },
}

impl SignatureState {
    /// Whether a trusted key has signed it.
    pub fn is_trusted(&self) -> bool {
        matches!(self, SignatureState::Trusted { .. })
    }

    /// Whether a key of this name has signed it.
    pub fn is_by(&self, signer: &str) -> bool {
        matches!(self, SignatureState::Trusted { name, .. } if name == signer)
    }
}

impl fmt::Display for SignatureState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SignatureState::Unsigned => f.write_str("unsigned"),
            SignatureState::UnknownKey { id } => write!(f, "signed by an unknown key, {id}"),
            SignatureState::Trusted { name, .. } => write!(f, "signed by `{name}`"),
        }
    }
}
