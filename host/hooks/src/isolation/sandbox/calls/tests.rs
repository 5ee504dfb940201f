use std::collections::BTreeMap;
use std::os::unix::process::parent_id;

use super::*;

const OWN: u32 = 4321;
const OTHER: u64 = 99;

fn rules(network: bool, processes: bool) -> SandboxRules {
    SandboxRules {
        read: Vec::new(),
        list: Vec::new(),
        write: Vec::new(),
        network,
        processes,
        environment: Vec::new(),
        memory: None,
        strict: true,
    }
}

/// What the kernel does with a call.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    Allowed,
    Fails(i32),
    Killed,
}

const EPERM: Verdict = Verdict::Fails(libc::EPERM);
const ENOSYS: Verdict = Verdict::Fails(libc::ENOSYS);

/// The filters of a process, carried out as the kernel does.
struct Filters([BpfProgram; 3]);

impl Filters {
    fn of(rules: &SandboxRules, keeps_signals_in: bool) -> Filters {
        let refusal = SeccompAction::Errno(libc::EPERM as u32);
        let list = list(rules, keeps_signals_in, OWN, refusal).expect("a filter");
        assert!(list.len() < 4096, "more than the kernel takes");
        let makers = makers(rules).expect("a filter");
        Filters([requests().expect("a filter"), makers, list])
    }

    fn verdict(&self, number: u32, arguments: [u64; 6]) -> Verdict {
        // Of several errors, the kernel takes that of the newest filter: the last one.
        let mut verdict = Verdict::Allowed;
        for filter in &self.0 {
            verdict = match (verdict, run(filter, number, arguments)) {
                (Verdict::Killed, _) | (_, Verdict::Killed) => Verdict::Killed,
                (earlier, Verdict::Allowed) => earlier,
                (_, error) => error,
            };
        }
        verdict
    }

    fn named(&self, name: &str, arguments: [u64; 6]) -> Verdict {
        let call = Sysno::from_str(name).expect("a system call");
        self.verdict(call.id().unsigned_abs(), arguments)
    }
}

/// Carries out a filter (<https://www.kernel.org/doc/html/latest/networking/filter.html>): of the instructions those that
/// it has.
fn run(program: &[sock_filter], number: u32, arguments: [u64; 6]) -> Verdict {
    const X86_64: u32 = 0xc000_003e;
    const AARCH64: u32 = 0xc000_00b7;
    let machine = if cfg!(target_arch = "x86_64") {
        X86_64
    } else {
        AARCH64
    };
    let word = |offset: u32| match offset {
        0 => number,
        4 => machine,
        _ => {
            let argument = arguments[(offset as usize - 16) / 8];
            (argument >> (8 * (offset % 8))) as u32
        }
    };
    let (mut at, mut value) = (0, 0);
    loop {
        let sock_filter { code, jt, jf, k } = program[at].clone();
        at += 1;
        let branch = |holds: bool| usize::from(if holds { jt } else { jf });
        match u32::from(code) {
            0x20 => value = word(k),
            0x54 => value &= k,
            0x05 => at += k as usize,
            0x15 => at += branch(value == k),
            0x25 => at += branch(value > k),
            0x35 => at += branch(value >= k),
            0x06 => {
                return match k {
                    libc::SECCOMP_RET_ALLOW => Verdict::Allowed,
                    libc::SECCOMP_RET_KILL_PROCESS => Verdict::Killed,
                    _ if k & 0xffff_0000 == libc::SECCOMP_RET_ERRNO => {
                        Verdict::Fails((k & 0xffff).cast_signed())
                    }
                    _ => panic!("no such result: {k:#x}"),
                };
            }
            other => panic!("no such instruction: {other:#x}"),
        }
    }
}

const NONE: [u64; 6] = [0; 6];
const ALL: [u64; 6] = [u64::MAX; 6];

/// Calls whose arguments decide.
const CHECKED: [&str; 9] = [
    "clone",
    "fcntl",
    "ioctl",
    "madvise",
    "prctl",
    "prlimit64",
    "sched_setaffinity",
    "socketpair",
    "tgkill",
];

