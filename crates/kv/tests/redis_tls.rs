//! Clients of Redis that speak TLS, and those that do not where they should.

#[path = "../../../fabrics/tcp/tests/proofs/mod.rs"]
mod proofs;
mod redis;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use farcall_base::Random;
use farcall_kv::resp::{Front, ListenError, Options, Place, ServerFiles};
use farcall_kv::store::MEMORY_BYTES_MIN;
use proofs::{Folder, has_openssl, write_secret};
use redis::{Client, LONG, Served, request};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

type TlsStream = StreamOwned<ClientConnection, TcpStream>;

/// An authority, a certificate of the server's and a client's, if there is an openssl to make them.
fn folder() -> Option<Folder> {
    if !has_openssl() {
        println!("unsupported: there is no openssl to make certificates with");
        return None;
    }
    let folder = Folder::new();
    folder.authority("ca");
    folder.certificate("server", "ca", "IP:127.0.0.1", 10);
    folder.certificate("client", "ca", "DNS:worker.example", 10);
    Some(folder)
}

fn files(folder: &Folder) -> ServerFiles {
    ServerFiles { certificate: folder.path("server.pem"), key: folder.path("server.key"), clients: None }
}

/// A client's side: whom it believes, and what it shows, if anything.
fn config(folder: &Folder, authority: &str, shown: Option<&str>) -> Arc<ClientConfig> {
    let pem = |name: &str| folder.path(&format!("{name}.pem"));
    let mut roots = RootCertStore::empty();
    let of_authority = CertificateDer::from_pem_file(pem(authority)).expect("it was made");
    roots.add(of_authority).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("TLS 1.3")
        .with_root_certificates(roots);
    let Some(name) = shown else { return Arc::new(config.with_no_client_auth()) };
    let chain = vec![CertificateDer::from_pem_file(pem(name)).expect("it was made")];
    let key = PrivateKeyDer::from_pem_file(folder.path(&format!("{name}.key"))).expect("it was made");
    Arc::new(config.with_client_auth_cert(chain, key).expect("they fit"))
}

/// A connection whose handshake has not begun.
fn stream(served: &Served, config: Arc<ClientConfig>) -> TlsStream {
    let tcp = TcpStream::connect(served.tls_address()).expect("it listens");
    tcp.set_read_timeout(Some(LONG)).expect("a socket");
    let name = ServerName::try_from("127.0.0.1").expect("an address");
    StreamOwned::new(ClientConnection::new(config, name).expect("a name"), tcp)
}

fn client(served: &Served, config: Arc<ClientConfig>) -> Client<TlsStream> {
    Client::of(stream(served, config))
}

fn served(tls: ServerFiles) -> Served {
    Served::with(MEMORY_BYTES_MIN, Options { tls: Some(tls), ..Options::default() })
}

#[test]
fn short_and_long_requests_and_replies_come_whole_through_tls() {
    let Some(folder) = folder() else { return };
    let served = served(files(&folder));
    let config = config(&folder, "ca", None);
    let mut client = client(&served, Arc::clone(&config));
    assert_eq!(client.ask("PING"), "+PONG");
    // Around the lengths of records, of what is read at a time, and of values in chunks.
    for length in [0, 1, 16_383, 16_384, 16_385, 65_536, 1 << 20, (3 << 20) + 17] {
        let value: Vec<u8> = (0..length).map(|at: usize| (at * 7 + at / 251) as u8).collect();
        client.send(&[b"SET", b"key", &value]);
        assert_eq!(client.reply(), "+OK", "{length} bytes");
        client.send(&[b"GET", b"key"]);
        let reply = client.reply_bytes().expect("a reply");
        let expected = [format!("${length}\r\n").as_bytes(), &value, b"\r\n"].concat();
        assert!(reply == expected, "{length} bytes: {} came", reply.len());
        // What one client writes by TLS another reads without.
        assert_eq!(served.client().ask("STRLEN key"), format!(":{length}"));
    }
}

