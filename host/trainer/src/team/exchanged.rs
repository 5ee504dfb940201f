//! What batch norms and hooks exchange with their counterparts on other ranks.

use candle_core::{Error, Result};

use super::{Purpose, Said, Team, TeamError};
use crate::bridge::RanksView;
use crate::nn::ops::AcrossRanks;

impl AcrossRanks for Team {
    fn size(&self) -> usize {
        Team::size(self)
    }

    fn gather(&self, own: &[f64], all: &mut [f64]) -> Result<()> {
        let said = Said {
            mark: own.len() as u64,
            bytes: bytemuck::cast_slice(own),
            ..Said::default()
        };
        let heard = self.hear(Purpose::Statistics, said).map_err(Error::wrap)?;
        let parts = all.chunks_exact_mut(own.len().max(1));
        for (rank, part) in parts.enumerate() {
            // The lengths are equal: they are the mark.
            let numbers = heard.of(rank).as_chunks::<8>().0;
            for (number, bytes) in part.iter_mut().zip(numbers) {
                *number = f64::from_le_bytes(*bytes);
            }
        }
        Ok(())
    }
}

impl RanksView for Team {
    fn rank(&self) -> usize {
        Team::rank(self)
    }

    fn size(&self) -> usize {
        Team::size(self)
    }

    fn is_repeated(&self) -> bool {
        Team::is_repeated(self)
    }

    fn gather(&self, hook: &str, own: &[u8]) -> std::result::Result<Vec<u8>, String> {
        let name = hook.bytes().fold(0_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let said = Said {
            mark: name ^ own.len() as u64,
            bytes: own,
            ..Said::default()
        };
        let heard = self.hear(Purpose::Hook, said);
        let heard = heard.map_err(|error| match error {
            TeamError::Apart(message) => format!(
                "{message} (`{hook}` gathers here alone: it may have failed elsewhere, or be off there)"
            ),
            error => error.to_string(),
        })?;
        Ok((0..Team::size(self))
            .flat_map(|rank| heard.of(rank).to_vec())
            .collect())
    }
}