fn names(of: &[&'static str]) -> BTreeMap<&'static str, Verdict> {
    of.iter().map(|name| (*name, Verdict::Allowed)).collect()
}

#[test]
fn every_number_of_the_kernels_table_is_allowed_by_name_or_refused() {
    for (network, processes) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut allowed = names(&ALLOWED.map(|(_, names)| names).concat());
        if network {
            allowed.extend(names(&NETWORK));
        }
        if processes {
            allowed.extend(names(&PROCESSES));
        }
        let filters = Filters::of(&rules(network, processes), false);
        let mut refused = 0;
        for number in 0..=Sysno::last().id().unsigned_abs() + 2 {
            let name = Sysno::new(number as usize).map(|call| call.name());
            let expected = match name {
                None | Some("clone3") => ENOSYS,
                Some(name) if CHECKED.contains(&name) => continue,
                Some("socket") if network => continue,
                Some(name) => allowed.get(name).copied().unwrap_or(EPERM),
            };
            refused += usize::from(expected == EPERM);
            for arguments in [NONE, ALL] {
                let verdict = filters.verdict(number, arguments);
                assert_eq!(verdict, expected, "{name:?} {number}");
            }
        }
        assert!(refused > 180, "{refused}");
        let x32 = 0x4000_0000;
        for number in [x32, x32 + 1, x32 + 520, u32::MAX] {
            assert_eq!(
                filters.verdict(number, NONE),
                Verdict::Killed,
                "{number:#x}"
            );
        }
    }
}

/// `uretprobe` and `uprobe`, which `x86_64` kernels pass by all filters since 6.11. Who makes them outside of the kernel's
/// own code is ended by SIGILL.
const UNFILTERED: [u32; 2] = [335, 336];

/// Makes every call that is refused, in a process of its own: the kernel decides as [`run`] does.
#[test]
fn the_kernel_refuses_each_call_that_is_not_on_the_list() {
    const INSIDE: &str = "SCONCE_TEST_CALLS";
    const NAME: &str =
        "isolation::sandbox::calls::tests::the_kernel_refuses_each_call_that_is_not_on_the_list";
    if std::env::var_os(INSIDE).is_none() {
        let program = std::env::current_exe().expect("this program");
        let mut command = std::process::Command::new(program);
        command.args(["--exact", NAME, "--test-threads=1", "--nocapture"]);
        let finished = command.env(INSIDE, "1").output().expect("started");
        let said = String::from_utf8_lossy(&finished.stdout);
        assert!(
            finished.status.success() && said.contains("1 passed"),
            "{}: {said}{}",
            finished.status,
            String::from_utf8_lossy(&finished.stderr)
        );
        return;
    }
    let rules = rules(false, false);
    let filters = Filters::of(&rules, false);
    let parent = parent_id();
    // Of this thread alone, which is the test's.
    restrict(&rules, false).expect("it is restricted");
    let mut made = 0;
    let is_filtered = |number: &u32| !cfg!(target_arch = "x86_64") || !UNFILTERED.contains(number);
    let numbers = 0..=Sysno::last().id().unsigned_abs() + 2;
    for number in numbers.filter(is_filtered) {
        for arguments in [NONE, ALL] {
            let Verdict::Fails(expected) = filters.verdict(number, arguments) else {
                continue;
            };
            let [first, second, third, fourth, fifth, sixth] = arguments;
            // SAFETY: a call that the filters refuse has no effect. One that they let through by mistake has arguments that
            // mean nothing, and ends a process that is for this test alone.
            let (result, found) = unsafe {
                let number = i64::from(number);
                let result = libc::syscall(number, first, second, third, fourth, fifth, sixth);
                (result, std::io::Error::last_os_error().raw_os_error())
            };
            let name = Sysno::new(number as usize).map(|call| call.name());
            assert_eq!((result, found), (-1, Some(expected)), "{name:?} {number}");
            made += 1;
        }
    }
    assert_eq!(parent_id(), parent, "what is allowed is let through");
    assert!(made > 200, "{made}");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn the_lists_have_only_names_of_system_calls_and_each_once() {
    let mut all = ALLOWED.map(|(_, names)| names).concat();
    all.extend(
        NETWORK
            .into_iter()
            .chain(PROCESSES)
            .chain(CHECKED)
            .chain(["socket"]),
    );
    for name in &all {
        assert!(Sysno::from_str(name).is_ok(), "{name}");
    }
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count, "one is there twice");
}

#[test]
fn the_page_of_the_documentation_has_every_name() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/isolation.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    for (group, names) in ALLOWED {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        let row = format!("| {group} | {} |", names.join(" "));
        assert!(
            page.contains(&row),
            "docs/isolation.md needs this row:\n{row}"
        );
    }
    for name in NETWORK.iter().chain(&PROCESSES).chain(&CHECKED) {
        assert!(page.contains(&format!("`{name}`")), "{name}");
    }
}

