//! A hook in Python.

use std::ffi::CString;

use sconce_plugin_api::ext::Level;
use sconce_plugin_api::{At, HookError, Point, Result, Setup, TaskView};

use super::functions::{Functions, functions};
use super::gil::{Gil, Ref};
use super::payload::{Payload, arguments};
use super::waits::{WARNING, Waits};
use super::{current, explain, tensor};

/// Where a hook's class is.
pub(crate) struct Source<'a> {
    /// Absolute path of the file; empty if there is a module.
    pub(crate) file: &'a str,
    pub(crate) module: &'a str,
    /// Name of the class; empty for the only one.
    pub(crate) class: &'a str,
    /// Number of the object of this process that it is, if it is one.
    pub(crate) object: Option<u64>,
    /// The hook's configuration, as JSON.
    pub(crate) config: &'a str,
    /// What is known at creation, as JSON.
    pub(crate) facts: &'a str,
}

/// A hook in Python: its methods, looked up once.
pub(crate) struct Instance {
    /// `None` once dropped. References must be dropped with the lock.
    parts: Option<Parts>,
    functions: &'static Functions,
    file: String,
    waits: Waits,
}

struct Parts {
    /// By the mount point's number.
    methods: Vec<Option<Ref>>,
    save: Option<Ref>,
    load: Ref,
}

/// Instances alive in this process.
static ALIVE: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

impl Instance {
    /// Creates a hook. The interpreter must have been [started](super::start).
    pub(crate) fn create(source: &Source<'_>, setup: &Setup<'_>) -> Result<Instance> {
        let (Some(functions), Some(gil)) = (functions(), Gil::take()) else {
            return Err(HookError::new("Python is not running"));
        };
        let created = current::with_setup(setup, || create(&gil, functions, source));
        log_kept(|level, line| match level {
            Level::Warn => setup.warn(line),
            _ => setup.info(line),
        });
        let (parts, file) = created.ok_or_else(|| explain::last(&gil, source.file))?;
        ALIVE.fetch_add(1, std::sync::atomic::Ordering::AcqRel);
        Ok(Instance {
            parts: Some(parts),
            functions,
            file,
            waits: Waits::default(),
        })
    }

    /// Whether the hook has a method for a mount point.
    pub(crate) fn has(&self, point: Point) -> bool {
        self.method(point).is_some()
    }

    fn method(&self, point: Point) -> Option<&Ref> {
        let methods = &self.parts.as_ref()?.methods;
        methods.get(point.number() as usize)?.as_ref()
    }

    /// Calls the hook's method for a mount point; does nothing if it has none.
    pub(crate) fn call(
        &mut self,
        point: Point,
        task: &mut TaskView<'_>,
        payload: &Payload<'_, '_>,
    ) -> Result<()> {
        let (gil, is_late) = self.waits.take();
        let (Some(method), Some(gil)) = (self.method(point), gil) else {
            return Ok(());
        };
        if is_late {
            task.warn(WARNING);
        }
        let before = tensor::writable_alive();
        let succeeded = current::with_task(task, || {
            let result = match payload {
                Payload::None => gil.call(method, &self.functions.task_alone),
                payload => arguments(&gil, self.functions, payload)
                    .and_then(|arguments| gil.call(method, &arguments)),
            };
            result.is_some()
        });
        let result = if !succeeded {
            Err(explain::last(&gil, &self.file))
        } else if tensor::writable_alive() > before {
            self.check_writable(&gil, before, point, task)
        } else {
            Ok(())
        };
        log_kept(|level, line| At::any(task).log(level, line));
        result
    }

    /// Nothing that can be written to may outlive its call; what only cycles keep alive is freed first.
    #[cold]
    fn check_writable(
        &self,
        gil: &Gil,
        before: usize,
        point: Point,
        task: &mut TaskView<'_>,
    ) -> Result<()> {
        current::with_task(task, || {
            drop(gil.call(&self.functions.collect, &self.functions.nothing));
        });
        if tensor::writable_alive() <= before {
            return Ok(());
        }
        Err(HookError::new(format_args!(
            "the hook keeps a writable array of `{}` after `{}`: its memory belongs to the run, so keep a copy instead, \
             made by `.copy()`",
            tensor::name_of_writable(),
            point.name()
        ))
        .at(self.file.clone()))
    }

    /// The hook's state as bytes; none if it has none.
    pub(crate) fn save_state(&mut self) -> Result<Vec<u8>> {
        let (Some(parts), Some(gil)) = (&self.parts, Gil::take()) else {
            return Ok(Vec::new());
        };
        let Some(save) = &parts.save else {
            return Ok(Vec::new());
        };
        gil.call(save, &self.functions.nothing)
            .and_then(|state| gil.to_bytes(&state))
            .ok_or_else(|| explain::last(&gil, &self.file))
    }

    /// Restores a state; an empty one is that of a hook without `state_dict`.
    pub(crate) fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let (Some(parts), Some(gil)) = (&self.parts, Gil::take()) else {
            return Ok(());
        };
        if state.is_empty() && parts.save.is_none() {
            return Ok(());
        }
        let arguments = gil.tuple([gil.bytes(state)]);
        arguments
            .and_then(|arguments| gil.call(&parts.load, &arguments))
            .map(drop)
            .ok_or_else(|| explain::last(&gil, &self.file))
    }
}

impl Drop for Instance {
    /// After the last hook, what Python does at its end is done: functions registered with `atexit` run, and what was
    /// printed is flushed.
    fn drop(&mut self) {
        let Some(gil) = Gil::take() else { return };
        drop(self.parts.take());
        if ALIVE.fetch_sub(1, std::sync::atomic::Ordering::AcqRel) > 1 {
            return;
        }
        if gil
            .call(&self.functions.finish, &self.functions.nothing)
            .is_none()
        {
            let error = explain::last(&gil, &self.file);
            current::log(Level::Warn, error.message().to_owned());
        }
        drop(gil);
        crate::output::last_lines(&current::take_kept());
    }
}

fn log_kept(mut log: impl FnMut(Level, String)) {
    for (level, line) in current::take_kept() {
        log(level, line);
    }
}

/// Creates the object; `None` with an exception set if that fails.
fn create(gil: &Gil, functions: &Functions, source: &Source<'_>) -> Option<(Parts, String)> {
    let arguments = gil.tuple([
        gil.text(source.file),
        gil.text(source.module),
        gil.text(source.class),
        gil.text(source.config),
        gil.text(source.facts),
        gil.text(
            &source
                .object
                .map(|number| number.to_string())
                .unwrap_or_default(),
        ),
    ])?;
    let created = gil.call(&functions.create, &arguments)?;
    let part = |index| gil.item(&created, index);
    let found = part(0)?;
    let mut methods = Vec::new();
    for point in Point::ALL {
        let name = CString::new(point.name()).ok()?;
        // SAFETY: this thread has the lock, and `found` is a dictionary; its value is borrowed, or null.
        let method = unsafe { (gil.python().PyDict_GetItemString)(found.pointer(), name.as_ptr()) };
        let number = point.number() as usize;
        if methods.len() <= number {
            methods.resize_with(number + 1, || None);
        }
        if let Some(slot) = methods.get_mut(number) {
            *slot = gil.share(method);
        }
    }
    let parts = Parts {
        methods,
        save: part(1).filter(|save| !gil.is_none(save)),
        load: part(2)?,
    };
    let file = gil.to_text(&part(3)?)?;
    Some((parts, file))
}
