//! What changes when a file does.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::SystemTime;

/// What changes when a file does, for those that read it again then.
#[derive(Debug, PartialEq, Eq)]
pub struct FileStamp {
    changed: Option<SystemTime>,
    bytes: u64,
    inode: u64,
}

impl FileStamp {
    /// Of the file that this is said of.
    pub fn of(file: &Metadata) -> Self {
        Self { changed: file.modified().ok(), bytes: file.len(), inode: file.ino() }
    }
}
