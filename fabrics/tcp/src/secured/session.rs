//! One connection's TLS: between its frames and its socket.

use std::io::{self, IoSlice, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, Connection, Error, ServerConfig, ServerConnection,
};

use farcall_base::Principal;

use super::RECORD_BYTES_MAX;
use super::proofs::Proofs;
use crate::connection::{Broken, READ_BYTES};
use crate::outbound::Writer;
use crate::socket::Stream;

/// What is read from a socket at a time: what it holds fits one read of the connection, with a record that
/// began before.
const SOCKET_BYTES: usize = READ_BYTES - RECORD_BYTES_MAX;

/// The most that is encrypted ahead of the socket.
const AHEAD_BYTES_MAX: usize = 256 << 10;

/// Why a secured connection cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum SessionFault {
    /// TLS says so.
    #[error("{}", words(.0))]
    Tls(#[from] Error),
    /// The other side closed before it had said who it is.
    #[error(
        "the peer closed the connection within the handshake of TLS: it speaks another version, or no TLS"
    )]
    ClosedEarly,
}

/// What a read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// Nothing at all.
    Nothing,
    /// Bytes of TLS, and of frames so many, perhaps none.
    Frames(usize),
    /// The end.
    End,
}

/// One connection's TLS.
pub struct Session {
    connection: Connection,
    proofs: Proofs,
    ciphertext: Vec<u8>,
}

impl Session {
    pub fn client(config: Arc<ClientConfig>, proofs: Proofs, to: SocketAddr) -> Result<Self, SessionFault> {
        let name = ServerName::IpAddress(to.ip().into());
        Ok(Self::new(ClientConnection::new(config, name)?.into(), proofs))
    }

    pub fn server(config: Arc<ServerConfig>, proofs: Proofs) -> Result<Self, SessionFault> {
        Ok(Self::new(ServerConnection::new(config)?.into(), proofs))
    }

    fn new(mut connection: Connection, proofs: Proofs) -> Self {
        connection.set_buffer_limit(Some(AHEAD_BYTES_MAX));
        Self { connection, proofs, ciphertext: Vec::new() }
    }

    /// Who the other side has proved to be; nothing is proved before the handshake is over.
    pub fn principal(&self) -> Principal {
        match self.connection.peer_certificates() {
            Some([shown, ..]) if !self.is_handshaking() => self.proofs.principal(shown),
            _ => Principal::Unproven,
        }
    }

    /// Whether the sides do not know each other yet.
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Whether something waits for the socket.
    pub fn wants_write(&self) -> bool {
        self.connection.wants_write()
    }

    /// Says that nothing more comes.
    pub fn close(&mut self, stream: &mut Stream) {
        self.connection.send_close_notify();
        let _ = self.push(stream);
    }

    /// Reads into `plain`, which has room for [`READ_BYTES`], with one system call.
    pub fn read(&mut self, stream: &mut Stream, plain: &mut [u8]) -> Result<Came, Broken> {
        self.ciphertext.resize(SOCKET_BYTES, 0);
        let Some(count) = stream.read(&mut self.ciphertext)? else { return Ok(Came::Nothing) };
        if count == 0 {
            let is_early = self.connection.is_handshaking();
            return if is_early { Err(SessionFault::ClosedEarly.into()) } else { Ok(Came::End) };
        }
        let mut taken = 0;
        let mut rest = &self.ciphertext[..count];
        while !rest.is_empty() {
            self.connection.read_tls(&mut rest)?;
            if let Err(why) = self.connection.process_new_packets() {
                // The other side is told, as far as it listens.
                let _ = push_all(&mut self.connection, &mut Socket(stream));
                return Err(SessionFault::from(why).into());
            }
            loop {
                match self.connection.reader().read(&mut plain[taken..]) {
                    // It has said that nothing more comes; the end of the connection follows.
                    Ok(0) => break,
                    Ok(bytes) => taken += bytes,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(Came::Frames(taken))
    }

    /// Gives the socket what waits, as far as it takes it.
    pub fn push(&mut self, stream: &mut Stream) -> io::Result<()> {
        push_all(&mut self.connection, &mut Socket(stream))
    }

    /// What writes over it.
    pub fn writer<'a>(&'a mut self, stream: &'a mut Stream) -> impl Writer + 'a {
        Secure { session: self, stream }
    }
}

/// Gives a socket what waits, as far as it takes it.
pub fn push_all(connection: &mut Connection, socket: &mut impl Write) -> io::Result<()> {
    while connection.wants_write() {
        match connection.write_tls(socket) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A socket as what rustls writes to.
struct Socket<'a>(&'a mut Stream);

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match Writer::write(self.0, parts)? {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Secure<'a> {
    session: &'a mut Session,
    stream: &'a mut Stream,
}

impl Writer for Secure<'_> {
    fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.session.push(self.stream)?;
        if self.session.wants_write() || self.session.is_handshaking() {
            return Ok(0);
        }
        let taken = self.session.connection.writer().write_vectored(parts)?;
        self.session.push(self.stream)?;
        Ok(taken)
    }
}

/// What is wrong, for people.
fn words(error: &Error) -> String {
    use CertificateError as Bad;
    match error {
        Error::InvalidCertificate(Bad::Expired | Bad::ExpiredContext { .. }) => {
            "the peer's certificate has expired".to_owned()
        }
        Error::InvalidCertificate(Bad::NotValidYet | Bad::NotValidYetContext { .. }) => {
            "the peer's certificate is not valid yet; compare the clocks".to_owned()
        }
        Error::InvalidCertificate(Bad::UnknownIssuer | Bad::BadSignature) => {
            "the peer's certificate is of an authority that tls.ca does not name".to_owned()
        }
        Error::InvalidCertificate(Bad::NotValidForName | Bad::NotValidForNameContext { .. }) => {
            "the peer's certificate does not name its address; tls.check_address=false takes any of tls.ca"
                .to_owned()
        }
        Error::InvalidCertificate(Bad::ApplicationVerificationFailure) => {
            "the peer has another cluster key".to_owned()
        }
        Error::InvalidMessage(_) => "the peer does not speak TLS".to_owned(),
        Error::AlertReceived(alert) => {
            format!("the peer refuses this side's certificate or key, by the alert {alert:?} of TLS")
        }
        other => format!("TLS: {other}"),
    }
}
