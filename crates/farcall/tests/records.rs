//! How many records the messages of a turn leave in. Alone in its file, because it counts what the whole process sends.

mod common;

use common::counters::sum_of;
use common::{Pair, settings};
use farcall::{Tag, TransportKind};

#[test]
fn records_grow_while_a_turn_fills_one_after_the_other() {
    let pair = Pair::new(TransportKind::RingShm, settings(&["ring.batch_bytes=512"]), |server| {
        server.on_message(|_, _| {});
    });
    pair.client.wait_for(pair.server).expect("up");
    let records_of = |messages: usize| {
        let before = sum_of("", "records_sent");
        for _ in 0..messages {
            pair.client
                .send(pair.server, Tag(1), &[7; 8])
                .start()
                .expect("sent")
                .wait()
                .expect("it has left");
        }
        pair.client.poll(|_, _| {});
        sum_of("", "records_sent") - before
    };
    assert_eq!(records_of(31), 1, "what 512 bytes hold");
    assert_eq!(records_of(32), 2);
    assert_eq!(records_of(31 + 63 + 127 + 255), 4, "of 512, 1024, 2048 and 4096 bytes");
    assert_eq!(records_of(31 + 63 + 127 + 255 + 255), 5, "none is longer");
    assert_eq!(records_of(32), 2, "the first of another turn is short again");
}
