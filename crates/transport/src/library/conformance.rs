//! What every library must do, as test functions that any implementation can be put through.
//!
//! [`library_conformance!`](crate::library_conformance) turns all of them into tests of one implementation,
//! given by a function that makes two instances which can reach each other. A case works both from one
//! thread.

use std::time::{Duration, Instant};

use farcall_base::Address;
use farcall_driver::{Destination, HeapLoans};

use super::{ARRIVAL_HEAD_BYTES_MAX, Arrival, Library, compose};
use crate::spares::SHORT_BYTES_MAX;
use crate::{Incoming, Outgoing, Payload};

/// How long a case waits for what must happen before it fails. Nothing measures this: it only ends a hanging
/// test.
const PATIENCE: Duration = Duration::from_secs(20);

/// Lengths around every border between the ways that libraries send messages, up to 1 MiB.
const LENGTHS: [usize; 16] =
    [0, 1, 7, 8, 92, 100, 1000, 4095, 8192, 8193, 30_000, 65_535, 65_536, 200_000, (1 << 20) - 1, 1 << 20];

/// How much is sent before its destination is forgotten: more than libraries are given at a time.
const FORGOTTEN_MESSAGES: u32 = 300;

/// Two instances and the way from each to the other.
pub struct Two<L: Library> {
    libraries: [L; 2],
    ways: [Destination; 2],
}

impl<L: Library> Two<L> {
    fn new(make: impl Fn() -> [L; 2]) -> Self {
        let mut libraries = make();
        let addresses = [libraries[1].address(), libraries[0].address()];
        let mut resolve =
            |from: usize| libraries[from].resolve(&addresses[from]).expect("they reach each other");
        let ways = [resolve(0), resolve(1)];
        let [first, second] = &mut libraries;
        introduce(first, ways[0], second);
        introduce(second, ways[1], first);
        Self { libraries, ways }
    }

    fn send(&mut self, from: usize, head: &[u8], payload: Outgoing<'_>) {
        self.libraries[from].send(self.ways[from], head, payload);
    }

    /// Lets both work.
    fn work(&mut self) {
        for library in &mut self.libraries {
            library.progress();
        }
        std::thread::yield_now();
    }

    /// The next message at `to`, looked at with `look`.
    fn receive<R>(&mut self, to: usize, look: impl FnOnce(&[u8], Incoming<'_>) -> R) -> R {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(arrival) = self.libraries[to].next_arrival() {
                let result = look(arrival.head(), arrival.payload());
                self.libraries[to].release(arrival);
                return result;
            }
            assert!(Instant::now() < deadline, "no message came within {PATIENCE:?}");
            self.work();
        }
    }
}

/// Sends a first message by a way, and has its receiver ask how to answer it, as transports do with what
/// opens a session: until then a library may take no more than that from whoever connects.
fn introduce<L: Library>(from: &mut L, way: Destination, to: &mut L) {
    from.send(way, b"hello", Outgoing::Slice(&[]));
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(arrival) = to.next_arrival() {
            assert_eq!(arrival.head(), b"hello");
            to.answer_to(&arrival, &from.address(), false).expect("its sender is there");
            return to.release(arrival);
        }
        assert!(Instant::now() < deadline, "no introduction came within {PATIENCE:?}");
        from.progress();
        to.progress();
        std::thread::yield_now();
    }
}

/// Bytes that depend on their place and on a seed.
fn pattern(seed: usize, length: usize) -> Vec<u8> {
    let byte = |place: usize| (place.wrapping_mul(31) ^ (place >> 8) ^ seed.wrapping_mul(77)) as u8;
    (0..length).map(byte).collect()
}

/// Every length arrives whole, from each kind of memory, with heads of every length.
pub fn messages_of_all_lengths_arrive_whole<L: Library>(make: impl Fn() -> [L; 2]) {
    let (mut two, mut loans) = (Two::new(make), HeapLoans::new(8 << 20));
    for (round, length) in LENGTHS.into_iter().enumerate() {
        for from in [0, 1] {
            let bytes = pattern(round, length);
            let head = pattern(round + 1, 1 + (round * 5 + from) % ARRIVAL_HEAD_BYTES_MAX);
            let mut loan = loans.loan(length).expect("loans come home when they were sent");
            loan.copy_from_slice(&bytes);
            two.send(from, &head, Outgoing::Slice(&bytes));
            two.send(from, &head, Outgoing::Shared(Payload::from(bytes.clone())));
            two.send(from, &head, Outgoing::Loan(loan));
            for _ in 0..3 {
                let same = |there: &[u8], payload: Incoming<'_>| (there == head, payload.as_slice() == bytes);
                assert_eq!(two.receive(1 - from, same), (true, true), "{length} bytes from {from}");
            }
        }
    }
}