/// Arguments with these values at these places.
fn with(values: &[(usize, u64)]) -> [u64; 6] {
    let mut arguments = NONE;
    for (at, value) in values {
        arguments[*at] = *value;
    }
    arguments
}

/// The upper half of an argument that the kernel takes for an `int` says nothing.
fn with_upper_half(value: u64) -> u64 {
    value | 0xdead_beef << 32
}

/// Checks the verdicts on calls without network and processes.
fn check<const N: usize>(cases: [(&str, [u64; 6], Verdict); N]) {
    let filters = Filters::of(&rules(false, false), true);
    for (name, arguments, expected) in cases {
        assert_eq!(
            filters.named(name, arguments),
            expected,
            "{name} {arguments:x?}"
        );
    }
}

#[test]
fn arguments_decide_whether_a_call_reaches_other_processes() {
    let own = u64::from(OWN);
    let new_thread = (libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND) as u64;
    let address = 0x7fff_0000_0000;
    check([
        ("prlimit64", with(&[(0, 0), (1, 7)]), Verdict::Allowed),
        (
            "prlimit64",
            with(&[(0, own), (3, address)]),
            Verdict::Allowed,
        ),
        (
            "prlimit64",
            with(&[(0, with_upper_half(own))]),
            Verdict::Allowed,
        ),
        ("prlimit64", with(&[(0, OTHER)]), EPERM),
        ("prlimit64", with(&[(0, OTHER), (2, address)]), EPERM),
        ("prlimit64", with(&[(0, 0), (2, address)]), EPERM),
        // Only the upper half of the address is not zero.
        ("prlimit64", with(&[(0, own), (2, 1 << 32)]), EPERM),
        (
            "sched_setaffinity",
            with(&[(0, 0), (1, 8), (2, address)]),
            Verdict::Allowed,
        ),
        ("sched_setaffinity", with(&[(0, own)]), Verdict::Allowed),
        ("sched_setaffinity", with(&[(0, OTHER)]), EPERM),
        ("sched_setscheduler", with(&[(0, own)]), EPERM),
        ("setpriority", NONE, EPERM),
        (
            "tgkill",
            with(&[(0, own), (1, own), (2, 6)]),
            Verdict::Allowed,
        ),
        ("tgkill", with(&[(0, OTHER), (1, OTHER), (2, 9)]), EPERM),
        ("kill", with(&[(0, own)]), EPERM),
        ("clone", with(&[(0, new_thread)]), Verdict::Allowed),
        ("clone", with(&[(0, libc::SIGCHLD as u64)]), EPERM),
        (
            "clone",
            with(&[(0, new_thread | libc::CLONE_NEWUSER as u64)]),
            EPERM,
        ),
        (
            "clone",
            with(&[(0, new_thread | libc::CLONE_UNTRACED as u64)]),
            EPERM,
        ),
        (
            "prctl",
            with(&[(0, libc::PR_SET_NAME as u64)]),
            Verdict::Allowed,
        ),
        (
            "prctl",
            with(&[(0, with_upper_half(libc::PR_SET_NAME as u64))]),
            Verdict::Allowed,
        ),
        (
            "prctl",
            with(&[(0, libc::PR_SET_VMA as u64)]),
            Verdict::Allowed,
        ),
    ]);
}

