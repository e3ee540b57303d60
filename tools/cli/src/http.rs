//! As much HTTP/1.1 as a scraper speaks: one GET, one answer, the connection closed.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::exposition::Format;
use crate::failure::Failure;

/// The most requests that are answered at a time; others are closed at once.
const CONNECTIONS_MAX: usize = 16;
/// The most bytes of a request that are read.
const REQUEST_BYTES_MAX: u64 = 16 << 10;
/// How long a client may take to ask, and to take the answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);

/// The text of a scrape.
type Scrape<'a> = dyn Fn(Format) -> Result<String, Failure> + Sync + 'a;

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
    pub fn serve(&self, scrape: &Scrape<'_>) -> Result<(), Failure> {
        let busy = AtomicUsize::new(0);
        thread::scope(|scope| {
            loop {
                let client = match self.listener.accept() {
                    Ok((client, _)) => client,
                    // The client went, or descriptors ran out for the moment.
                    Err(_) => {
                        thread::sleep(Duration::from_millis(10));
                        continue;
                    }
                };
                if busy.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
                    busy.fetch_sub(1, Ordering::Relaxed);
                    continue;
                }
                let busy = &busy;
                scope.spawn(move || {
                    // Whoever does not ask, or does not read, harms nobody else.
                    let _ = answer(client, scrape);
                    busy.fetch_sub(1, Ordering::Relaxed);
                });
            }
        })
    }
}

fn answer(mut client: TcpStream, scrape: &Scrape<'_>) -> io::Result<()> {
    client.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    client.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    let request = Request::read(BufReader::new((&client).take(REQUEST_BYTES_MAX)))?;
    let body = if request.is_get && request.path == "/metrics" {
        match scrape(request.format) {
            Ok(text) => return respond(&mut client, "200 OK", request.format.content_type(), &text),
            Err(failure) => {
                let sentence = failure.sentence().unwrap_or_default();
                return respond(&mut client, "503 Service Unavailable", PLAIN, &format!("{sentence}\n"));
            }
        }
    } else if !request.is_get {
        ("405 Method Not Allowed", "only GET is answered\n")
    } else {
        ("404 Not Found", "the counters are at /metrics\n")
    };
    respond(&mut client, body.0, PLAIN, body.1)
}

const PLAIN: &str = "text/plain; charset=utf-8";

fn respond(client: &mut TcpStream, status: &str, content_type: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    write!(
        client,
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )?;
    client.flush()
}

impl Format {
    fn content_type(self) -> &'static str {
        match self {
            Self::Plain => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// What matters of a request.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    is_get: bool,
    path: String,
    format: Format,
}

impl Request {
    fn read(from: impl BufRead) -> io::Result<Self> {
        let mut lines = from.lines();
        let first = lines.next().unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()))?;
        let mut words = first.split(' ');
        let is_get = words.next() == Some("GET");
        let path = words.next().unwrap_or_default();
        let path = path.split('?').next().unwrap_or_default().to_owned();
        let mut format = Format::Plain;
        for line in lines {
            let line = line?;
            if line.is_empty() {
                return Ok(Self { is_get, path, format });
            }
            let is_accept = line.get(..7).is_some_and(|name| name.eq_ignore_ascii_case("accept:"));
            if is_accept && line.contains("application/openmetrics-text") {
                format = Format::OpenMetrics;
            }
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_to_its_empty_line() {
        let read = |text: &str| Request::read(text.as_bytes()).ok();
        let request = |path: &str, format| Some(Request { is_get: true, path: path.to_owned(), format });
        assert_eq!(read("GET /metrics?x=1 HTTP/1.1\r\n\r\n"), request("/metrics", Format::Plain));
        let accept = "GET / HTTP/1.1\r\naccept: application/openmetrics-text;version=1.0.0\r\n\r\n";
        assert_eq!(read(accept), request("/", Format::OpenMetrics));
        assert_eq!(read("GET /metrics HTTP/1.1\r\n"), None, "it is cut short");
        assert_eq!(read(""), None);
        assert!(read("\r\n\r\n").is_some_and(|request| !request.is_get));
    }
}
