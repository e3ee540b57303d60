//! Members of a registry that watch each other, in a chain, and are all gone at once: the registry tells each
//! of the one before it, however long the chain is.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use farcall::bootstrap::{Directory, Rendezvous, random_incarnation};
use rustix::net::sockopt::set_socket_linger;

/// Generous: reached only when something hangs.
const LONG: Duration = Duration::from_secs(60);

/// More than a stack of 2 MiB has room for, if each end were told within the end before it.
const MEMBERS: u64 = 4000;

/// A message of the registry's protocol (docs/bootstrap.md): its length, its kind, its fields.
fn frame(kind: u8, fields: &[&[u8]]) -> Vec<u8> {
    let length = 1 + fields.iter().map(|field| field.len()).sum::<usize>();
    let mut bytes = (length as u32).to_le_bytes().to_vec();
    bytes.push(kind);
    fields.iter().for_each(|field| bytes.extend_from_slice(field));
    bytes
}

/// A text with its length in front.
fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_le_bytes()[..], text.as_bytes()].concat()
}

/// A join of a process without a rank.
fn join(number: u64) -> Vec<u8> {
    let (version, no_rank, no_world) = (2_u16.to_le_bytes(), u32::MAX.to_le_bytes(), 0_u32.to_le_bytes());
    let (incarnation, secret) = ((number + 1).to_le_bytes(), u128::from(number).to_le_bytes());
    let (resumes, lease, process) = (0_u64.to_le_bytes(), 1_u64.to_le_bytes(), 1_u32.to_le_bytes());
    let fields: [&[u8]; 10] = [
        b"farcall\0",
        &version,
        &no_rank,
        &no_world,
        &incarnation,
        &resumes,
        &secret,
        &lease,
        &process,
        &text("h"),
    ];
    frame(1, &fields)
}

/// A member that listens under its name and watches that of the one before it. Waits until it is welcome.
fn member(at: SocketAddr, number: u64) -> TcpStream {
    let mut stream = TcpStream::connect(at).expect("it listens");
    let watch = frame(9, &[&1_u64.to_le_bytes(), &text(&format!("c{}", number.wrapping_sub(1)))]);
    let register = frame(7, &[&text(&format!("c{number}")), &text("ring+shm#0"), &text("a")]);
    stream.write_all(&[join(number), watch, register].concat()).expect("it reads");
    stream.set_read_timeout(Some(LONG)).expect("a limit");
    stream.read_exact(&mut [0; 1]).expect("it is welcome");
    stream
}

#[test]
fn a_chain_of_members_that_watch_each_other_ends_and_the_registry_lives() {
    let registry = Rendezvous::bind_open("127.0.0.1:0").expect("a free port");
    let at = registry.address();
    let members: Vec<TcpStream> = (0..MEMBERS).map(|number| member(at, number)).collect();
    for stream in &members {
        // Their ends are resets: what is sent to them fails.
        set_socket_linger(stream, Some(Duration::ZERO)).expect("a socket of TCP");
    }
    drop(members);
    let late = Directory::open(&at.into(), random_incarnation(), LONG);
    assert!(late.is_ok(), "{late:?}");
}
