//! What every synchronisation begins with: where each rank is, and how much it has to say.
//!
//! Headers have one size, so that a rank that has failed can take part in any synchronisation of the others.

/// Size of a header in bytes.
pub(super) const SIZE: usize = 32;

/// What ranks synchronise for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Purpose {
    /// A rank has failed: its message follows.
    Failure = 0,
    /// The start: facts that must be equal.
    Start = 1,
    /// Results of an update's batches.
    Update = 2,
    /// What is due before the step of an update.
    Step = 3,
    /// Requests, stops and signals.
    Vote = 4,
    /// Settings that a rank's hooks have changed.
    Settings = 5,
    /// Hook states, for a checkpoint.
    States = 6,
    /// What the first rank has read or written.
    First = 7,
    /// Results of an evaluation's batches.
    Evaluation = 8,
    /// Bytes of a hook.
    Hook = 9,
    /// Statistics of a batch norm.
    Statistics = 10,
    /// Whether all have the same parameters.
    Check = 11,
    /// The end of the run.
    End = 12,
}

impl Purpose {
    const ALL: [Purpose; 13] = [
        Purpose::Failure,
        Purpose::Start,
        Purpose::Update,
        Purpose::Step,
        Purpose::Vote,
        Purpose::Settings,
        Purpose::States,
        Purpose::First,
        Purpose::Evaluation,
        Purpose::Hook,
        Purpose::Statistics,
        Purpose::Check,
        Purpose::End,
    ];

    /// What a rank is doing, for messages.
    pub(super) fn doing(self) -> &'static str {
        match self {
            Purpose::Failure => "ending after an error",
            Purpose::Start => "starting",
            Purpose::Update => "summing the gradients of an update",
            Purpose::Step => "stepping",
            Purpose::Vote => "serving requests",
            Purpose::Settings => "sharing settings",
            Purpose::States => "saving a checkpoint",
            Purpose::First => "waiting for the first rank's files",
            Purpose::Evaluation => "evaluating",
            Purpose::Hook => "gathering a hook's bytes",
            Purpose::Statistics => "in a batch norm",
            Purpose::Check => "comparing parameters",
            Purpose::End => "at the end",
        }
    }
}

/// Where a rank is, and how much it has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) purpose: Purpose,
    /// Flags of the rank, whose meaning depends on the purpose.
    pub(super) flags: u16,
    /// Length in bytes of what the rank has to say.
    pub(super) length: u64,
    /// What must be equal on all ranks that are at the same place, such as the number of the update.
    pub(super) mark: u64,
    /// A number of the rank, whose meaning depends on the purpose.
    pub(super) number: u64,
}

impl Header {
    pub(super) fn bytes(self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        bytes[0] = self.purpose as u8;
        bytes[2..4].copy_from_slice(&self.flags.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.length.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.mark.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }

    pub(super) fn read(bytes: &[u8; SIZE]) -> Option<Header> {
        let purpose = Purpose::ALL.get(usize::from(bytes[0]))?;
        let number = |part: &[u8]| Some(u64::from_le_bytes(part.try_into().ok()?));
        Some(Header {
            purpose: *purpose,
            flags: u16::from_le_bytes([bytes[2], bytes[3]]),
            length: number(&bytes[8..16])?,
            mark: number(&bytes[16..24])?,
            number: number(&bytes[24..32])?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_they_were_written() {
        for (index, purpose) in Purpose::ALL.into_iter().enumerate() {
            assert_eq!(purpose as usize, index);
            let header = Header {
                purpose,
                flags: 0x1234,
                length: 1 << 40,
                mark: u64::MAX,
                number: 7,
            };
            assert_eq!(Header::read(&header.bytes()), Some(header));
        }
        assert_eq!(Header::read(&[200; SIZE]), None);
    }
}
