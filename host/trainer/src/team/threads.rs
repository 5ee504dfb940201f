//! Ranks that are threads of one process, for tests.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use super::{Team, Transport, TransportError};

/// A transport between threads.
#[derive(Debug)]
struct Threads {
    rank: usize,
    hosts: Vec<String>,
    meeting: Arc<Meeting>,
}

/// Where threads hand each other bytes.
#[derive(Debug, Default)]
struct Meeting {
    state: Mutex<MeetingState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct MeetingState {
    /// What each rank has brought to the meeting in progress.
    brought: Vec<Option<Arc<Vec<Vec<u8>>>>>,
    taken: usize,
    is_over: bool,
}

impl Threads {
    /// Brings a part for each rank, and returns what all have brought.
    fn meet(&self, parts: Vec<Vec<u8>>) -> Result<Vec<Arc<Vec<Vec<u8>>>>, TransportError> {
        let size = self.hosts.len();
        let gone = || TransportError::new("a rank is gone");
        let lock = || {
            self.meeting
                .state
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        let wait = |state| {
            let state = self.meeting.changed.wait(state);
            state.unwrap_or_else(PoisonError::into_inner)
        };
        let mut state = lock();
        state.brought.resize(size, None);
        while state.brought.get(self.rank).is_some_and(Option::is_some) {
            state = wait(state);
        }
        if let Some(place) = state.brought.get_mut(self.rank) {
            *place = Some(Arc::new(parts));
        }
        self.meeting.changed.notify_all();
        while state.brought.iter().any(Option::is_none) {
            if state.is_over {
                return Err(gone());
            }
            state = wait(state);
        }
        let all = state.brought.iter().flatten().cloned().collect();
        state.taken += 1;
        if state.taken == size {
            state.taken = 0;
            state.brought.iter_mut().for_each(|place| *place = None);
            self.meeting.changed.notify_all();
        } else {
            // Nobody may bring anything new before all have taken.
            while state.taken > 0 {
                state = wait(state);
            }
        }
        Ok(all)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let state = self.meeting.state.lock();
        state.unwrap_or_else(PoisonError::into_inner).is_over = true;
        self.meeting.changed.notify_all();
    }
}

impl Transport for Threads {
    fn file_hash(&self) -> &'static str {
        "threads"
    }

    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.hosts.len()
    }

    fn hosts(&self) -> &[String] {
        &self.hosts
    }

    fn name(&self) -> &'static str {
        "threads"
    }

    fn broadcast(&mut self, data: &mut [u8], root: usize) -> Result<(), TransportError> {
        let all = self.meet(vec![data.to_vec()])?;
        if let Some(part) = all.get(root).and_then(|parts| parts.first()) {
            data.copy_from_slice(part);
        }
        Ok(())
    }

    fn gather(&mut self, own: &[u8], all: &mut [u8]) -> Result<(), TransportError> {
        let parts = self.meet(vec![own.to_vec()])?;
        let parts: Vec<u8> = parts.iter().flat_map(|parts| parts.concat()).collect();
        all.copy_from_slice(&parts);
        Ok(())
    }

    fn exchange(
        &mut self,
        send: &[u8],
        send_at: &[usize],
        receive: &mut [u8],
        receive_at: &[usize],
    ) -> Result<(), TransportError> {
        let parts = send_at.windows(2).map(|at| send[at[0]..at[1]].to_vec());
        let all = self.meet(parts.collect())?;
        for (parts, at) in all.iter().zip(receive_at.windows(2)) {
            receive[at[0]..at[1]].copy_from_slice(&parts[self.rank]);
        }
        Ok(())
    }

    fn collect(&mut self, data: &mut [u8], at: &[usize]) -> Result<(), TransportError> {
        let own = data[at[self.rank]..at[self.rank + 1]].to_vec();
        let all = self.meet(vec![own])?;
        for (parts, at) in all.iter().zip(at.windows(2)) {
            data[at[0]..at[1]].copy_from_slice(&parts[0]);
        }
        Ok(())
    }

    fn abort(&mut self, _code: u8) {}
}

/// Runs `work` on this many ranks, each in a thread, and returns the results in the order of ranks.
pub(crate) fn on_ranks<T: Send + 'static>(
    size: usize,
    work: impl Fn(Team) -> T + Clone + Send + 'static,
) -> Vec<T> {
    let meeting = Arc::<Meeting>::default();
    let threads = (0..size).map(|rank| {
        let transport = Threads {
            rank,
            hosts: (0..size).map(|rank| format!("node{}", rank / 2)).collect(),
            meeting: Arc::clone(&meeting),
        };
        let work = work.clone();
        thread::spawn(move || work(Team::new(Box::new(transport))))
    });
    let threads: Vec<_> = threads.collect();
    threads
        .into_iter()
        .map(|thread| thread.join().expect("a rank"))
        .collect()
}
