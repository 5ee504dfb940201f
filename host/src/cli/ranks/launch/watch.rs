//! Waits for the ranks' ends, and ends all of them if one fails.
//!
//! **States.** All ranks run → one has failed: the others get time to end by themselves, since ranks agree on ends and
//! the first one saves a checkpoint; little if it was killed, or if they have waited for it in vain → they are asked to end
//! (`SIGTERM`) → they are killed. Once this process has passed on a signal that ends a run, nothing is killed while the ranks
//! save.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::ranks::Ranks;
use crate::cli::process::passed_on::{Signals, code_of};
use crate::cli::ranks::together::directory_of;
use crate::cli::show::output;
use crate::diagnostic::Diagnostic;
use crate::exit;
use crate::faults;
use crate::signals;
use crate::team::machine;
use crate::team::meeting::Told;

/// How often the ranks are looked at.
const LOOK: Duration = Duration::from_millis(10);

/// Time that the others have to end by themselves after a rank ended with an error.
const AGREED_END: Duration = Duration::from_secs(30);

/// Time between `SIGTERM` and `SIGKILL`: what is ended in this way can't save a checkpoint without the rank that is missing.
const GRACE: Duration = Duration::from_secs(3);

/// Time that ranks have after one has waited for another in vain: those that can notice have waited as long.
const AFTER_WAITING: Duration = Duration::from_secs(1);

/// How often ranks are continued that a signal has stopped, once the run is to end.
const CONTINUE: Duration = Duration::from_secs(1);

/// How all ranks have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ending {
    /// The exit code of the first that failed.
    pub(super) code: u8,
    /// Ranks that were killed, not by this process.
    pub(super) killed: usize,
    /// Whether a hook's process has ended, and the run with it.
    pub(super) is_by_hook: bool,
    /// Whether a signal to this process asked for it.
    pub(super) is_requested: bool,
}

impl Ending {
    /// Whether the run could come further if it were started again: a rank or a hook's process was killed, has crashed or did
    /// not come back.
    pub(super) fn is_accident(self) -> bool {
        let is_one =
            self.killed > 0 || self.is_by_hook || matches!(self.code, exit::CRASH | exit::HANG);
        is_one && !self.is_requested
    }
}

/// Waits until all ranks have ended.
pub(super) fn watch(ranks: &mut Ranks, passed_on: &Signals, told: Told<'_>) -> Ending {
    let mut watch = Watch {
        ranks,
        told,
        ending: Ending::default(),
        pressure: Pressure::None,
        has_signalled: false,
        continued: None,
    };
    while watch.ranks.are_running() {
        thread::sleep(LOOK);
        for signal in passed_on.arrived() {
            watch.ranks.signal(signal);
            watch.ending.is_requested = true;
        }
        watch.look();
    }
    watch.conclude()
}

struct Watch<'a> {
    ranks: &'a mut Ranks,
    told: Told<'a>,
    ending: Ending,
    pressure: Pressure,
    /// Whether this process has sent a signal that may end them.
    has_signalled: bool,
    /// When ranks were continued for the last time.
    continued: Option<Instant>,
}

/// How much is done to make the ranks end that still run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Pressure {
    None,
    /// They are sent `SIGTERM` at this time.
    Terminate(Instant),
    /// They are killed at this time.
    Kill(Instant),
    Killed,
}

