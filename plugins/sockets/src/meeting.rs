//! Where the ranks meet: what `sconce launch` says in the environment of each.

use std::path::PathBuf;

use sconce_plugin_api::{Context, HookError, Result, bail};

use crate::network::Network;

/// Longest token, in bytes.
pub(crate) const TOKEN_LENGTH: usize = 64;

/// The meeting of a rank with all others.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Meeting {
    pub(crate) rank: usize,
    pub(crate) size: usize,
    /// A directory that only these ranks use, with a socket for each.
    pub(crate) directory: PathBuf,
    /// Shown by all ranks of a run to each other.
    pub(crate) token: String,
    pub(crate) network: Network,
}

impl Meeting {
    /// The meeting described by the variables that `look_up` finds.
    pub(crate) fn from_environment(look_up: impl Fn(&str) -> Option<String>) -> Result<Meeting> {
        let text = |name: &str| {
            look_up(name).ok_or_else(|| {
                let problem =
                    "is not set: `sconce launch -n N FILE` starts processes that find each other";
                HookError::new(format_args!("`{name}` {problem}"))
            })
        };
        let number = |name: &str| -> Result<usize> {
            let value = text(name)?;
            let number = value.parse();
            number.context(format_args!("`{name}` is `{value}`"))
        };
        let positive = |name: &str| -> Result<f64> {
            let Some(value) = look_up(name) else {
                return Ok(0.0);
            };
            match value.parse::<f64>() {
                Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
                _ => bail!("`{name}` is `{value}`, not a number from 0 on"),
            }
        };
        let (rank, size) = (number("SCONCE_TEAM_RANK")?, number("SCONCE_TEAM_SIZE")?);
        if rank >= size {
            bail!("there is no rank {rank} of {size}");
        }
        let token = text("SCONCE_TEAM_TOKEN")?;
        if token.len() > TOKEN_LENGTH {
            bail!("`SCONCE_TEAM_TOKEN` is longer than {TOKEN_LENGTH} bytes");
        }
        Ok(Meeting {
            rank,
            size,
            directory: text("SCONCE_TEAM_DIR")?.into(),
            token,
            network: Network::new(
                positive("SCONCE_TEAM_LATENCY")?,
                positive("SCONCE_TEAM_BANDWIDTH")?,
            ),
        })
    }

    /// The socket that a rank listens at.
    pub(crate) fn socket_of(&self, rank: usize) -> PathBuf {
        self.directory.join(rank.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_says_who_meets_where() {
        let set = |changed: &str, value: Option<&str>| {
            let (changed, value) = (changed.to_owned(), value.map(str::to_owned));
            Meeting::from_environment(move |name| {
                if name == changed {
                    return value.clone();
                }
                let known = match name {
                    "SCONCE_TEAM_RANK" => "1",
                    "SCONCE_TEAM_SIZE" => "3",
                    "SCONCE_TEAM_DIR" => "/there",
                    "SCONCE_TEAM_TOKEN" => "secret",
                    _ => return None,
                };
                Some(known.to_owned())
            })
        };
        let meeting = set("", None).expect("complete");
        assert_eq!((meeting.rank, meeting.size), (1, 3));
        assert_eq!(meeting.socket_of(2), PathBuf::from("/there/2"));
        assert_eq!(meeting.network, Network::new(0.0, 0.0));
        let slow = set("SCONCE_TEAM_LATENCY", Some("50")).expect("a network");
        assert_eq!(slow.network, Network::new(50.0, 0.0));
        for (name, value, words) in [
            ("SCONCE_TEAM_DIR", None, "`SCONCE_TEAM_DIR` is not set"),
            ("SCONCE_TEAM_RANK", Some("x"), "`SCONCE_TEAM_RANK` is `x`"),
            ("SCONCE_TEAM_RANK", Some("3"), "no rank 3 of 3"),
            ("SCONCE_TEAM_BANDWIDTH", Some("-1"), "not a number from 0"),
        ] {
            let error = set(name, value).expect_err(name).to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
