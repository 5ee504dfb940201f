//! The ranks of a scripted run, as the hook sees them.

use std::rc::Rc;

/// Answers a hook that gathers: from its own bytes to those of all ranks.
pub(super) type Gather = Rc<dyn Fn(&[u8]) -> Result<Vec<u8>, String>>;

/// The ranks of a scripted run.
#[derive(Clone)]
pub(super) struct FakeRanks {
    pub(super) rank: usize,
    pub(super) size: usize,
    pub(super) gather: Gather,
    pub(super) repeats: Rc<dyn Fn(u64) -> bool>,
}

impl Default for FakeRanks {
    fn default() -> Self {
        FakeRanks {
            rank: 0,
            size: 1,
            gather: Rc::new(|own| Ok(own.to_vec())),
            repeats: Rc::new(|_| false),
        }
    }
}

impl FakeRanks {
    /// Every rank's bytes, one after the other.
    pub(super) fn gather(&self, own: &[u8]) -> Result<Vec<u8>, String> {
        let all = (self.gather)(own)?;
        let expected = own.len() * self.size;
        if all.len() == expected {
            return Ok(all);
        }
        Err(format!(
            "the script gathers {} bytes where {} ranks with {} bytes each have {expected}",
            all.len(),
            self.size,
            own.len()
        ))
    }

    /// Whether the batch of this iteration repeats one of rank 0.
    pub(super) fn repeats(&self, iteration: u64) -> bool {
        (self.repeats)(iteration)
    }
}
