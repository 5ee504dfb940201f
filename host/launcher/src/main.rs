//! The program `sconce` where its code is in a library that Python and other programs open, too.
//!
//! It opens `../lib/sconce/libsconce.so`, relative to itself, and calls that library's `sconce_main`.

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    match unix::run() {
        Ok(code) => std::process::ExitCode::from(code),
        Err(problem) => {
            complain(&problem);
            std::process::ExitCode::from(NOT_OPENED)
        }
    }
}

#[cfg(not(unix))]
fn main() -> std::process::ExitCode {
    complain(
        "this system has no `libsconce.so`: use the program that `cargo build --release` makes",
    );
    std::process::ExitCode::from(NOT_OPENED)
}

/// Exit code of a program without its library: that of an installation's problems (`docs/faults.md`).
const NOT_OPENED: u8 = 2;

/// Prints an error; a closed standard error is ignored.
fn complain(problem: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "error: {problem}");
}

#[cfg(unix)]
#[expect(unsafe_code, reason = "opens a library and calls its function")]
mod unix {
    use std::ffi::{CStr, CString, c_int};
    use std::os::unix::ffi::OsStrExt;
    use std::path::{Path, PathBuf};

    /// Place of the library, relative to the directory that `bin` is in.
    const LIBRARY: &str = "lib/sconce/libsconce.so";

    /// Runs the command line of the library; returns its exit code.
    pub(super) fn run() -> Result<u8, String> {
        let library = library()?;
        if !library.is_file() {
            return Err(format!(
                "there is no library `{}`, which has the code of this program\n\
                 hint: archives and wheels have both: keep `bin` and `lib` side by side, and link to the program in \
                 place of copying it",
                library.display()
            ));
        }
        let entry = entry(&library)?;
        // SAFETY: `sconce_main` of this version's library takes nothing and returns an exit code.
        let code = unsafe { entry() };
        Ok(u8::try_from(code).unwrap_or(u8::MAX))
    }

    /// Path of the library beside this program, wherever links lead to it.
    fn library() -> Result<PathBuf, String> {
        let program = std::env::current_exe().and_then(std::fs::canonicalize);
        let program =
            program.map_err(|error| format!("the place of this program is unknown: {error}"))?;
        let root = program.parent().and_then(Path::parent);
        Ok(root.unwrap_or(Path::new("/")).join(LIBRARY))
    }

    fn entry(library: &Path) -> Result<unsafe extern "C" fn() -> c_int, String> {
        let path = CString::new(library.as_os_str().as_bytes())
            .map_err(|_| "the library's path contains a null character".to_owned())?;
        // SAFETY: the path is a C string; the library's constructors are those of this program's own code.
        let opened = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        if opened.is_null() {
            return Err(format!("can't open the library: {}", last_error()));
        }
        // SAFETY: the handle is that of an open library, which is never closed, and the name a C string.
        let found = unsafe { libc::dlsym(opened, c"sconce_main".as_ptr()) };
        if found.is_null() {
            return Err(format!(
                "`{}` is of another version than this program: {}",
                library.display(),
                last_error()
            ));
        }
        // SAFETY: the symbol of this name is a function of this type in every version.
        Ok(unsafe {
            std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn() -> c_int>(found)
        })
    }

    /// What the loader says about its last failure.
    fn last_error() -> String {
        // SAFETY: takes nothing; the text is valid until the next call of the loader's functions on this thread.
        let text = unsafe { libc::dlerror() };
        if text.is_null() {
            return "the system does not say why".to_owned();
        }
        // SAFETY: as above: a C string that no other call has replaced yet.
        unsafe { CStr::from_ptr(text) }
            .to_string_lossy()
            .into_owned()
    }
}
