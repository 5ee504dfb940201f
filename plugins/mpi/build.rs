//! Compiles the part in C with the compiler wrapper of an MPI, and links the MPI as that wrapper does.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Environment variable: the MPI's compiler wrapper.
const COMPILER: &str = "MPICC";

/// Environment variable: arguments for the linker, instead of those that the wrapper prints.
const LINK: &str = "SCONCE_MPI_LINK";

/// Environment variable: bytes of the largest message, for tests of messages in pieces.
const PIECE: &str = "SCONCE_MPI_PIECE";

fn main() -> ExitCode {
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            println!("cargo::error={problem}");
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<(), String> {
    for source in ["src/shim.c", "src/shim.h"] {
        println!("cargo::rerun-if-changed={source}");
    }
    for variable in [COMPILER, LINK, PIECE] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let compiler = env::var(COMPILER).unwrap_or_else(|_| "mpicc".to_owned());
    let shown = output(&compiler, &["-show"])?;
    let built_for = version(&compiler)?;
    println!("cargo::rustc-env=SCONCE_MPI_BUILT_FOR={built_for}");

    let mut shim = cc::Build::new();
    shim.compiler(&compiler).file("src/shim.c").std("c99");
    // MPICH's MPI_STATUSES_IGNORE is an address that GCC takes for an array without room.
    shim.flag_if_supported("-Wno-stringop-overflow");
    if let Ok(piece) = env::var(PIECE) {
        shim.define("SCONCE_MPI_PIECE", format!("((uint64_t){piece})").as_str());
    }
    let outcome = shim.try_compile("sconce_mpi_shim");
    outcome.map_err(|error| format!("the part in C does not compile by `{compiler}`: {error}"))?;

    let link = env::var(LINK).unwrap_or(shown);
    for argument in link
        .split_whitespace()
        .filter(|argument| is_for_linking(argument))
    {
        println!("cargo::rustc-link-arg={argument}");
    }
    Ok(())
}

/// Whether an argument of the wrapper's compiler belongs to linking.
fn is_for_linking(argument: &str) -> bool {
    let is_library = argument.starts_with('/') && argument.contains(".so");
    is_library
        || ["-l", "-L", "-Wl,", "-pthread"]
            .iter()
            .any(|start| argument.starts_with(start))
}

/// What the MPI's header says it is, such as `Open MPI 4.1.4`.
fn version(compiler: &str) -> Result<String, String> {
    let directory = env::var_os("OUT_DIR").ok_or("cargo sets no OUT_DIR")?;
    let file = PathBuf::from(directory).join("version.c");
    // Names in quotes: MPICH is a macro in its own header.
    let text = "#include <mpi.h>\n\
        #if defined(OPEN_MPI)\n\
        sconce_is \"Open MPI\" OMPI_MAJOR_VERSION.OMPI_MINOR_VERSION.OMPI_RELEASE_VERSION\n\
        #elif defined(I_MPI_VERSION)\n\
        sconce_is \"Intel MPI\" I_MPI_VERSION\n\
        #elif defined(MVAPICH_VERSION)\n\
        sconce_is \"MVAPICH\" MVAPICH_VERSION\n\
        #elif defined(MPICH_VERSION)\n\
        sconce_is \"MPICH\" MPICH_VERSION\n\
        #else\n\
        sconce_is \"an MPI of the standard\" MPI_VERSION.MPI_SUBVERSION\n\
        #endif\n";
    fs::write(&file, text).map_err(|error| format!("`{}`: {error}", file.display()))?;
    let text = output(compiler, &["-E", "-P", &file.to_string_lossy()])?;
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("sconce_is "));
    // The preprocessor leaves blanks around what it has replaced.
    let words = line.unwrap_or("an unknown MPI").replace('"', "");
    let words: Vec<&str> = words.split_whitespace().collect();
    Ok(words.join(" ").replace(" .", ".").replace(". ", "."))
}

/// What a compiler wrapper prints.
fn output(compiler: &str, arguments: &[&str]) -> Result<String, String> {
    let command = format!("{compiler} {}", arguments.join(" "));
    let done = Command::new(compiler).args(arguments).output().map_err(|error| {
        format!(
            "`{compiler}` can't be started ({error}): install an MPI with its headers, such as libopenmpi-dev or \
             libmpich-dev, or say by {COMPILER}=… where its compiler wrapper is"
        )
    })?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(format!(
            "`{command}` failed: {}",
            said.trim().replace('\n', " · ")
        ));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}
