//! TLS 1.3 for servers of other protocols than farcall's: they show a certificate, and may want one of clients.

use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;

use farcall_base::Principal;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{ServerConfig, ServerConnection};

use super::files::{Watched, read_certificates, read_key, read_roots};
use super::proofs::Proofs;
use super::{RECORD_BYTES_MAX, TlsError, unusable};

/// Bytes of TLS that are read from a socket at a time.
const SOCKET_BYTES: usize = 16 << 10;

/// The most that is enciphered ahead of the socket.
const AHEAD_BYTES_MAX: usize = 64 << 10;

/// Keys and buffers of a client that is quiet (measured: 1,500 clients took 8.3 KB each, all told).
const QUIET_BYTES: usize = 8 << 10;

/// Where so much has come, all of it is taken: TLS keeps no more than a record that is not whole.
const LEAST_SOCKET_BYTES: usize = 4 << 10;

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
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(unusable)?;
        let config = match &self.clients {
            None => config.with_no_client_auth(),
            Some(authority) => {
                let roots = Arc::new(read_roots(authority)?);
                let clients = WebPkiClientVerifier::builder_with_provider(roots, provider);
                config.with_client_cert_verifier(clients.build().map_err(unusable)?)
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

    /// Reads the files again if they have changed, at most once a second. Connections that are up stay; what
    /// cannot be read changes nothing, and is tried again.
    pub fn renew(&mut self) {
        let Some(stamps) = self.watched.changed(&self.files.all()) else { return };
        if let Ok(config) = self.files.read() {
            self.config = config;
            self.watched.seen(stamps);
        }
    }

    /// TLS for a client that has connected.
    pub fn accept(&self) -> Result<TlsClient, TlsError> {
        let mut connection = ServerConnection::new(Arc::clone(&self.config)).map_err(unusable)?;
        connection.set_buffer_limit(Some(AHEAD_BYTES_MAX));
        Ok(TlsClient { connection, unread: 0, has_ended: false, is_proved: false })
    }
}

/// One client's TLS, between its bytes and its socket, which does not block.
#[derive(Debug)]
pub struct TlsClient {
    connection: ServerConnection,
    /// Bytes of the client's that were deciphered and not read.
    unread: usize,
    /// Nothing comes any more.
    has_ended: bool,
    is_proved: bool,
}

impl TlsClient {
    /// Whether the sides do not know each other yet.
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// How many bytes can be read that the socket does not announce; the end counts as one.
    pub fn unread_bytes(&self) -> usize {
        self.unread + usize::from(self.has_ended)
    }

    /// Whether something waits for the socket.
    pub fn wants_write(&self) -> bool {
        self.connection.wants_write()
    }

    /// Memory that it takes, at most.
    pub fn memory_bytes(&self) -> usize {
        QUIET_BYTES + self.unread + if self.wants_write() { AHEAD_BYTES_MAX } else { 0 }
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
        let mut taken = self.take_unread(to)?;
        while taken < to.len() && !self.has_ended {
            // Nothing is read that neither `to` nor a record which is not whole has room for.
            let most = (to.len() - taken).saturating_sub(RECORD_BYTES_MAX);
            let most = most.clamp(LEAST_SOCKET_BYTES, SOCKET_BYTES);
            let mut ciphertext = [0; SOCKET_BYTES];
            let came = match recv(socket, &mut ciphertext[..most], RecvFlags::DONTWAIT) {
                Ok((came, _)) => came,
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(error) => return Err(error.into()),
            };
            if came == 0 {
                self.has_ended = true;
            }
            let mut rest = &ciphertext[..came];
            while !rest.is_empty() {
                self.connection.read_tls(&mut rest)?;
                self.process(socket)?;
                taken += self.take_unread(&mut to[taken..])?;
            }
            if came < most {
                break;
            }
        }
        let is_end = taken == 0 && self.has_ended && self.unread == 0;
        Ok(if taken > 0 || is_end { Some(taken) } else { None })
    }

    /// Deciphers what has come, and answers a handshake.
    fn process(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let state = self.connection.process_new_packets();
        // The client is told what is wrong, as far as it listens.
        let pushed = self.push(socket);
        let state = state.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        self.unread = state.plaintext_bytes_to_read();
        self.has_ended |= state.peer_has_closed();
        pushed
    }

    fn take_unread(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let mut taken = 0;
        while self.unread > 0 && taken < to.len() {
            let bytes = self.connection.reader().read(&mut to[taken..])?;
            self.unread = self.unread.saturating_sub(bytes);
            taken += bytes;
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
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut Socket(socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
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
