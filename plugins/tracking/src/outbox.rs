//! Work for a background thread: training hands it over and never waits for it.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::thread;
use std::time::Duration;

use sconce_plugin_api::prelude::*;

/// Response to a server that can't be reached or rejects a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnFailure {
    /// Print a warning at the first failure, and the number of failures at the end of the run.
    #[default]
    Warn,
    /// Report nothing.
    Ignore,
    /// Report an error of this hook, handled according to the entry's `on_error`.
    Error,
}

/// A bounded queue of jobs and the thread that processes them.
pub(crate) struct Outbox<J> {
    jobs: Option<SyncSender<J>>,
    /// Failures so far; disconnected once the thread has finished.
    failures: Receiver<String>,
    on_failure: OnFailure,
    failed: u64,
    dropped: u64,
}

impl<J: Send + 'static> Outbox<J> {
    /// Starts the thread. It receives all waiting jobs at once, at most `capacity`; `work` returns
    /// the failures.
    pub(crate) fn start(
        name: &str,
        capacity: usize,
        on_failure: OnFailure,
        mut work: impl FnMut(Vec<J>) -> Vec<String> + Send + 'static,
    ) -> Result<Self> {
        let (jobs, queue) = mpsc::sync_channel::<J>(capacity);
        let (failing, failures) = mpsc::channel();
        let body = move || {
            while let Ok(first) = queue.recv() {
                let waiting = std::iter::once(first).chain(queue.try_iter().take(capacity));
                for failure in work(waiting.collect()) {
                    drop(failing.send(failure));
                }
            }
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(body);
        thread.context("no thread can be started")?;
        Ok(Outbox {
            jobs: Some(jobs),
            failures,
            on_failure,
            failed: 0,
            dropped: 0,
        })
    }

    /// Queues a job, or drops it if the queue is full. Reports the failures so far.
    pub(crate) fn hand(&mut self, job: J, task: &TaskView<'_>) -> Result<()> {
        let sent = self.jobs.as_ref().map(|jobs| jobs.try_send(job));
        if matches!(sent, Some(Err(TrySendError::Full(_)))) {
            self.dropped += 1;
            if self.dropped == 1 {
                self.tell(
                    "the server is slower than the run: what it can't take is left out".to_owned(),
                    task,
                )?;
            }
        }
        while let Ok(failure) = self.failures.try_recv() {
            self.fail(failure, task)?;
        }
        Ok(())
    }

    /// Waits until all jobs are done, for at most `most`, and reports how many failed.
    pub(crate) fn close(&mut self, most: Duration, task: &TaskView<'_>) -> Result<()> {
        self.jobs = None;
        let end = std::time::Instant::now() + most;
        loop {
            let left = end.saturating_duration_since(std::time::Instant::now());
            match self.failures.recv_timeout(left) {
                Ok(failure) => self.fail(failure, task)?,
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let seconds = most.as_secs_f64();
                    self.tell(
                        format!("the server has not taken everything within {seconds} s"),
                        task,
                    )?;
                    break;
                }
            }
        }
        if self.on_failure == OnFailure::Warn && self.failed + self.dropped > 1 {
            task.warn(format_args!(
                "{} messages failed and {} were left out",
                self.failed, self.dropped
            ));
        }
        Ok(())
    }

    fn fail(&mut self, failure: String, task: &TaskView<'_>) -> Result<()> {
        self.failed += 1;
        if self.failed == 1 || self.on_failure == OnFailure::Error {
            return self.tell(failure, task);
        }
        Ok(())
    }

    fn tell(&self, what: String, task: &TaskView<'_>) -> Result<()> {
        match self.on_failure {
            OnFailure::Warn => task.warn(what),
            OnFailure::Ignore => {}
            OnFailure::Error => bail!("{what}"),
        }
        Ok(())
    }
}
