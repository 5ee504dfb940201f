//! Log, metrics, time, terminal, facts, plan, resume flags, ranks, threads and device of a scripted run.

use std::ffi::c_void;
use std::thread;

use sconce_plugin_api::Phase;
use sconce_plugin_api::abi::{Status, TextAbi};
use sconce_plugin_api::ext::{
    Claims, Device, DeviceAbi, Gpu, GroupAbi, Level, Log, Loss, MetricAbi, Metrics, Part, PartAbi,
    Plan, Ranks, Readable, Refusal, Resume, Run, Screen, Task, TensorAbi, Tensors, Threads,
    why_no_gather_at, why_not_on_first,
};

use super::super::seen::{Message, SeenMetric};
use super::super::stage::FakeRun;

impl Log for FakeRun {
    fn log(&self, level: u32, message: &str) {
        self.seen.borrow_mut().messages.push(Message {
            at: self.place.get(),
            level: Level::from_number(level),
            text: message.to_owned(),
        });
    }
}

impl Metrics for FakeRun {
    fn count(&self, phase: u32) -> usize {
        let phase = Phase::from_number(phase);
        phase.map_or(0, |phase| self.board.borrow().of(phase).len())
    }

    fn at(&self, phase: u32, index: usize) -> Option<MetricAbi> {
        let board = self.board.borrow();
        let metric = board.of(Phase::from_number(phase)?).get(index)?;
        Some(MetricAbi {
            name: TextAbi::new(&metric.name),
            value: metric.value,
        })
    }

    fn get(&self, phase: u32, name: &str) -> Option<f64> {
        self.board.borrow().get(Phase::from_number(phase)?, name)
    }

    fn publish(&self, name: &str, value: f64) -> Result<(), Refusal> {
        let published = self.board.borrow_mut().publish(self.phase(), name, value);
        published.map_err(Refusal::invalid)?;
        if let Some(at) = self.place.get() {
            self.seen.borrow_mut().metrics.push(SeenMetric {
                at,
                name: name.to_owned(),
                value,
            });
        }
        Ok(())
    }
}

impl Plan for FakeRun {
    fn plan(&self) -> Option<&str> {
        self.plan.get().map(|plan| &**plan)
    }
}

impl Resume for FakeRun {
    fn flags(&self) -> u64 {
        self.resume_flags.get()
    }
}

impl Run for FakeRun {
    fn elapsed_seconds(&self) -> f64 {
        self.clock.elapsed.get()
    }

    fn remaining_seconds(&self) -> f64 {
        self.clock.remaining.get()
    }
}

impl Screen for FakeRun {
    fn columns(&self) -> u32 {
        0
    }

    fn status(&self, text: &str) {
        self.seen.borrow_mut().status_lines.push(text.to_owned());
    }
}

impl Task for FakeRun {
    fn facts(&self) -> Option<&str> {
        // There is no task yet at a hook's creation.
        self.place.get()?;
        let text = TextAbi::new(&self.facts.borrow());
        // SAFETY: facts are set before the hook is called, and not during its calls.
        unsafe { text.read() }
    }

    fn group_count(&self) -> usize {
        self.uses.reads(Readable::Groups);
        self.groups.borrow().len()
    }

    fn group(&self, index: usize) -> Option<GroupAbi> {
        self.groups.borrow().get(index).map(|group| GroupAbi {
            name: TextAbi::new(&group.name),
            learning_rate: group.learning_rate,
            weight_decay: group.weight_decay,
        })
    }
}

impl Ranks for FakeRun {
    fn rank(&self) -> u32 {
        self.ranks.rank as u32
    }

    fn size(&self) -> u32 {
        self.ranks.size as u32
    }

    fn is_repeated(&self) -> bool {
        self.repeats_batch()
    }

    fn gather(&self, own: &[u8], all: &mut [u8]) -> Result<(), Refusal> {
        self.uses.reads(Readable::Ranks);
        let not_here = |message| Err(Refusal::new(Status::NOT_LEGAL_HERE, message));
        if !self.hook.is_on_all_ranks {
            return not_here(why_not_on_first(&self.hook.name));
        }
        if let Some(message) = why_no_gather_at(self.point(), self.phase()) {
            return not_here(message);
        }
        let gathered = self.ranks.gather(own);
        let gathered = gathered.map_err(|message| Refusal::new(Status::ERROR, message))?;
        if gathered.len() != all.len() {
            return Err(Refusal::invalid(
                "there is no room for what all ranks gather",
            ));
        }
        all.copy_from_slice(&gathered);
        Ok(())
    }
}

/// Always two threads, whatever the machine has.
impl Threads for FakeRun {
    fn count(&self) -> u32 {
        2
    }

    unsafe fn run(&self, parts: u32, part: PartAbi, data: *const c_void) -> Result<(), Refusal> {
        // SAFETY: the hook guarantees that its parts may be called on any thread during this call.
        let part = unsafe { Part::new(part, data) };
        // SAFETY: each index below `parts` is passed once.
        let each = |index: u32| unsafe { part.call(index) };
        thread::scope(|scope| {
            scope.spawn(|| (1..parts).step_by(2).for_each(each));
            (0..parts).step_by(2).for_each(each);
        });
        Ok(())
    }
}

/// Always the CPU, where a tensor is in host memory.
impl Device for FakeRun {
    fn facts(&self) -> Result<DeviceAbi, Refusal> {
        self.uses.reads(Readable::Device);
        Ok(DeviceAbi::CPU)
    }

    fn tensor(&self, collection: u32, index: usize, writable: bool) -> Result<TensorAbi, Refusal> {
        self.uses.reads(Readable::Device);
        Tensors::at(self, collection, index, writable)
    }
}

impl Claims for FakeRun {
    fn claim(&self, _what: &str) -> Result<(), Refusal> {
        Ok(())
    }
}

impl Gpu for FakeRun {}

impl Loss for FakeRun {}