impl Watch<'_> {
    fn look(&mut self) {
        let ended = self.ranks.newly_ended();
        self.look_for_one_that_left();
        for (rank, status) in ended {
            if !status.success() {
                self.note_failure(rank, status);
            }
        }
        if self.ending.is_requested || self.has_ended() {
            self.continue_stopped();
        }
        self.proceed();
    }

    /// Does what is due.
    fn proceed(&mut self) {
        let now = Instant::now();
        let (signal, next) = match self.pressure {
            Pressure::Terminate(time) if time <= now => (Signal::TERM, Pressure::Kill(now + GRACE)),
            Pressure::Kill(time) if time <= now => (Signal::KILL, Pressure::Killed),
            _ => return,
        };
        self.ranks.signal(signal);
        self.has_signalled = true;
        self.pressure = next;
    }

    fn has_ended(&self) -> bool {
        self.ending.code != exit::DONE || self.ranks.successful().next().is_some()
    }

    /// A rank that the others have lost, though it ended with 0: something in it has called `_exit`.
    fn look_for_one_that_left(&mut self) {
        if !matches!(self.ending.code, exit::DONE | exit::TRAINING) {
            return;
        }
        let left = self.ranks.successful().next();
        let Some((rank, status)) = left.filter(|_| self.told.has_lost()) else {
            return;
        };
        self.ending.code = exit::CRASH;
        self.say(rank, status);
        self.pressure = self.pressure.within(Duration::ZERO);
    }

    fn note_failure(&mut self, rank: usize, status: ExitStatus) {
        let is_killed = status.signal().is_some() && !self.has_signalled;
        self.ending.killed += usize::from(is_killed);
        // Others fail because the first one did, except that a rank which has lost another may be seen to end before it.
        let is_of_another = self.ending.code == exit::TRAINING && self.told.has_lost();
        let code = code_of(status);
        if self.ending.code == exit::DONE
            || (is_of_another && code != exit::TRAINING && !self.has_signalled)
        {
            self.ending.code = code;
            if !self.ending.is_requested || is_killed {
                self.say(rank, status);
            }
        }
        self.pressure = if code == exit::HANG || self.told.is_late() {
            self.pressure.kill_within(AFTER_WAITING)
        } else if is_killed {
            self.pressure.within(Duration::ZERO)
        } else if self.ending.is_requested {
            self.pressure
        } else {
            self.pressure.within(AGREED_END)
        };
    }

    /// A process that a signal has stopped can't end, and the others wait for it.
    fn continue_stopped(&mut self) {
        if self.continued.is_none_or(|time| time.elapsed() >= CONTINUE) {
            self.ranks.signal(Signal::CONT);
            self.continued = Some(Instant::now());
        }
    }

    /// Reports a rank that failed, and where it was.
    fn say(&self, rank: usize, status: ExitStatus) {
        let who = match self.ranks.count() {
            1 => "the run".to_owned(),
            _ => format!("rank {rank} ({})", machine::name()),
        };
        let how = match status.signal() {
            Some(signal) => format!("by signal {signal} ({})", signals::name(signal)),
            None if status.success() => {
                "with exit code 0 in mid-run: something in its process has called `_exit`"
                    .to_owned()
            }
            None => format!("with exit code {}", code_of(status)),
        };
        let mut problem = Diagnostic::new(format!("{who} ended {how}"));
        let is_silent = status.signal().is_some() || status.success();
        if let Some(run) = self.told.run().filter(|_| is_silent)
            && let Some(place) = faults::where_it_was(&directory_of(&run.directory, rank))
        {
            problem = problem.note(place);
        }
        output::diagnostics(&[problem]);
    }

    /// The verdict, once all have ended.
    fn conclude(mut self) -> Ending {
        self.look_for_one_that_left();
        let run = self.told.run();
        if self.ending.code == exit::DONE && run.is_some_and(|run| run.is_without_an_end()) {
            self.ending.code = exit::CRASH;
            let problem = "all processes ended with exit code 0, but the run has not come to its end: something in \
                           them has called `_exit`";
            output::diagnostics(&[Diagnostic::new(problem)]);
        }
        let is_of_hook = matches!(self.ending.code, exit::HOOK | exit::PLUGIN);
        self.ending.is_by_hook = is_of_hook && self.told.is_accident();
        self.ending
    }
}

impl Pressure {
    /// The ranks are asked to end after this time at the latest.
    fn within(self, time: Duration) -> Pressure {
        let at = Instant::now() + time;
        match self {
            Pressure::None => Pressure::Terminate(at),
            Pressure::Terminate(planned) => Pressure::Terminate(planned.min(at)),
            other => other,
        }
    }

