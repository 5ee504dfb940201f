//! The structure gate, tested with real libraries: intact, truncated, patched and mutated.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::super::inspect::{Inspected, inspect};
use super::prove;
use crate::plugin::test_libraries::{compile, has_compiler, library, metadata, plugin, section};

/// A reproducible stream of random numbers (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % end as u64).unwrap()
    }
}

/// The message with which the file at this path is refused.
fn refused(path: &Path) -> String {
    let refusal = inspect(path).expect_err("should be refused");
    refusal.diagnostic().message
}

/// The message with which a file with these bytes is refused.
fn refused_bytes(bytes: &[u8]) -> String {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.so");
    fs::write(&path, bytes).unwrap();
    refused(&path)
}

/// The bytes of a valid plugin; `None` without a compiler.
fn valid() -> Option<Vec<u8>> {
    has_compiler().then(|| {
        let directory = tempfile::tempdir().unwrap();
        fs::read(plugin(&directory.path().join("p.so"), "p", &["a"])).unwrap()
    })
}

#[test]
fn a_plugin_passes_whatever_its_linker_did() {
    if !has_compiler() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let bytes = section(metadata("p", &["a"]).as_bytes());
    for arguments in [
        &[][..],
        &["-s"],
        &["-Wl,--hash-style=sysv"],
        &["-Wl,--hash-style=both"],
        &["-Wl,-z,now"],
        &["-Wl,-z,pack-relative-relocs"],
        &["-Wl,-z,noseparate-code"],
        &["-nostdlib"],
        &["-Wl,-soname,libp.so.1"],
    ] {
        let path = library(&directory.path().join("p.so"), Some(&bytes), arguments);
        let Inspected {
            metadata, needed, ..
        } = inspect(&path).unwrap_or_else(|no| panic!("{arguments:?}: {}", no.cause));
        assert_eq!(metadata.name, "p");
        let expects_libc = !arguments.contains(&"-nostdlib");
        assert_eq!(
            needed.iter().any(|name| name.contains("libc")),
            expects_libc
        );
    }
}

#[test]
fn the_libraries_of_this_system_pass() {
    // They lie where this process has the C library or its loader from.
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let files = maps
        .lines()
        .filter_map(|line| line.find('/').map(|at| Path::new(&line[at..])));
    let directories: BTreeSet<&Path> = files
        .filter(|file| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("libc.so") || name.starts_with("ld-")
        })
        .filter_map(Path::parent)
        .collect();
    let mut count = 0;
    for directory in &directories {
        for path in fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().path())
        {
            let is_elf = fs::read(&path).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF"));
            if is_elf && path.to_string_lossy().contains(".so") && count < 60 {
                let result = prove(&fs::read(&path).unwrap());
                assert!(result.is_ok(), "{}: {result:?}", path.display());
                count += 1;
            }
        }
    }
    let is_dynamic = cfg!(all(target_os = "linux", not(target_feature = "crt-static")));
    assert!(
        count >= 3 || !is_dynamic,
        "{count} libraries in {directories:?}"
    );
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let Some(bytes) = valid() else { return };
    let mut numbers = Numbers(7);
    let tenths = (0..10).map(|tenth| bytes.len() * tenth / 10);
    let ends = (0..70).chain([bytes.len() - 1]);
    let random: Vec<usize> = (0..40).map(|_| numbers.below(bytes.len())).collect();
    for length in tenths.chain(ends).chain(random) {
        let message = prove(&bytes[..length]).unwrap_err().to_string();
        let expected = match length {
            0 => "is empty",
            _ => "truncated: ",
        };
        assert!(message.contains(expected), "{length}: {message}");
    }
    let message = prove(&bytes[..bytes.len() / 2]).unwrap_err().to_string();
    let end = format!("the file has {}", bytes.len() / 2);
    assert!(
        message.contains("ends at byte") && message.contains(&end),
        "{message}"
    );
}

#[test]
fn a_library_for_another_machine_is_refused() {
    let Some(bytes) = valid() else { return };
    let patched = |index: usize, value: u8| {
        let mut bytes = bytes.clone();
        bytes[index] = value;
        refused_bytes(&bytes)
    };
    let host = if cfg!(target_arch = "x86_64") {
        "x86-64"
    } else {
        std::env::consts::ARCH
    };
    let other = if cfg!(target_arch = "aarch64") {
        (62, "x86-64")
    } else {
        (183, "aarch64")
    };
    let message = patched(18, other.0);
    let expected = format!("built for {}, this host runs {host}", other.1);
    assert!(message.contains(&expected), "{message}");
    assert!(patched(18, 251).contains("built for an unknown machine"));
    // What follows the header is of another size and order then, and not what the header says.
    assert!(patched(4, 1).contains("damaged: "));
    assert!(patched(5, 2).contains("damaged: "));
}

