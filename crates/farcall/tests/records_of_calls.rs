//! How many records the calls of a turn leave in. Alone in its file, because it counts what the whole process
//! sends.

mod common;

use common::counters::sum_of;
use common::stream::Stream;
use farcall::Service;
use farcall::parameters::Settings;

const SERVICE: Service = Service(1);

/// With all of them in one record, the caller would have nothing to do while they are answered.
#[test]
fn a_record_holds_a_part_of_the_calls_that_are_in_flight() {
    let Stream { sender, receiver, to, .. } = Stream::with(&Settings::default());
    receiver.serve(SERVICE, |request, reply| reply.send(request.payload()));
    let records_of = |calls: usize| {
        let before = sum_of("", "records_sent");
        let calls: Vec<_> = (0..calls)
            .map(|_| sender.call(to, SERVICE, &[7; 8]).start().expect("it may be called"))
            .collect();
        sender.flush();
        let records = sum_of("", "records_sent") - before;
        for call in calls {
            while !call.is_complete() {
                receiver.poll(|_, _| {});
                sender.poll(|_, _| {});
            }
            assert_eq!(&call.wait().expect("an answer")[..], [7; 8]);
        }
        records
    };
    // That a session is up is known to the side that asked for it before it is to the other.
    records_of(1);
    assert_eq!(records_of(1), 1);
    records_of(16);
    let halves = records_of(16);
    assert!((2..=4).contains(&halves), "{halves} records of sixteen calls, as there were before");
    records_of(48);
    let thirds = records_of(48);
    assert!((4..=6).contains(&thirds), "{thirds} records of 48 calls, as there were before");
    records_of(1000);
    let of_many = records_of(1000);
    assert!(
        of_many <= 10,
        "{of_many} records of a thousand calls, each up to twice as long as the one before"
    );
    assert_eq!(records_of(1), 1);
}
