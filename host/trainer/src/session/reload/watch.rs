//! The thread that looks for requests and changed files.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use super::request::{self, ReloadAnswer, ReloadRequest};
use crate::manifest::{ReloadPolicy, Script};
use crate::plugin::new_library::{NewScript, OldLibrary, look, stamp};
use crate::run::{LoadedCode, ReloadCandidate, ReloadOrder, ReloadResult, Reloads};
use sconce_base::nearest::nearest;

/// How often the thread looks for a request.
const LOOK: Duration = Duration::from_millis(100);

/// How often it looks at files.
const LOOK_AT_FILES: Duration = Duration::from_secs(1);

/// How long a changed file must have stayed as it is.
const SETTLED: Duration = Duration::from_millis(500);

/// How long a file that is refused may yet become whole, before that is said.
const PATIENCE: Duration = Duration::from_secs(5);

/// A hook of the run.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    /// Name of the hook in the run.
    pub(crate) hook: String,
    /// Its library.
    pub(crate) library: OldLibrary,
    /// SHA-256 of the library with which the run began.
    pub(crate) sha256: String,
    /// Its own code, if it is one in Python.
    pub(crate) script: Option<Script>,
    /// When it is loaded again.
    pub(crate) policy: ReloadPolicy,
}

/// What [`stamp`] says of a hook's files.
type Stamps = Vec<Option<(u64, SystemTime)>>;

impl Watched {
    fn stamps(&self) -> Stamps {
        let script = self.script.as_ref();
        let file = script.and_then(|script| script.file.as_deref());
        let files = [Some(self.library.path.as_path()), file];
        files.into_iter().flatten().map(stamp).collect()
    }
}

/// The running thread; it ends when this value is dropped.
pub struct ReloadWatch {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ReloadWatch {
    /// Starts the thread for the run in `directory`.
    ///
    /// # Errors
    ///
    /// If the system refuses to start a thread.
    pub(crate) fn start(
        directory: &Path,
        hooks: Vec<Watched>,
        reloads: Reloads,
    ) -> std::io::Result<ReloadWatch> {
        ReloadWatch::begin(directory, hooks, reloads, None)
    }

    /// Starts the thread for a run that refuses all requests, for this reason.
    ///
    /// # Errors
    ///
    /// If the system refuses to start a thread.
    pub fn refuse(directory: &Path, why: &'static str) -> std::io::Result<ReloadWatch> {
        ReloadWatch::begin(directory, Vec::new(), Reloads::default(), Some(why))
    }

    fn begin(
        directory: &Path,
        hooks: Vec<Watched>,
        reloads: Reloads,
        refuses: Option<&'static str>,
    ) -> std::io::Result<ReloadWatch> {
        let (stop, stopped) = mpsc::channel();
        // What an earlier run did not get to is not this one's.
        drop(request::take(directory));
        let mut watch = Watch {
            directory: directory.to_owned(),
            files: hooks.into_iter().map(WatchedFile::new).collect(),
            reloads,
            refuses,
        };
        let thread = thread::Builder::new()
            .name("reload".to_owned())
            .spawn(move || {
                let mut last = Instant::now();
                while stopped.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                    if let Some(request) = request::take(&watch.directory) {
                        watch.serve(request);
                    }
                    if last.elapsed() >= LOOK_AT_FILES {
                        last = Instant::now();
                        watch.look_at_files();
                    }
                }
            })?;
        Ok(ReloadWatch {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for ReloadWatch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread returns nothing, so its result is ignored.
            drop(thread.join());
        }
    }
}

struct Watch {
    directory: PathBuf,
    files: Vec<WatchedFile>,
    reloads: Reloads,
    /// Why all requests are refused, if they are.
    refuses: Option<&'static str>,
}

/// A hook's files, as they were when they were last looked at.
struct WatchedFile {
    hook: Watched,
    /// What the run began with.
    first: LoadedCode,
    stamps: Stamps,
    /// When it was first seen to be different, and whether that has been dealt with.
    changed: Option<Instant>,
}

impl WatchedFile {
    fn new(hook: Watched) -> WatchedFile {
        WatchedFile {
            first: LoadedCode {
                sha256: hook.sha256.clone(),
                script: hook.script.as_ref().and_then(Script::fingerprint),
            },
            stamps: hook.stamps(),
            hook,
            changed: None,
        }
    }

