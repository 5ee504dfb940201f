//! The `profile` hook: how each pass's time was spent, after emloop's `LogProfile`.
//!
//! `{"hook": "profile", "config": {"file": "profile.jsonl"}}`

use std::fmt::Write;
use std::path::PathBuf;

use sconce_plugin_api::RUN_TIMES;
use sconce_plugin_api::prelude::*;
use serde_json::{Map, Value, json};

use crate::times::Seconds;

/// What is reported, and where.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Whether a line is printed for each pass, and one for each phase at the end of the run.
    /// Default true.
    log: bool,
    /// JSON-lines file under the run's directory that gets a line for each pass, and at the end of the
    /// run one for each phase and one for all that the process did; null: none. Default `profile.jsonl`.
    file: Option<PathBuf>,
    /// Printed lines name the hooks that took at least this fraction of a pass, from 0 to 1.
    /// Default 0.01.
    #[schemars(range(min = 0.0, max = 1.0))]
    named_share: f64,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            log: true,
            file: Some("profile.jsonl".into()),
            named_share: 0.01,
        }
    }
}

/// What a line of the file is about: a pass, all of a phase's in the run, or all that the process did until the end of
/// the training.
const PASS: &str = "pass";

/// Names of the parts of a pass other than hooks.
const PARTS: [&str; 5] = ["data", "forward", "loss", "backward", "update"];

/// Times of one or more passes, in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Sums {
    phase: String,
    passes: u64,
    total: f64,
    /// Indexed as [`PARTS`].
    parts: [f64; 5],
    hooks: Vec<HookSums>,
}

/// Times of a hook in passes, and of its requests, in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct HookSums {
    name: String,
    calls: u64,
    seconds: f64,
    longest: f64,
    /// Spent by the host on its requests; not part of the passes.
    requests: f64,
}

impl Sums {
    fn of(phase: Phase, profile: EpochProfile<'_>) -> Sums {
        let hook = |hook: sconce_plugin_api::HookTime<'_>| HookSums {
            name: hook.name.to_owned(),
            calls: hook.calls,
            seconds: hook.time.as_secs_f64(),
            longest: hook.longest.as_secs_f64(),
            requests: hook.requests.as_secs_f64(),
        };
        Sums {
            phase: phase.name().to_owned(),
            passes: 1,
            total: profile.total().as_secs_f64(),
            parts: [
                profile.data(),
                profile.forward(),
                profile.loss(),
                profile.backward(),
                profile.update(),
            ]
            .map(|part| part.as_secs_f64()),
            hooks: profile.hooks().map(hook).collect(),
        }
    }

    /// Rejects a state that no run can have saved.
    fn check(&self, is_again: bool) -> Result<()> {
        if is_again || !Phase::ALL.iter().any(|phase| phase.name() == self.phase) {
            bail!(
                "the state's times are of the phase {:?}, which is unknown or given twice",
                self.phase
            );
        }
        state::check_count("passes", self.passes)?;
        let hooks = self.hooks.iter();
        for hook in hooks.clone() {
            state::check_count("calls", hook.calls)?;
        }
        let times = hooks.flat_map(|hook| [hook.seconds, hook.longest, hook.requests]);
        let times = times.chain(self.parts).chain([self.total]);
        match times
            .into_iter()
            .find(|seconds| !(0.0..1e15).contains(seconds))
        {
            Some(seconds) => bail!("the state has a time of {seconds} seconds"),
            None => Ok(()),
        }
    }

    fn add(&mut self, pass: &Sums) {
        self.passes += pass.passes;
        self.total += pass.total;
        for (sum, part) in self.parts.iter_mut().zip(pass.parts) {
            *sum += part;
        }
        for (index, hook) in pass.hooks.iter().enumerate() {
            // Hooks come in the same order each time, so almost always the index is the same.
            let same = self
                .hooks
                .get(index)
                .is_some_and(|sum| sum.name == hook.name);
            let index = if same {
                Some(index)
            } else {
                self.hooks.iter().position(|sum| sum.name == hook.name)
            };
            match index.and_then(|index| self.hooks.get_mut(index)) {
                Some(sum) => {
                    sum.calls += hook.calls;
                    sum.seconds += hook.seconds;
                    sum.longest = sum.longest.max(hook.longest);
                    sum.requests += hook.requests;
                }
                None => self.hooks.push(hook.clone()),
            }
        }
    }

    fn hook_seconds(&self) -> f64 {
        // `sum` of no hooks would give -0.0.
        self.hooks
            .iter()
            .map(|hook| hook.seconds)
            .fold(0.0, |sum, seconds| sum + seconds)
    }

    /// Time not spent in any part or hook: the loop itself. Hooks' times are estimates, so the
    /// difference may be slightly negative; it is then reported as 0.
    fn rest(&self) -> f64 {
        let known = self.parts.iter().sum::<f64>() + self.hook_seconds();
        (self.total - known).max(0.0)
    }

    fn share(&self, seconds: f64) -> f64 {
        if self.total > 0.0 {
            seconds / self.total
        } else {
            0.0
        }
    }

    /// Formats as `1.23 s: data 0.3 %, forward 40.1 %, …, hooks 2.1 % (csv 1.5 %), rest 0.4 %; requests besides:
    /// checkpoint 12.3 ms`.
    fn line(&self, named_share: f64) -> String {
        let mut line = format!("{}:", Seconds(self.total));
        for (name, seconds) in PARTS.iter().zip(self.parts) {
            let _ = write!(line, " {name} {:.1} %,", 100.0 * self.share(seconds));
        }
        let hooks = self.share(self.hook_seconds());
        let _ = write!(line, " hooks {:.1} %", 100.0 * hooks);
        let named: Vec<String> = (self.hooks.iter())
            .filter(|hook| self.share(hook.seconds) >= named_share)
            .map(|hook| format!("{} {:.1} %", hook.name, 100.0 * self.share(hook.seconds)))
            .collect();
        if !named.is_empty() {
            let _ = write!(line, " ({})", named.join(", "));
        }
        let _ = write!(line, ", rest {:.1} %", 100.0 * self.share(self.rest()));
        let requests: Vec<String> = (self.hooks.iter())
            .filter(|hook| hook.requests > 0.0 && self.share(hook.requests) >= named_share)
            .map(|hook| format!("{} {}", hook.name, Seconds(hook.requests)))
            .collect();
        if !requests.is_empty() {
            let _ = write!(line, "; requests besides: {}", requests.join(", "));
        }
        line
    }

    fn json(&self) -> Map<String, Value> {
        let mut seconds = Map::new();
        let parts = PARTS.iter().copied().zip(self.parts);
        let all = parts.chain([("hooks", self.hook_seconds()), ("rest", self.rest())]);
        let mut shares = Map::new();
        for (name, part) in all {
            seconds.insert(name.to_owned(), json!(part));
            shares.insert(name.to_owned(), json!(self.share(part)));
        }
        let hook = |hook: &HookSums| {
            let times = json!({"calls": hook.calls, "seconds": hook.seconds, "longest": hook.longest,
                "share": self.share(hook.seconds), "requests": hook.requests});
            (hook.name.clone(), times)
        };
        let mut line = Map::new();
        line.insert("phase".to_owned(), json!(self.phase));
        line.insert("passes".to_owned(), json!(self.passes));
        line.insert("total".to_owned(), json!(self.total));
        line.insert("seconds".to_owned(), seconds.into());
        line.insert("shares".to_owned(), shares.into());
        line.insert("by_hook".to_owned(), self.hooks.iter().map(hook).collect());
        line
    }
}

