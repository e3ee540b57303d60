//! Every target over its kept inputs and over seeded random changes to them, for a bounded time.
//!
//! `FARCALL_TEST_FUZZ_SECONDS` sets the time for each target (2 unless set), `FARCALL_TEST_FUZZ_SEED` the
//! seed. An input that fails is printed and kept in `artifacts/`, ready to be run again by `cargo fuzz` or to
//! become a seed.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use farcall_base::Random;
use farcall_fuzz::Target;
use farcall_fuzz::mutate::mutate;

/// The longest input that mutation makes.
const INPUT_BYTES_MAX: usize = 4096;

/// Inputs from mutation that are kept for further mutation, since there is no coverage to choose them by.
const POOL_MAX: usize = 256;

fn number_from_environment(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is not a whole number")))
}

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn seeds_of(name: &str) -> Vec<Vec<u8>> {
    let folder = folder("seeds").join(name);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("a readable file")).collect()
}

/// Runs a target once; an input that fails is kept and shown before the panic goes on.
fn run(name: &str, target: Target, input: &[u8]) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(input))) {
        let kept = folder("artifacts").join(name).join("from-corpus-run");
        std::fs::create_dir_all(kept.parent().expect("it has one")).expect("a writable folder");
        std::fs::write(&kept, input).expect("a writable file");
        println!("target {name} failed on {} bytes, kept in {}: {input:02x?}", input.len(), kept.display());
        resume_unwind(panic);
    }
}

fn explore(name: &str, target: Target, random: &mut Random, within: Duration) -> u64 {
    let mut pool = seeds_of(name);
    pool.iter().for_each(|input| run(name, target, input));
    pool.push(Vec::new());
    let (start, mut runs) = (Instant::now(), pool.len() as u64);
    while start.elapsed() < within {
        let mut input = pool[random.index(pool.len())].clone();
        mutate(&mut input, &pool[random.index(pool.len())], random, INPUT_BYTES_MAX);
        run(name, target, &input);
        runs += 1;
        // A full pool changes slowly, so that lines of descent have time to grow.
        let place = random.index(POOL_MAX * 16);
        if pool.len() < POOL_MAX {
            pool.push(input);
        } else if place < POOL_MAX {
            pool[place] = input;
        }
    }
    runs
}

/// Explores one target with a seed of its own making or the given one.
fn test(name: &str, target: Target) {
    let clock =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(1, |age| age.as_nanos() as u64);
    let seed = number_from_environment("FARCALL_TEST_FUZZ_SEED").unwrap_or(clock);
    let seconds = number_from_environment("FARCALL_TEST_FUZZ_SECONDS").unwrap_or(2);
    println!("{name}: FARCALL_TEST_FUZZ_SEED={seed}");
    let runs = explore(name, target, &mut Random::new(seed), Duration::from_secs(seconds));
    println!("{name}: {runs} inputs");
}

macro_rules! tests {
    ($($target:ident),+ $(,)?) => {$(
        #[test]
        fn $target() {
            test(stringify!($target), farcall_fuzz::$target);
        }
    )+};
}

tests!(
    session,
    basic,
    homa,
    ring,
    library,
    shm_offer,
    shm_ring,
    rendezvous,
    counters,
    parameters,
    records,
    slots,
    kv,
    kv_answers,
    kv_log,
    kv_saved,
    history,
    replication,
    resp,
    memcached,
    verbs_handshake,
    ofi_frame,
    tcp_connection,
    keyed
);
