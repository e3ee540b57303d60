//! What members of a registry do to others by names: chains of watches, crowds under one name, watchers that
//! do not read.

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use common::settings;
use farcall::bootstrap::{Bootstrap, Directory, HostPort, Rendezvous, random_incarnation};
use farcall::{Connection, Node, TransportKind};
use rustix::net::sockopt::set_socket_linger;

/// Generous: reached only when something hangs.
const LONG: Duration = Duration::from_secs(60);

/// More than a stack of 2 MiB has room for, if each end were told within the end before it.
const MEMBERS: u64 = 4000;

/// Kinds of messages of the registry.
const WELCOME: u8 = 129;
const LISTED: u8 = 133;
const CURRENT: u8 = 135;
const COMPARED: u8 = 136;
const FULL: u8 = 139;
const NOT_LISTED: u8 = 140;

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
    let (version, no_rank, no_world) = (3_u16.to_le_bytes(), u32::MAX.to_le_bytes(), 0_u32.to_le_bytes());
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

fn watch(name: &str) -> Vec<u8> {
    frame(9, &[&1_u64.to_le_bytes(), &text(name)])
}

fn register(name: &str, key: &str, address: &str) -> Vec<u8> {
    frame(7, &[&text(name), &text(key), &text(address)])
}

fn withdraw(name: &str, key: &str) -> Vec<u8> {
    frame(8, &[&text(name), &text(key)])
}

/// A member that says this once it has joined. Waits until it is welcome.
fn member(at: SocketAddr, number: u64, says: &[Vec<u8>]) -> TcpStream {
    let mut stream = TcpStream::connect(at).expect("it listens");
    stream.set_read_timeout(Some(LONG)).expect("a limit");
    stream.write_all(&[join(number), says.concat()].concat()).expect("it reads");
    assert_eq!(receive(&mut stream).0, WELCOME);
    stream
}

/// A member that listens under its name and watches that of the one before it.
fn link(at: SocketAddr, number: u64) -> TcpStream {
    let before = watch(&format!("c{}", number.wrapping_sub(1)));
    member(at, number, &[before, register(&format!("c{number}"), "ring+shm#0", "a")])
}

/// The most registers of a registry.
const VALUES_MAX: usize = 4096;

/// Long addresses of this many endpoints fit into what a member may store.
const ENDPOINTS: usize = 300;

/// A member whose endpoints all listen under one name, with long addresses.
fn crowd(at: SocketAddr, number: u64) -> TcpStream {
    let address = "a".repeat(3000);
    let all: Vec<Vec<u8>> = (0..ENDPOINTS)
        .map(|endpoint| register("orders", &format!("basic+udp#{endpoint}"), &address))
        .collect();
    member(at, number, &all)
}

/// The next message of the registry: its kind and its fields.
fn receive(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut length = [0; 4];
    stream.read_exact(&mut length).expect("a message");
    let mut message = vec![0; u32::from_le_bytes(length) as usize];
    stream.read_exact(&mut message).expect("all of it");
    (message[0], message.split_off(1))
}

/// Waits until a connection knows this many servers.
fn wait_for_servers(connection: &Connection<'_>, servers: usize) {
    let begun = Instant::now();
    while connection.servers().len() != servers {
        let known = connection.servers().len();
        assert!(begun.elapsed() < LONG, "{known} servers are known, not {servers}");
        std::thread::yield_now();
    }
}

