//! A daemon and its clients in one process.

use core::time::Duration;
use std::os::fd::AsRawFd;
use std::time::Instant;

use super::attached::LOOKS_AT_A_SLOT;
use super::*;

const LONG: Duration = Duration::from_secs(60);
const LAYOUT: SlotLayout = SlotLayout { slots: 3, request_bytes: 100, response_bytes: 200 };

/// A scan may end at a slot that is empty; after this many all have been looked at.
const SCANS: usize = LAYOUT.slots * LOOKS_AT_A_SLOT as usize;

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
    (0..server.places())
        .flat_map(|place| [place; SCANS])
        .map(|place| {
            server.scan(place, |_, request, responder| responder.respond(!request.tag, request.bytes))
        })
        .sum()
}

#[test]
fn requests_of_all_lengths_are_answered_in_every_slot() {
    let name = name("lengths");
    let mut server = SlotServer::bind(&name, LAYOUT, 2).expect("a free name");
    let mut client = attach(&mut server, &name).expect("a place");
    assert_eq!((client.layout(), server.attached()), (LAYOUT, 1));
    for length in 0..=LAYOUT.request_bytes {
        for slot in 0..LAYOUT.slots {
            let request: Vec<u8> = (0..length).map(|at| (at * 7 + slot) as u8).collect();
            assert_eq!(client.take(slot), None, "nothing was asked");
            client.ask(slot, length as u8, &request);
            assert_eq!(client.take(slot), None, "nothing was answered");
            assert_eq!(echo(&mut server), 1);
            assert_eq!(client.take(slot), Some(SlotMessage { tag: !(length as u8), bytes: &request }));
        }
    }
}

#[test]
fn the_scan_after_a_seek_takes_what_has_come_wherever_it_is() {
    let name = name("seek");
    let mut server = SlotServer::bind(&name, LAYOUT, 2).expect("a free name");
    let mut clients = [(); 2].map(|()| attach(&mut server, &name).expect("a place"));
    for scans_before in 0..=SCANS {
        assert!(!server.seek(), "nothing was asked");
        for _ in 0..scans_before {
            assert_eq!(server.scan(1, |_, _, _| panic!("nothing was asked")), 0);
        }
        for slot in 0..LAYOUT.slots {
            clients[1].ask(slot, 3, b"here");
            assert!(server.seek());
            let taken = server.scan(1, |_, request, responder| responder.respond(5, request.bytes));
            assert_eq!(taken, 1, "slot {slot} after {scans_before} scans");
            assert_eq!(clients[1].take(slot), Some(SlotMessage { tag: 5, bytes: b"here" }));
        }
    }
}

#[test]
fn prepared_requests_are_asked_as_they_are() {
    let name = name("short");
    let mut server = SlotServer::bind(&name, LAYOUT, 1).expect("a free name");
    let mut client = attach(&mut server, &name).expect("a place");
    for length in 0..=SHORT_BYTES_MAX {
        let request: Vec<u8> = (0..length).map(|at| (at * 7) as u8).collect();
        let prepared = ShortMessage::new(&request).expect("it is short");
        assert_eq!(prepared.bytes(), request);
        client.ask_short(0, 1, &prepared);
        assert_eq!(echo(&mut server), 1);
        assert_eq!(client.take(0), Some(SlotMessage { tag: 254, bytes: &request }));
    }
    assert_eq!(ShortMessage::new(&[0; SHORT_BYTES_MAX + 1]), None);
}

#[test]
fn owed_responses_may_come_in_any_order_and_once() {
    let name = name("owed");
    let mut server = SlotServer::bind(&name, LAYOUT, 1).expect("a free name");
    let mut client = attach(&mut server, &name).expect("a place");
    (0..LAYOUT.slots).for_each(|slot| client.ask(slot, 0, &[slot as u8]));
    let mut owed = Vec::new();
    let taken = server.scan(0, |address, request, _| owed.push((address, request.bytes.to_vec())));
    assert_eq!((taken, server.scan(0, |_, _, _| panic!("taken twice"))), (LAYOUT.slots, 0));
    for (address, request) in owed.iter().rev() {
        let address = SlotAddress::from_bits(address.to_bits());
        server.respond(address, 7, request);
        server.respond(address, 8, b"once more");
    }
    for slot in 0..LAYOUT.slots {
        assert_eq!(client.take(slot), Some(SlotMessage { tag: 7, bytes: &[slot as u8] }));
    }
}

