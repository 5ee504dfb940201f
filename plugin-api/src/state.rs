//! A hook's state in checkpoints, and checks of what was restored.
//!
//! A hook names the fields that are its state in its attribute. They are saved by name and restored from it; a field that an
//! older version did not save keeps what [`Hook::new`](crate::Hook::new) has given it:
//!
//! ```
//! use sconce_plugin_api::prelude::*;
//!
//! struct Best {
//!     best: Option<f64>,
//!     log: LogFile,
//! }
//!
//! #[hook(name = "best", about = "Writes each new best loss to a file.", state = [best, log])]
//! impl Hook for Best {
//!     fn new(_config: NoConfig, setup: &Setup<'_>) -> Result<Self> {
//!         Ok(Best { best: None, log: LogFile::new(setup.run_directory().join("best.txt")) })
//!     }
//!
//!     fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
//!         let Some(loss) = task.loss().filter(|loss| self.best.is_none_or(|best| *loss < best)) else {
//!             return Ok(());
//!         };
//!         self.best = Some(loss);
//!         self.log.write(format!("{loss}\n"))
//!     }
//! }
//! # export_plugin!(Best);
//! # fn main() {}
//! ```
//!
//! A field is of any type that `serde` reads and writes, or a [`LogFile`](crate::LogFile), or an `Option` of one.
//!
//! Checkpoints may come from anywhere: a state has the right types, but may contain any numbers, names and lengths.
//! [`state_restored`](crate::Hook::state_restored) refuses what no run saves; the fields then keep their values:
//!
//! ```
//! use sconce_plugin_api::prelude::*;
//!
//! struct Every {
//!     waited: u64,
//!     losses: Vec<f64>,
//! }
//!
//! #[hook(name = "every", about = "Prints the mean of ten losses.", state = [waited, losses])]
//! impl Hook for Every {
//!     fn new(_config: NoConfig, _setup: &Setup<'_>) -> Result<Self> {
//!         Ok(Every { waited: 0, losses: Vec::new() })
//!     }
//!
//!     fn state_restored(&mut self) -> Result<()> {
//!         state::check_count("waited", self.waited)?;
//!         if self.losses.len() > 10 {
//!             bail!("the state has {} losses of at most 10", self.losses.len());
//!         }
//!         Ok(())
//!     }
//! }
//! # let mut every = Every { waited: 3, losses: vec![1.0] };
//! # assert!(every.load_state(br#"{"waited": 9007199254740993}"#).is_err());
//! # assert_eq!((every.waited, every.losses.len()), (3, 1));
//! ```
//!
//! A type whose values have rules of their own may refuse others when it is read:
//! `#[serde(deserialize_with = "state::count")]` for a counter, `#[serde(try_from = "…")]`. A hook that needs more writes
//! [`save_state`](crate::Hook::save_state) and [`load_state`](crate::Hook::load_state) itself, with any bytes.

use std::collections::BTreeMap;

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::{Context, HookError, Result, bail};

/// A field that is part of a hook's state: of any type that `serde` reads and writes, a [`LogFile`](crate::LogFile), or of
/// a type that implements this itself, such as one of which a state holds only a part.
///
/// The parameter keeps these apart and is always inferred: implement `StateField`, without it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be part of a hook's state",
    note = "derive `Serialize` and `Deserialize` for it, or write `save_state` and `load_state`"
)]
pub trait StateField<How = Own> {
    /// What a state holds of it.
    type Saved: DeserializeOwned;

    /// Returns what a state holds of it.
    ///
    /// # Errors
    ///
    /// If that can't be determined, as with a file on a full disk.
    fn save(&mut self) -> Result<impl Serialize>;

    /// Refuses what it can't be restored to. Nothing has been restored yet.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    fn check(&self, saved: &Self::Saved) -> Result<()> {
        let _ = saved;
        Ok(())
    }

    /// Exchanges the field's value and the saved one, before [`Hook::state_restored`](crate::Hook::state_restored): a second
    /// time if that refuses the state. Does nothing for a type that implements this itself.
    #[doc(hidden)]
    fn swap(&mut self, saved: &mut Self::Saved) {
        let _ = saved;
    }

    /// Restores it, after the entire state has been checked.
    ///
    /// # Errors
    ///
    /// If that can't be done, as with a file that is gone.
    fn restore(&mut self, saved: Self::Saved) -> Result<()>;
}

/// A type that implements [`StateField`] itself.
pub struct Own;

#[doc(hidden)]
pub struct Serde;

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned> StateField<Serde> for T {
    type Saved = T;

    fn save(&mut self) -> Result<impl Serialize> {
        Ok(&*self)
    }

    fn swap(&mut self, saved: &mut T) {
        std::mem::swap(self, saved);
    }

    fn restore(&mut self, _replaced: T) -> Result<()> {
        Ok(())
    }
}

