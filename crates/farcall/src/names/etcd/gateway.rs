//! The JSON gateway of etcd: one HTTP request a connection, to whichever member answers.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;

use super::member::Member;
use crate::bootstrap::HostPort;

/// How long a member may take for an answer before another one is asked.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// The longest answer.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// The longest line of a header, and of the size of a chunk.
const LINE_BYTES_MAX: u64 = 16 << 10;

/// The members of an etcd.
#[derive(Debug)]
pub struct Gateway {
    members: Vec<Member>,
    /// The one that answered last.
    current: AtomicUsize,
}

impl Gateway {
    /// The gateway of one at least.
    pub fn new(members: Vec<HostPort>) -> Self {
        Self { members: members.into_iter().map(Member::new).collect(), current: AtomicUsize::new(0) }
    }

    /// Asks one member after the other until one answers; `Err` says why they did not. None may take longer
    /// than `within`.
    pub fn ask(&self, path: &str, request: &Value, within: Duration) -> Result<Value, String> {
        let each = within.min(ANSWER_WITHIN);
        self.try_each(|member| {
            let mut body = Body::open(member, path, request, each)?;
            let mut text = Vec::new();
            (&mut body).take(ANSWER_BYTES_MAX).read_to_end(&mut text)?;
            let answer = serde_json::from_slice(&text).map_err(io::Error::other)?;
            if body.status == 200 { Ok(answer) } else { Err(refusal(body.status, &answer)) }
        })
    }

    /// Begins a request whose answer is read line by line, and may never end. A read waits at most for
    /// `quiet`.
    pub fn follow(&self, path: &str, request: &Value, quiet: Duration) -> Result<BufReader<Body>, String> {
        self.try_each(|member| {
            let body = Body::open(member, path, request, ANSWER_WITHIN)?;
            body.stream.get_ref().set_read_timeout(Some(quiet))?;
            if body.status == 200 {
                Ok(BufReader::new(body))
            } else {
                Err(refusal(body.status, &Value::Null))
            }
        })
    }

    fn try_each<T>(&self, ask: impl Fn(&Member) -> io::Result<T>) -> Result<T, String> {
        let first = self.current.load(Ordering::Relaxed);
        let mut trouble = Vec::new();
        for place in (first..first + self.members.len()).map(|place| place % self.members.len()) {
            match ask(&self.members[place]) {
                Ok(answer) => {
                    self.current.store(place, Ordering::Relaxed);
                    return Ok(answer);
                }
                Err(error) => {
                    let is_silent =
                        matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
                    let why = if is_silent { " in time".to_owned() } else { format!(": {error}") };
                    trouble.push(format!("etcd at {} does not answer{why}", self.members[place].place));
                }
            }
        }
        Err(trouble.join("; "))
    }
}

fn refusal(status: u16, answer: &Value) -> io::Error {
    let words = answer["error"].as_str().or(answer["message"].as_str()).unwrap_or("it gives no reason");
    io::Error::other(format!("{words} (HTTP status {status})"))
}

/// What a member answers.
pub struct Body {
    stream: BufReader<TcpStream>,
    /// The HTTP status.
    pub status: u16,
    is_chunked: bool,
    /// Bytes to come: of this chunk, or of all where it is known.
    left: u64,
    is_over: bool,
}

impl Body {
    fn open(member: &Member, path: &str, request: &Value, within: Duration) -> io::Result<Self> {
        let mut failure = io::Error::other("its host has no address");
        let connect = || {
            for at in member.addresses(within)? {
                match TcpStream::connect_timeout(&at, within.max(Duration::from_millis(1))) {
                    Ok(stream) => return Ok(stream),
                    Err(error) => failure = error,
                }
            }
            Err(failure)
        };
        let mut stream = connect()?;
        let timeout = Some(within.max(Duration::from_millis(1)));
        stream.set_read_timeout(timeout)?;
        stream.set_write_timeout(timeout)?;
        let body = request.to_string();
        let head = format!(
            "POST /v3/{path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            member.place,
            body.len()
        );
        stream.write_all((head + &body).as_bytes())?;
        Self::read_head(BufReader::new(stream))
    }

    fn read_head(mut stream: BufReader<TcpStream>) -> io::Result<Self> {
        let status = line(&mut stream)?;
        let status = status.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::other("it does not speak HTTP"))?;
        let (mut is_chunked, mut left) = (false, u64::MAX);
        loop {
            let header = line(&mut stream)?.to_ascii_lowercase();
            match header.split_once(':').map(|(name, value)| (name, value.trim())) {
                None => break,
                Some(("transfer-encoding", value)) => is_chunked = value == "chunked",
                Some(("content-length", value)) => left = value.parse().map_err(io::Error::other)?,
                Some(_) => {}
            }
        }
        let left = if is_chunked { 0 } else { left };
        Ok(Self { stream, status, is_chunked, left, is_over: false })
    }

    /// Reads the size of the next chunk.
    fn next_chunk(&mut self) -> io::Result<()> {
        let mut size = line(&mut self.stream)?;
        if size.is_empty() {
            // The end of the line behind the chunk before.
            size = line(&mut self.stream)?;
        }
        let digits = size.split(';').next().unwrap_or_default().trim();
        self.left = u64::from_str_radix(digits, 16).map_err(io::Error::other)?;
        self.is_over = self.left == 0;
        Ok(())
    }
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.is_chunked && self.left == 0 && !self.is_over {
            self.next_chunk()?;
        }
        if self.is_over || self.left == 0 || buffer.is_empty() {
            return Ok(0);
        }
        let room = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = self.stream.read(&mut buffer[..room])?;
        self.left -= read as u64;
        self.is_over = read == 0;
        Ok(read)
    }
}

fn line(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    if stream.take(LINE_BYTES_MAX).read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end().to_owned())
}

/// The number that a value is: the gateway writes those of 64 bits as text, and leaves out 0.
pub fn number_of(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or(0)
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Bytes as the gateway wants them.
pub fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let word =
            three.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for place in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= three.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

/// The bytes that a value of the gateway means; none if it is no such value.
pub fn bytes_of(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (mut word, mut bits) = (0_u32, 0);
    for digit in value.as_str().unwrap_or_default().bytes().filter(|digit| *digit != b'=') {
        let Some(value) = DIGITS.iter().position(|other| *other == digit) else { return Vec::new() };
        (word, bits) = (word << 6 | value as u32, bits + 6);
        if bits >= 8 {
            bits -= 8;
            bytes.push((word >> bits) as u8);
        }
    }
    bytes
}
