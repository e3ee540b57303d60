//! What is read from files, and when they change.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant as WallTime};

use farcall_driver::FileStamp;
use rustix::fs::OFlags;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::{TlsError, unusable};

/// The permissions by which others than the owner read or write a file.
const OTHERS: u32 = 0o077;

/// The longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Files are looked at for changes at most this often.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The stamps of files; of one that is not there, none.
type Stamps = Vec<Option<FileStamp>>;

/// Files that are read again when they change.
#[derive(Debug)]
pub struct Watched {
    stamps: Stamps,
    looked: WallTime,
}

impl Watched {
    /// As the files are now.
    pub fn new(paths: &[&PathBuf]) -> Self {
        Self { stamps: stamps(paths), looked: WallTime::now() }
    }

    /// What they are like now, if that is another than what was seen and it is time to look.
    pub fn changed(&mut self, paths: &[&PathBuf]) -> Option<Stamps> {
        if self.looked.elapsed() < LOOK_EVERY {
            return None;
        }
        self.looked = WallTime::now();
        let stamps = stamps(paths);
        (stamps != self.stamps).then_some(stamps)
    }

    /// They were read, as they were then.
    pub fn seen(&mut self, stamps: Stamps) {
        self.stamps = stamps;
    }
}

fn stamps(paths: &[&PathBuf]) -> Stamps {
    paths.iter().map(|path| path.metadata().ok().map(|file| FileStamp::of(&file))).collect()
}

/// Opens a file; what could make a reader wait is none.
fn open(path: &Path) -> Result<File, TlsError> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path);
    let file = file.map_err(|error| unreadable(path, &error))?;
    let is_file = file.metadata().map_err(|error| unreadable(path, &error))?.is_file();
    if is_file { Ok(file) } else { Err(unreadable(path, &io::Error::other("it is no regular file"))) }
}

fn unreadable(path: &Path, error: &io::Error) -> TlsError {
    TlsError::Unreadable { path: path.display().to_string(), reason: error.to_string() }
}

fn malformed(path: &Path, wanted: &'static str) -> TlsError {
    TlsError::Malformed { path: path.display().to_string(), wanted }
}

fn read(path: &Path, mut file: File) -> Result<Vec<u8>, TlsError> {
    let mut bytes = Vec::new();
    Read::by_ref(&mut file)
        .take(FILE_BYTES_MAX)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(path, &error))?;
    Ok(bytes)
}

/// Reads a file that only its owner may read.
fn read_secret(path: &Path) -> Result<Vec<u8>, TlsError> {
    let file = open(path)?;
    let mode = file.metadata().map_err(|error| unreadable(path, &error))?.mode();
    if mode & OTHERS != 0 {
        return Err(TlsError::Exposed { path: path.display().to_string() });
    }
    read(path, file)
}

/// The certificates of a file, at least one.
pub fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wanted = "certificate in PEM";
    let bytes = read(path, open(path)?)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let certificates = certificates.map_err(|_| malformed(path, wanted))?;
    if certificates.is_empty() { Err(malformed(path, wanted)) } else { Ok(certificates) }
}

/// The private key of a file.
pub fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(&read_secret(path)?).map_err(|_| malformed(path, "private key in PEM"))
}

/// The authorities of a file.
pub fn read_roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in read_certificates(path)? {
        roots.add(certificate).map_err(unusable)?;
    }
    Ok(roots)
}
