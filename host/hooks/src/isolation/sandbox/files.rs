//! Which files a sandboxed process may use: Landlock.

use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};

use sconce_manifest::SandboxRules;

/// The version whose restrictions are asked for; an older kernel enforces those that it knows.
const WANTED: ABI = ABI::V6;

/// The first version that holds everything that `sandbox` promises of files: before it, a file that may be read may be cut.
const COMPLETE: i32 = 3;

/// The first version that keeps signals inside.
const SIGNALS: i32 = 6;

/// The bit of the kernel's errata that says that signals between threads of one process pass.
const THREADS_PASS: i32 = 1 << 1;

/// What the system's loader and C library read.
const SYSTEM: [&str; 13] = [
    "/usr",
    "/lib",
    "/lib64",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/nix/store",
    "/dev/null",
    "/dev/zero",
    "/dev/urandom",
    "/proc/self",
    "/sys/devices/system/cpu",
];

/// What is allowed nowhere, also where everything else is. The run writes into the same directory without a sandbox: through
/// a link it would write elsewhere, and a pipe in the place of one of its files would block it.
const NOT_WRITTEN: landlock::BitFlags<AccessFs> = landlock::make_bitflags!(AccessFs::{
    Execute | MakeSym | MakeFifo | MakeSock | MakeChar | MakeBlock
});

/// What is written to in every process.
const SINK: &str = "/dev/null";

/// This kernel's version of Landlock and what it lacks, for a bug report.
pub fn landlock_version() -> String {
    match version() {
        Ok(version) if version >= SIGNALS => format!("version {version}"),
        Ok(version) if version >= COMPLETE => {
            format!("version {version}: the list of system calls keeps signals in")
        }
        Ok(version) => format!("version {version}: files that may be read may be cut"),
        Err(error) => format!("none ({error})"),
    }
}

/// Restricts this process to the files of its rules. Returns whether the kernel keeps its signals in, too.
///
/// # Errors
///
/// Why the rules can't be enforced, for the user.
pub(super) fn restrict(rules: &SandboxRules, library: &Path) -> Result<bool, String> {
    const WAY: &str = "`\"strict\": false` in `sandbox` runs the hook with what this system has";
    let version = version();
    if rules.strict {
        let gap = match &version {
            Err(error) => Some(format!(
                "can't restrict a process's files (Landlock is off: {error})"
            )),
            Ok(version) if *version < COMPLETE => Some(format!(
                "would let it cut files that it may only read (Linux {} has version {version} of Landlock; version \
                 {COMPLETE} came with 6.2)",
                release()
            )),
            Ok(_) => None,
        };
        if let Some(gap) = gap {
            return Err(format!("this system {gap}; {WAY}"));
        }
    }
    let keeps_signals_in = version.is_ok_and(|version| version >= SIGNALS) && errata_are_mended();
    enforce(rules, library, keeps_signals_in)
        .map_err(|error| format!("its files can't be restricted: {error}"))?;
    Ok(keeps_signals_in)
}

fn enforce(
    rules: &SandboxRules,
    library: &Path,
    keeps_signals_in: bool,
) -> Result<(), RulesetError> {
    let mut scope = Scope::from_all(WANTED);
    if !keeps_signals_in {
        scope.remove(Scope::Signal);
    }
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(WANTED))?
        .scope(scope)?
        .create()?;
    let beside = library.parent().filter(|_| !library.starts_with("/proc"));
    let read = SYSTEM.iter().map(Path::new);
    let read = read
        .chain(rules.read.iter().map(PathBuf::as_path))
        .chain(beside);
    for path in read {
        let access = AccessFs::from_read(WANTED) & !AccessFs::Execute;
        ruleset = allow(ruleset, path, access)?;
    }
    for path in &rules.list {
        ruleset = allow(ruleset, path, AccessFs::ReadDir.into())?;
    }
    let write = rules.write.iter().map(PathBuf::as_path);
    for path in write.chain([Path::new(SINK)]) {
        ruleset = allow(ruleset, path, AccessFs::from_all(WANTED) & !NOT_WRITTEN)?;
    }
    if rules.processes {
        for path in ["/usr", "/bin", "/lib", "/lib64", "/nix/store"] {
            ruleset = allow(ruleset, Path::new(path), AccessFs::Execute.into())?;
        }
    }
    ruleset.restrict_self().map(|_| ())
}

/// Allows access to a path, if it exists.
fn allow(
    ruleset: RulesetCreated,
    path: &Path,
    access: landlock::BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let Ok(file) = PathFd::new(path) else {
        return Ok(ruleset);
    };
    let access = if path.is_dir() {
        access
    } else {
        access & AccessFs::from_file(WANTED)
    };
    ruleset.add_rule(PathBeneath::new(file, access))
}

/// The kernel's version of Landlock.
fn version() -> io::Result<i32> {
    const VERSION: u32 = 1;
    ask(VERSION)
}

/// Whether signals between the threads of one process pass where signals are kept in. Kernels from 6.12 to 6.14 broke
/// that, and those without an answer have no such restriction.
fn errata_are_mended() -> bool {
    const ERRATA: u32 = 2;
    ask(ERRATA).is_ok_and(|errata| errata & THREADS_PASS != 0)
}

/// Asks for a fact about the kernel's Landlock (`landlock_create_ruleset(2)`).
fn ask(fact: u32) -> io::Result<i32> {
    let nothing = std::ptr::null::<libc::c_void>();
    // SAFETY: with one of these flags, the call reads no memory and makes nothing.
    let answer = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0, fact) };
    match i32::try_from(answer) {
        Ok(answer) if answer >= 0 => Ok(answer),
        _ => Err(io::Error::last_os_error()),
    }
}

fn release() -> String {
    rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned()
}