    /// The ranks are killed after this time at the latest.
    fn kill_within(self, time: Duration) -> Pressure {
        let at = Instant::now() + time;
        match self {
            Pressure::None | Pressure::Terminate(_) => Pressure::Kill(at),
            Pressure::Kill(planned) => Pressure::Kill(planned.min(at)),
            Pressure::Killed => Pressure::Killed,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::cli::ranks::launch::ranks::Rank;

    fn running(script: &str) -> Rank {
        let child = Command::new("sh").args(["-c", script]).spawn();
        Rank::of(child.expect("a shell"))
    }

    fn watched(scripts: &[&str], signals: &Signals, place: &Path) -> Ending {
        let mut ranks = Ranks(scripts.iter().copied().map(running).collect());
        let ending = watch(&mut ranks, signals, Told(place));
        assert!(!ranks.are_running());
        ending
    }

    #[test]
    fn the_first_failure_is_the_exit_code() {
        let place = tempfile::tempdir().expect("a directory");
        for (scripts, code, killed) in [
            (["true", "true"], 0, 0),
            (["exit 4", "sleep 0.3; exit 7"], 4, 0),
            (["kill -9 $$", "sleep 60"], 137, 1),
            (["kill -9 $$", "trap '' TERM; sleep 0.2; exit 3"], 137, 1),
        ] {
            let ending = watched(&scripts, &Signals(Vec::new()), place.path());
            assert_eq!((ending.code, ending.killed), (code, killed), "{scripts:?}");
        }
    }

    #[test]
    fn a_rank_that_was_lost_is_the_one_that_failed() {
        let place = tempfile::tempdir().expect("a directory");
        std::fs::write(place.path().join("lost"), "").expect("written");
        for (scripts, code) in [
            // One that has lost another is seen to end before it.
            (["exit 7", "sleep 0.3; exit 6"], 6),
            (["exit 7", "true"], 5),
        ] {
            let ending = watched(&scripts, &Signals(Vec::new()), place.path());
            assert_eq!(ending.code, code, "{scripts:?}");
            assert!(ending.is_accident());
        }
    }

    #[test]
    fn one_that_was_waited_for_in_vain_is_killed_at_once() {
        let place = tempfile::tempdir().expect("a directory");
        std::fs::write(place.path().join("late"), "").expect("written");
        let begin = Instant::now();
        let scripts = ["exit 6", "trap '' TERM; sleep 60 & wait; sleep 60"];
        let ending = watched(&scripts, &Signals(Vec::new()), place.path());
        assert_eq!((ending.code, ending.killed), (6, 0));
        assert!(begin.elapsed() < AGREED_END, "not as after an agreed end");
    }

    #[test]
    fn signals_are_passed_on_and_nothing_is_killed_then() {
        let place = tempfile::tempdir().expect("a directory");
        let flag = Arc::new(AtomicBool::new(true));
        let signals = Signals(vec![(flag, Signal::TERM)]);
        // One saves for a while after the other has ended.
        let scripts = [
            "trap 'exit 143' TERM; while :; do sleep 0.05; done",
            "trap 'sleep 1; exit 143' TERM; while :; do sleep 0.05; done",
        ];
        let mut ranks = Ranks(scripts.map(running).into());
        // Until the shells have set their traps.
        thread::sleep(Duration::from_millis(300));
        let ending = watch(&mut ranks, &signals, Told(place.path()));
        assert_eq!((ending.code, ending.killed), (143, 0));
        assert!(!ending.is_accident());
    }

    #[test]
    fn a_stopped_rank_is_continued_once_the_run_is_to_end() {
        let place = tempfile::tempdir().expect("a directory");
        let flag = Arc::new(AtomicBool::new(true));
        let signals = Signals(vec![(flag, Signal::TERM)]);
        let scripts = [
            "trap 'exit 143' TERM; kill -STOP $$; while :; do sleep 0.05; done",
            "trap 'exit 143' TERM; while :; do sleep 0.05; done",
        ];
        let mut ranks = Ranks(scripts.map(running).into());
        thread::sleep(Duration::from_millis(300));
        assert_eq!(watch(&mut ranks, &signals, Told(place.path())).code, 143);
    }

    #[test]
    fn a_failure_by_exit_code_leaves_time_and_one_by_signal_none() {
        let now = Instant::now();
        let Pressure::Terminate(time) = Pressure::None.within(AGREED_END) else {
            panic!("the others are left alone");
        };
        assert!(time >= now + AGREED_END);
        let Pressure::Terminate(sooner) = Pressure::Terminate(time).within(Duration::ZERO) else {
            panic!("the others are left alone");
        };
        assert!(sooner < time);
        let killed = Pressure::Terminate(sooner).kill_within(AFTER_WAITING);
        assert!(matches!(killed, Pressure::Kill(_)));
        assert_eq!(killed.within(Duration::ZERO), killed);
    }
}