#[test]
fn many_requests_at_once_are_all_answered_in_order() {
    let Some(folder) = folder() else { return };
    let served = served(files(&folder));
    let mut client = client(&served, config(&folder, "ca", None));
    const REQUESTS: usize = 20_000;
    let word = |number: usize| format!("{number}-{}", "x".repeat(number % 97));
    let requests: Vec<u8> =
        (0..REQUESTS).flat_map(|number| request(&[b"ECHO", word(number).as_bytes()])).collect();
    let mut writer = client.stream.sock.try_clone().expect("a socket");
    // Written in parts that are no multiple of anything, while replies are read.
    let mut parts = requests.chunks(50_021);
    let mut answered = 0;
    while answered < REQUESTS {
        if let Some(part) = parts.next() {
            client.stream.conn.set_buffer_limit(None);
            client.stream.conn.writer().write_all(part).expect("memory");
            while client.stream.conn.wants_write() && !client.stream.conn.is_handshaking() {
                client.stream.conn.write_tls(&mut writer).expect("it reads");
            }
        }
        let word = word(answered);
        assert_eq!(client.reply(), format!("${}|{word}", word.len()));
        answered += 1;
    }
}

#[test]
fn requests_that_come_byte_by_byte_are_understood() {
    let Some(folder) = folder() else { return };
    let served = served(files(&folder));
    let mut client = client(&served, config(&folder, "ca", None));
    for byte in request(&[b"SET", b"slow", b"value"]) {
        client.stream.write_all(&[byte]).expect("it reads");
        client.stream.flush().expect("it reads");
    }
    assert_eq!(client.reply(), "+OK");
}

#[test]
fn the_end_of_a_client_is_seen_after_its_last_reply() {
    let Some(folder) = folder() else { return };
    let served = served(files(&folder));
    let mut client = client(&served, config(&folder, "ca", None));
    client.send(&[b"PING"]);
    client.stream.conn.send_close_notify();
    client.stream.flush().expect("it reads");
    assert_eq!(client.reply(), "+PONG");
    // The server says that it ends, too, although the connection is still open.
    assert_eq!(client.reply_bytes(), None);
}

/// What a client's side of TLS has to send.
fn ciphertext(stream: &mut TlsStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    while stream.conn.wants_write() {
        stream.conn.write_tls(&mut bytes).expect("memory");
    }
    bytes
}

#[test]
fn what_follows_the_end_of_a_client_holds_nobody_up() {
    let Some(folder) = folder() else { return };
    let served = served(files(&folder));
    let config = config(&folder, "ca", None);
    let mut client = client(&served, Arc::clone(&config));
    assert_eq!(client.ask("PING"), "+PONG");
    client.send(&[b"PING"]);
    client.stream.conn.send_close_notify();
    let mut bytes = ciphertext(&mut client.stream);
    bytes.extend_from_slice(&[23; 20_000]);
    client.stream.sock.write_all(&bytes).expect("it reads");
    assert_eq!(client.reply(), "+PONG");
    assert_eq!(client.reply_bytes(), None);
    assert_eq!(self::client(&served, config).ask("PING"), "+PONG");
}

#[test]
fn requests_are_answered_however_records_and_segments_part_them() {
    let Some(folder) = folder() else { return };
    let served = served(files(&folder));
    let config = config(&folder, "ca", None);
    let long = vec![b'v'; 200_000];
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let mut client = client(&served, Arc::clone(&config));
        client.stream.conn.set_buffer_limit(None);
        assert_eq!(client.ask("PING"), "+PONG");
        let pings = 1 + random.below(3000) as usize;
        let mut requests = request(&[b"SET", b"key", &long]);
        (0..pings).for_each(|_| requests.extend(request(&[b"PING"])));
        let mut records = Vec::new();
        let mut rest = &requests[..];
        while !rest.is_empty() {
            // Short and full records in turn.
            let most = [20, 300, 16_384][random.below(3) as usize];
            let (record, behind) = rest.split_at(rest.len().min(1 + random.below(most) as usize));
            client.stream.conn.writer().write_all(record).expect("memory");
            records.extend(ciphertext(&mut client.stream));
            rest = behind;
        }
        let mut sock = client.stream.sock.try_clone().expect("a socket");
        let sending = std::thread::spawn(move || {
            let mut rest = &records[..];
            while !rest.is_empty() {
                let (segment, behind) = rest.split_at(rest.len().min(1 + random.below(40_000) as usize));
                sock.write_all(segment).expect("it reads");
                rest = behind;
            }
        });
        assert_eq!(client.reply(), "+OK", "seed {seed}");
        (0..pings).for_each(|ping| assert_eq!(client.reply(), "+PONG", "seed {seed}, {ping} of {pings}"));
        sending.join().expect("it sends all");
    }
}

