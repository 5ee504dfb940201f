//! Answers that are given in advance: to what a hook asked at a mount point the last time.

use std::collections::BTreeMap;

use super::super::message::{Ask, MOST_PREFETCHED};

/// The longest question that is kept, in bytes: names are short, and a process may ask for anything.
const LONGEST: usize = 1024;

/// Questions of a hook, by mount point and phase.
#[derive(Debug, Default)]
pub(super) struct Prefetched {
    known: BTreeMap<(u32, u32), Vec<Box<[u8]>>>,
    /// Questions of the call in progress that were not foreseen.
    new: Vec<Box<[u8]>>,
    /// Whether something in the call has changed what others answer.
    is_changed: bool,
}

impl Prefetched {
    /// The questions to answer at a mount point, as messages.
    pub(super) fn at(&self, place: (u32, u32)) -> &[Box<[u8]>] {
        self.known.get(&place).map_or(&[], Vec::as_slice)
    }

    /// Begins a call.
    pub(super) fn begin(&mut self) {
        self.new.clear();
        self.is_changed = false;
    }

    /// Notes what the hook asks in the call.
    pub(super) fn note(&mut self, ask: &Ask<'_>) {
        if ask.has_effect() {
            self.is_changed = true;
        } else if ask.can_be_prefetched()
            && !self.is_changed
            && self.new.len() < MOST_PREFETCHED
            && let Ok(question) = postcard::to_allocvec(ask)
            && question.len() <= LONGEST
        {
            self.new.push(question.into());
        }
    }

    /// Ends a call, in which the prefetched answers of the set were used.
    pub(super) fn end(&mut self, place: (u32, u32), used: u64) {
        let all = |count: usize| {
            1_u64
                .checked_shl(count as u32)
                .map_or(u64::MAX, |bit| bit - 1)
        };
        let known = self.known.get(&place).map_or(0, Vec::len);
        if self.new.is_empty() && used & all(known) == all(known) {
            return;
        }
        let questions = self.known.entry(place).or_default();
        let mut number = 0;
        questions.retain(|_| {
            number += 1;
            used & (1 << (number - 1)) != 0
        });
        let room = MOST_PREFETCHED.saturating_sub(questions.len());
        questions.extend(self.new.drain(..).take(room));
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_api::ext::{HostCall, MetricsCall, RunCall, TaskCall};

    use super::*;

    const fn metrics(call: MetricsCall<'_>) -> Ask<'_> {
        Ask::Host(HostCall::Metrics(call))
    }

    const ELAPSED: Ask<'_> = Ask::Host(HostCall::Run(RunCall::ElapsedSeconds {}));

    #[test]
    fn what_was_asked_is_given_and_what_was_not_used_no_longer() {
        let mut prefetched = Prefetched::default();
        let place = (8, 0);
        prefetched.begin();
        prefetched.note(&metrics(MetricsCall::Count { phase: 0 }));
        prefetched.note(&Ask::Host(HostCall::Task(TaskCall::Facts {})));
        prefetched.note(&ELAPSED);
        prefetched.note(&metrics(MetricsCall::Publish {
            name: "a",
            value: 1.0,
        }));
        prefetched.note(&Ask::Host(HostCall::Task(TaskCall::GroupCount {})));
        prefetched.end(place, 0);
        assert_eq!(
            prefetched.at(place).len(),
            2,
            "facts are kept by the child, and groups may change"
        );
        assert!(prefetched.at((8, 1)).is_empty());
        prefetched.begin();
        prefetched.end(place, 0b10);
        let left = prefetched
            .at(place)
            .first()
            .map(|question| postcard::from_bytes(question));
        assert_eq!(left, Some(Ok(ELAPSED)));
        let name = "m".repeat(2 * LONGEST);
        prefetched.note(&metrics(MetricsCall::Get {
            phase: 0,
            name: &name,
        }));
        prefetched.end(place, 1);
        assert_eq!(prefetched.at(place).len(), 1, "a long question is not kept");
        for index in 0..100 {
            prefetched.note(&metrics(MetricsCall::AtIndex { phase: 0, index }));
        }
        prefetched.end(place, 1);
        assert_eq!(prefetched.at(place).len(), MOST_PREFETCHED);
        prefetched.begin();
        prefetched.end(place, u64::MAX);
        assert_eq!(prefetched.at(place).len(), MOST_PREFETCHED);
    }
}
