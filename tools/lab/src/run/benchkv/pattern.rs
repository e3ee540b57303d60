//! Which keys a client accesses, made before the measurement: random numbers would cost as much as a request.

use core::fmt;
use core::str::FromStr;
use std::sync::LazyLock;

use farcall_kv::daemon::call_number;
use farcall_kv::slots::ShortMessage;
use farcall_kv::store::Condition;
use farcall_kv::wire::{Code, GET, GetRequest, PUT, PutRequest, WriteResponse, shard_of};
use farcall_kv::{Name, TableId, Value};
use serde::{Deserialize, Serialize};

use super::slot_times::SlotUse;
use super::{BenchKv, TABLE, VALUE_BYTES};
use farcall_base::Random;

/// Requests of a client's pattern, which it repeats.
const REQUESTS: usize = 10_000;

/// The skew of YCSB's zipfian distribution.
const ZIPFIAN_EXPONENT: f64 = 0.99;

/// How keys are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Distribution {
    /// All are as likely.
    Uniform,
    /// The k-th is chosen with a probability of 1/k^0.99, as in YCSB.
    Zipfian,
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uniform => "uniform",
            Self::Zipfian => "zipfian",
        })
    }
}

impl FromStr for Distribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = [Self::Uniform, Self::Zipfian].into_iter().find(|known| known.to_string() == text);
        known.ok_or_else(|| format!("`{text}` is no distribution; choose from uniform, zipfian"))
    }
}

/// A request, ready to be put into a slot. It takes one cache line, so that requesters wait as little as can
/// be for what to ask.
#[repr(align(64))]
pub(super) struct PatternRequest {
    pub message: ShortMessage,
    pub call: u8,
    pub good: GoodAnswer,
    /// Whether another rank's shard has the object.
    pub remote: bool,
}

/// What the answer to a request must look like. An object that is not there is a shorter answer.
///
/// It is checked without a branch on what was asked, which no processor could guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GoodAnswer {
    bytes: u8,
    /// The bits of the first byte that are a code.
    code_bits: u8,
}

impl GoodAnswer {
    /// Version and value.
    const OF_READ: Self = Self { bytes: (8 + VALUE_BYTES) as u8, code_bits: 0 };

    /// Code and version.
    const OF_WRITE: Self = Self { bytes: WriteResponse::BYTES as u8, code_bits: u8::MAX };

    /// Whether an answer looks like this.
    #[inline]
    pub(super) fn is(self, answer: &[u8]) -> bool {
        let code = answer.first().map_or(u8::MAX, |first| first & self.code_bits);
        answer.len() == usize::from(self.bytes) && code == Code::Done as u8
    }
}

impl PatternRequest {
    /// What a slot does while it is in flight.
    #[inline]
    pub(super) fn class(&self) -> SlotUse {
        if self.remote { SlotUse::Remote } else { SlotUse::Local }
    }
}

pub(super) fn table() -> TableId {
    static TABLE_ID: LazyLock<TableId> = LazyLock::new(|| TableId::of(TABLE).expect("the name is short"));
    *TABLE_ID
}

/// The name of a key, by its number.
pub(super) fn name(key: &[u8; 8]) -> Name<'_> {
    Name::new(table(), key).expect("the key is short")
}

/// The requests of client `client` of rank `rank`.
pub(super) fn pattern(bench: &BenchKv, rank: usize, client: usize) -> Vec<PatternRequest> {
    let mut random = Random::new(bench.seed.wrapping_mul(1_000_003) ^ (rank * 1000 + client) as u64);
    let keys = bench.keys as usize * bench.ranks;
    let cumulative = cumulative(bench.distribution, keys);
    let value = [0x5a; VALUE_BYTES];
    let request = |_| {
        let share = random.below(1 << 53) as f64 / (1_u64 << 53) as f64;
        let key = cumulative.partition_point(|&upto| upto <= share).min(keys - 1);
        let reads = (random.below(1 << 53) as f64) < bench.read_ratio * (1_u64 << 53) as f64;
        let key = (key as u64).to_le_bytes();
        let name = name(&key);
        let remote = shard_of(name, bench.ranks as u32) as usize != rank;
        let (call, good) = if reads { (GET, GoodAnswer::OF_READ) } else { (PUT, GoodAnswer::OF_WRITE) };
        let mut bytes = Vec::new();
        if reads {
            GetRequest { name }.encode(&mut bytes);
        } else {
            let value = Value::new(&value).expect("the value is short");
            PutRequest { name, value, condition: Condition::Always }.encode(&mut bytes);
        }
        let message = ShortMessage::new(&bytes).expect("key and value are short");
        PatternRequest { message, call: call_number(call), good, remote }
    };
    (0..REQUESTS).map(request).collect()
}

