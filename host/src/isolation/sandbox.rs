//! What a hook's process gives up before its library is opened: `sandbox` in a manifest entry.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::process::{Resource, Rlimit, setrlimit};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};

use super::SandboxRules;

impl SandboxRules {
    /// The rules for [`enter`], with the run's directory among those that may be written to.
    ///
    /// # Errors
    ///
    /// If a path is not valid Unicode.
    pub(super) fn text(&self, run_directory: Option<&Path>) -> Result<String, String> {
        let mut rules = self.clone();
        rules.write.extend(run_directory.map(Path::to_path_buf));
        serde_json::to_string(&rules)
            .map_err(|error| format!("its sandbox can't be described: {error}"))
    }
}

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

/// Enters the sandbox of these rules (the JSON of [`SandboxRules`], or nothing). `shared` is the size of the memory shared
/// with the host.
///
/// # Errors
///
/// Why it can't be entered, for the user.
pub(super) fn enter(rules: &str, shared: u64, library: &Path) -> Result<(), String> {
    if rules.is_empty() {
        return Ok(());
    }
    let rules: SandboxRules =
        serde_json::from_str(rules).map_err(|error| format!("its sandbox is damaged: {error}"))?;
    limit_memory(&rules, shared)?;
    limit_files(&rules, library)?;
    limit_calls(&rules)
}

fn limit_memory(rules: &SandboxRules, shared: u64) -> Result<(), String> {
    let Some(memory) = rules.memory else {
        return Ok(());
    };
    // Shared memory and what this program itself has reserved are not the hook's.
    let most = Some(address_space().unwrap_or(shared).saturating_add(memory));
    let limit = Rlimit {
        current: most,
        maximum: most,
    };
    setrlimit(Resource::As, limit).map_err(|error| format!("its memory can't be limited: {error}"))
}

/// Size of this process's address space in bytes.
fn address_space() -> Option<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = pages.split_whitespace().next()?.parse().ok()?;
    pages.checked_mul(rustix::param::page_size() as u64)
}

fn limit_files(rules: &SandboxRules, library: &Path) -> Result<(), String> {
    let restricted = restrict(rules, library);
    let status = restricted.map_err(|error| format!("its files can't be restricted: {error}"))?;
    if status == RulesetStatus::NotEnforced && rules.strict {
        return Err(
            "this system can't restrict a process's files (Landlock is off); `\"strict\": false` in `sandbox` runs \
             the hook with the other restrictions alone"
                .to_owned(),
        );
    }
    Ok(())
}

fn restrict(rules: &SandboxRules, library: &Path) -> Result<RulesetStatus, landlock::RulesetError> {
    let abi = ABI::V6;
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))?
        .scope(Scope::from_all(abi))?
        .create()?;
    let beside = library.parent().filter(|_| !library.starts_with("/proc"));
    let read = SYSTEM.iter().map(Path::new);
    let read = read
        .chain(rules.read.iter().map(PathBuf::as_path))
        .chain(beside);
    for path in read {
        ruleset = allow(ruleset, path, AccessFs::from_read(abi) & !AccessFs::Execute)?;
    }
    for path in rules
        .write
        .iter()
        .map(PathBuf::as_path)
        .chain([Path::new(SINK)])
    {
        ruleset = allow(ruleset, path, AccessFs::from_all(abi) & !NOT_WRITTEN)?;
    }
    if rules.processes {
        for path in ["/usr", "/bin", "/lib", "/lib64", "/nix/store"] {
            ruleset = allow(ruleset, Path::new(path), AccessFs::Execute.into())?;
        }
    }
    Ok(ruleset.restrict_self()?.ruleset)
}

/// Allows access to a path, if it exists.
fn allow(
    ruleset: RulesetCreated,
    path: &Path,
    access: landlock::BitFlags<AccessFs>,
) -> Result<RulesetCreated, landlock::RulesetError> {
    let Ok(file) = PathFd::new(path) else {
        return Ok(ruleset);
    };
    let access = if path.is_dir() {
        access
    } else {
        access & AccessFs::from_file(ABI::V6)
    };
    ruleset.add_rule(PathBeneath::new(file, access))
}

fn limit_calls(rules: &SandboxRules) -> Result<(), String> {
    let told =
        |error: &dyn std::fmt::Display| format!("its system calls can't be restricted: {error}");
    let Ok(machine) = std::env::consts::ARCH.try_into() else {
        return Err(told(&"not on this processor"));
    };
    let mut denied: Vec<(i64, Vec<SeccompRule>)> = [
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_pidfd_getfd,
        libc::SYS_kcmp,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_mount,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_io_uring_setup,
        libc::SYS_kill,
        libc::SYS_tkill,
        libc::SYS_rt_sigqueueinfo,
        libc::SYS_pidfd_send_signal,
    ]
    .map(|call| (call, Vec::new()))
    .into();
    if !rules.network {
        denied.push((libc::SYS_socket, Vec::new()));
    }
    let mut unknown = Vec::new();
    if !rules.processes {
        denied.extend([libc::SYS_execve, libc::SYS_execveat].map(|call| (call, Vec::new())));
        #[cfg(target_arch = "x86_64")]
        denied.extend([libc::SYS_fork, libc::SYS_vfork].map(|call| (call, Vec::new())));
        let is_process = SeccompCondition::new(
            0,
            SeccompCmpArgLen::Qword,
            SeccompCmpOp::MaskedEq(libc::CLONE_THREAD as u64),
            0,
        );
        let is_process = is_process
            .and_then(|is_process| SeccompRule::new(vec![is_process]))
            .map_err(|error| told(&error))?;
        denied.push((libc::SYS_clone, vec![is_process]));
        // Its arguments are in memory, where a filter can't look: the C library falls back to `clone`.
        unknown.push((libc::SYS_clone3, Vec::new()));
    }
    for (calls, errno) in [(denied, libc::EPERM), (unknown, libc::ENOSYS)] {
        if calls.is_empty() {
            continue;
        }
        let filter = SeccompFilter::new(
            calls.into_iter().collect(),
            SeccompAction::Allow,
            SeccompAction::Errno(errno as u32),
            machine,
        );
        let program: BpfProgram = filter
            .and_then(TryInto::try_into)
            .map_err(|error| told(&error))?;
        apply_filter(&program).map_err(|error| told(&error))?;
    }
    Ok(())
}