#[test]
fn a_client_that_goes_leaves_its_place_and_owed_responses_go_nowhere() {
    let name = name("gone");
    let mut server = SlotServer::bind(&name, LAYOUT, 1).expect("a free name");
    let mut first = attach(&mut server, &name).expect("a place");
    let refused = attach(&mut server, &name).err();
    assert_eq!(refused, Some(AttachError::Refused { why: "it has 1 clients, the limit".into() }));
    first.ask(0, 0, b"owed");
    let mut owed = None;
    server.scan(0, |address, _, _| owed = Some(address));
    drop(first);
    assert_eq!(server.attend(), Attendance { detached: 1, ..Attendance::default() });
    let mut second = attach(&mut server, &name).expect("the place is free");
    second.ask(0, 0, b"mine");
    let taken = (0..SCANS).map(|_| server.scan(0, |_, _, _| ())).sum::<usize>();
    assert_eq!(taken, 1);
    server.respond(owed.expect("it was taken"), 0, b"not for you");
    assert_eq!(second.take(0), None, "the response was the first client's");
}

#[test]
fn who_waits_for_callers_is_woken_and_who_finds_nobody_does_not_wait() {
    let name = name("present");
    assert_eq!(
        SlotClient::attach_present(&name, &Access::default(), LONG).err(),
        Some(AttachError::NotThere)
    );
    let mut server = SlotServer::bind(&name, LAYOUT, 1).expect("a free name");
    let waker = server.waker().expect("a descriptor to spare").expect("it listens");
    std::thread::scope(|scope| {
        let client = scope.spawn(|| SlotClient::attach_present(&name, &Access::default(), LONG));
        farcall_driver::wait_readable(&[waker.as_raw_fd()], LONG);
        assert_eq!(server.attend().attached, 1);
        assert!(client.join().expect("it does not panic").is_ok());
    });
}

/// Waits until the client finds its socket closed, which another thread does.
fn until_gone(client: &SlotClient) {
    let begun = Instant::now();
    while client.check().is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(30), "its socket is not closed");
        std::thread::yield_now();
    }
    assert_eq!(client.check(), Err(DaemonGone));
}

#[test]
fn a_daemon_that_ends_is_noticed() {
    let name = name("daemon");
    let mut server = SlotServer::bind(&name, LAYOUT, 1).expect("a free name");
    let client = attach(&mut server, &name).expect("a place");
    assert_eq!(client.check(), Ok(()));
    drop(server);
    until_gone(&client);
    assert_eq!(SlotClient::attach(&name, Duration::ZERO).err(), Some(AttachError::NotThere));
}

#[test]
fn a_client_that_claims_too_long_a_request_is_sent_away() {
    let name = name("long");
    let mut server = SlotServer::bind(&name, LAYOUT, 1).expect("a free name");
    let socket =
        client::reach_until(&name, &Access::default(), Instant::now()).expect("a daemon that listens");
    assert_eq!(server.attend().attached, 1);
    let Ok(hello::Attachment::Segment(layout, segment)) = hello::receive(&socket) else {
        panic!("a segment")
    };
    // The cells are the same; only the client believes that they may hold more.
    let layout = SlotLayout { request_bytes: layout.request_bytes + 1, ..layout };
    let mut client = SlotClient::new(socket, layout, &segment).expect("a segment that is in order");
    client.ask(1, 0, &[0; LAYOUT.request_bytes + 1]);
    assert_eq!(echo(&mut server), 0);
    assert_eq!(server.attend().detached, 1);
    assert_eq!(server.attached(), 0);
    until_gone(&client);
}

#[test]
fn requests_in_any_order_of_slots_are_found() {
    let name = name("order");
    let mut server = SlotServer::bind(&name, LAYOUT, 1).expect("a free name");
    let mut client = attach(&mut server, &name).expect("a place");
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [2, 0, 1]] {
        for slot in order {
            client.ask(slot, 0, &[slot as u8]);
            assert_eq!(echo(&mut server), 1);
            assert_eq!(client.take(slot), Some(SlotMessage { tag: 255, bytes: &[slot as u8] }));
        }
    }
}

#[test]
fn a_daemon_without_slots_has_no_clients_and_is_not_woken() {
    let mut server = SlotServer::none(LAYOUT);
    assert_eq!(server.attend(), Attendance::default());
    assert!(server.waker().is_ok_and(|waker| waker.is_none()) && server.places() == 0);
}
