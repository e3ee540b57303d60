//! TLS 1.3 for servers of other protocols than farcall's: they show a certificate, and may want one of their
//! clients.

use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;

use farcall_base::Principal;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::{Connection, ServerConfig, ServerConnection};

use super::files::{Watched, read_certificates, read_key, read_roots};
use super::proofs::Proofs;
use super::session::push_all;
use super::{RECORD_BYTES_MAX, TlsError, client_verifier, server_builder, unusable};

/// Bytes of TLS that are read from a socket at a time.
const SOCKET_BYTES: usize = 16 << 10;

/// The most that is enciphered ahead of the socket.
const AHEAD_BYTES_MAX: usize = 64 << 10;

/// Keys and buffers of a client that is quiet (measured: 1,500 clients took 8.3 KB each, all told).
const QUIET_BYTES: usize = 8 << 10;

/// What a client takes more once it has sent much at a time: a record that is not whole, and the next one.
const LONG_BYTES: usize = 2 * RECORD_BYTES_MAX;

/// What is read without making room for more than a quiet client has.
const SHORT_BYTES: usize = 4 << 10;

/// What a server shows, and whom it believes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFiles {
    /// Its certificate and those between it and its authority (PEM).
    pub certificate: PathBuf,
    /// Its private key (PEM); others may not read the file.
    pub key: PathBuf,
    /// The authorities of which clients must show a certificate (PEM); without it they show none.
    pub clients: Option<PathBuf>,
}

impl ServerFiles {
    fn all(&self) -> Vec<&PathBuf> {
        [&self.certificate, &self.key].into_iter().chain(&self.clients).collect()
    }

    fn read(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = server_builder(&provider)?;
        let config = match &self.clients {
            None => config.with_no_client_auth(),
            Some(authority) => {
                let roots = Arc::new(read_roots(authority)?);
                config.with_client_cert_verifier(client_verifier(roots, &provider)?)
            }
        };
        let (chain, key) = (read_certificates(&self.certificate)?, read_key(&self.key)?);
        config.with_single_cert(chain, key).map(Arc::new).map_err(unusable)
    }
}

/// TLS of a server: what it shows follows its files.
#[derive(Debug)]
pub struct TlsServer {
    files: ServerFiles,
    config: Arc<ServerConfig>,
    watched: Watched,
}

impl TlsServer {
    /// Reads the files.
    pub fn new(files: ServerFiles) -> Result<Self, TlsError> {
        // What changes meanwhile is seen at the next look.
        let watched = Watched::new(&files.all());
        Ok(Self { config: files.read()?, files, watched })
    }

    /// Reads the files again if they have changed, at most once a second; says whether it did. Connections
    /// that are up stay; what cannot be read changes nothing, is an error, and is tried again.
    pub fn renew(&mut self) -> Result<bool, TlsError> {
        let Some(stamps) = self.watched.changed(&self.files.all()) else { return Ok(false) };
        self.config = self.files.read()?;
        self.watched.seen(stamps);
        Ok(true)
    }

    /// TLS for a client that has connected.
    pub fn accept(&self) -> Result<TlsClient, TlsError> {
        let connection = ServerConnection::new(Arc::clone(&self.config)).map_err(unusable)?;
        let mut connection = Connection::from(connection);
        connection.set_buffer_limit(Some(AHEAD_BYTES_MAX));
        Ok(TlsClient {
            connection,
            received: Vec::new(),
            taken: 0,
            unread: 0,
            fault: None,
            has_ended: false,
            is_proved: false,
            handshake_bytes: 0,
            undelivered_bytes: 0,
            has_sent_much: false,
        })
    }
}

/// One client's TLS, between its bytes and its socket, which does not block.
#[derive(Debug)]
pub struct TlsClient {
    connection: Connection,
    /// Bytes of TLS that were received, of which so many were deciphered. The others wait until what was
    /// deciphered before is read: rustls holds little of it.
    received: Vec<u8>,
    taken: usize,
    /// Bytes of the client's that were deciphered and not read.
    unread: usize,
    /// Why it cannot go on once they are read.
    fault: Option<io::Error>,
    /// Nothing comes any more.
    has_ended: bool,
    is_proved: bool,
    /// Bytes of the handshake: what the client shows is kept.
    handshake_bytes: usize,
    /// Bytes that came since something could be read.
    undelivered_bytes: usize,
    has_sent_much: bool,
}

impl TlsClient {
    /// Whether the sides do not know each other yet.
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// How many bytes can be read, at most, that the socket does not announce; the end counts as one.
    pub fn unread_bytes(&self) -> usize {
        let waits = self.received.len() - self.taken;
        self.unread + waits + usize::from(self.has_ended || self.fault.is_some())
    }

