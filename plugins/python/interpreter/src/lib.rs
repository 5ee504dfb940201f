//! Finds the Python to use, and asks it what it is.
//!
//! To ask is to run it, which a sandbox refuses: there the host asks before, and [hands the answer over](Interpreter::handed_over)
//! in the environment variable [`VARIABLE`].
//!
//! Candidates in order: `python` of the configuration, `VIRTUAL_ENV`, `CONDA_PREFIX`, `python3` on `PATH`. The first that
//! exists is the one, or the reason why not is the error: another one would lack the user's packages.

#![forbid(unsafe_code)]

mod probe;

use std::env;
use std::error::Error;
use std::ffi::OsStr;
use std::fmt::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use probe::{Answer, LIMIT, ask};

/// Oldest minor version of Python 3.
const OLDEST: u32 = 9;

/// The environment variable with the answer of an interpreter that was asked before.
pub const VARIABLE: &str = "SCONCE_PYTHON_INTERPRETER";

/// A Python that can be embedded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interpreter {
    /// The path at which it was found.
    pub found: PathBuf,
    /// Path of the interpreter, in its environment.
    pub executable: String,
    /// `sys.prefix`: the environment.
    pub prefix: String,
    /// Path of libpython.
    pub library: PathBuf,
    /// What it reads: its installation, its environment, and where modules are looked for.
    pub readable: Vec<PathBuf>,
}

/// Why there is no Python to embed.
#[derive(Debug)]
pub struct NoInterpreter {
    /// Why, and what to do, for the user.
    pub message: String,
    /// Whether the configuration's `python` is what is wrong.
    pub is_configured: bool,
}

impl fmt::Display for NoInterpreter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for NoInterpreter {}

impl NoInterpreter {
    fn new(message: impl Into<String>) -> NoInterpreter {
        NoInterpreter {
            message: message.into(),
            is_configured: false,
        }
    }
}

impl Interpreter {
    /// The value of [`VARIABLE`] that hands it over to a process that may not ask.
    ///
    /// # Errors
    ///
    /// If one of its paths is not valid UTF-8.
    pub fn handed_over(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }
}

/// A place to look.
struct Candidate {
    /// What led here, for messages.
    by: &'static str,
    path: PathBuf,
}

/// The interpreter that was asked last: a run with many hooks asks once.
static KNOWN: Mutex<Option<(PathBuf, Interpreter)>> = Mutex::new(None);

/// Finds the interpreter.
///
/// # Errors
///
/// If there is none, with the places where it looked; or if the one found can't be embedded, with what to install.
pub fn find(configured: Option<&Path>) -> Result<Interpreter, NoInterpreter> {
    let candidates = candidates(configured, |name| env::var_os(name));
    let found = candidates
        .iter()
        .find_map(|candidate| interpreter_at(&candidate.path));
    let Some(path) = found else {
        return Err(not_found(configured, &candidates));
    };
    let mut known = KNOWN
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some((asked, interpreter)) = &*known
        && *asked == path
    {
        return Ok(interpreter.clone());
    }
    let interpreter = match known_before(&path) {
        Some(interpreter) => interpreter,
        None => embeddable(&path, ask(&path, LIMIT)?)?,
    };
    *known = Some((path, interpreter.clone()));
    Ok(interpreter)
}

/// The interpreter that was handed over to this process, if it is the one at this path.
fn known_before(path: &Path) -> Option<Interpreter> {
    let handed_over = env::var(VARIABLE).ok()?;
    let interpreter: Interpreter = serde_json::from_str(&handed_over).ok()?;
    (interpreter.found == path).then_some(interpreter)
}

fn candidates<T: AsRef<OsStr>>(
    configured: Option<&Path>,
    variable: impl Fn(&str) -> Option<T>,
) -> Vec<Candidate> {
    if let Some(path) = configured {
        let path = path.to_path_buf();
        return vec![Candidate {
            by: "`python` in the configuration",
            path,
        }];
    }
    let mut candidates = Vec::new();
    for by in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
        if let Some(value) = variable(by)
            && !value.as_ref().is_empty()
        {
            let path = PathBuf::from(value.as_ref());
            candidates.push(Candidate { by, path });
        }
    }
    if let Some(value) = variable("PATH") {
        for directory in env::split_paths(value.as_ref()) {
            let path = directory.join("python3");
            candidates.push(Candidate { by: "PATH", path });
        }
    }
    candidates
}

