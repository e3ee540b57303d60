//! A daemon and its clients in one process.

use core::time::Duration;
use std::os::fd::AsRawFd;

use super::*;

const LONG: Duration = Duration::from_secs(60);
const LAYOUT: SlotLayout = SlotLayout { slots: 3, request_bytes: 100, response_bytes: 200 };

fn name(test: &str) -> String {
    format!("farcall-test-slots-{}-{test}", std::process::id())
}

/// A client of a server that this thread attends to.
fn attach(server: &mut SlotServer, name: &str) -> Result<SlotClient, AttachError> {
    std::thread::scope(|scope| {
        let client = scope.spawn(|| SlotClient::attach(name, LONG));
        while !client.is_finished() {
            server.attend();
        }
        client.join().expect("it does not panic")
    })
}

fn echo(server: &mut SlotServer) -> usize {
    let mut buffer = [0; LAYOUT.request_bytes];
    // A scan may end at a slot that is empty; after as many as there are slots, all have been looked at.
    let scans = (0..server.places()).flat_map(|place| [place; LAYOUT.slots]);
    scans
        .map(|place| server.scan(place, &mut buffer, |_, request, responder| responder.respond(request)))
        .sum()
}

#[test]
fn requests_of_all_lengths_are_answered_in_every_slot() {
    let name = name("lengths");
    let mut server = SlotServer::bind(&name, LAYOUT, 2).expect("a free name");
    let mut client = attach(&mut server, &name).expect("a place");
    assert_eq!((client.layout(), server.attached()), (LAYOUT, 1));
    let mut response = [0; LAYOUT.response_bytes];
    for length in 0..=LAYOUT.request_bytes {
        for slot in 0..LAYOUT.slots {
            let request: Vec<u8> = (0..length).map(|at| (at * 7 + slot) as u8).collect();
            assert_eq!(client.take(slot, &mut response), None, "nothing was asked");
            client.ask(slot, &request);
            assert_eq!(client.take(slot, &mut response), None, "nothing was answered");
            assert_eq!(echo(&mut server), 1);
            assert_eq!(client.take(slot, &mut response), Some(length));
            assert_eq!(response[..length], request);
        }
    }
}

#[test]
fn owed_responses_may_come_in_any_order_and_once() {
    let name = name("owed");
    let mut server = SlotServer::bind(&name, LAYOUT, 1).expect("a free name");
    let mut client = attach(&mut server, &name).expect("a place");
    (0..LAYOUT.slots).for_each(|slot| client.ask(slot, &[slot as u8]));
    let (mut buffer, mut owed) = ([0; LAYOUT.request_bytes], Vec::new());
    let taken = server.scan(0, &mut buffer, |address, request, _| owed.push((address, request.to_vec())));
    assert_eq!((taken, server.scan(0, &mut buffer, |_, _, _| panic!("taken twice"))), (LAYOUT.slots, 0));
    for (address, request) in owed.iter().rev() {
        let address = SlotAddress::from_bits(address.to_bits());
        server.respond(address, request);
        server.respond(address, b"once more");
    }
    let mut response = [0; LAYOUT.response_bytes];
    for slot in 0..LAYOUT.slots {
        assert_eq!((client.take(slot, &mut response), response[0]), (Some(1), slot as u8));
    }
}

#[test]
fn a_client_that_goes_leaves_its_place_and_owed_responses_go_nowhere() {
    let name = name("gone");
    let mut server = SlotServer::bind(&name, LAYOUT, 1).expect("a free name");
    let mut first = attach(&mut server, &name).expect("a place");
    let refused = attach(&mut server, &name).err();
    assert_eq!(refused, Some(AttachError::Refused { why: "it has 1 clients, the limit".into() }));
    first.ask(0, b"owed");
    let (mut buffer, mut owed) = ([0; LAYOUT.request_bytes], None);
    server.scan(0, &mut buffer, |address, _, _| owed = Some(address));
    drop(first);
    assert_eq!(server.attend(), Attendance { detached: 1, ..Attendance::default() });
    let mut second = attach(&mut server, &name).expect("the place is free");
    second.ask(0, b"mine");
    let taken = (0..LAYOUT.slots).map(|_| server.scan(0, &mut buffer, |_, _, _| ())).sum::<usize>();
    assert_eq!(taken, 1);
    server.respond(owed.expect("it was taken"), b"not for you");
    let mut response = [0; LAYOUT.response_bytes];
    assert_eq!(second.take(0, &mut response), None, "the response was the first client's");
}

#[test]
fn who_waits_for_callers_is_woken_and_who_finds_nobody_does_not_wait() {
    let name = name("present");
    assert_eq!(SlotClient::attach_present(&name, LONG).err(), Some(AttachError::NotThere));
    let mut server = SlotServer::bind(&name, LAYOUT, 1).expect("a free name");
    let waker = server.waker().expect("a descriptor to spare");
    std::thread::scope(|scope| {
        let client = scope.spawn(|| SlotClient::attach_present(&name, LONG));
        farcall_driver::wait_readable(&[waker.as_raw_fd()], LONG);
        assert_eq!(server.attend().attached, 1);
        assert!(client.join().expect("it does not panic").is_ok());
    });
}

#[test]
fn a_daemon_that_ends_is_noticed() {
    let name = name("daemon");
    let mut server = SlotServer::bind(&name, LAYOUT, 1).expect("a free name");
    let client = attach(&mut server, &name).expect("a place");
    assert_eq!(client.check(), Ok(()));
    drop(server);
    assert_eq!(client.check(), Err(DaemonGone));
    assert_eq!(SlotClient::attach(&name, Duration::ZERO).err(), Some(AttachError::NotThere));
}

#[test]
fn a_client_that_claims_too_long_a_request_is_sent_away() {
    let name = name("long");
    let mut server = SlotServer::bind(&name, LAYOUT, 1).expect("a free name");
    let client = attach(&mut server, &name).expect("a place");
    client.claim_length(1, 1, LAYOUT.request_bytes + 1);
    assert_eq!(echo(&mut server), 0);
    assert_eq!(server.attend().detached, 1);
    assert_eq!((server.attached(), client.check()), (0, Err(DaemonGone)));
}

#[test]
fn requests_in_any_order_of_slots_are_found() {
    let name = name("order");
    let mut server = SlotServer::bind(&name, LAYOUT, 1).expect("a free name");
    let mut client = attach(&mut server, &name).expect("a place");
    let mut response = [0; LAYOUT.response_bytes];
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [2, 0, 1]] {
        for slot in order {
            client.ask(slot, &[slot as u8]);
            assert_eq!(echo(&mut server), 1);
            assert_eq!((client.take(slot, &mut response), response[0]), (Some(1), slot as u8));
        }
    }
}
