//! TLS under the transport: the contract of libraries holds, and whoever has no right key, certificate or
//! protocol is told so in a sentence.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use farcall_base::{ClusterKey, Principal};
use farcall_driver::{Destination, FileError, KeyFileError};
use farcall_tcp::{ListenError, Tcp, TcpConfig, TlsConfig, TlsError};
use farcall_transport::{Arrival, Library, Outgoing, library_conformance, name_of_key};

/// How long a case waits for what must happen before it fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("farcall-tls-{}-{number}", std::process::id()));
        fs::create_dir(&path).expect("a new folder");
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A cluster key of this digit.
    fn key(&self, name: &str, digit: char) -> TlsConfig {
        let file = self.path(name);
        write_secret(&file, &digit.to_string().repeat(64));
        TlsConfig::ClusterKey { file }
    }

    fn openssl(&self, arguments: &str) {
        let done = Command::new("openssl").args(arguments.split(' ')).current_dir(&self.0).output();
        let done = done.expect("it was there a moment ago");
        assert!(done.status.success(), "{arguments}: {}", String::from_utf8_lossy(&done.stderr));
    }

    /// An authority.
    fn authority(&self, name: &str) {
        self.openssl(&format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {name}.key -out {name}.pem \
             -subj /CN={name} -days 10"
        ));
    }

    /// A certificate of an authority for this address, valid for so many days.
    fn certificate(&self, name: &str, authority: &str, address: &str, days: i32) -> TlsConfig {
        fs::write(self.path(&format!("{name}.ext")), format!("subjectAltName=IP:{address}\n"))
            .expect("a file");
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
        TlsConfig::Certificates {
            certificate: self.path(&format!("{name}.pem")),
            key: self.path(&format!("{name}.key")),
            authority: self.path(&format!("{authority}.pem")),
            check_address: true,
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn write_secret(file: &Path, text: &str) {
    fs::write(file, text).expect("a file");
    fs::set_permissions(file, Permissions::from_mode(0o600)).expect("it is ours");
}

fn has_openssl() -> bool {
    Command::new("openssl").arg("version").output().is_ok_and(|done| done.status.success())
}

fn endpoint(tls: Option<TlsConfig>) -> Tcp {
    Tcp::listen(TcpConfig { tls, payload_bytes_max: 1 << 20, ..TcpConfig::default() }).expect("an endpoint")
}

/// What makes two endpoints with one configuration.
fn two(make: impl Fn(&Folder) -> TlsConfig) -> impl Fn() -> [Tcp; 2] {
    let folder = Arc::new(Folder::new());
    let tls = make(&folder);
    move || {
        // The files are there as long as this is.
        let _folder = &folder;
        [(); 2].map(|()| endpoint(Some(tls.clone())))
    }
}

fn with_key() -> Result<impl Fn() -> [Tcp; 2], String> {
    Ok(two(|folder| folder.key("key", '7')))
}

fn with_certificates() -> Result<impl Fn() -> [Tcp; 2], String> {
    if !has_openssl() {
        return Err("there is no openssl to make certificates with".to_owned());
    }
    Ok(two(|folder| {
        folder.authority("ca");
        folder.certificate("node", "ca", "127.0.0.1", 10)
    }))
}

library_conformance!(cluster_key, super::with_key);
library_conformance!(certificates, super::with_certificates);

/// What the server calls the client that a message of it came from, or why none came.
fn attempt(client: &mut Tcp, server: &mut Tcp) -> Result<Destination, String> {
    let to = client.resolve(&server.address()).expect("its address");
    client.send(to, b"head", Outgoing::Slice(b"hello"));
    let deadline = Instant::now() + PATIENCE;
    let outcome = loop {
        client.progress();
        server.progress();
        if let Some(arrival) = server.next_arrival() {
            assert_eq!(arrival.payload().as_slice(), b"hello");
            let from = server.answer_to(&arrival, &client.address(), false).expect("its sender is there");
            server.release(arrival);
            break Ok(from);
        }
        if let Some(lost) = client.next_loss() {
            assert_eq!(lost, to);
            break Err(client.reason_of_loss(lost).unwrap_or_else(|| "no reason".to_owned()));
        }
        assert!(Instant::now() < deadline, "nothing became of a connection within {PATIENCE:?}");
        std::thread::yield_now();
    };
    client.forget(to);
    outcome
}

fn refusal(client: Option<TlsConfig>, server: Option<TlsConfig>) -> String {
    let (mut client, mut server) = (endpoint(client), endpoint(server));
    attempt(&mut client, &mut server).expect_err("they do not fit together")
}

#[test]
fn a_wrong_key_and_a_plain_peer_are_named() {
    let folder = Folder::new();
    let [ours, theirs] = [folder.key("ours", '1'), folder.key("theirs", '2')].map(Some);
    assert_eq!(refusal(ours.clone(), theirs), "the peer has another cluster key");
    let early =
        "the peer closed the connection within the handshake of TLS: it speaks another version, or no TLS";
    assert_eq!(refusal(ours.clone(), None), early);
    assert_eq!(refusal(None, ours), "what answers there speaks TLS: use tcp+tls");
}

#[test]
fn certificates_that_are_not_right_are_named() {
    if !has_openssl() {
        return println!("unsupported: there is no openssl to make certificates with");
    }
    let folder = Folder::new();
    folder.authority("ca");
    folder.authority("other");
    let good = folder.certificate("good", "ca", "127.0.0.1", 10);
    let expired = folder.certificate("expired", "ca", "127.0.0.1", -1);
    let elsewhere = folder.certificate("elsewhere", "ca", "10.9.8.7", 10);
    let strange = folder.certificate("strange", "other", "127.0.0.1", 10);
    let of = |server: &TlsConfig| refusal(Some(good.clone()), Some(server.clone()));
    assert_eq!(of(&expired), "the peer's certificate has expired");
    assert_eq!(of(&strange), "the peer's certificate is of an authority that tls.ca does not name");
    let name =
        "the peer's certificate does not name its address; tls.check_address=false takes any of tls.ca";
    assert_eq!(of(&elsewhere), name);
    // A server refuses clients after they have accepted it; they are told by an alert.
    let refused = refusal(Some(expired), Some(good.clone()));
    assert!(refused.starts_with("the peer refuses this side's certificate or key"), "{refused}");
    let key = folder.key("key", '1');
    let mixed = refusal(Some(good.clone()), Some(key));
    assert!(mixed.contains("TLS"), "{mixed}");
    let TlsConfig::Certificates { certificate, key, authority, .. } = good else { unreachable!() };
    let tolerant = TlsConfig::Certificates { certificate, key, authority, check_address: false };
    attempt(&mut endpoint(Some(tolerant)), &mut endpoint(Some(elsewhere))).expect("any of the authority's");
}

#[test]
fn a_peer_is_known_by_the_names_of_its_certificate_or_by_its_key() {
    let folder = Folder::new();
    let (mut server, mut client) =
        (endpoint(Some(folder.key("one", '1'))), endpoint(Some(folder.key("two", '1'))));
    let from = attempt(&mut client, &mut server).expect("they have one key");
    let name = name_of_key(&ClusterKey::new([0x11; 32]));
    assert_eq!(server.principal(from), Principal::Key(name));
    assert_eq!(client.principal(Destination(u32::MAX)), Principal::Unproven);
    let (mut server, mut client) = (endpoint(None), endpoint(None));
    let from = attempt(&mut client, &mut server).expect("they speak plainly");
    assert_eq!(server.principal(from), Principal::Unproven);
    if !has_openssl() {
        return println!("unsupported: there is no openssl to make certificates with");
    }
    folder.authority("ca");
    // What has no scheme is no URI: it would be taken for the name of a host.
    let names = "127.0.0.1,DNS:Worker.Example,URI:spiffe://example/Worker,URI:other.example";
    let [named, plain] = [("named", names), ("plain", "127.0.0.1")]
        .map(|(name, names)| Some(folder.certificate(name, "ca", names, 10)));
    let (mut server, mut client) = (endpoint(plain.clone()), endpoint(named.clone()));
    let from = attempt(&mut client, &mut server).expect("both are of the authority");
    let names = ["worker.example".to_owned(), "spiffe://example/Worker".to_owned()];
    assert_eq!(server.principal(from), Principal::Certificate(names.into()));
    // Neither an address nor a subject is a name.
    let (mut server, mut client) = (endpoint(named), endpoint(plain));
    let from = attempt(&mut client, &mut server).expect("both are of the authority");
    assert_eq!(server.principal(from), Principal::Certificate([].into()));
}

#[test]
fn secrets_that_others_can_read_and_files_without_them_are_refused() {
    let folder = Folder::new();
    let listen = |tls| Tcp::listen(TcpConfig { tls: Some(tls), ..TcpConfig::default() }).map(drop);
    let exposed = folder.key("exposed", '1');
    fs::set_permissions(folder.path("exposed"), Permissions::from_mode(0o640)).expect("it is ours");
    assert!(matches!(
        listen(exposed),
        Err(ListenError::Tls(TlsError::KeyFile(KeyFileError::File(FileError::Permitted { .. }))))
    ));
    let empty = TlsConfig::ClusterKey { file: folder.path("empty") };
    write_secret(&folder.path("empty"), "no key\n");
    assert!(matches!(
        listen(empty),
        Err(ListenError::Tls(TlsError::KeyFile(KeyFileError::File(FileError::Malformed { .. }))))
    ));
    let absent = TlsConfig::ClusterKey { file: folder.path("absent") };
    assert!(matches!(
        listen(absent),
        Err(ListenError::Tls(TlsError::KeyFile(KeyFileError::File(FileError::Unreadable { .. }))))
    ));
}

#[test]
fn a_key_that_changes_holds_for_new_connections_and_ends_no_old_one() {
    let folder = Folder::new();
    let mut server = endpoint(Some(folder.key("key", '1')));
    let mut old = endpoint(Some(folder.key("old", '1')));
    attempt(&mut old, &mut server).expect("they have one key");
    let mut staying = endpoint(Some(folder.key("old", '1')));
    let to = staying.resolve(&server.address()).expect("its address");
    staying.send(to, b"head", Outgoing::Slice(b"before"));
    let deadline = Instant::now() + PATIENCE;
    receive(&mut staying, &mut server, b"before", deadline);
    folder.key("key", '2');
    while attempt(&mut old, &mut server).is_ok() {
        assert!(Instant::now() < deadline, "the former key still opens connections");
    }
    let mut new = endpoint(Some(folder.key("new", '2')));
    attempt(&mut new, &mut server).expect("it has the new key");
    staying.send(to, b"head", Outgoing::Slice(b"after"));
    receive(&mut staying, &mut server, b"after", deadline);
    // A key that cannot be read changes nothing.
    write_secret(&folder.path("key"), "half of a k");
    while server.counters().tls_not_renewed.get() == 0 {
        attempt(&mut new, &mut server).expect("the former key stays");
        assert!(Instant::now() < deadline, "nobody looked at the file");
    }
}

fn receive(from: &mut Tcp, to: &mut Tcp, expected: &[u8], deadline: Instant) {
    loop {
        from.progress();
        to.progress();
        if let Some(arrival) = to.next_arrival() {
            assert_eq!(arrival.payload().as_slice(), expected);
            to.answer_to(&arrival, &from.address(), false).expect("its sender is there");
            return to.release(arrival);
        }
        assert!(Instant::now() < deadline, "no message came");
    }
}
