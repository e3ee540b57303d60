//! Probes: places in the code that tracers of the kernel (bpftrace, SystemTap, perf) can attach to in a
//! process that runs, as USDT has them: an instruction that does nothing, and a note in the program that says
//! where it is and where its arguments lie.
//!
//! They are built with the feature `probes`. Without it the functions are empty and the notes are not there:
//! arguments have to be in registers at the place of a probe, which is not nothing on the path of a small
//! call.
//! `docs/probes.md` is the table for people; a test holds it against the notes of a program.

/// Whether probes are built.
pub const ARE_BUILT: bool = cfg!(feature = "probes");

/// A probe: its name, its arguments in their order, and what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeDescription {
    /// The name behind `farcall:`.
    pub name: &'static str,
    /// The names of the arguments, all of them numbers of 64 bits.
    pub arguments: &'static [&'static str],
    /// One line for people.
    pub doc: &'static str,
}

macro_rules! probes {
    ($($name:ident($($argument:ident: $type:ty),+) = $doc:literal;)+) => {
        $(
            #[doc = $doc]
            #[inline]
            pub fn $name($($argument: $type),+) {
                #[cfg(feature = "probes")]
                probe::probe!(farcall, $name, $($argument),+);
                #[cfg(not(feature = "probes"))]
                let _ = ($($argument),+,);
            }
        )+

        /// All probes.
        pub const PROBES: &[ProbeDescription] = &[$(ProbeDescription {
            name: stringify!($name),
            arguments: &[$(stringify!($argument)),+],
            doc: $doc,
        }),+];
    };
}

probes! {
    call_begin(endpoint: u32, session: u32, call: u32, service: u16) = "A call was made; its request may still wait for room.";
    call_end(endpoint: u32, session: u32, call: u32, outcome: u8) = "A call has ended: answered (0), refused by the server (1), or without a response (2).";
    handler_begin(endpoint: u32, session: u32, service: u16) = "A handler gets requests that arrived together.";
    handler_end(endpoint: u32, session: u32, service: u16, requests: usize) = "It has returned; how many there were.";
    session_up(endpoint: u32, session: u32) = "A session is up.";
    session_down(endpoint: u32, session: u32, is_lost: bool) = "A session has ended: closed by one of its ends (0), or lost (1).";
    retransmission(packets: u64) = "Packets with bytes that were sent before, since the last time that this was said.";
    flush(packets: u64) = "Packets, or records of a ring, were handed over together.";
}
