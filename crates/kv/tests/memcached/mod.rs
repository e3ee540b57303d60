//! A client that speaks memcached's protocol in bytes.

#![allow(dead_code, reason = "each test file uses its part")]

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::redis::{LONG, Served};

/// A client.
pub struct Memcached<S> {
    pub stream: S,
}

impl Memcached<TcpStream> {
    /// A client of a front.
    pub fn of(served: &Served) -> Self {
        let stream = TcpStream::connect(&served.memcached).expect("it listens");
        stream.set_read_timeout(Some(LONG)).expect("a socket");
        stream.set_nodelay(true).expect("a socket");
        Self { stream }
    }
}

impl<S: Read + Write> Memcached<S> {
    /// Sends lines, of which `|` is the end, and gives all answers to them, whose ends are `|` as well.
    pub fn ask(&mut self, lines: &str) -> String {
        let answer = self.ask_bytes(lines.replace('|', "\r\n").as_bytes());
        String::from_utf8_lossy(&answer).replace("\r\n", "|")
    }

    /// Sends bytes, of which the last line has no end, and gives all answers to them.
    pub fn ask_bytes(&mut self, bytes: &[u8]) -> Vec<u8> {
        const END: &[u8] = b"MN\r\n";
        self.stream.write_all(&[bytes, b"\r\nmn\r\n"].concat()).expect("it reads");
        let mut answer = Vec::new();
        while !answer.ends_with(END) {
            assert!(self.read_to(&mut answer) > 0, "{}", answer.escape_ascii());
        }
        answer.truncate(answer.len() - END.len());
        answer
    }

    /// What comes until the connection ends.
    pub fn rest(&mut self) -> String {
        let mut rest = Vec::new();
        while self.read_to(&mut rest) > 0 {}
        String::from_utf8_lossy(&rest).replace("\r\n", "|")
    }

    fn read_to(&mut self, to: &mut Vec<u8>) -> usize {
        let mut bytes = [0; 64 << 10];
        match self.stream.read(&mut bytes) {
            Ok(read) => {
                to.extend_from_slice(&bytes[..read]);
                read
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => 0,
            Err(error) => panic!("no answer: {error}"),
        }
    }
}
