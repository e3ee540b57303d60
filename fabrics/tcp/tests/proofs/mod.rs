//! Keys, authorities and certificates in a folder of a test's own, made by openssl.

#![allow(dead_code, reason = "each test file uses its part")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that goes with the test.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("farcall-tls-{}-{number}", std::process::id()));
        fs::create_dir(&path).expect("a new folder");
        Self(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn openssl(&self, arguments: &str) {
        let done = Command::new("openssl").args(arguments.split(' ')).current_dir(&self.0).output();
        let done = done.expect("it was there a moment ago");
        assert!(done.status.success(), "{arguments}: {}", String::from_utf8_lossy(&done.stderr));
    }

    /// An authority: `name.pem` and `name.key`.
    pub fn authority(&self, name: &str) {
        self.openssl(&format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {name}.key -out {name}.pem \
             -subj /CN={name} -days 10"
        ));
    }

    /// A certificate of an authority for these names, such as `IP:127.0.0.1`, valid for so many days:
    /// `name.pem` and `name.key`.
    pub fn certificate(&self, name: &str, authority: &str, names: &str, days: i32) {
        fs::write(self.path(&format!("{name}.ext")), format!("subjectAltName={names}\n")).expect("a file");
        self.openssl(&format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {name}.key -out {name}.csr \
             -subj /CN={name}"
        ));
        self.openssl(&format!(
            "x509 -req -in {name}.csr -CA {authority}.pem -CAkey {authority}.key -CAcreateserial \
             -out {name}.pem -days {days} -extfile {name}.ext"
        ));
        fs::set_permissions(self.path(&format!("{name}.key")), Permissions::from_mode(0o600))
            .expect("it is ours");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn write_secret(file: &Path, text: &str) {
    fs::write(file, text).expect("a file");
    fs::set_permissions(file, Permissions::from_mode(0o600)).expect("it is ours");
}

pub fn has_openssl() -> bool {
    Command::new("openssl").arg("version").output().is_ok_and(|done| done.status.success())
}
