//! Checks that all ranks have the same parameters.
//!
//! They drift apart if a hook changes parameters or gradients on one rank alone, or differently on each.

use candle_core::{CpuStorage, Storage, Tensor};
use sconce_lifecycle::Position;
use sconce_ops::device::copy_to_host;

use super::state::Ranks;
use crate::parameters::{Parameter, Parameters};
use crate::run::RunError;
use crate::run::weights::sets::Sets;
use crate::team::{Purpose, Said, TeamError};

impl Ranks {
    /// Whether it is time to compare the parameters of all ranks.
    pub(in crate::run) fn checks_parameters(&self, update: u64) -> bool {
        let every = self.config.check_every;
        every != 0 && update.is_multiple_of(every) && update != self.checked
    }

    /// Compares the parameters of all ranks, which must be at the same place of the run. Nothing is written without this
    /// check: what is kept is what every rank has.
    pub(in crate::run) fn expect_same_parameters(
        &mut self,
        parameters: &Parameters,
        sets: &Sets,
        position: &Position,
    ) -> Result<(), RunError> {
        let update = position.update;
        let since = std::mem::replace(&mut self.checked, update);
        let swapped = sets.swapped.as_ref();
        let print = |entry: &Parameter| {
            let real = swapped.and_then(|swapped| swapped.real(entry.name()));
            Ok(fingerprint(&copy_to_host(
                real.unwrap_or_else(|| entry.tensor()),
            )?))
        };
        let prints: Vec<u64> = (parameters.iter().map(print))
            .collect::<candle_core::Result<_>>()
            .map_err(|error| RunError::task("comparing parameters", position, error))?;
        let whole = prints
            .iter()
            .fold(0_u64, |all, print| all.rotate_left(5) ^ mixed(*print));
        let said = Said {
            number: whole,
            ..Said::default()
        };
        let heard = self.team.hear(Purpose::Check, said)?;
        if heard.different().next().is_none() {
            return Ok(());
        }
        let bytes: Vec<u8> = prints
            .iter()
            .flat_map(|print| print.to_le_bytes())
            .collect();
        let said = Said {
            bytes: &bytes,
            ..Said::default()
        };
        let heard = self.team.hear(Purpose::Check, said)?;
        let first = heard.of(0);
        for rank in 1..self.team.size() {
            let pairs = first.chunks_exact(8).zip(heard.of(rank).chunks_exact(8));
            let mut compared = pairs.zip(parameters.iter());
            if let Some((_, parameter)) = compared.find(|((first, other), _)| first != other) {
                return Err(RunError::from(TeamError::Apart(format!(
                    "the ranks have drifted apart: `{}` on {} is not that of {}, {}: a hook changes it on one rank \
                     alone, or differently on each",
                    parameter.name(),
                    self.team.name_of(rank),
                    self.team.name_of(0),
                    when(since, update),
                ))));
            }
        }
        Ok(())
    }
}

/// When parameters came to differ that were the same after the update `since`.
fn when(since: u64, update: u64) -> String {
    if since == update {
        format!("after update {update}")
    } else {
        format!("between updates {since} and {update}")
    }
}

/// A number that is the same for the same elements in host memory, and for others nearly never.
fn fingerprint(tensor: &Tensor) -> u64 {
    let (storage, layout) = tensor.storage_and_layout();
    let (Storage::Cpu(storage), Some((start, end))) = (&*storage, layout.contiguous_offsets())
    else {
        return 0;
    };
    let bytes = match storage {
        CpuStorage::F32(numbers) => numbers.get(start..end).map(bytemuck::cast_slice),
        CpuStorage::F64(numbers) => numbers.get(start..end).map(bytemuck::cast_slice),
        CpuStorage::U8(numbers) => numbers.get(start..end),
        CpuStorage::U32(numbers) => numbers.get(start..end).map(bytemuck::cast_slice),
        CpuStorage::I64(numbers) => numbers.get(start..end).map(bytemuck::cast_slice),
        _ => None,
    };
    hash(bytes.unwrap_or_default())
}

/// Four chains of words side by side, so that it is as fast as memory.
fn hash(bytes: &[u8]) -> u64 {
    let mut lanes = [1_u64, 2, 3, 4];
    let (blocks, rest) = bytes.as_chunks::<32>();
    for block in blocks {
        for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<8>().0) {
            *lane = mixed(*lane ^ u64::from_le_bytes(*word));
        }
    }
    let mut hash = lanes
        .iter()
        .fold(bytes.len() as u64, |hash, lane| mixed(hash ^ lane));
    for byte in rest {
        hash = mixed(hash ^ u64::from(*byte));
    }
    hash
}

/// Spreads a change of any bit, without losing any: multiplication by an odd number and a rotation.
fn mixed(word: u64) -> u64 {
    word.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_changes_the_hash() {
        let bytes: Vec<u8> = (0..77_u8).collect();
        let plain = hash(&bytes);
        for index in 0..bytes.len() {
            for bit in 0..8 {
                let mut other = bytes.clone();
                other[index] ^= 1 << bit;
                assert_ne!(hash(&other), plain, "byte {index}, bit {bit}");
            }
        }
        assert_ne!(hash(&bytes[..76]), plain);
    }
}