/// See the [module](self).
pub(crate) struct ProfileHook {
    config: Config,
    log: Option<LogFile>,
    /// Sums over all passes so far, one entry per phase.
    run: Vec<Sums>,
}

impl ProfileHook {
    fn write(&mut self, mut line: Map<String, Value>, of: &str, task: &TaskView<'_>) -> Result<()> {
        let Some(log) = &mut self.log else {
            return Ok(());
        };
        let mut all = Map::new();
        all.insert("of".to_owned(), json!(of));
        all.insert("epoch".to_owned(), json!(task.epoch()));
        all.insert("iteration".to_owned(), json!(task.iteration()));
        if of == PASS {
            all.insert("stream".to_owned(), json!(task.stream()));
        }
        all.append(&mut line);
        log.write(format!("{}\n", Value::from(all)))
    }
}

#[hook(
    name = "profile",
    about = "Says where each pass's time went: data, forward, loss, backward, update, each hook.",
    priority = LOW,
    state = [run, log]
)]
impl Hook for ProfileHook {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        let path = config
            .file
            .as_deref()
            .map(|name| setup.path_below("file", name));
        Ok(ProfileHook {
            log: path.transpose()?.map(LogFile::new),
            config,
            run: Vec::new(),
        })
    }

    fn epoch_profile(
        &mut self,
        task: &mut AtEpochProfile<'_>,
        profile: &EpochProfile<'_>,
    ) -> Result<()> {
        let pass = Sums::of(task.phase(), *profile);
        if self.config.log {
            let line = pass.line(self.config.named_share);
            task.info(format_args!(
                "{}, epoch {}: {line}",
                task.phase(),
                task.epoch()
            ));
        }
        self.write(pass.json(), PASS, task)?;
        match self.run.iter_mut().find(|sums| sums.phase == pass.phase) {
            Some(sums) => sums.add(&pass),
            None => self.run.push(pass),
        }
        Ok(())
    }

    fn after_run(&mut self, task: &mut AfterRun<'_>, _outcome: &Outcome<'_>) -> Result<()> {
        for sums in std::mem::take(&mut self.run) {
            if self.config.log {
                let line = sums.line(self.config.named_share);
                task.info(format_args!("{}, the whole run: {line}", sums.phase));
            }
            self.write(sums.json(), "run", task)?;
        }
        let times = task.published::<Map<String, Value>>(RUN_TIMES)?;
        times.map_or(Ok(()), |times| self.write(times, "process", task))
    }

    fn state_restored(&mut self) -> Result<()> {
        for (index, sums) in self.run.iter().enumerate() {
            let mut earlier = self.run.iter().take(index);
            sums.check(earlier.any(|other| other.phase == sums.phase))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, ScriptedRun};

    use super::*;

    fn pass() -> Sums {
        Sums {
            phase: "train".to_owned(),
            passes: 1,
            total: 2.0,
            parts: [0.1, 0.5, 0.2, 0.6, 0.3],
            hooks: vec![hook("csv", 1, 0.1, 0.1), hook("clip", 10, 0.002, 0.001)],
        }
    }

    fn hook(name: &str, calls: u64, seconds: f64, longest: f64) -> HookSums {
        HookSums {
            name: name.to_owned(),
            calls,
            seconds,
            longest,
            requests: 0.0,
        }
    }

    #[test]
    fn shares_are_those_of_the_total_and_add_up() {
        let pass = pass();
        assert_eq!(
            pass.line(0.01),
            "2.00 s: data 5.0 %, forward 25.0 %, loss 10.0 %, backward 30.0 %, update 15.0 %, \
             hooks 5.1 % (csv 5.0 %), rest 9.9 %"
        );
        let mut saving = pass.clone();
        saving.hooks[0].requests = 0.5;
        let line = saving.line(0.01);
        assert!(
            line.ends_with("rest 9.9 %; requests besides: csv 500 ms"),
            "{line}"
        );
        let json = Value::from(pass.json());
        let shares = json["shares"].as_object().expect("an object");
        let sum: f64 = shares.values().filter_map(Value::as_f64).sum();
        assert!((sum - 1.0).abs() < 1e-12);
        assert_eq!(json["by_hook"]["clip"]["calls"], 10);
    }

    #[test]
    fn passes_add_up_hook_by_hook() {
        let mut sums = pass();
        let mut second = pass();
        second.hooks = vec![hook("clip", 5, 0.01, 0.005), hook("new", 1, 0.1, 0.1)];
        sums.add(&second);
        assert_eq!(sums.passes, 2);
        assert!((sums.total - 4.0).abs() < 1e-12 && (sums.parts[1] - 1.0).abs() < 1e-12);
        let clip = &sums.hooks[1];
        assert_eq!((clip.calls, clip.longest), (15, 0.005));
        assert_eq!(sums.hooks[2].name, "new");
    }

    #[test]
    fn each_pass_and_the_run_are_told_in_lines_and_in_the_file() -> std::result::Result<(), Failed>
    {
        // Of a pass's time, forward and backward take three tenths each, all else a tenth.
        let run = ScriptedRun::new()
            .epochs(2)
            .validation(0)
            .seconds_per_iteration(10.0);
        let seen = run.drive::<ProfileHook>(json!({}))?;
        let shares = "data 10.0 %, forward 30.0 %, loss 10.0 %, backward 30.0 %, update 10.0 %, hooks \
                  0.0 %, rest 10.0 %";
        let lines: Vec<_> = seen
            .messages()
            .iter()
            .map(|message| &*message.text)
            .collect();
        assert_eq!(
            lines,
            [
                format!("train, epoch 1: 40.0 s: {shares}"),
                format!("train, epoch 2: 40.0 s: {shares}"),
                format!("train, the whole run: 80.0 s: {shares}"),
            ]
        );
        let text = seen.file("profile.jsonl").unwrap();
        let found: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let parts = |unit: f64| {
            json!({
                "data": unit, "forward": 3.0 * unit, "loss": unit, "backward": 3.0 * unit,
                "update": unit, "hooks": 0.0, "rest": unit,
            })
        };
        let line = |of: &str, epoch: u64, passes: u64| {
            let total = 40.0 * passes as f64;
            let mut line = json!({
                "of": of, "epoch": epoch, "iteration": 4 * epoch, "phase": "train", "passes": passes,
                "total": total, "seconds": parts(total / 10.0), "by_hook": {},
            });
            if of == "pass" {
                line["stream"] = json!("train");
            }
            line
        };
        let without_shares = found.into_iter().map(|mut line| {
            line.as_object_mut().unwrap().remove("shares");
            line
        });
        assert_eq!(
            without_shares.collect::<Vec<_>>(),
            [line("pass", 1, 1), line("pass", 2, 1), line("run", 2, 2)]
        );
        // A resumed run goes on with the file and the sums.
        let resumed = run
            .interrupt_after(6)
            .drive::<ProfileHook>(json!({"log": false}))?;
        assert!(
            resumed
                .file("profile.jsonl")
                .unwrap()
                .starts_with(text.lines().next().unwrap())
        );
        assert_eq!(resumed.messages(), []);
        Ok(())
    }
}
