//! `sconce.ranks/1`.

use sconce_plugin_api::abi::Status;
use sconce_plugin_api::ext::{Ranks, Refusal, why_no_gather_at, why_not_on_first};

use crate::bridge::shared::BridgeState;

impl Ranks for BridgeState<'_> {
    fn rank(&self) -> u32 {
        in_32_bits(self.ranks().rank())
    }

    fn size(&self) -> u32 {
        in_32_bits(self.ranks().size())
    }

    fn is_repeated(&self) -> bool {
        self.ranks().is_repeated()
    }

    fn gather(&self, own: &[u8], all: &mut [u8]) -> Result<(), Refusal> {
        if let Some(message) = why_not(self) {
            return Err(Refusal::new(Status::NOT_LEGAL_HERE, message));
        }
        let ranks = self.ranks().size();
        if Some(all.len()) != own.len().checked_mul(ranks) {
            return Err(Refusal::invalid(format!(
                "there is room for {} bytes, but {ranks} ranks gather {} each",
                all.len(),
                own.len()
            )));
        }
        let bytes = gathered(self, own).map_err(|message| Refusal::new(Status::ERROR, message))?;
        all.copy_from_slice(&bytes);
        Ok(())
    }
}

/// Why the current hook may not gather now; `None` if it may.
fn why_not(shared: &BridgeState<'_>) -> Option<String> {
    if shared.is_on_first_of_several() {
        return Some(why_not_on_first(&shared.hook_name()));
    }
    if let Some(message) = why_no_gather_at(shared.point(), shared.phase()) {
        return Some(message);
    }
    (shared.ranks().size() > 1 && shared.is_reinstating()).then(|| {
        format!(
            "the hook `{}` is put in place on this rank alone: at its beginning in mid-run it can't gather",
            shared.hook_name()
        )
    })
}

/// Every rank's bytes, of which there are as many as `own` for each.
fn gathered(shared: &BridgeState<'_>, own: &[u8]) -> Result<Vec<u8>, String> {
    let ranks = shared.ranks();
    // Waiting for other ranks is not the hook's own time, for which the watchdog has limits.
    shared.trail.end();
    if ranks.size() > 1 {
        shared.journal.note_gathering();
    }
    let gathered = ranks.gather(&shared.hook_name(), own);
    if let Some(hook) = shared.hook() {
        shared.trail.begin(hook);
    }
    let bytes = gathered?;
    if Some(bytes.len()) == own.len().checked_mul(ranks.size()) {
        return Ok(bytes);
    }
    Err("the ranks exchanged an unexpected number of bytes".to_owned())
}

fn in_32_bits(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use sconce_plugin_api::ext::{Collection, why_not_changed_on_first};
    use sconce_plugin_api::metadata::HookRanks;
    use sconce_plugin_api::{Phase, Point};

    use super::*;
    use crate::bridge::RanksView;
    use crate::log::{Level, Log};

    struct Silent;

    impl Log for Silent {
        fn log(&self, _level: Level, _source: &str, _message: &str) {}
    }

    /// The second of three ranks, whose first and third have zeros.
    #[derive(Debug)]
    struct SecondOfThree;

    impl RanksView for SecondOfThree {
        fn rank(&self) -> usize {
            1
        }

        fn size(&self) -> usize {
            3
        }

        fn gather(&self, hook: &str, own: &[u8]) -> Result<Vec<u8>, String> {
            let zeros = vec![0; own.len()];
            match hook {
                "short" => Ok(zeros),
                "failing" => Err("rank 2 has failed".to_owned()),
                _ => Ok([&zeros, own, &zeros].concat()),
            }
        }
    }

    fn call(shared: &BridgeState<'_>, own: &[u8]) -> Result<Vec<u8>, String> {
        let mut all = vec![9; own.len() * shared.ranks().size()];
        match shared.gather(own, &mut all) {
            Ok(()) => Ok(all),
            Err(refusal) => Err(refusal.message),
        }
    }

    fn refusal(shared: &BridgeState<'_>) -> String {
        call(shared, &[1]).expect_err("it is refused")
    }

    #[test]
    fn a_process_alone_is_the_only_rank() {
        let shared = BridgeState::new(&Silent);
        shared.register("mine");
        shared.enter(Some(Point::AfterEpoch), Phase::Train);
        assert_eq!(
            (shared.rank(), shared.size(), shared.is_repeated()),
            (0, 1, false)
        );
        assert_eq!(call(&shared, &[1, 2]), Ok(vec![1, 2]));
        let narrow = shared.gather(&[1, 2], &mut [0]);
        let message = "there is room for 1 bytes, but 1 ranks gather 2 each";
        assert_eq!(narrow, Err(Refusal::invalid(message)));
    }

    #[test]
    fn hooks_on_all_ranks_gather_where_ranks_meet() {
        let shared = BridgeState::new(&Silent).with_ranks(&SecondOfThree);
        shared.register_on("mine", HookRanks::All);
        let at_creation = refusal(&shared);
        assert!(at_creation.contains("at creation"), "{at_creation}");
        shared.enter(Some(Point::AfterUpdate), Phase::Train);
        assert_eq!(call(&shared, &[1, 2]), Ok(vec![0, 0, 1, 2, 0, 0]));
        assert_eq!(call(&shared, &[]), Ok(vec![]));
        shared.enter(Some(Point::AfterEpoch), Phase::Val);
        assert!(refusal(&shared).starts_with("ranks exchange nothing at `after_epoch` (val)"));
        shared.enter(Some(Point::BeforeRun), Phase::Train);
        shared.reinstate(true);
        assert!(refusal(&shared).starts_with("the hook `mine` is put in place on this rank alone"));
        shared.reinstate(false);
        shared.register_on("short", HookRanks::All);
        assert!(refusal(&shared).contains("an unexpected number of bytes"));
        shared.register_on("failing", HookRanks::All);
        assert_eq!(refusal(&shared), "rank 2 has failed");
        shared.register("first");
        assert_eq!(refusal(&shared), why_not_on_first("first"));
    }

    #[test]
    fn what_ranks_share_is_changed_on_all_of_them() {
        let shared = BridgeState::new(&Silent).with_ranks(&SecondOfThree);
        let all = shared.register_on("all", HookRanks::All);
        shared.register("first");
        let refused = |collection| shared.why_not_shared(collection);
        for collection in [
            Collection::Gradients,
            Collection::Parameters,
            Collection::Optimizer,
            Collection::Batch,
        ] {
            let message = why_not_changed_on_first("first", collection);
            assert!(message.is_some());
            assert_eq!(refused(collection), message);
        }
        assert_eq!(refused(Collection::Published), None);
        shared.set_hook(all);
        assert_eq!(refused(Collection::Gradients), None);
    }
}
