//! The GPUs of all ranks, connected by NCCL, where that is possible for every one of them.
//!
//! **Flow.** [`connect`] has each rank say whether it could, and on which GPU. If all can, each on a GPU of its own, the first
//! gives NCCL's identifier to the others by the run's transport, and all connect; then each says whether it has. So all ranks
//! come to the same result, and none waits for a rank that is known not to come. Where NCCL itself fails on one rank, it may keep
//! the others waiting, within the time limit.

use std::time::Duration;

use candle_core::Device;
use sconce_ops::device::nccl::{self, Communicator, NcclError, UniqueId};
use serde::{Deserialize, Serialize};

use super::transport::waiting::Waiting;
use super::{Purpose, Said, Team, TeamError};

/// The GPUs of all ranks, connected.
#[derive(Debug)]
pub struct Gpus {
    communicator: Communicator,
    version: String,
    waiting: Waiting,
}

/// What a rank can say of its GPU: the driver's number of it and NCCL's version, or why it can't be connected.
type Ability = Result<([u8; 16], String), String>;

/// Whether a rank is connected.
#[derive(Debug, Serialize, Deserialize)]
struct Attempt(Result<(), String>);

/// Connects the GPUs of all ranks, this one's being `device`; or the reason why that is not possible, with the rank's name, which
/// is the same on all ranks.
///
/// # Errors
///
/// If a rank has failed or is gone.
pub fn connect(
    team: &Team,
    device: &Device,
    timeout: Duration,
) -> Result<Result<Gpus, String>, TeamError> {
    let own = ability(device);
    let said = postcard::to_allocvec(&own).unwrap_or_default();
    let heard = hear(team, &said)?;
    let all: Vec<Ability> = (0..team.size())
        .map(|rank| {
            let read = postcard::from_bytes(heard.of(rank));
            read.unwrap_or_else(|error| Err(format!("it can't be understood: {error}")))
        })
        .collect();
    if let Some(obstacle) = obstacle(team, &all) {
        return Ok(Err(obstacle));
    }
    let waiting = Waiting::start(team.name_of(team.rank()), timeout);
    let id = team.from_first(|| {
        let made = UniqueId::new().map(|id| id.bytes().to_vec());
        let made = made.map_err(|error| error.to_string());
        postcard::to_allocvec(&made).unwrap_or_default()
    })?;
    let connected = match read_id(&id) {
        Ok(id) => {
            let called = waiting.during(|| {
                let (rank, size) = (team.rank(), team.size());
                Communicator::connect(device, &id, rank, size)
            });
            called.result.map_err(|error| error.to_string())
        }
        Err(problem) => Err(problem),
    };
    let attempt = Attempt(connected.as_ref().map(|_| ()).map_err(String::clone));
    let said = postcard::to_allocvec(&attempt).unwrap_or_default();
    let heard = hear(team, &said)?;
    for rank in 0..team.size() {
        let attempt = postcard::from_bytes::<Attempt>(heard.of(rank));
        let attempt = attempt.map_or_else(|error| Err(error.to_string()), |Attempt(it)| it);
        if let Err(problem) = attempt {
            return Ok(Err(format!("{}: {problem}", team.name_of(rank))));
        }
    }
    Ok(connected.map(|communicator| Gpus {
        communicator,
        version: own.map(|(_, version)| version).unwrap_or_default(),
        waiting,
    }))
}

fn ability(device: &Device) -> Ability {
    let version = nccl::version(device).map_err(|error| error.to_string())?;
    let id = nccl::gpu_id(device).ok_or("the driver does not say which GPU it is")?;
    Ok((id, version))
}

fn hear(team: &Team, bytes: &[u8]) -> Result<super::Heard, TeamError> {
    let said = Said {
        bytes,
        ..Said::default()
    };
    team.hear(Purpose::Start, said)
}

/// The identifier that the first rank has made, or its error.
fn read_id(bytes: &[u8]) -> Result<UniqueId, String> {
    let made = postcard::from_bytes::<Result<Vec<u8>, String>>(bytes);
    let bytes = made.map_err(|error| error.to_string())??;
    UniqueId::from_bytes(&bytes).ok_or_else(|| "NCCL's identifier has another size".to_owned())
}

/// The first rank that can't be connected, and why.
fn obstacle(team: &Team, all: &[Ability]) -> Option<String> {
    let mut first = None;
    for (rank, ability) in all.iter().enumerate() {
        let (own, version) = match ability {
            Ok(able) => able,
            Err(reason) => return Some(format!("{}: {reason}", team.name_of(rank))),
        };
        let first = *first.get_or_insert(version);
        if version != first {
            return Some(format!(
                "{} has NCCL {version}, {} has {first}: all need the same",
                team.name_of(rank),
                team.name_of(0)
            ));
        }
        let is_same = |other: &usize| {
            let of_other = all.get(*other).and_then(|ability| ability.as_ref().ok());
            team.host(*other) == team.host(rank) && of_other.is_some_and(|(id, _)| id == own)
        };
        if let Some(other) = (0..rank).find(is_same) {
            return Some(format!(
                "{} computes on the same GPU as {}; with `\"device\": \"cuda\"` each rank takes its own",
                team.name_of(rank),
                team.name_of(other)
            ));
        }
    }
    None
}

impl Gpus {
    /// Version of NCCL, such as `2.28.9`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Makes exchanges of all ranks within the time limit for waiting for others. If they fail, this rank's connections to all
    /// others end: what has not been exchanged never is.
    pub(super) fn during<E>(
        &mut self,
        team: &Team,
        exchanges: impl FnOnce(&Communicator) -> Result<(), E>,
    ) -> Result<(), E> {
        let communicator = &self.communicator;
        let done = self.waiting.during(|| exchanges(communicator)).result;
        if done.is_err() {
            self.communicator.abort();
            team.give_up();
        }
        done
    }
}

/// An error of NCCL in mid-run.
pub(super) fn failed(team: &Team, error: &NcclError) -> TeamError {
    TeamError::Gpus {
        rank: team.name_of(team.rank()),
        problem: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::team::threads::on_ranks;

    #[test]
    fn ranks_without_gpus_agree_on_the_reason() {
        let all = on_ranks(2, |team| {
            let connected = connect(&team, &Device::Cpu, Duration::from_secs(60));
            connected.map(Result::err)
        });
        for found in all {
            let reason = "rank 0 (node0): it computes on the CPU".to_owned();
            assert_eq!(found, Ok(Some(reason)));
        }
    }

    #[test]
    fn all_ranks_have_the_same_version() {
        let found = on_ranks(2, |team| {
            let of = |version: &str, gpu| Ok(([gpu; 16], version.to_owned()));
            obstacle(&team, &[of("2.28.9", 0), of("2.27.3", 1)])
        });
        let other = "rank 1 (node0) has NCCL 2.27.3, rank 0 (node0) has 2.28.9: all need the same";
        assert_eq!(found[0].as_deref(), Some(other));
    }

    #[test]
    fn two_ranks_of_a_machine_have_two_gpus() {
        let found = on_ranks(4, |team| {
            let of = |gpus: [u8; 4]| {
                let all = gpus.map(|gpu| Ok(([gpu; 16], "2.28.9".to_owned())));
                obstacle(&team, &all)
            };
            // Two ranks on each machine; the driver's numbers are those of one machine.
            (of([0, 1, 0, 1]), of([0, 1, 2, 2]))
        });
        let same = "rank 3 (node1) computes on the same GPU as rank 2 (node1); with `\"device\": \"cuda\"` each rank takes its own";
        assert_eq!(found[0], (None, Some(same.to_owned())));
    }
}
