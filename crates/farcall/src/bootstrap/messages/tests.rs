//! Messages to bytes and back, and bytes that are no messages.

use super::*;

fn join() -> Join {
    Join {
        place: Place::Rank { rank: 1, size: 2, hosts_fingerprint: 4 },
        incarnation: 3,
        secret: Secret::new([6; 16]),
        machine: 7,
        process: 5,
        host: "node".to_owned(),
    }
}

fn listed() -> Listed {
    Listed {
        number: 1,
        incarnation: 2,
        rank: NO_RANK,
        machine: 3,
        key: "ring+shm#0".to_owned(),
        address: Address::new(*b"somewhere").expect("short"),
        host: "node".to_owned(),
    }
}

fn asks() -> Vec<Ask> {
    let key = "ring+shm#0".to_owned();
    let address = Address::new(*b"somewhere").expect("short");
    vec![
        Ask::Join(join()),
        Ask::Join(Join { place: Place::Open, ..join() }),
        Ask::Publish { key: key.clone(), address: address.clone() },
        Ask::Resolve { request: 7, rank: 1, key: key.clone() },
        Ask::Barrier { request: 8, name: key.clone() },
        Ask::Cancel { request: 9 },
        Ask::Leave,
        Ask::Register { name: "orders".to_owned(), key: key.clone(), address },
        Ask::Withdraw { name: "orders".to_owned(), key: key.clone() },
        Ask::Watch { request: 10, name: "orders".to_owned() },
        Ask::Renew { lease: LEASE_MIN },
        Ask::CompareAndSet { request: 11, key, expected: 12, value: vec![0; VALUE_BYTES_MAX] },
    ]
}

fn answers() -> Vec<Answer> {
    let address = Address::new(vec![0xff; 108]).expect("short enough");
    let host = "h".repeat(HOST_BYTES_MAX);
    vec![
        Answer::Welcome { beyond_machine: true },
        Answer::Refused(Refusal::Version { rendezvous: 3 }),
        Answer::Refused(Refusal::Size { asked: 3, size: 2 }),
        Answer::Refused(Refusal::RankTaken { rank: 1, process: 4711, host }),
        Answer::Refused(Refusal::Hosts),
        Answer::Refused(Refusal::RankHeld { rank: 3 }),
        Answer::Refused(Refusal::NoWorld),
        Answer::Refused(Refusal::Full),
        Answer::Refused(Refusal::Impostor),
        Answer::Resolved { request: 1, incarnation: u64::MAX, address },
        Answer::Released { request: 2 },
        Answer::Listed { request: 3, listed: Arc::new(listed()) },
        Answer::Gone { request: 4, number: 5 },
        Answer::Current { request: 6 },
        Answer::Compared { request: 7, was_set: false, revision: 8, value: vec![9] },
        Answer::Missing { request: 8, count: 20, ranks: vec![3, 5] },
        Answer::Restarted { request: 10 },
        Answer::Full { request: 11 },
        Answer::NotListed { name: "orders".to_owned(), key: "ring+shm#0".to_owned() },
        Answer::NotPublished { key: "ring+shm#0".to_owned() },
    ]
}

#[test]
fn what_is_sent_is_what_is_read() {
    for ask in asks() {
        assert_eq!(Ask::decode(&ask.to_frame()[4..]), Ok(ask));
    }
    for answer in answers() {
        assert_eq!(Answer::decode(&answer.to_frame()[4..]), Ok(answer));
    }
}

#[test]
fn a_message_that_is_cut_or_has_more_is_refused() {
    let mut frames: Vec<_> = asks().iter().map(Ask::to_frame).collect();
    frames.extend(answers().iter().map(Answer::to_frame));
    for frame in frames {
        let message = &frame[4..];
        for end in 0..message.len() {
            assert!(Ask::decode(&message[..end]).is_err() && Answer::decode(&message[..end]).is_err());
        }
        let longer = [message, &[0]].concat();
        assert!(Ask::decode(&longer).is_err() && Answer::decode(&longer).is_err());
    }
}

#[test]
fn the_bytes_of_a_join_are_the_documented_ones() {
    let expected = [
        &[69, 0, 0, 0, 1][..],
        b"farcall\0",
        &[3, 0],
        &[1, 0, 0, 0, 2, 0, 0, 0],
        &[3, 0, 0, 0, 0, 0, 0, 0],
        &[4, 0, 0, 0, 0, 0, 0, 0],
        &[6; 16],
        &[7, 0, 0, 0, 0, 0, 0, 0],
        &[5, 0, 0, 0],
        &[4, 0],
        b"node",
    ]
    .concat();
    let mut frame = Ask::Join(join()).to_frame();
    assert_eq!(frame, expected);
    frame[13] = 1;
    assert_eq!(Ask::decode(&frame[4..]), Ok(Ask::OtherVersion));
    frame[5] = b'F';
    assert!(Ask::decode(&frame[4..]).is_err());
}

#[test]
fn values_that_no_process_has_are_refused() {
    let wrong = [
        Join { place: Place::Rank { rank: 2, size: 2, hosts_fingerprint: 0 }, ..join() },
        Join { place: Place::Rank { rank: 0, size: 0, hosts_fingerprint: 0 }, ..join() },
        Join { place: Place::Rank { rank: 0, size: RANKS_MAX + 1, hosts_fingerprint: 0 }, ..join() },
        Join { place: Place::Rank { rank: NO_RANK, size: 0, hosts_fingerprint: 1 }, ..join() },
        Join { incarnation: 0, ..join() },
        Join { host: String::new(), ..join() },
    ];
    for join in wrong {
        assert!(Ask::decode(&Ask::Join(join).to_frame()[4..]).is_err());
    }
    let key = "k".repeat(NAME_BYTES_MAX + 1);
    assert!(Ask::decode(&Ask::Resolve { request: 1, rank: 0, key }.to_frame()[4..]).is_err());
    for lease in [Duration::ZERO, LEASE_MAX + Duration::from_millis(1)] {
        assert!(Ask::decode(&Ask::Renew { lease }.to_frame()[4..]).is_err());
    }
    let (key, value) = ("key".to_owned(), vec![0; VALUE_BYTES_MAX + 1]);
    let ask = Ask::CompareAndSet { request: 1, key, expected: 0, value };
    assert!(Ask::decode(&ask.to_frame()[4..]).is_err());
}

#[test]
fn a_long_host_name_is_cut_between_characters() {
    let join = Join { host: "ä".repeat(100), ..join() };
    let Ok(Ask::Join(read)) = Ask::decode(&Ask::Join(join).to_frame()[4..]) else { panic!("a join") };
    assert_eq!(read.host, "ä".repeat(32));
}