#[test]
fn arguments_decide_what_a_descriptor_and_the_process_itself_are_asked() {
    let enotty = Verdict::Fails(libc::ENOTTY);
    check([
        ("prctl", with(&[(0, libc::PR_SET_DUMPABLE as u64)]), EPERM),
        ("prctl", with(&[(0, libc::PR_SET_PDEATHSIG as u64)]), EPERM),
        ("prctl", with(&[(0, libc::PR_SET_SECCOMP as u64)]), EPERM),
        ("prctl", with(&[(0, libc::PR_SET_MM as u64)]), EPERM),
        ("ioctl", with(&[(1, libc::TCGETS)]), Verdict::Allowed),
        ("ioctl", with(&[(1, libc::FIONBIO)]), Verdict::Allowed),
        ("ioctl", with(&[(1, libc::TIOCSTI)]), enotty),
        (
            "ioctl",
            with(&[(1, with_upper_half(libc::TIOCSTI))]),
            enotty,
        ),
        ("ioctl", with(&[(1, libc::TIOCLINUX)]), enotty),
        (
            "fcntl",
            with(&[(1, libc::F_GETFL as u64)]),
            Verdict::Allowed,
        ),
        (
            "fcntl",
            with(&[(1, libc::F_OFD_SETLKW as u64)]),
            Verdict::Allowed,
        ),
        ("fcntl", with(&[(1, libc::F_SETOWN as u64)]), EPERM),
        ("fcntl", with(&[(1, libc::F_SETLEASE as u64)]), EPERM),
        ("fcntl", with(&[(1, libc::F_NOTIFY as u64)]), EPERM),
        ("fcntl", with(&[(1, libc::F_SETPIPE_SZ as u64)]), EPERM),
        (
            "madvise",
            with(&[(2, libc::MADV_DONTNEED as u64)]),
            Verdict::Allowed,
        ),
        ("madvise", with(&[(2, libc::MADV_HWPOISON as u64)]), EPERM),
        ("madvise", with(&[(2, libc::MADV_MERGEABLE as u64)]), EPERM),
        (
            "socketpair",
            with(&[(0, libc::AF_UNIX as u64)]),
            Verdict::Allowed,
        ),
        ("socketpair", with(&[(0, libc::AF_INET as u64)]), EPERM),
        ("socket", with(&[(0, libc::AF_UNIX as u64)]), EPERM),
        ("execve", NONE, EPERM),
    ]);
}

#[test]
fn networks_and_processes_are_had_by_their_names_alone() {
    let fork = with(&[(0, libc::SIGCHLD as u64)]);
    let user = with(&[(0, (libc::SIGCHLD | libc::CLONE_NEWUSER) as u64)]);
    let family = |family: i32| with(&[(0, family as u64), (1, libc::SOCK_STREAM as u64)]);
    let network = Filters::of(&rules(true, false), true);
    assert_eq!(
        network.named("socket", family(libc::AF_INET6)),
        Verdict::Allowed
    );
    assert_eq!(network.named("socket", family(libc::AF_NETLINK)), EPERM);
    assert_eq!(network.named("socket", family(libc::AF_PACKET)), EPERM);
    assert_eq!(network.named("clone", fork), EPERM);
    let processes = Filters::of(&rules(false, true), true);
    assert_eq!(processes.named("clone", fork), Verdict::Allowed);
    assert_eq!(processes.named("clone", user), EPERM);
    assert_eq!(processes.named("socket", family(libc::AF_INET)), EPERM);
    // Where the kernel doesn't keep signals in, the list does.
    let signal = with(&[(0, OTHER), (1, 9)]);
    assert_eq!(processes.named("kill", signal), Verdict::Allowed);
    let older = Filters::of(&rules(false, true), false);
    assert_eq!(older.named("kill", signal), EPERM);
    assert_eq!(older.named("tgkill", signal), EPERM);
    for filters in [&network, &processes, &older] {
        for name in [
            "setsid",
            "setpgid",
            "pidfd_open",
            "pidfd_send_signal",
            "seccomp",
            "ptrace",
        ] {
            assert_eq!(filters.named(name, NONE), EPERM, "{name}");
        }
    }
}