/// Short messages arrive in the order in which they were sent, however many are in flight.
pub fn short_messages_keep_their_order<L: Library>(make: impl Fn() -> [L; 2]) {
    let mut two = Two::new(make);
    for number in 0..5000_u32 {
        two.send(0, &number.to_le_bytes(), Outgoing::Slice(&number.to_be_bytes()));
    }
    for number in 0..5000_u32 {
        let seen = two.receive(1, |head, payload| (head.to_vec(), payload.take().to_vec()));
        assert_eq!(seen, (number.to_le_bytes().to_vec(), number.to_be_bytes().to_vec()));
    }
}

/// Messages that are given away composed arrive like others and in order with them, and leave empty memory
/// behind.
pub fn composed_messages_arrive_in_order_among_others<L: Library>(make: impl Fn() -> [L; 2]) {
    let mut two = Two::new(make);
    let mut message = Vec::new();
    for (round, length) in LENGTHS.into_iter().filter(|&length| length <= 8000).enumerate() {
        let (head, bytes) =
            (pattern(round, round % (ARRIVAL_HEAD_BYTES_MAX + 1)), pattern(round + 1, length));
        for _ in 0..3 {
            compose(&mut message, &head);
            message.extend_from_slice(&bytes);
            two.libraries[0].send_composed(two.ways[0], &mut message);
            assert!(message.is_empty());
            two.send(0, b"apart", Outgoing::Slice(&bytes));
        }
        for _ in 0..3 {
            for expected in [&head[..], b"apart"] {
                let seen = two.receive(1, |there, payload| (there == expected, payload.as_slice() == bytes));
                assert_eq!(seen, (true, true), "{length} bytes");
            }
        }
    }
    for length in LENGTHS {
        compose(&mut message, b"alone");
        message.extend_from_slice(&pattern(4, length));
        two.libraries[0].send_composed(two.ways[0], &mut message);
        assert!(message.is_empty());
        let seen =
            two.receive(1, |head, payload| (head == b"alone", payload.as_slice() == pattern(4, length)));
        assert_eq!(seen, (true, true), "{length} bytes");
    }
}

/// What a composed message leaves to its sender is no memory of long messages, which would stay there.
pub fn composed_messages_leave_short_memory<L: Library>(make: impl Fn() -> [L; 2]) {
    let mut two = Two::new(make);
    let mut message = Vec::new();
    for _ in 0..4 {
        two.send(0, b"long", Outgoing::Slice(&[1; 1 << 20]));
        two.receive(1, |head, _| assert_eq!(head, b"long"));
        (0..3).for_each(|_| two.work());
        compose(&mut message, b"short");
        message.extend_from_slice(&[2; 5000]);
        two.libraries[0].send_composed(two.ways[0], &mut message);
        assert!(message.capacity() <= SHORT_BYTES_MAX, "{} bytes", message.capacity());
        two.receive(1, |head, _| assert_eq!(head, b"short"));
    }
}

/// What a slice held when it was sent arrives, whatever is written there afterwards.
pub fn slices_are_copied_before_send_returns<L: Library>(make: impl Fn() -> [L; 2]) {
    let mut two = Two::new(make);
    for length in LENGTHS {
        let (mut bytes, sent) = (pattern(3, length), pattern(3, length));
        two.send(0, b"head", Outgoing::Slice(&bytes));
        bytes.fill(0xee);
        let arrived = two.receive(1, |_, payload| payload.as_slice() == sent);
        assert!(arrived, "{length} bytes");
    }
}

/// Payloads that are kept stay what they were, beyond the release and the library.
pub fn payloads_can_be_kept<L: Library>(make: impl Fn() -> [L; 2]) {
    let mut two = Two::new(make);
    let mut kept = Vec::new();
    for (round, length) in LENGTHS.into_iter().enumerate() {
        two.send(0, b"head", Outgoing::Slice(&pattern(round, length)));
        kept.push(two.receive(1, |_, payload| payload.take()));
    }
    drop(two);
    for (round, (payload, length)) in kept.iter().zip(LENGTHS).enumerate() {
        assert!(payload[..] == pattern(round, length), "{length} bytes");
    }
}

/// An address has one number until it is forgotten, and leads there again afterwards. One of another library
/// is refused.
pub fn addresses_are_resolved_again_after_they_were_forgotten<L: Library>(make: impl Fn() -> [L; 2]) {
    let mut two = Two::new(make);
    let address = two.libraries[1].address();
    assert_eq!(two.libraries[0].resolve(&address), Ok(two.ways[0]));
    two.send(0, b"first", Outgoing::Slice(b"1"));
    two.receive(1, |head, _| assert_eq!(head, b"first"));
    two.libraries[0].forget(two.ways[0]);
    two.ways[0] = two.libraries[0].resolve(&address).expect("it is still there");
    let [first, second] = &mut two.libraries;
    introduce(first, two.ways[0], second);
    two.send(0, b"second", Outgoing::Slice(&[2; 100_000]));
    two.receive(1, |head, payload| assert_eq!((head, payload.as_slice().len()), (&b"second"[..], 100_000)));
    let strange = Address::new(b"?".to_vec()).expect("short");
    assert!(two.libraries[0].resolve(&strange).is_err());
}

