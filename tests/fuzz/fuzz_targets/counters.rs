#![no_main]

use std::sync::OnceLock;

use sconce_tests::mutations::{Bench, Subject};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    static BENCH: OnceLock<Bench> = OnceLock::new();
    BENCH.get_or_init(|| Bench::new(Subject::Counters)).take(input);
});
