//! How many records the messages of a turn leave in. Alone in its file, because it counts what the whole
//! process sends.

mod common;

use common::counters::sum_of;
use common::{Pair, settings};
use farcall::{Tag, TransportKind};

#[test]
fn records_grow_while_a_turn_fills_one_after_the_other() {
    // No credit is due for so little, neither for the ring nor for messages: the server sends no records.
    let settings = settings(&["ring.batch_bytes=512", "ring.ring_bytes=4M", "endpoint.unexpected_bytes=64M"]);
    let pair = Pair::new(TransportKind::RING_SHM, settings, |server| {
        server.on_message(|_, _| {});
    });
    pair.client.wait_for(pair.server).expect("up");
    let records_of_lengths = |messages: usize, bytes: usize| {
        let before = sum_of("", "records_sent");
        for _ in 0..messages {
            pair.client
                .send(pair.server, Tag(1), vec![7; bytes])
                .start()
                .expect("sent")
                .wait()
                .expect("it has left");
        }
        pair.client.poll(|_, _| {});
        sum_of("", "records_sent") - before
    };
    let records_of = |messages: usize| records_of_lengths(messages, 8);
    assert_eq!(records_of(31), 1, "what 512 bytes hold");
    assert_eq!(records_of(32), 2);
    let doubled_to_16_kib = 31 + 63 + 127 + 255 + 511 + 1023;
    assert_eq!(records_of(doubled_to_16_kib), 6, "of 512, 1024, 2048, 4096, 8192 and 16384 bytes");
    assert_eq!(records_of(doubled_to_16_kib + 1023), 7, "none is longer");
    assert_eq!(records_of(32), 2, "the first of another turn is short again");
    assert_eq!(records_of_lengths(1 + 2 + 4 + 8, 1024), 4, "one message that is longer is doubled, too");
}
