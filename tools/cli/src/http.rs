//! As much HTTP/1.1 as a scraper or a browser on this machine needs: one GET, one answer, the connection
//! closed.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::failure::Failure;

/// The most requests that are answered at a time; others are closed at once.
const CONNECTIONS_MAX: usize = 16;
/// The most bytes of a request that are read.
const REQUEST_BYTES_MAX: u64 = 16 << 10;
/// How long a client may take to ask, and to take the answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);
/// Between attempts to accept when descriptors have run out.
const ACCEPT_AGAIN: Duration = Duration::from_millis(10);

/// A type of content.
pub const TEXT: &str = "text/plain; charset=utf-8";

/// What matters of a GET.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Without the query.
    pub path: String,
    /// What stands behind the question mark, decoded.
    pub query: Vec<(String, String)>,
    /// The types that the client takes.
    pub accept: String,
}

/// What comes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: &'static str,
    pub content_type: &'static str,
    pub body: String,
}

impl Answer {
    /// What was asked for.
    pub fn good(content_type: &'static str, body: String) -> Self {
        Self { status: "200 OK", content_type, body }
    }

    /// There is no such thing; says what there is.
    pub fn not_found(sentence: &str) -> Self {
        Self { status: "404 Not Found", content_type: TEXT, body: format!("{sentence}\n") }
    }

    /// It cannot be had now.
    pub fn failed(failure: &Failure) -> Self {
        let sentence = failure.sentences().join("; ");
        Self { status: "503 Service Unavailable", content_type: TEXT, body: format!("{sentence}\n") }
    }
}

/// A socket that listens.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Listens at `HOST:PORT`.
    pub fn bind(at: &str) -> Result<Self, Failure> {
        let cannot = |error| Failure::Run(format!("cannot listen at {at}: {error}"));
        let listener = TcpListener::bind(at).map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        Ok(Self { listener, address })
    }

    /// Where it listens, with the port that the system chose for port 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until the process ends.
    pub fn serve(&self, answer: &(dyn Fn(&Request) -> Answer + Sync)) -> Result<(), Failure> {
        let busy = AtomicUsize::new(0);
        thread::scope(|scope| {
            loop {
                let Ok((client, _)) = self.listener.accept() else {
                    // The client went, or descriptors ran out for the moment.
                    thread::sleep(ACCEPT_AGAIN);
                    continue;
                };
                if busy.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
                    busy.fetch_sub(1, Ordering::Relaxed);
                    continue;
                }
                let busy = &busy;
                scope.spawn(move || {
                    // Whoever does not ask, or does not read, harms nobody else.
                    let _ = converse(client, answer);
                    busy.fetch_sub(1, Ordering::Relaxed);
                });
            }
        })
    }
}

fn converse(mut client: TcpStream, answer: &(dyn Fn(&Request) -> Answer + Sync)) -> io::Result<()> {
    client.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    client.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    let request = Request::read(BufReader::new((&client).take(REQUEST_BYTES_MAX)))?;
    let Answer { status, content_type, body } = match &request {
        Some(request) => answer(request),
        None => Answer {
            status: "405 Method Not Allowed",
            content_type: TEXT,
            body: "only GET is answered\n".to_owned(),
        },
    };
    let length = body.len();
    write!(
        client,
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n{body}"
    )?;
    client.flush()
}

impl Request {
    /// Reads to the empty line; `None` if it is no GET.
    fn read(from: impl BufRead) -> io::Result<Option<Self>> {
        let mut lines = from.lines();
        let first = lines.next().unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()))?;
        let mut words = first.split(' ');
        let is_get = words.next() == Some("GET");
        let (path, query) = words.next().map(|target| target.split_once('?').unwrap_or((target, ""))).unzip();
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        };
        let query = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()).map(pair).collect();
        let mut request = Self { path: path.unwrap_or_default().to_owned(), query, accept: String::new() };
        for line in lines {
            let line = line?;
            if line.is_empty() {
                return Ok(is_get.then_some(request));
            }
            if line.get(..7).is_some_and(|name| name.eq_ignore_ascii_case("accept:")) {
                request.accept = line[7..].trim().to_owned();
            }
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

/// A name or value of a form: `+` is a space, `%` begins a byte.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        let hex = (*first == b'%').then(|| behind.get(..2)).flatten();
        let byte = hex.and_then(|hex| u8::from_str_radix(core::str::from_utf8(hex).ok()?, 16).ok());
        match (byte, first) {
            (Some(byte), _) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            (None, b'+') => {
                bytes.push(b' ');
                rest = behind;
            }
            (None, byte) => {
                bytes.push(*byte);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_to_its_empty_line() {
        let read = |text: &str| Request::read(text.as_bytes());
        let accept = "GET /a?run=x%2Fy+z&run=%zz&b HTTP/1.1\r\naccept: text/html\r\n\r\n";
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let expected = Request {
            path: "/a".to_owned(),
            query: vec![pair("run", "x/y z"), pair("run", "%zz"), pair("b", "")],
            accept: "text/html".to_owned(),
        };
        assert_eq!(read(accept).expect("it is whole"), Some(expected));
        assert_eq!(read("POST / HTTP/1.1\r\n\r\n").expect("it is whole"), None);
        assert_eq!(read("\r\n\r\n").expect("it is whole"), None);
        assert!(read("GET /metrics HTTP/1.1\r\n").is_err(), "it is cut short");
        assert!(read("").is_err());
    }
}
