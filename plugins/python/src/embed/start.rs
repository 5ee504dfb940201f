//! Starts the interpreter, once per process.
//!
//! libpython is opened with `RTLD_GLOBAL`, because extension modules such as NumPy's look for its functions among the
//! process's. Neither it nor this library is ever closed, and the interpreter is never finalised: extension modules don't
//! survive that. A second copy of this library (a reloaded one) finds the interpreter running, and uses it.

use std::ffi::{CStr, CString, c_int};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use libloading::Library;
use sconce_plugin_api::{Context, HookError, Result};

use super::functions::{Functions, functions};
use super::gil::{Gil, Ref};
use super::symbols::{FILE_INPUT, Object, Python, keep};
use super::{explain, objects, tensor};
use sconce_python_interpreter::Interpreter;

/// The sources of the package `sconce`, in the order in which they are executed.
const SOURCES: &[(&str, &str)] = &[
    ("sconce._errors", include_str!("../../sconce/_errors.py")),
    ("sconce._payload", include_str!("../../sconce/_payload.py")),
    ("sconce._tensor", include_str!("../../sconce/_tensor.py")),
    ("sconce._task", include_str!("../../sconce/_task.py")),
    ("sconce._hook", include_str!("../../sconce/_hook.py")),
    ("sconce._config", include_str!("../../sconce/_config.py")),
    ("sconce._objects", include_str!("../../sconce/_objects.py")),
    ("sconce._objects", include_str!("../../sconce/_objects.py")),
    ("sconce._state", include_str!("../../sconce/_state.py")),
    ("sconce._output", include_str!("../../sconce/_output.py")),
    ("sconce", include_str!("../../sconce/__init__.py")),
    ("sconce._create", include_str!("../../sconce/_create.py")),
];

/// One thread at a time starts the interpreter; a run has one training thread, but tests have several.
static STARTING: Mutex<()> = Mutex::new(());

/// Joins the interpreter that runs in this process, if one does; returns whether the process is Python's own, which trains by
/// `sconce.train`. No other Python may be opened in that one, nor is any of use.
pub(crate) fn join(switch_interval: f64) -> Result<bool> {
    let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(functions) = functions() {
        return Ok(functions.is_guest);
    }
    let Some(library) = running() else {
        return Ok(false);
    };
    let python = Python::load(&library).context("this Python is older than 3.9")?;
    std::mem::forget(library);
    keep(python);
    Ok(load(switch_interval)?.is_guest)
}

/// The symbols of this process, if they have an interpreter that runs.
#[cfg(unix)]
fn running() -> Option<Library> {
    let process = libloading::os::unix::Library::this();
    // SAFETY: the function of this name takes nothing and returns a number, and may be called at any time.
    let is_running = unsafe {
        let asks = process.get::<unsafe extern "C" fn() -> c_int>(b"Py_IsInitialized\0");
        asks.is_ok_and(|asks| asks() != 0)
    };
    is_running.then(|| process.into())
}

#[cfg(not(unix))]
fn running() -> Option<Library> {
    None
}

/// Starts the interpreter, or checks that the one that runs is of the same environment.
pub(crate) fn start(interpreter: &Interpreter, switch_interval: f64) -> Result<()> {
    let starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    let functions = match functions() {
        Some(functions) => functions,
        None => begin(interpreter, switch_interval)?,
    };
    drop(starting);
    if is_same(&functions.prefix, &interpreter.prefix) {
        return Ok(());
    }
    if functions.is_guest {
        return Err(HookError::new(format_args!(
            "this process is Python from `{}`, and can't run that of `{}` too: leave `python` out, or give the hook a process of its own \
             with `\"isolation\": \"process\"` in its entry",
            functions.prefix, interpreter.prefix
        )));
    }
    Err(HookError::new(format_args!(
        "this process already runs Python from `{}` for another hook, and can't run that of `{}` too: give this hook a \
         process of its own with `\"isolation\": \"process\"` in its entry, or both the same `python`",
        functions.prefix, interpreter.prefix
    )))
}

fn is_same(left: &str, right: &str) -> bool {
    let real = |path: &str| Path::new(path).canonicalize();
    left == right || matches!((real(left), real(right)), (Ok(left), Ok(right)) if left == right)
}

fn begin(interpreter: &Interpreter, switch_interval: f64) -> Result<&'static Functions> {
    let library = open(&interpreter.library)?;
    let python = Python::load(&library).with_context(|| {
        format!(
            "`{}` lacks a function that Python has since 3.9",
            interpreter.library.display()
        )
    })?;
    // Closing it would end in chaos; it is needed until the process ends.
    std::mem::forget(library);
    let python = keep(python);
    // SAFETY: the functions are those of a loaded libpython.
    let is_running = unsafe { (python.Py_IsInitialized)() } != 0;
    if !is_running {
        initialise(python, interpreter)?;
    }
    load(switch_interval)
}

/// Loads the package into the interpreter.
fn load(switch_interval: f64) -> Result<&'static Functions> {
    let gil = Gil::take().ok_or_else(|| HookError::new("Python can't be started"))?;
    let functions = load_package(&gil, switch_interval).ok_or_else(|| explain::last(&gil, ""))?;
    Ok(functions.keep())
}