#[test]
fn a_name_of_any_size_reaches_honest_watchers_beside_those_that_do_not_read() {
    let registry = Rendezvous::bind_open("127.0.0.1:0").expect("a free port");
    let (at, place) = (registry.address(), HostPort::from(registry.address()));
    let mut crowds: Vec<TcpStream> = (0..5).map(|number| crowd(at, number)).collect();
    // Of news alone some of them would have more waiting than all members may have.
    let _deaf: Vec<TcpStream> = (100..180).map(|number| member(at, number, &[watch("orders")])).collect();
    let settings = settings(&[]);
    let node = Node::new(Bootstrap::open(&place, LONG).expect("it joins"), settings.clone());
    let endpoint = node.endpoint_with(TransportKind::BASIC_UDP, &settings).expect("an endpoint");
    let connection = endpoint.connect("orders").expect("a name");
    wait_for_servers(&connection, 5 * ENDPOINTS);
    // A second connection of the process is told with the first, and outlives it.
    let second = endpoint.connect("orders").expect("a name");
    assert_eq!(second.servers().len(), 5 * ENDPOINTS);
    for round in 0..20 {
        for stream in &mut crowds {
            let key = format!("basic+udp#{round}");
            let moved = [withdraw("orders", &key), register("orders", &key, "b"), withdraw("orders", &key)];
            stream.write_all(&moved.concat()).expect("the registry reads");
        }
    }
    wait_for_servers(&connection, 5 * (ENDPOINTS - 20));
    drop(connection);
    drop(crowds);
    wait_for_servers(&second, 0);
}

fn compare_and_set(request: u64, key: &str) -> Vec<u8> {
    frame(11, &[&request.to_le_bytes(), &text(key), &0_u64.to_le_bytes(), &text("value")])
}

#[test]
fn a_register_too_many_is_declined_and_its_member_stays() {
    let registry = Rendezvous::bind_open("127.0.0.1:0").expect("a free port");
    let mut stream = member(registry.address(), 1, &[register("orders", "ring+shm#0", "a")]);
    let registers = VALUES_MAX as u64;
    for request in 0..registers {
        stream.write_all(&compare_and_set(request, &request.to_string())).expect("it reads");
        assert_eq!(receive(&mut stream).0, COMPARED, "number {request}");
    }
    let late = [compare_and_set(registers, "one more"), compare_and_set(registers + 1, "0")].concat();
    stream.write_all(&late).expect("it reads");
    assert_eq!(receive(&mut stream), (FULL, registers.to_le_bytes().to_vec()));
    assert_eq!(receive(&mut stream).0, COMPARED, "what is there is there still");
    stream.write_all(&watch("orders")).expect("it reads");
    assert_eq!(receive(&mut stream).0, LISTED, "its name is registered");
}

#[test]
fn a_name_too_many_is_declined_and_the_others_stay() {
    let registry = Rendezvous::bind_open("127.0.0.1:0").expect("a free port");
    let mut stream = crowd(registry.address(), 1);
    let (long, mut declined) = ("a".repeat(3000), 0);
    for number in 0..100 {
        let name = register("more", &format!("basic+udp#{number}"), &long);
        stream.write_all(&name).expect("it reads");
    }
    stream.write_all(&watch("nobody")).expect("it reads");
    loop {
        match receive(&mut stream).0 {
            NOT_LISTED => declined += 1,
            CURRENT => break,
            other => panic!("{other} is no answer to this"),
        }
    }
    assert!((1..100).contains(&declined), "{declined} are declined");
    let settings = settings(&[]);
    let place = HostPort::from(registry.address());
    let node = Node::new(Bootstrap::open(&place, LONG).expect("it joins"), settings.clone());
    let endpoint = node.endpoint_with(TransportKind::BASIC_UDP, &settings).expect("an endpoint");
    wait_for_servers(&endpoint.connect("orders").expect("a name"), ENDPOINTS);
    wait_for_servers(&endpoint.connect("more").expect("a name"), 100 - declined);
}

#[test]
fn a_chain_of_members_that_watch_each_other_ends_and_the_registry_lives() {
    let registry = Rendezvous::bind_open("127.0.0.1:0").expect("a free port");
    let at = registry.address();
    let members: Vec<TcpStream> = (0..MEMBERS).map(|number| link(at, number)).collect();
    for stream in &members {
        // Their ends are resets: what is sent to them fails.
        set_socket_linger(stream, Some(Duration::ZERO)).expect("a socket of TCP");
    }
    drop(members);
    let late = Directory::open(&at.into(), random_incarnation(), LONG);
    assert!(late.is_ok(), "{late:?}");
}
