//! TLS 1.3 around connections: both sides prove who they are before a frame is read.
//!
//! They do so by certificates of one authority, or by a cluster key: 32 bytes from which every process
//! derives the same Ed25519 identity, which both sides show as raw public keys (RFC 7250) and compare with
//! their own. TLS signs with the role of the signer, so what a peer has signed cannot be shown to it again.
//!
//! What is read from files is read again when they change: connections that are up stay, new ones have what
//! is new.

mod files;
mod pinned;
mod proofs;
mod server;
mod session;

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::danger::ServerCertVerifier;
use rustls::client::{ResolvesClientCert, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use rustls::version::TLS13;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, ServerConfig, WantsVerifier};

use farcall_driver::{KeyFile, KeyFileError};
use files::{Watched, read_certificates, read_key, read_roots};
use pinned::{ClusterIdentity, WithoutNames};
use proofs::Proofs;
pub use server::{ServerFiles, TlsClient, TlsServer};
pub use session::{Came, Session, SessionFault};

/// What is said in the handshake: both sides mean this protocol.
const ALPN: &[u8] = b"farcall";

/// The most that waits in a record that has not come whole: its payload and what is around it.
const RECORD_BYTES_MAX: usize = (16 << 10) + 512;

/// How an endpoint proves who it is, and whom it believes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsConfig {
    /// By certificates.
    Certificates {
        /// The certificate of this process and those between it and the authority (PEM).
        certificate: PathBuf,
        /// Its private key (PEM); others may not read the file.
        key: PathBuf,
        /// The authorities whose certificates are believed (PEM).
        authority: PathBuf,
        /// Whether the certificate of one that is connected to must name the address where it is.
        check_address: bool,
    },
    /// By a key that all processes of the cluster have.
    ClusterKey {
        /// The file of keys: see [`KeyFile`]. The first is shown, and any of them believed.
        file: PathBuf,
    },
}

/// Why there is no TLS.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {path}: {reason}")]
    Unreadable {
        /// Which.
        path: String,
        /// The system's reason.
        reason: String,
    },
    /// Others could read a secret: `chmod 600` it.
    #[error("others can read {path}: it holds a secret; chmod 600 it")]
    Exposed {
        /// Which.
        path: String,
    },
    /// A file does not hold what it should.
    #[error("{path} holds no {wanted}")]
    Malformed {
        /// Which.
        path: String,
        /// What it should hold.
        wanted: &'static str,
    },
    /// The cluster key cannot be used.
    #[error(transparent)]
    KeyFile(#[from] KeyFileError),
    /// What was read does not fit together.
    #[error("the certificate, key or authority cannot be used: {reason}")]
    Unusable {
        /// Why.
        reason: String,
    },
}

/// What was read.
struct Loaded {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    proofs: Proofs,
}

/// What secures the connections of an endpoint.
pub struct Secured {
    config: TlsConfig,
    loaded: Loaded,
    watched: Watched,
}

impl Secured {
    /// Reads the files.
    pub fn new(config: TlsConfig) -> Result<Self, TlsError> {
        // What changes meanwhile is seen at the next look.
        let watched = Watched::new(&config.files());
        let loaded = Loaded::read(&config)?;
        Ok(Self { config, loaded, watched })
    }

    /// Reads the files again if they have changed; false when that failed, so that what was read before
    /// stays.
    pub fn renew(&mut self) -> bool {
        let Some(stamps) = self.watched.changed(&self.config.files()) else { return true };
        match Loaded::read(&self.config) {
            Ok(loaded) => {
                self.loaded = loaded;
                self.watched.seen(stamps);
                true
            }
            // Perhaps one of them is about to be written: the next look tries again.
            Err(_) => false,
        }
    }

    /// The side that connects to an address.
    pub fn client(&self, to: std::net::SocketAddr) -> Result<Session, SessionFault> {
        Session::client(Arc::clone(&self.loaded.client), self.loaded.proofs.clone(), to)
    }

    /// The side that was connected to.
    pub fn server(&self) -> Result<Session, SessionFault> {
        Session::server(Arc::clone(&self.loaded.server), self.loaded.proofs.clone())
    }
}

impl TlsConfig {
    fn files(&self) -> Vec<&PathBuf> {
        match self {
            Self::Certificates { certificate, key, authority, .. } => vec![certificate, key, authority],
            Self::ClusterKey { file } => vec![file],
        }
    }
}

/// Both sides' proofs and checks.
struct Parts {
    shows_as_client: Arc<dyn ResolvesClientCert>,
    shows_as_server: Arc<dyn ResolvesServerCert>,
    checks_servers: Arc<dyn ServerCertVerifier>,
    checks_clients: Arc<dyn ClientCertVerifier>,
    proofs: Proofs,
}

impl Loaded {
    fn read(config: &TlsConfig) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let parts = match config {
            TlsConfig::ClusterKey { file } => {
                ClusterIdentity::derive(KeyFile::open(file)?.keys(), &provider)?.parts()
            }
            TlsConfig::Certificates { .. } => Parts::of_certificates(config, &provider)?,
        };
        parts.configure(&provider)
    }
}

impl Parts {
    fn of_certificates(config: &TlsConfig, provider: &Arc<CryptoProvider>) -> Result<Self, TlsError> {
        let TlsConfig::Certificates { certificate, key, authority, check_address } = config else {
            unreachable!("the caller looked");
        };
        let (chain, key) = (read_certificates(certificate)?, read_key(key)?);
        let roots = Arc::new(read_roots(authority)?);
        let shown = rustls::sign::CertifiedKey::from_der(chain, key, provider).map_err(unusable)?;
        let shown = Arc::new(SingleCertAndKey::from(shown));
        let servers = WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(provider));
        let servers = servers.build().map_err(unusable)?;
        Ok(Self {
            shows_as_client: Arc::clone(&shown) as Arc<dyn ResolvesClientCert>,
            shows_as_server: shown,
            checks_servers: if *check_address { servers } else { Arc::new(WithoutNames(servers)) },
            checks_clients: client_verifier(roots, provider)?,
            proofs: Proofs::Certificates,
        })
    }

    fn configure(self, provider: &Arc<CryptoProvider>) -> Result<Loaded, TlsError> {
        let client = ClientConfig::builder_with_provider(Arc::clone(provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(unusable)?;
        let mut client = client
            .dangerous()
            .with_custom_certificate_verifier(self.checks_servers)
            .with_client_cert_resolver(self.shows_as_client);
        client.alpn_protocols = vec![ALPN.to_vec()];
        let mut server = server_builder(provider)?
            .with_client_cert_verifier(self.checks_clients)
            .with_cert_resolver(self.shows_as_server);
        server.alpn_protocols = vec![ALPN.to_vec()];
        Ok(Loaded { client: Arc::new(client), server: Arc::new(server), proofs: self.proofs })
    }
}

/// The side of a server, as far as all of them agree.
fn server_builder(
    provider: &Arc<CryptoProvider>,
) -> Result<ConfigBuilder<ServerConfig, WantsVerifier>, TlsError> {
    let builder = ServerConfig::builder_with_provider(Arc::clone(provider));
    builder.with_protocol_versions(&[&TLS13]).map_err(unusable)
}

/// What checks that clients show a certificate of these authorities.
fn client_verifier(
    roots: Arc<RootCertStore>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let clients = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider));
    clients.build().map_err(unusable)
}

fn unusable(why: impl core::fmt::Display) -> TlsError {
    TlsError::Unusable { reason: why.to_string() }
}