#[doc(hidden)]
pub struct Optional;

/// Such a field that the configuration may switch off: a state's is ignored then.
impl<T: StateField> StateField<Optional> for Option<T> {
    type Saved = Option<T::Saved>;

    fn save(&mut self) -> Result<impl Serialize> {
        self.as_mut().map(T::save).transpose()
    }

    fn check(&self, saved: &Self::Saved) -> Result<()> {
        match (self, saved) {
            (Some(field), Some(saved)) => field.check(saved),
            _ => Ok(()),
        }
    }

    fn restore(&mut self, saved: Self::Saved) -> Result<()> {
        match (self, saved) {
            (Some(field), Some(saved)) => field.restore(saved),
            _ => Ok(()),
        }
    }
}

/// A state by the names of its fields: what `#[hook(state = …)]` saves and restores.
#[doc(hidden)]
#[derive(Default)]
pub struct Fields(BTreeMap<String, Box<RawValue>>);

impl Fields {
    /// Adds a field.
    pub fn add<How>(&mut self, name: &str, field: &mut impl StateField<How>) -> Result<()> {
        let json = serde_json::value::to_raw_value(&field.save()?).context(NOT_JSON)?;
        self.0.insert(name.to_owned(), json);
        Ok(())
    }

    /// The state as bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        to_bytes(&self.0)
    }

    /// Reads a state that may have fields of these names.
    pub fn from_bytes(bytes: &[u8], known: &[&str]) -> Result<Fields> {
        if bytes.is_empty() {
            // Saved when the hook had none.
            return Ok(Fields::default());
        }
        let fields: BTreeMap<String, Box<RawValue>> = from_bytes(bytes)?;
        match fields.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) => {
                bail!("the state has {name:?}, which this version of the hook does not know")
            }
            None => Ok(Fields(fields)),
        }
    }

    /// What the state holds of a field, checked; `None` if it does not have it.
    pub fn read<How, F: StateField<How>>(&self, name: &str, field: &F) -> Result<Option<F::Saved>> {
        let Some(json) = self.0.get(name) else {
            return Ok(None);
        };
        let saved = serde_json::from_str(json.get()).map_err(|error| {
            HookError::new(format_args!("the state's `{name}` can't be read: {error}"))
        })?;
        field.check(&saved)?;
        Ok(Some(saved))
    }
}

/// Exchanges a field's value and what a state has of it, if anything.
#[doc(hidden)]
pub fn swap<How, F: StateField<How>>(field: &mut F, saved: &mut Option<F::Saved>) {
    if let Some(saved) = saved {
        field.swap(saved);
    }
}

/// Restores a field from what a state has of it, if anything.
#[doc(hidden)]
pub fn restore<How, F: StateField<How>>(field: &mut F, saved: Option<F::Saved>) -> Result<()> {
    saved.map_or(Ok(()), |saved| field.restore(saved))
}

/// Reads a counter of a state, which is at most [`MOST`]: for `#[serde(deserialize_with = "state::count")]`.
///
/// # Errors
///
/// If it is larger, or not a whole number.
pub fn count<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<u64, D::Error> {
    let count = u64::deserialize(deserializer)?;
    if count > MOST {
        return Err(D::Error::custom(format_args!(
            "{count} is more than a run can count: at most {MOST}"
        )));
    }
    Ok(count)
}

/// Saves an `f64` that may be infinite or NaN by its bits, as JSON has neither: for `#[serde(with = "state::bits")]`.
pub mod bits {
    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes its bits.
    ///
    /// # Errors
    ///
    /// If the format has no whole numbers of 64 bits.
    pub fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(value.to_bits())
    }

    /// Reads it from its bits.
    ///
    /// # Errors
    ///
    /// If there is something else than a whole number of 64 bits.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        u64::deserialize(deserializer).map(f64::from_bits)
    }
}

/// Largest count that a state may contain: 2^53, more than any run reaches.
///
/// Sums of such counts do not overflow, and all of them are exactly representable as `f64`.
pub const MOST: u64 = 1 << 53;

/// Serialises `state` as JSON.
///
/// ```
/// use sconce_plugin_api::state;
///
/// let bytes = state::to_bytes(&("best", 0.25)).unwrap();
/// let (name, loss): (String, f64) = state::from_bytes(&bytes).unwrap();
/// assert_eq!((name.as_str(), loss), ("best", 0.25));
/// ```
///
/// JSON has neither infinity nor NaN: such an `f64` is written as `null` and can't be read back. Store a
/// "best so far" that may still be infinite as an `Option<f64>`.
///
/// # Errors
///
/// If the type contains something that JSON cannot represent, such as a map whose keys are not strings.
pub fn to_bytes<T: Serialize>(state: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(state).context(NOT_JSON)
}

