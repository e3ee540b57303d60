//! A front with a shard of its own, and clients that speak bytes.

#![allow(dead_code, reason = "each test file uses its part")]

pub mod memory;
pub mod reference;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use farcall_kv::resp::{Front, Options, Place, Stopper};
use farcall_kv::store::{MEMORY_BYTES_MIN, Store};
use farcall_kv::{Shard, SharedShard};

/// Generous: reached only when something hangs.
pub const LONG: Duration = Duration::from_secs(60);

/// A front that serves at a port of loopback and at a socket in a folder.
pub struct Served {
    pub shared: Arc<SharedShard>,
    pub address: String,
    pub socket: PathBuf,
    /// Where memcached clients connect.
    pub memcached: String,
    /// Where clients that speak TLS connect, if the options say what is shown to them.
    tls: Option<String>,
    stopper: Option<Stopper>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    /// With the least memory.
    pub fn start() -> Self {
        Self::with(MEMORY_BYTES_MIN, Options::default())
    }

    /// With this much memory and these options.
    pub fn with(memory_bytes: usize, options: Options) -> Self {
        let cluster = options.cluster.as_ref();
        let (own, shards) = cluster.map_or((0, 1), |cluster| (cluster.own(), cluster.shards()));
        Self::of(Shard::new(Store::new(memory_bytes).expect("enough"), own, shards), options)
    }

    /// With this shard, whose log nobody turns.
    pub fn of(shard: Shard, options: Options) -> Self {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let socket = std::env::temp_dir().join(format!("fc-redis-{}-{number}", std::process::id()));
        let shared = Arc::new(SharedShard::new(shard).expect("descriptors"));
        let mut places = vec![Place::Tcp("127.0.0.1:0".to_owned()), Place::Unix(socket.clone())];
        places.extend(options.tls.as_ref().map(|_| Place::Tls("127.0.0.1:0".to_owned())));
        let options = Options { memcached: vec![places[0].clone()], ..options };
        let front = Front::bind(&places, options, Arc::clone(&shared)).expect("free places");
        let mut addresses = front.addresses();
        let tls = addresses.pop().and_then(|at| Some(at.strip_prefix("tls://")?.to_owned()));
        let address = addresses.swap_remove(0);
        let memcached = front.memcached_addresses().swap_remove(0);
        let stopper = Some(front.stopper());
        let thread = Some(std::thread::spawn(move || front.run().expect("it serves")));
        Self { shared, address, socket, memcached, tls, stopper, thread }
    }

    /// A client over TCP.
    pub fn client(&self) -> Client<TcpStream> {
        let stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_read_timeout(Some(LONG)).expect("a socket");
        stream.set_nodelay(true).expect("a socket");
        Client::of(stream)
    }

    /// Where clients that speak TLS connect.
    pub fn tls_address(&self) -> &str {
        self.tls.as_deref().expect("the options say what is shown to them")
    }

    /// A client over the Unix socket.
    pub fn unix_client(&self) -> Client<UnixStream> {
        let stream = UnixStream::connect(&self.socket).expect("it listens");
        stream.set_read_timeout(Some(LONG)).expect("a socket");
        Client::of(stream)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stopper = None;
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(matches!(ended, Some(Ok(()))) || std::thread::panicking(), "the front panicked");
    }
}

/// A client.
pub struct Client<S> {
    pub stream: S,
    received: Vec<u8>,
}

impl<S: Read + Write> Client<S> {
    /// A client over a stream.
    pub fn of(stream: S) -> Self {
        Self { stream, received: Vec::new() }
    }

    /// Sends words as a request.
    pub fn send(&mut self, words: &[&[u8]]) {
        self.stream.write_all(&request(words)).expect("it reads");
    }

    /// Sends the words of a line as a request and gives the reply, with `|` instead of line ends.
    pub fn ask(&mut self, line: &str) -> String {
        let words: Vec<_> = line.split(' ').map(str::as_bytes).collect();
        self.send(&words);
        self.reply()
    }

    /// The next reply, with `|` instead of line ends.
    pub fn reply(&mut self) -> String {
        let bytes = self.reply_bytes().expect("a reply");
        String::from_utf8_lossy(&bytes).trim_end_matches("\r\n").replace("\r\n", "|")
    }

    /// The next reply; `None` when the connection has ended.
    pub fn reply_bytes(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(length) = reply_length(&self.received) {
                return Some(self.received.drain(..length).collect());
            }
            let mut bytes = [0; 64 << 10];
            match self.stream.read(&mut bytes) {
                Ok(0) => return None,
                Ok(read) => self.received.extend_from_slice(&bytes[..read]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no reply: {error}"),
            }
        }
    }
}

/// Words as a request.
pub fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Whether two replies are the same, or times between which a second has begun. Tests give no shorter ones.
pub fn are_same_times(one: &[u8], other: &[u8]) -> bool {
    let seconds = |reply: &[u8]| -> Option<u64> {
        let number = core::str::from_utf8(reply.strip_prefix(b":")?).ok()?;
        number.trim_end().parse().ok().filter(|seconds| *seconds > 50)
    };
    let apart = seconds(one).zip(seconds(other)).map(|(one, other)| one.abs_diff(other));
    one == other || apart == Some(1)
}

/// How long the first reply is, when all of it is there.
fn reply_length(bytes: &[u8]) -> Option<usize> {
    let line = bytes.windows(2).position(|pair| pair == b"\r\n")? + 2;
    let number = || -> i64 {
        let text = core::str::from_utf8(&bytes[1..line - 2]).expect("a number");
        text.parse().expect("a number")
    };
    match bytes[0] {
        b'$' | b'=' => {
            let length = number();
            let end = if length < 0 { line } else { line + length as usize + 2 };
            (bytes.len() >= end).then_some(end)
        }
        mark @ (b'*' | b'%' | b'~' | b'>') => {
            let elements = number().max(0) * if mark == b'%' { 2 } else { 1 };
            let mut at = line;
            for _ in 0..elements {
                at += reply_length(&bytes[at..])?;
            }
            Some(at)
        }
        _ => Some(line),
    }
}