#[test]
fn other_products_of_a_compiler_are_named() {
    if !has_compiler() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let main = "int main(void) { return 0; }";
    for (arguments, expected) in [
        (&["-c"][..], "is an object file"),
        (&["-pie", "-fPIE"], "is an executable"),
        (&["-no-pie"], "is an executable"),
        (&["-static"], "is an executable"),
    ] {
        let path = directory.path().join("x");
        compile(&path, main, arguments);
        let message = refused(&path);
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
    let (object, archive) = (directory.path().join("x.o"), directory.path().join("x.a"));
    compile(&object, main, &["-c"]);
    let made = Command::new("ar")
        .arg("rc")
        .args([&archive, &object])
        .status();
    if made.is_ok_and(|status| status.success()) {
        assert!(refused(&archive).contains("is a static library"));
    }
}

#[test]
fn what_is_no_library_is_described() {
    assert!(refused_bytes(b"").contains("is empty"));
    assert!(refused_bytes(b"#!/bin/sh\nexit\n").contains("starts with `#!/bin/sh`"));
    let mut numbers = Numbers(3);
    let random: Vec<u8> = (0..999).map(|_| numbers.below(256) as u8).collect();
    assert!(refused_bytes(&random).contains("is not a shared library"));
    assert!(refused_bytes(b"MZ\0\0").contains("PE (Windows)"));
    assert!(refused_bytes(b"\xcf\xfa\xed\xfe....").contains("Mach-O (macOS)"));
}

#[test]
fn what_is_no_file_is_not_opened() {
    let directory = tempfile::tempdir().unwrap();
    assert!(refused(directory.path()).contains("a directory, not a file"));
    let missing = directory.path().join("libscv.so");
    assert!(refused(&missing).contains("can't be read"));
    #[cfg(unix)]
    {
        let link = directory.path().join("link.so");
        std::os::unix::fs::symlink("nowhere.so", &link).unwrap();
        assert!(refused(&link).contains("can't be read"));
        let pipe = directory.path().join("pipe.so");
        if Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .is_ok_and(|it| it.success())
        {
            assert!(refused(&pipe).contains("a device, pipe or socket"));
        }
    }
}

#[test]
fn metadata_in_a_library_is_checked() {
    if !has_compiler() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p.so");
    assert!(refused(&library(&path, None, &[])).contains("but no Sconce plugin"));
    let broken = section(b"{\"name\":");
    assert!(refused(&library(&path, Some(&broken), &[])).contains("its metadata is damaged"));
    assert!(
        refused(&library(&path, Some(b"nothing much"), &[])).contains("does not begin as it must")
    );
    let other = metadata("p", &["a"]).replace("\"abi_epoch\":1", "\"abi_epoch\":2");
    let other = library(&path, Some(&section(other.as_bytes())), &[]);
    assert!(refused(&other).contains("another ABI: epoch 2"));
}

#[test]
fn a_thousand_mutations_end_in_an_answer() {
    let Some(valid) = valid() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.so");
    let mut numbers = Numbers(1);
    let mut passed = 0;
    for round in 0..1000 {
        let mut bytes = valid.clone();
        // Headers and tables are at the start and the end; the rest is mostly padding.
        let end = [64, 1024, 4096, bytes.len()][round % 4];
        for _ in 0..=numbers.below(8) {
            let place = numbers.below(end.min(bytes.len()));
            bytes[place] ^= 1 << numbers.below(8);
        }
        if round % 10 == 0 {
            bytes.truncate(numbers.below(bytes.len()));
        }
        fs::write(&path, &bytes).unwrap();
        match inspect(&path) {
            Ok(_) => passed += 1,
            Err(refusal) => assert!(!refusal.diagnostic().message.is_empty()),
        }
    }
    assert!((1..950).contains(&passed), "{passed} of 1000 passed");
}

#[test]
fn a_relocation_outside_of_the_librarys_memory_is_refused() {
    use object::read::elf::ElfFile64;
    use object::{Object, ObjectSection};

    let Some(bytes) = valid().filter(|_| cfg!(target_pointer_width = "64")) else {
        return;
    };
    let (start, size) = {
        let file = ElfFile64::<object::NativeEndian>::parse(&*bytes).unwrap();
        let table = file.section_by_name(".rela.dyn").unwrap();
        table.file_range().unwrap()
    };
    assert!(size >= 24, "it has relocations");
    let start = usize::try_from(start).unwrap();
    for address in [0_u64, 0x1000_0000, u64::MAX - 3] {
        let mut damaged = bytes.clone();
        damaged[start..start + 8].copy_from_slice(&address.to_ne_bytes());
        let told = refused_bytes(&damaged);
        assert!(
            told.contains(&format!("a relocation writes to {address:#x}")),
            "{told}"
        );
    }
}
