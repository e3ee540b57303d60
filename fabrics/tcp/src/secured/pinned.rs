//! Whom a process believes beyond what certificates say: whoever has its own cluster key; or whoever its
//! authority has certified, at whatever address.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible, SignatureScheme,
};

use farcall_base::{ClusterKey, KeyName};
use farcall_transport::name_of_key;

use super::proofs::Proofs;
use super::{Parts, TlsError, unusable};

/// What is derived from a cluster key for this use, and for no other.
const CONTEXT: &[u8] = b"farcall tcp+tls identity 1";

/// In front of the 32 bytes of an Ed25519 private key, in its DER of PKCS 8 (RFC 8410).
const PKCS8_FRONT: &[u8] = &[0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/// The identity of everybody in a cluster, and those that it had or will have.
#[derive(Debug)]
pub struct ClusterIdentity {
    shown: Arc<CertifiedKey>,
    /// The public keys that are believed, and what their cluster keys are called; the one that is shown is
    /// the first.
    believed: Arc<[(CertificateDer<'static>, KeyName)]>,
    algorithms: WebPkiSupportedAlgorithms,
}

/// The identity that follows from a cluster key.
fn identity_of(key: &ClusterKey, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
    let mac_key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key.expose());
    let seed = ring::hmac::sign(&mac_key, CONTEXT);
    let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from([PKCS8_FRONT, seed.as_ref()].concat()));
    let signer = provider.key_provider.load_private_key(private).map_err(unusable)?;
    let public = signer.public_key().ok_or_else(|| unusable("no public key"))?;
    let public = CertificateDer::from(public.as_ref().to_vec());
    Ok(CertifiedKey::new(vec![public], signer))
}

impl ClusterIdentity {
    /// Derives it from the keys of a cluster, of which there is at least one.
    pub fn derive(keys: &[ClusterKey], provider: &CryptoProvider) -> Result<Self, TlsError> {
        let identities: Result<Vec<_>, _> = keys.iter().map(|key| identity_of(key, provider)).collect();
        let identities = identities?;
        let publics = identities.iter().map(|identity| identity.cert[0].clone());
        let believed = publics.zip(keys.iter().map(name_of_key)).collect();
        let shown = identities.into_iter().next().ok_or_else(|| unusable("no cluster key"))?;
        Ok(Self { shown: Arc::new(shown), believed, algorithms: provider.signature_verification_algorithms })
    }

    /// What both sides show, and believe.
    pub fn parts(self) -> Parts {
        let this = Arc::new(self);
        Parts {
            shows_as_client: Arc::new(AlwaysResolvesClientRawPublicKeys::new(Arc::clone(&this.shown))),
            shows_as_server: Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::clone(&this.shown))),
            checks_servers: Arc::clone(&this) as Arc<dyn ServerCertVerifier>,
            proofs: Proofs::Keys(Arc::clone(&this.believed)),
            checks_clients: this,
        }
    }

    /// A public key is no secret: how long the comparison takes tells nothing.
    fn check(&self, shown: &CertificateDer<'_>) -> Result<(), Error> {
        if self.believed.iter().any(|(believed, _)| believed.as_ref() == shown.as_ref()) {
            return Ok(());
        }
        Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
    }

    fn check_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(shown.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.algorithms)
    }
}

fn only_tls13() -> Error {
    Error::PeerIncompatible(PeerIncompatible::Tls13RequiredForQuic)
}

impl ServerCertVerifier for ClusterIdentity {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(shown).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(only_tls13())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, shown, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for ClusterIdentity {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(shown).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(only_tls13())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, shown, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// Certificates of the authority, whatever address they name.
#[derive(Debug)]
pub struct WithoutNames(pub Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for WithoutNames {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // The name is looked at after everything else.
        match self.0.verify_server_cert(shown, between, name, ocsp, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            outcome => outcome,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, shown, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, shown, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
