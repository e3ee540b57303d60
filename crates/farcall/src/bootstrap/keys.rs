//! The cluster key of registries and of those that join them.
//!
//! Processes meet before a program has read its parameters, so the file is that of the environment: the
//! variable of the parameter `security.key_file`.

use std::path::PathBuf;

use farcall_base::Entropy;
use farcall_driver::{KeyFile, KeyFileError};
use farcall_protocol::keys::Keyring;

use super::incarnation::random;

/// Names the file of the cluster's keys.
pub const KEY_FILE_VARIABLE: &str = "FARCALL_SECURITY_KEY_FILE";

/// The file that the environment names.
pub(super) fn file_of_environment() -> Option<PathBuf> {
    std::env::var_os(KEY_FILE_VARIABLE).filter(|path| !path.is_empty() && path != "auto").map(PathBuf::from)
}

/// The keys of a file.
pub(super) fn ring(file: &KeyFile) -> Keyring {
    Keyring::new(file.keys().to_vec()).expect("a file of keys has one to eight")
}

/// The keys that the environment names, if it does.
pub(super) fn ring_of_environment() -> Result<Option<Keyring>, KeyFileError> {
    file_of_environment().map(|path| KeyFile::open(&path).map(|file| ring(&file))).transpose()
}

/// From which the keys of one connection are drawn.
pub(super) fn entropy() -> Entropy {
    Entropy::from_seed(random())
}