    /// The hook's new library, or new code in Python, if there is any: other than what it has now. What a hook in Python imports
    /// is not known here, so one that is asked for by its name has always changed.
    fn candidate(&self, reloads: &Reloads, is_named: bool) -> ReloadCandidate {
        let known = reloads.loaded(&self.hook.hook);
        let known = known.unwrap_or_else(|| self.first.clone());
        let script = self.hook.script.as_ref();
        let library = look(&self.hook.library).and_then(|mut library| {
            let now = script.and_then(Script::fingerprint);
            let is_same = library.sha256 == known.sha256 && now == known.script;
            let path = script.and_then(|script| script.file.clone());
            if is_same && !(is_named && script.is_some()) {
                let path = path.unwrap_or(library.path);
                return Err(format!("`{}` {UNCHANGED}", path.display()));
            }
            library.script = script.is_some().then_some(NewScript {
                path,
                before: known.script,
            });
            Ok(library)
        });
        ReloadCandidate {
            hook: self.hook.hook.clone(),
            library,
        }
    }
}

/// Whether the file has the bytes that the run has loaded.
fn is_unchanged(candidate: &ReloadCandidate) -> bool {
    let reason = candidate.library.as_ref().err();
    reason.is_some_and(|reason| reason.ends_with(UNCHANGED))
}

/// End of the reason for a file with the same bytes.
const UNCHANGED: &str = "has not changed";

impl Watch {
    /// Serves a request.
    fn serve(&mut self, request: ReloadRequest) {
        let ReloadRequest { id, hook } = request;
        if let Some(why) = self.refuses {
            let results = vec![ReloadResult {
                hook: hook.unwrap_or_else(|| "all hooks".to_owned()),
                is_reloaded: false,
                message: why.to_owned(),
            }];
            request::answer(&self.directory, &ReloadAnswer { id, results });
            return;
        }
        let is_wanted =
            |file: &&WatchedFile| hook.as_ref().is_none_or(|hook| *hook == file.hook.hook);
        let wanted = self.files.iter().filter(is_wanted);
        let wanted = wanted.map(|file| file.candidate(&self.reloads, hook.is_some()));
        let mut hooks: Vec<ReloadCandidate> = wanted.collect();
        if hook.is_none() {
            // The others are not worth a word.
            hooks.retain(|candidate| !is_unchanged(candidate));
        }
        if hooks.is_empty() {
            let Some(hook) = hook else {
                let results = Vec::new();
                request::answer(&self.directory, &ReloadAnswer { id, results });
                return;
            };
            let names = || self.files.iter().map(|file| file.hook.hook.as_str());
            let hint = nearest(&hook, names()).map(|near| format!("; did you mean `{near}`?"));
            let results = vec![ReloadResult {
                message: format!(
                    "the run has no hook of that name{}",
                    hint.unwrap_or_default()
                ),
                hook,
                is_reloaded: false,
            }];
            request::answer(&self.directory, &ReloadAnswer { id, results });
            return;
        }
        self.reloads.ask(ReloadOrder {
            request: Some(id),
            hooks,
        });
    }

    /// Looks for files that have changed by themselves.
    fn look_at_files(&mut self) {
        let mut hooks = Vec::new();
        for file in &mut self.files {
            if file.hook.policy != ReloadPolicy::Changed {
                continue;
            }
            let now = file.hook.stamps();
            if now != file.stamps {
                file.stamps = now;
                file.changed = Some(Instant::now());
            }
            let Some(since) = file.changed.map(|changed| changed.elapsed()) else {
                continue;
            };
            if since < SETTLED || file.stamps.contains(&None) {
                continue;
            }
            let candidate = file.candidate(&self.reloads, false);
            match &candidate.library {
                // Perhaps it is still being written or copied.
                Err(_) if since < PATIENCE => continue,
                _ => file.changed = None,
            }
            if !is_unchanged(&candidate) {
                hooks.push(candidate);
            }
        }
        if !hooks.is_empty() {
            self.reloads.ask(ReloadOrder {
                request: None,
                hooks,
            });
        }
    }
}