/// The interpreter that a path means: itself, or that of the environment in a directory.
fn interpreter_at(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    if path.is_file() {
        return Some(path);
    }
    let names = [
        "bin/python3",
        "bin/python",
        "python.exe",
        "Scripts/python.exe",
    ];
    let mut inside = names.iter().map(|name| path.join(name));
    inside.find(|inside| inside.is_file())
}

#[cold]
fn not_found(configured: Option<&Path>, candidates: &[Candidate]) -> NoInterpreter {
    let mut message = String::from("no Python found; looked at:");
    for Candidate { by, path } in candidates {
        // Writing to a string can't fail.
        let _ = write!(message, "\n  {} ({by})", path.display());
    }
    if candidates.is_empty() {
        message.push_str(" VIRTUAL_ENV, CONDA_PREFIX and PATH, none of which is set");
    }
    message.push_str(
        "\nhint: install Python 3.9 or newer, or name one: `\"python\": \".venv\"` in the hook's `config`",
    );
    NoInterpreter {
        message,
        is_configured: configured.is_some(),
    }
}

/// Checks that an interpreter can be embedded.
fn embeddable(path: &Path, answer: Answer) -> Result<Interpreter, NoInterpreter> {
    let shown = path.display();
    let (major, minor) = answer.version;
    if answer.implementation != "cpython" {
        return Err(NoInterpreter::new(format!(
            "the Python at `{shown}` is {}: hooks need CPython",
            answer.implementation
        )));
    }
    if major != 3 || minor < OLDEST {
        return Err(NoInterpreter::new(format!(
            "the Python at `{shown}` is {major}.{minor}: hooks need 3.{OLDEST} or newer"
        )));
    }
    let Some(library) = answer.library else {
        return Err(NoInterpreter::new(format!(
            "the Python at `{shown}` has no shared library (libpython{major}.{minor}): it was linked statically\n\
             hint: install one: `apt install libpython{major}.{minor}` (Debian, Ubuntu), \
             `dnf install python3-libs` (Fedora), `uv python install {major}.{minor}`, or \
             `PYTHON_CONFIGURE_OPTS=--enable-shared pyenv install {major}.{minor}`"
        )));
    };
    Ok(Interpreter {
        found: path.to_owned(),
        readable: answer.readable,
        executable: answer.executable,
        prefix: answer.prefix,
        library,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(implementation: &str, minor: u32, library: Option<&str>) -> Answer {
        Answer {
            implementation: implementation.into(),
            version: (3, minor),
            executable: "/x/bin/python3".into(),
            prefix: "/x".into(),
            library: library.map(Into::into),
            readable: vec!["/x".into()],
        }
    }

    #[test]
    fn candidates_come_in_order_and_a_configured_one_alone() {
        let variable = |name: &str| match name {
            "VIRTUAL_ENV" => Some("/venv"),
            "CONDA_PREFIX" => Some(""),
            "PATH" => Some("/a:/b"),
            _ => None,
        };
        let of = |configured| {
            let found = candidates(configured, variable);
            found
                .iter()
                .map(|one| one.path.display().to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(of(None), ["/venv", "/a/python3", "/b/python3"]);
        assert_eq!(of(Some(Path::new(".venv"))), [".venv"]);
    }

    #[test]
    fn where_it_looked_is_listed() {
        let candidates = candidates(None, |name| (name == "PATH").then_some("/no/where:/else"));
        let message = not_found(None, &candidates).message;
        assert!(
            message.contains("/no/where/python3 (PATH)\n  /else/python3 (PATH)\nhint"),
            "{message}"
        );
        let nothing = not_found(None, &[]).message;
        assert!(nothing.contains("none of which is set"), "{nothing}");
        let configured = find(Some(Path::new("/no/venv"))).unwrap_err();
        assert!(configured.is_configured);
        assert!(configured.message.contains("/no/venv (`python` in"));
    }

    #[test]
    fn what_cannot_be_embedded_says_what_to_install() {
        let path = Path::new("/x/bin/python3");
        for (answer, words) in [
            (
                answer("pypy", 11, Some("/x")),
                "is pypy: hooks need CPython",
            ),
            (
                answer("cpython", 8, Some("/x")),
                "is 3.8: hooks need 3.9 or newer",
            ),
            (answer("cpython", 12, None), "`apt install libpython3.12`"),
        ] {
            let error = embeddable(path, answer).unwrap_err();
            assert!(error.message.contains(words), "{error:?}");
        }
        let found = embeddable(path, answer("cpython", 12, Some("/x/lib/l.so"))).expect("fine");
        assert_eq!(found.library, Path::new("/x/lib/l.so"));
    }
}
