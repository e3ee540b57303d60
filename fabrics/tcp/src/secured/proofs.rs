//! What a proof of TLS says about who gave it.
//!
//! It is read when the proof has been checked. A name of a certificate is what its authority vouches for, so
//! what is not a name of DNS or a URI is passed over: nobody vouches for a subject in free text.

use std::sync::Arc;

use farcall_base::{KeyName, Principal};
use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

/// The most names of a certificate that count.
const NAMES_MAX: usize = 32;

/// What the proofs are that a connection takes.
#[derive(Clone, Debug)]
pub enum Proofs {
    /// Certificates of an authority.
    Certificates,
    /// Public keys that follow from cluster keys, and what those are called.
    Keys(Arc<[(CertificateDer<'static>, KeyName)]>),
}

impl Proofs {
    /// Who has given a proof that was checked.
    pub fn principal(&self, shown: &CertificateDer<'_>) -> Principal {
        match self {
            Self::Certificates => names_of(shown).map_or(Principal::Unproven, Principal::Certificate),
            Self::Keys(keys) => {
                let found = keys.iter().find(|(public, _)| public.as_ref() == shown.as_ref());
                found.map_or(Principal::Unproven, |(_, name)| Principal::Key(*name))
            }
        }
    }
}

/// The names that a certificate gives its holder.
fn names_of(certificate: &CertificateDer<'_>) -> Option<Arc<[String]>> {
    let certificate = EndEntityCert::try_from(certificate).ok()?;
    let dns = certificate.valid_dns_names().map(str::to_ascii_lowercase);
    // What has no scheme is no URI, and could be the name of a host, which is vouched for in other ways.
    let uris = certificate.valid_uri_names().filter(|uri| uri.contains(':')).map(str::to_owned);
    Some(dns.chain(uris).take(NAMES_MAX).collect())
}