    /// Whether something waits for the socket.
    pub fn wants_write(&self) -> bool {
        self.connection.wants_write()
    }

    /// Memory that it takes, at most.
    pub fn memory_bytes(&self) -> usize {
        let ahead = if self.wants_write() { AHEAD_BYTES_MAX } else { 0 };
        let long = if self.has_sent_much { LONG_BYTES } else { 0 };
        QUIET_BYTES + self.handshake_bytes + self.received.len() + self.unread + ahead + long
    }

    /// Who the client is, once, when the handshake is over and it has shown a certificate.
    pub fn take_proof(&mut self) -> Option<Principal> {
        if self.is_proved || self.is_handshaking() {
            return None;
        }
        self.is_proved = true;
        let shown = self.connection.peer_certificates()?.first()?;
        Some(Proofs::Certificates.principal(shown))
    }

    /// Reads what the client sent: how many bytes, `None` when there are none yet, and 0 at the end.
    pub fn read(&mut self, socket: BorrowedFd<'_>, to: &mut [u8]) -> io::Result<Option<usize>> {
        let (mut read, mut may_have_more) = (0, true);
        loop {
            read += self.take_unread(&mut to[read..])?;
            if read == to.len() || self.has_ended || self.fault.is_some() {
                break;
            }
            if self.received.is_empty() {
                may_have_more = may_have_more && self.receive(socket)?;
                if self.received.is_empty() {
                    break;
                }
            }
            self.decipher(socket)?;
        }
        match self.fault.take_if(|_| read == 0) {
            Some(fault) => Err(fault),
            None if read > 0 || self.has_ended => Ok(Some(read)),
            None => Ok(None),
        }
    }

    /// Receives what has come, if anything; whether more may have.
    fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<bool> {
        self.received.resize(SOCKET_BYTES, 0);
        let received = recv(socket, &mut self.received, RecvFlags::DONTWAIT);
        let came = received.map_or(0, |(came, _)| came);
        self.received.truncate(came);
        match received {
            Ok(_) => {}
            Err(Errno::AGAIN | Errno::INTR) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        self.has_ended = came == 0;
        if self.is_handshaking() {
            self.handshake_bytes += came;
        }
        self.undelivered_bytes += came;
        self.has_sent_much |= self.undelivered_bytes > SHORT_BYTES;
        Ok(came == SOCKET_BYTES)
    }

    /// Deciphers a part of what was received, and answers a handshake. Nothing is unread meanwhile.
    fn decipher(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.taken += self.connection.read_tls(&mut &self.received[self.taken..])?;
        let state = self.connection.process_new_packets();
        // The client is told what is wrong, as far as it listens.
        let pushed = self.push(socket);
        match state {
            Ok(state) => {
                self.unread = state.plaintext_bytes_to_read();
                self.has_ended |= state.peer_has_closed();
            }
            // What came before it counts.
            Err(error) => self.fault = Some(io::Error::new(io::ErrorKind::InvalidData, error)),
        }
        if self.taken == self.received.len() || self.has_ended || self.fault.is_some() {
            // What follows the end means nothing (RFC 8446, section 6.1).
            (self.received, self.taken) = (Vec::new(), 0);
        }
        pushed
    }

    fn take_unread(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let mut taken = 0;
        while taken < to.len() {
            match self.connection.reader().read(&mut to[taken..]) {
                Ok(0) => break,
                Ok(bytes) => taken += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        self.unread = self.unread.saturating_sub(taken);
        if taken > 0 {
            self.undelivered_bytes = 0;
        }
        Ok(taken)
    }

    /// Takes bytes for the client: how many, and `None` while others wait for the socket.
    pub fn write(&mut self, socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<Option<usize>> {
        self.push(socket)?;
        if self.wants_write() || self.is_handshaking() {
            return Ok(None);
        }
        let taken = self.connection.writer().write(bytes)?;
        self.push(socket)?;
        Ok(Some(taken))
    }

    /// Gives the socket what waits, as far as it takes it.
    pub fn push(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        push_all(&mut self.connection, &mut Socket(socket))
    }

    /// Tells the client that nothing more comes.
    pub fn close(&mut self, socket: BorrowedFd<'_>) {
        self.connection.send_close_notify();
        // A client that does not read is not waited for.
        let _ = self.push(socket);
    }
}

/// A socket as what rustls writes to.
struct Socket<'a>(BorrowedFd<'a>);

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.0, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
