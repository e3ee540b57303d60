//! The numbers of traces and spans.

use core::cell::RefCell;
use core::fmt;
use std::io::Write as _;

use farcall_base::Entropy;

/// The number of a trace: of everything that one request caused. Never zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TraceId(u128);

/// The number of a span within its trace. Never zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpanId(u64);

impl TraceId {
    /// That number, unless it is zero.
    pub const fn new(number: u128) -> Option<Self> {
        if number == 0 { None } else { Some(Self(number)) }
    }

    /// A new one, which nobody can foretell.
    pub fn random() -> Self {
        Self(u128::from(random()) << 64 | u128::from(random()))
    }

    /// The number.
    pub const fn number(self) -> u128 {
        self.0
    }
}

impl SpanId {
    /// That number, unless it is zero.
    pub const fn new(number: u64) -> Option<Self> {
        if number == 0 { None } else { Some(Self(number)) }
    }

    /// A new one, which nobody can foretell.
    pub fn random() -> Self {
        Self(random())
    }

    /// The number.
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// As headers and OTLP/JSON have it: hexadecimal digits, the highest first.
impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a thread draws from, and the process that seeded it: a child of `fork` must not draw the same.
struct Source {
    process: u32,
    entropy: Entropy,
}

impl Source {
    fn seeded(process: u32) -> Self {
        let mut seed = [0; 32];
        let mut rest = &mut seed[..];
        while !rest.is_empty() {
            // Without a random source there is no session either; numbers of traces are not worth an error.
            let Ok(filled) = rustix::rand::getrandom(&mut *rest, rustix::rand::GetRandomFlags::empty())
            else {
                let time = farcall_driver::clock::Clock::new().ticks();
                _ = write!(rest, "{time}{process}");
                break;
            };
            rest = &mut rest[filled..];
        }
        Self { process, entropy: Entropy::from_seed(seed) }
    }
}

/// A number that is not zero.
fn random() -> u64 {
    thread_local!(static SOURCE: RefCell<Option<Source>> = const { RefCell::new(None) });
    let process = std::process::id();
    SOURCE.with_borrow_mut(|source| {
        if source.as_ref().is_none_or(|source| source.process != process) {
            *source = Some(Source::seeded(process));
        }
        let source = source.as_mut().expect("it was just seeded");
        core::iter::repeat_with(|| source.entropy.bits()).find(|&bits| bits != 0).expect("it is endless")
    })
}