#[test]
fn what_came_before_a_broken_record_counts() {
    let Some(folder) = folder() else { return };
    let served = served(files(&folder));
    let mut client = client(&served, config(&folder, "ca", None));
    assert_eq!(client.ask("PING"), "+PONG");
    // Two records, which come at once.
    for words in [&[&b"SET"[..], b"key", b"value"][..], &[b"PING"]] {
        client.stream.conn.writer().write_all(&request(words)).expect("memory");
    }
    let mut bytes = ciphertext(&mut client.stream);
    // Of the last record, which has its proof at its end.
    *bytes.last_mut().expect("a record") ^= 1;
    client.stream.sock.write_all(&bytes).expect("it reads");
    // The alert comes before the reply, if both do, and nobody reads what follows an alert.
    let mut said = Vec::new();
    let end = client.stream.read_to_end(&mut said);
    assert!(said.is_empty() || said == b"+OK\r\n", "{said:?}, {end:?}");
    assert_eq!(served.client().ask("GET key"), "$5|value");
}

#[test]
fn who_speaks_no_tls_is_sent_away_and_the_others_are_served() {
    let Some(folder) = folder() else { return };
    let served = served(files(&folder));
    let config = config(&folder, "ca", None);
    let mut good = client(&served, Arc::clone(&config));
    assert_eq!(good.ask("PING"), "+PONG");
    let address = served.tls_address();
    let silent = TcpStream::connect(address).expect("it listens");
    for garbage in
        [&b"*1\r\n$4\r\nPING\r\n"[..], &[22, 3, 1, 255, 255], &[0; 70_000], b"\x16\x03\x01\x00\x05hello"]
    {
        let mut stranger = TcpStream::connect(address).expect("it listens");
        stranger.set_read_timeout(Some(LONG)).expect("a socket");
        // It may be sent away in the middle.
        let _sent = stranger.write_all(garbage);
        let _ended = stranger.shutdown(std::net::Shutdown::Write);
        let mut said = Vec::new();
        let _reset = stranger.read_to_end(&mut said);
        assert!(!said.windows(4).any(|word| word == b"PONG"), "it was answered without TLS");
        assert_eq!(good.ask("PING"), "+PONG");
    }
    assert!(good.ask("INFO clients").contains("connected_clients:2"), "the silent one waits for its time");
    drop(silent);
}

#[test]
fn clients_must_show_a_certificate_where_it_is_asked_for() {
    let Some(folder) = folder() else { return };
    folder.authority("other");
    folder.certificate("stranger", "other", "DNS:worker.example", 10);
    folder.certificate("expired", "ca", "DNS:worker.example", -1);
    let served = served(ServerFiles { clients: Some(folder.path("ca.pem")), ..files(&folder) });
    for shown in [None, Some("stranger"), Some("expired")] {
        let mut stream = stream(&served, config(&folder, "ca", shown));
        // In TLS 1.3 a client learns that it is refused when it reads.
        let asked = stream.write_all(&request(&[b"PING"])).and_then(|()| stream.flush());
        let answered = asked.and_then(|()| stream.read(&mut [0; 100]));
        assert!(answered.is_err(), "{shown:?} was answered");
    }
    assert_eq!(client(&served, config(&folder, "ca", Some("client"))).ask("PING"), "+PONG");
}