const NOT_JSON: &str = "the state can't be written as JSON";

/// Deserialises a state written by [`to_bytes`].
///
/// Checkpoints may come from anywhere, so a state is untrusted input: it has the right type, but may contain
/// any numbers, names and lengths. Validate these before changing the first field of the hook: counters with
/// [`check_count`], file names with [`path_inside`](crate::path_inside).
///
/// # Errors
///
/// If the bytes are not JSON of this type, e.g. the state of another version or of another hook.
pub fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).context("the state can't be read: it is another version's")
}

/// Checks that a counter from a state is at most [`MOST`], so that counting can continue.
///
/// `name` is the counter's name in the message.
///
/// ```
/// use sconce_plugin_api::state;
///
/// assert!(state::check_count("waited", 3).is_ok());
/// let error = state::check_count("waited", u64::MAX).unwrap_err();
/// assert!(error.message().starts_with("the state's `waited` is 18446744073709551615"));
/// ```
///
/// # Errors
///
/// If it is larger.
#[track_caller]
pub fn check_count(name: &str, count: u64) -> Result<()> {
    if count > MOST {
        bail!("the state's `{name}` is {count}, more than a run can count: at most {MOST}");
    }
    Ok(())
}

/// Checks a square matrix of counts from a state, stored row by row.
///
/// It must have `side` × `side` counts whose sum passes [`check_count`]; `name` is its name in the message.
///
/// ```
/// use sconce_plugin_api::state;
///
/// assert!(state::check_matrix("confusion", 2, &[5, 0, 1, 4]).is_ok());
/// let error = state::check_matrix("confusion", 2, &[5, 0, 1]).unwrap_err();
/// assert!(error.message().starts_with("the state's `confusion` has 3 counts for 2 x 2"));
/// ```
///
/// # Errors
///
/// If it has another number of elements, or the sum is larger than [`MOST`].
#[track_caller]
pub fn check_matrix(name: &str, side: usize, counts: &[u64]) -> Result<()> {
    if side.checked_mul(side) != Some(counts.len()) {
        bail!(
            "the state's `{name}` has {} counts for {side} x {side}",
            counts.len()
        );
    }
    let sum = counts
        .iter()
        .try_fold(0_u64, |sum, count| sum.checked_add(*count));
    check_count(name, sum.unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::{Hook, NoConfig, Setup, hook};

    #[derive(Serialize, Deserialize, Default, Debug, PartialEq)]
    struct Counters {
        #[serde(deserialize_with = "count")]
        waited: u64,
    }

    #[derive(Default, Debug, PartialEq)]
    struct Mine {
        counters: Counters,
        best: Option<f64>,
        other: u8,
    }

    #[hook(name = "mine", about = "Has a state.", state = [counters, best])]
    impl Hook for Mine {
        fn new(_config: NoConfig, _setup: &Setup<'_>) -> Result<Self> {
            Ok(Mine::default())
        }

        fn state_restored(&mut self) -> Result<()> {
            match self.best {
                Some(best) if best < 0.0 => bail!("a loss of {best}"),
                _ => Ok(()),
            }
        }
    }

    #[test]
    fn fields_are_saved_and_restored_by_name() {
        let mut saved = Mine {
            counters: Counters { waited: 3 },
            best: Some(0.1),
            other: 7,
        };
        let bytes = saved.save_state().expect("JSON");
        assert_eq!(bytes, br#"{"best":0.1,"counters":{"waited":3}}"#);
        let mut loaded = Mine::default();
        loaded.load_state(&bytes).expect("its own");
        assert_eq!(loaded, Mine { other: 0, ..saved });
    }

    #[test]
    fn a_state_of_an_older_version_leaves_fields_as_they_are_and_a_strange_one_changes_nothing() {
        let mut mine = Mine {
            best: Some(1.0),
            ..Mine::default()
        };
        mine.load_state(br#"{"counters":{"waited":2}}"#)
            .expect("an older state");
        assert_eq!((mine.counters.waited, mine.best), (2, Some(1.0)));
        mine.load_state(b"").expect("saved when there was none");
        for (state, words) in [
            (&br#"{"bst":1}"#[..], "\"bst\", which this version"),
            (
                br#"{"best":0.5,"counters":{"waited":9007199254740993}}"#,
                "the state's `counters`",
            ),
            (br#"{"best":0.5,"counters":[]}"#, "the state's `counters`"),
            (br#"{"best":-1,"counters":{"waited":5}}"#, "a loss of -1"),
            (b"[]", "can't be read"),
        ] {
            let error = mine.load_state(state).expect_err(words);
            assert!(error.message().contains(words), "{}", error.message());
            assert_eq!((mine.counters.waited, mine.best), (2, Some(1.0)));
        }
    }
}