/// What was sent before a destination was forgotten still leaves, however much waits for the library.
pub fn what_was_sent_leaves_after_its_destination_was_forgotten<L: Library>(make: impl Fn() -> [L; 2]) {
    let mut two = Two::new(make);
    for number in 0..FORGOTTEN_MESSAGES {
        two.send(0, &number.to_le_bytes(), Outgoing::Slice(&pattern(number as usize, 4096)));
    }
    two.send(0, b"long", Outgoing::Slice(&pattern(7, 200_000)));
    two.libraries[0].forget(two.ways[0]);
    for number in 0..FORGOTTEN_MESSAGES {
        let expected = (number.to_le_bytes(), pattern(number as usize, 4096));
        let seen = two.receive(1, |head, payload| (head == expected.0, payload.as_slice() == expected.1));
        assert_eq!(seen, (true, true), "message {number}");
    }
    let seen = two.receive(1, |head, payload| (head == b"long", payload.as_slice() == pattern(7, 200_000)));
    assert_eq!(seen, (true, true), "the long one");
}

/// What a peer does not take in, alive or presumed dead, keeps nothing from others.
pub fn a_peer_that_stands_still_holds_up_nobody_else<L: Library>(make: impl Fn() -> [L; 2]) {
    let (mut still, [mut other, _unused]) = (Two::new(&make), make());
    still.send(0, b"first", Outgoing::Slice(b"1"));
    still.receive(1, |head, _| assert_eq!(head, b"first"));
    let Two { libraries: [mut sender, _standing], ways: [to_still, _] } = still;
    let to_other = sender.resolve(&other.address()).expect("they reach each other");
    introduce(&mut sender, to_other, &mut other);
    for _ in 0..200 {
        sender.send(to_still, b"still", Outgoing::Slice(&[1; 100_000]));
    }
    let mut reaches_other = |sender: &mut L| {
        sender.send(to_other, b"other", Outgoing::Slice(&[2; 50_000]));
        let deadline = Instant::now() + PATIENCE;
        loop {
            sender.progress();
            other.progress();
            if let Some(arrival) = other.next_arrival() {
                assert_eq!((arrival.head(), arrival.payload().as_slice().len()), (&b"other"[..], 50_000));
                return other.release(arrival);
            }
            assert!(Instant::now() < deadline, "no message came within {PATIENCE:?}");
            std::thread::yield_now();
        }
    };
    (0..5).for_each(|_| reaches_other(&mut sender));
    sender.presume_dead(to_still);
    sender.forget(to_still);
    (0..5).for_each(|_| reaches_other(&mut sender));
}

/// Instances may end while messages of theirs, or to them, are in flight.
pub fn an_end_in_the_middle_harms_nobody<L: Library>(make: impl Fn() -> [L; 2]) {
    for turns in 0..6 {
        for survivor in [0, 1] {
            let mut two = Two::new(&make);
            for round in 0..20 {
                two.send(0, b"head", Outgoing::Slice(&pattern(round, LENGTHS[round % LENGTHS.len()])));
                two.send(1, b"head", Outgoing::Shared(Payload::from(pattern(round, 100_000))));
            }
            (0..turns).for_each(|_| two.work());
            let Two { libraries: [first, second], ways } = two;
            let mut left = if survivor == 0 {
                drop(second);
                first
            } else {
                drop(first);
                second
            };
            for _ in 0..50 {
                left.progress();
                while let Some(arrival) = left.next_arrival() {
                    assert_eq!(arrival.head(), b"head");
                    left.release(arrival);
                }
                left.send(ways[survivor], b"late", Outgoing::Slice(&[1; 20_000]));
                while left.next_loss().is_some() {}
            }
        }
    }
}

/// Turns the cases into tests of one implementation: a name, and a function that makes two instances that
/// reach each other, or says why there are none.
#[macro_export]
macro_rules! library_conformance {
    ($name:ident, $make:expr) => {
        mod $name {
            $crate::library_conformance!(@cases $make;
                messages_of_all_lengths_arrive_whole,
                short_messages_keep_their_order,
                composed_messages_arrive_in_order_among_others,
                composed_messages_leave_short_memory,
                slices_are_copied_before_send_returns,
                payloads_can_be_kept,
                addresses_are_resolved_again_after_they_were_forgotten,
                what_was_sent_leaves_after_its_destination_was_forgotten,
                a_peer_that_stands_still_holds_up_nobody_else,
                an_end_in_the_middle_harms_nobody,
            );
        }
    };
    (@cases $make:expr; $($case:ident,)*) => {$(
        #[test]
        fn $case() {
            match $make() {
                Ok(make) => $crate::conformance::$case(make),
                Err(why) => println!("unsupported: {why}"),
            }
        }
    )*};
}
