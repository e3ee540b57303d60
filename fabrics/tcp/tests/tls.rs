//! TLS under the transport: the contract of libraries holds, and whoever has no right key, certificate or
//! protocol is told so in a sentence.

mod proofs;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use farcall_base::{ClusterKey, Principal};
use farcall_driver::{Destination, FileError, KeyFileError};
use farcall_tcp::{ListenError, Tcp, TcpConfig, TlsConfig, TlsError};
use farcall_transport::{Arrival, Library, Outgoing, library_conformance, name_of_key};
use proofs::{Folder, has_openssl, write_secret};

/// How long a case waits for what must happen before it fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// A cluster key of this digit.
fn key(folder: &Folder, name: &str, digit: char) -> TlsConfig {
    let file = folder.path(name);
    write_secret(&file, &digit.to_string().repeat(64));
    TlsConfig::ClusterKey { file }
}

/// A certificate of an authority for this address, and that authority.
fn certificate(folder: &Folder, name: &str, authority: &str, address: &str, days: i32) -> TlsConfig {
    folder.certificate(name, authority, &format!("IP:{address}"), days);
    TlsConfig::Certificates {
        certificate: folder.path(&format!("{name}.pem")),
        key: folder.path(&format!("{name}.key")),
        authority: folder.path(&format!("{authority}.pem")),
        check_address: true,
    }
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
    Ok(two(|folder| key(folder, "key", '7')))
}

fn with_certificates() -> Result<impl Fn() -> [Tcp; 2], String> {
    if !has_openssl() {
        return Err("there is no openssl to make certificates with".to_owned());
    }
    Ok(two(|folder| {
        folder.authority("ca");
        certificate(folder, "node", "ca", "127.0.0.1", 10)
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
    let [ours, theirs] = [key(&folder, "ours", '1'), key(&folder, "theirs", '2')].map(Some);
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
    let good = certificate(&folder, "good", "ca", "127.0.0.1", 10);
    let expired = certificate(&folder, "expired", "ca", "127.0.0.1", -1);
    let elsewhere = certificate(&folder, "elsewhere", "ca", "10.9.8.7", 10);
    let strange = certificate(&folder, "strange", "other", "127.0.0.1", 10);
    let of = |server: &TlsConfig| refusal(Some(good.clone()), Some(server.clone()));
    assert_eq!(of(&expired), "the peer's certificate has expired");
    assert_eq!(of(&strange), "the peer's certificate is of an authority that tls.ca does not name");
    let name =
        "the peer's certificate does not name its address; tls.check_address=false takes any of tls.ca";
    assert_eq!(of(&elsewhere), name);
    // A server refuses clients after they have accepted it; they are told by an alert.
    let refused = refusal(Some(expired), Some(good.clone()));
    assert!(refused.starts_with("the peer refuses this side's certificate or key"), "{refused}");
    let key = key(&folder, "key", '1');
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
        (endpoint(Some(key(&folder, "one", '1'))), endpoint(Some(key(&folder, "two", '1'))));
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
        .map(|(name, names)| Some(certificate(&folder, name, "ca", names, 10)));
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
    let exposed = key(&folder, "exposed", '1');
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
    let mut server = endpoint(Some(key(&folder, "key", '1')));
    let mut old = endpoint(Some(key(&folder, "old", '1')));
    attempt(&mut old, &mut server).expect("they have one key");
    let mut staying = endpoint(Some(key(&folder, "old", '1')));
    let to = staying.resolve(&server.address()).expect("its address");
    staying.send(to, b"head", Outgoing::Slice(b"before"));
    let deadline = Instant::now() + PATIENCE;
    receive(&mut staying, &mut server, b"before", deadline);
    key(&folder, "key", '2');
    while attempt(&mut old, &mut server).is_ok() {
        assert!(Instant::now() < deadline, "the former key still opens connections");
    }
    let mut new = endpoint(Some(key(&folder, "new", '2')));
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
