//! What the ends prove by who they are: a cluster key for farcall, a certificate for HTTP/2 and QUIC.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::pem::PemObject;
use quinn::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tonic::transport::server::ServerTlsConfig;
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

/// Whose certificate it is.
pub const HOST: &str = "127.0.0.1";

/// What openssl is to make: a certificate that vouches for itself. It is that of no authority, since an
/// authority is not taken for a server.
const CERTIFICATE: &str = "\
    [req]\n\
    prompt = no\n\
    distinguished_name = name\n\
    x509_extensions = of_server\n\
    [name]\n\
    CN = 127.0.0.1\n\
    [of_server]\n\
    subjectAltName = IP:127.0.0.1\n";

/// In a folder that goes with it.
pub struct Secrets(PathBuf);

impl Secrets {
    pub fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("farcall-encrypted-{}", std::process::id()));
        fs::create_dir(&folder).expect("a new folder");
        let secrets = Self(folder);
        secrets.make_cluster_key();
        secrets.make_certificate();
        secrets
    }

    /// Others may not be able to read it.
    fn make_cluster_key(&self) {
        let file = File::options().write(true).create_new(true).mode(0o600).open(self.cluster_key());
        file.and_then(|mut file| file.write_all("5".repeat(64).as_bytes())).expect("a new file");
    }

    fn make_certificate(&self) {
        fs::write(self.0.join("request"), CERTIFICATE).expect("a new file");
        let made = Command::new("openssl")
            .args("req -x509 -config request -days 10 -nodes -keyout key.pem -out certificate.pem".split(' '))
            .args("-newkey ec -pkeyopt ec_paramgen_curve:P-256".split(' '))
            .current_dir(&self.0)
            .output()
            .expect("openssl is installed");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }

    fn cluster_key(&self) -> PathBuf {
        self.0.join("cluster.key")
    }

    fn certificate(&self) -> PathBuf {
        self.0.join("certificate.pem")
    }

    fn key(&self) -> PathBuf {
        self.0.join("key.pem")
    }

    /// The parameter of an endpoint that names the cluster key.
    pub fn key_parameter(&self) -> String {
        format!("security.key_file={}", self.cluster_key().display())
    }

    pub fn of_http_server(&self) -> ServerTlsConfig {
        ServerTlsConfig::new().identity(Identity::from_pem(read(&self.certificate()), read(&self.key())))
    }

    pub fn of_http_client(&self) -> ClientTlsConfig {
        ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(&self.certificate())))
    }

    pub fn of_quic_server(&self) -> quinn::ServerConfig {
        let key = PrivateKeyDer::from_pem_file(self.key()).expect("openssl wrote it");
        quinn::ServerConfig::with_single_cert(vec![self.shown()], key).expect("they belong together")
    }

    pub fn of_quic_client(&self) -> quinn::ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.shown()).expect("openssl wrote it");
        quinn::ClientConfig::with_root_certificates(Arc::new(roots)).expect("no certificate is withdrawn")
    }

    fn shown(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(self.certificate()).expect("openssl wrote it")
    }
}

fn read(file: &Path) -> Vec<u8> {
    fs::read(file).expect("openssl wrote it")
}

impl Drop for Secrets {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