/// For each key, the share of requests for it and those before it.
fn cumulative(distribution: Distribution, keys: usize) -> Vec<f64> {
    let weight = |rank: usize| match distribution {
        Distribution::Uniform => 1.0,
        Distribution::Zipfian => 1.0 / ((rank + 1) as f64).powf(ZIPFIAN_EXPONENT),
    };
    let sum: f64 = (0..keys).map(weight).sum();
    let mut upto = 0.0;
    let share = |rank| {
        upto += weight(rank) / sum;
        upto
    };
    (0..keys).map(share).collect()
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    fn bench(ranks: usize, distribution: Distribution, read_ratio: f64) -> BenchKv {
        BenchKv {
            transport: "ring+shm".to_owned(),
            settings: Vec::new(),
            ranks,
            clients: 1,
            queue_depth: 1,
            keys: 1024,
            read_ratio,
            distribution,
            lasting: Duration::from_secs(1),
            runs: 1,
            seed: 1,
            trace: false,
        }
    }

    fn share(requests: &[PatternRequest], what: impl Fn(&PatternRequest) -> bool) -> f64 {
        requests.iter().filter(|request| what(request)).count() as f64 / requests.len() as f64
    }

    #[test]
    fn requests_are_read_and_remote_in_the_shares_that_are_asked_for() {
        let requests = pattern(&bench(2, Distribution::Uniform, 0.25), 0, 0);
        assert!((share(&requests, |request| request.good == GoodAnswer::OF_READ) - 0.25).abs() < 0.02);
        assert!((share(&requests, |request| request.remote) - 0.5).abs() < 0.05);
        let alone = pattern(&bench(1, Distribution::Uniform, 1.0), 0, 0);
        assert!(alone.iter().all(|request| request.good == GoodAnswer::OF_READ && !request.remote));
    }

    #[test]
    fn zipfian_requests_prefer_few_keys() {
        let most_frequent = |distribution| {
            let requests = pattern(&bench(1, distribution, 1.0), 0, 0);
            let mut counts = std::collections::BTreeMap::<_, usize>::new();
            requests.into_iter().for_each(|request| *counts.entry(request.message).or_default() += 1);
            counts.into_values().max().unwrap_or(0)
        };
        assert!(most_frequent(Distribution::Uniform) < 50);
        assert!(most_frequent(Distribution::Zipfian) > 800, "an eighth of 10,000 is expected");
    }

    #[test]
    fn clients_have_patterns_of_their_own_that_follow_from_the_seed() {
        let of = |client| pattern(&bench(1, Distribution::Uniform, 1.0), 0, client);
        let same = |one: &[PatternRequest], other: &[PatternRequest]| {
            one.iter().zip(other).all(|(one, other)| one.message == other.message)
        };
        assert!(same(&of(0), &of(0)) && !same(&of(0), &of(1)));
    }

    #[test]
    fn only_what_was_asked_is_a_good_answer() {
        use farcall_kv::durable::Level;
        let written = |code| WriteResponse { code, version: 7, level: Level::Memory }.encode();
        assert!(GoodAnswer::OF_WRITE.is(&written(Code::Done)));
        assert!(!GoodAnswer::OF_WRITE.is(&written(Code::WrongVersion)));
        let found = [7; 8 + VALUE_BYTES];
        assert!(GoodAnswer::OF_READ.is(&found) && !GoodAnswer::OF_READ.is(&[0; 8]), "not there");
        for good in [GoodAnswer::OF_READ, GoodAnswer::OF_WRITE] {
            assert!(!good.is(&[]) && !good.is(&[0; 56]));
        }
    }
}