/// Opens libpython; one that the process already has, opened for all to see, takes precedence.
fn open(path: &Path) -> Result<Library> {
    #[cfg(unix)]
    {
        use libloading::os::unix;
        let process = unix::Library::this();
        // SAFETY: only the symbol's presence matters.
        if unsafe { process.get::<*const ()>(b"Py_IsInitialized\0") }.is_ok() {
            return Ok(process.into());
        }
        // SAFETY: libpython's constructors are trusted as the manifest, which names its environment, is.
        let library =
            unsafe { unix::Library::open(Some(path), unix::RTLD_NOW | unix::RTLD_GLOBAL) };
        library
            .map(Into::into)
            .context("can't open Python's library")
    }
    #[cfg(not(unix))]
    {
        // SAFETY: as above.
        unsafe { Library::new(path) }.context("can't open Python's library")
    }
}

fn initialise(python: &Python, interpreter: &Interpreter) -> Result<()> {
    let program = CString::new(interpreter.executable.as_bytes())
        .context("the path of the interpreter contains a null character")?;
    // SAFETY: nothing of Python runs yet. The decoded name is never freed, as `Py_SetProgramName` requires. No signal
    // handlers are installed (0). The thread gives up the lock, which each call takes again.
    unsafe {
        let name = (python.Py_DecodeLocale)(program.as_ptr(), std::ptr::null_mut());
        if name.is_null() {
            return Err(HookError::new(format_args!(
                "the path `{}` can't be decoded in this locale",
                interpreter.executable
            )));
        }
        (python.Py_SetProgramName)(name);
        (python.Py_InitializeEx)(0);
        (python.PyEval_SaveThread)();
    }
    Ok(())
}

/// Creates the package `sconce`; `None` with an exception set if that fails.
fn load_package(gil: &Gil, switch_interval: f64) -> Option<Functions> {
    let python = gil.python();
    // SAFETY: this thread has the lock; builtins are borrowed and always there.
    let builtins = gil.share(unsafe { (python.PyEval_GetBuiltins)() })?;
    // SAFETY: as above; `object` is borrowed from the dictionary.
    let object = gil
        .share(unsafe { (python.PyDict_GetItemString)(builtins.pointer(), c"object".as_ptr()) })?;
    let plain = gil.attribute(&object, c"__basicsize__")?;
    // SAFETY: this thread has the lock.
    let plain = unsafe { (python.PyLong_AsLongLong)(plain.pointer()) };
    let task_type = objects::task_type(gil)?;
    let tensor_type = tensor::tensor_type(gil, c_int::try_from(plain).ok()?)?;
    let sources = SOURCES
        .iter()
        .map(|(name, source)| gil.tuple([gil.text(name), gil.text(source)]));
    let sources = gil.tuple_of(sources)?;
    // SAFETY: this thread has the lock.
    let variables = gil.own(unsafe { (python.PyDict_New)() })?;
    let given: [(&CStr, &Ref); 4] = [
        (c"__builtins__", &builtins),
        (c"Task", &task_type),
        (c"Tensor", &tensor_type),
        (c"sources", &sources),
    ];
    for (name, value) in given {
        // SAFETY: this thread has the lock; the dictionary takes a reference of its own.
        unsafe {
            (python.PyDict_SetItemString)(variables.pointer(), name.as_ptr(), value.pointer());
        }
    }
    run(gil, include_str!("bootstrap.py"), &variables)?;
    // SAFETY: this thread has the lock; the module is borrowed from the dictionary.
    let create = unsafe { (python.PyDict_GetItemString)(variables.pointer(), c"create".as_ptr()) };
    collect(gil, &gil.share(create)?, switch_interval)
}

fn run(gil: &Gil, source: &str, variables: &Ref) -> Option<()> {
    let python = gil.python();
    let source = CString::new(source).ok()?;
    // SAFETY: this thread has the lock; source and name are valid texts, the variables a dictionary.
    unsafe {
        let name = c"<sconce bootstrap>".as_ptr();
        let code = gil.own((python.Py_CompileString)(source.as_ptr(), name, FILE_INPUT))?;
        let variables: Object = variables.pointer();
        gil.own((python.PyEval_EvalCode)(
            code.pointer(),
            variables,
            variables,
        ))?;
    }
    Some(())
}

/// Begins the package, and collects what is called later.
fn collect(gil: &Gil, create: &Ref, switch_interval: f64) -> Option<Functions> {
    let get = |name: &CStr| gil.attribute(create, name);
    gil.call(&get(c"begin")?, &gil.tuple([gil.float(switch_interval)])?)?;
    tensor::set_class(get(c"tensor_type")?);
    let task = get(c"task")?;
    Some(Functions {
        create: get(c"create")?,
        collect: get(c"collect")?,
        finish: get(c"finish")?,
        explain: get(c"described")?,
        hook_error: get(c"hook_error")?,
        task_alone: gil.tuple([gil.share(task.pointer())])?,
        nothing: gil.tuple([])?,
        task,
        module: get(c"module")?,
        checkpoint: get(c"checkpoint")?,
        failure: get(c"failure")?,
        outcome: get(c"outcome")?,
        profile: get(c"profile")?,
        prefix: gil.to_text(&get(c"prefix")?)?,
        is_guest: gil.is_true(&get(c"is_guest")?),
    })
}