#[test]
fn a_policy_knows_clients_by_the_names_of_their_certificates() {
    let Some(folder) = folder() else { return };
    let policy = folder.path("policy");
    write_secret(&policy, "table default: read, write by certificate worker.example\n");
    let tls = Some(ServerFiles { clients: Some(folder.path("ca.pem")), ..files(&folder) });
    folder.certificate("other", "ca", "DNS:other.example", 10);
    let options = Options { tls, policy: Some(policy), ..Options::default() };
    let served = Served::with(MEMORY_BYTES_MIN, options);
    let ask = |shown, line| client(&served, config(&folder, "ca", Some(shown))).ask(line);
    assert_eq!(ask("client", "SET key value"), "+OK");
    assert!(ask("other", "GET key").starts_with("-NOPERM"), "{}", ask("other", "GET key"));
    let mut reset = client(&served, config(&folder, "ca", Some("client")));
    assert_eq!(reset.ask("RESET"), "+RESET");
    assert_eq!(reset.ask("GET key"), "$5|value", "a certificate is not forgotten");
}

#[test]
fn a_renewed_certificate_is_shown_to_new_clients_without_a_stop() {
    let Some(folder) = folder() else { return };
    let served = served(files(&folder));
    let old = config(&folder, "ca", None);
    let mut staying = client(&served, Arc::clone(&old));
    assert_eq!(staying.ask("PING"), "+PONG");
    folder.authority("next");
    folder.certificate("renewed", "next", "IP:127.0.0.1", 10);
    let new = config(&folder, "next", None);
    for kind in ["key", "pem"] {
        fs::rename(folder.path(&format!("renewed.{kind}")), folder.path(&format!("server.{kind}")))
            .expect("a folder of our own");
    }
    let begun = Instant::now();
    loop {
        let mut stream = stream(&served, Arc::clone(&new));
        if stream.write_all(&request(&[b"PING"])).is_ok() {
            assert_eq!(Client::of(stream).reply(), "+PONG");
            break;
        }
        assert!(begun.elapsed() < LONG, "the old one is shown for ever");
    }
    assert_eq!(staying.ask("PING"), "+PONG", "who is connected stays");
    assert!(stream(&served, old).write_all(b"x").is_err(), "the old authority vouches no longer");
}

#[test]
fn redis_cli_speaks_tls() {
    let Some(folder) = folder() else { return };
    let has_tls = Command::new("redis-cli").args(["--tls", "--version"]).output();
    if !has_tls.is_ok_and(|done| done.status.success()) {
        return println!("unsupported: there is no redis-cli that speaks TLS");
    }
    let served = served(ServerFiles { clients: Some(folder.path("ca.pem")), ..files(&folder) });
    let (_, port) = served.tls_address().rsplit_once(':').expect("an address");
    let run = |more: &[&str]| {
        let mut command = Command::new("redis-cli");
        command.args(["-p", port, "--tls", "--cacert"]).arg(folder.path("ca.pem"));
        command.arg("--cert").arg(folder.path("client.pem")).arg("--key").arg(folder.path("client.key"));
        String::from_utf8(command.args(more).output().expect("it is there").stdout).expect("text")
    };
    assert_eq!(run(&["set", "key", "value"]), "OK\n");
    assert_eq!(run(&["-3", "get", "key"]), "value\n");
    let plain = Command::new("redis-cli").args(["-p", port, "get", "key"]).output().expect("it is there");
    assert!(!String::from_utf8_lossy(&plain.stdout).contains("value"), "without TLS there is nothing");
}

#[test]
fn a_door_of_tls_without_a_certificate_is_an_error() {
    let Some(folder) = folder() else { return };
    let shard = || Served::start().shared.clone();
    let place = [Place::Tls("127.0.0.1:0".to_owned())];
    let bound = Front::bind(&place, Options::default(), shard());
    assert!(matches!(bound, Err(ListenError::NoCertificate { .. })), "{bound:?}");
    let pipe = folder.path("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).expect("a folder of our own");
    for certificate in [folder.path("absent"), pipe] {
        let unread = ServerFiles { certificate, ..files(&folder) };
        let bound = Front::bind(&place, Options { tls: Some(unread), ..Options::default() }, shard());
        assert!(matches!(bound, Err(ListenError::Tls(_))), "{bound:?}");
    }
}
