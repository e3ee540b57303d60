//! Somebody between a caller and the driver that it calls.

#![allow(dead_code, reason = "each test file uses its part")]

pub mod ends;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use farcall_base::Address;

/// Where an address has its IP address (of IPv4), and its port.
const IP_AT: usize = 4;
const PORT_AT: usize = 8;

/// The same driver, if it were there.
pub fn at_ip(address: &Address, ip: Ipv4Addr) -> Address {
    let mut bytes = address.as_bytes().to_vec();
    bytes[IP_AT..PORT_AT].copy_from_slice(&ip.octets());
    Address::new(bytes).expect("as long as the real one")
}

/// Passes everything on between a caller and the driver at `address`, but for two bytes at `at` of what the
/// driver says first, which become wrong; returns where to call.
pub fn past_a_liar(address: &Address, at: usize) -> Address {
    past(address, move |caller, called| {
        let (from, to) = (caller.try_clone().expect("descriptors"), called.try_clone().expect("descriptors"));
        std::thread::spawn(move || pass_on(from, to, None));
        pass_on(called, caller, Some(at));
    })
}

/// Passes the call on, and ends both connections when the driver at `address` has answered; returns where to
/// call.
pub fn past_a_mortal(address: &Address) -> Address {
    past(address, |mut caller, mut called| {
        let mut bytes = [0; 4096];
        let count = caller.read(&mut bytes).expect("a call");
        called.write_all(&bytes[..count]).expect("the driver reads");
        let _answer = called.read(&mut bytes).expect("an answer");
    })
}

/// The address of a socket where one caller is accepted and handed over, with a connection to the driver at
/// `address`.
fn past(address: &Address, serve: impl FnOnce(TcpStream, TcpStream) + Send + 'static) -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let port = listener.local_addr().expect("it is bound").port();
    let mut bytes = address.as_bytes().to_vec();
    let real_port = u16::from_be_bytes([bytes[PORT_AT], bytes[PORT_AT + 1]]);
    bytes[PORT_AT..PORT_AT + 2].copy_from_slice(&port.to_be_bytes());
    std::thread::spawn(move || {
        let (caller, _) = listener.accept().expect("a caller");
        serve(caller, TcpStream::connect(("127.0.0.1", real_port)).expect("the driver listens"));
    });
    Address::new(bytes).expect("as long as the real one")
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, mut damage_at: Option<usize>) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if let Some(at) = damage_at.take() {
            bytes[at] ^= 0x5a;
            bytes[at + 1] ^= 0x5a;
        }
        if to.write_all(&bytes[..count]).is_err() {
            return;
        }
    }
}
