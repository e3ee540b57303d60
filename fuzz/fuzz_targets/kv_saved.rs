//! `kv_saved` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| farcall_fuzz::kv_saved(bytes));
