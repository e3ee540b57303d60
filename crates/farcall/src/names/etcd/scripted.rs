//! What a process asks of an etcd that does not do what is wanted of it: a gateway that follows a script.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::time::Instant;

use farcall_base::Address;
use serde_json::{Value, json};

use super::*;

const PLENTY: Duration = Duration::from_secs(60);

/// What was asked, and when; before it was answered.
type Asked = (String, Instant);

/// A gateway that answers by a script, `None` being no answer, and says what it was asked. Its thread ends
/// with the test program.
fn gateway(script: impl Fn(&str) -> Option<Value> + Send + 'static) -> (EtcdPlace, Receiver<Asked>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let at = listener.local_addr().expect("it is bound");
    let (asked, asks) = mpsc::channel();
    std::thread::spawn(move || {
        let mut silent = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let (path, at) = (path_of(&stream), Instant::now());
            match script(&path) {
                Some(answer) => {
                    let body = format!("{answer}\n");
                    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
                    // Whoever asked may have gone.
                    let _ = stream.write_all((head + &body).as_bytes());
                }
                None => silent.push(stream),
            }
            if asked.send((path, at)).is_err() {
                return;
            }
        }
    });
    (EtcdPlace::parse(&format!("etcd://{at}")).expect("a place"), asks)
}

/// Reads a request; what is asked.
fn path_of(stream: &TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let (mut path, mut bytes) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line");
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(rest) = line.strip_prefix("post /v3/") {
            path = rest.split(' ').next().unwrap_or_default().to_owned();
        }
        if let Some(length) = line.strip_prefix("content-length: ") {
            bytes = length.parse().expect("a number");
        }
    }
    reader.read_exact(&mut vec![0; bytes]).expect("the body");
    path
}

/// Waits until this is asked; when that was.
fn wait_for(asks: &Receiver<Asked>, path: &str) -> Instant {
    loop {
        let (asked, at) = asks.recv_timeout(PLENTY).expect("it is asked");
        if asked == path {
            return at;
        }
    }
}

#[test]
fn what_was_put_without_an_answer_is_deleted_when_it_is_withdrawn() {
    let (place, asks) = gateway(|path| match path {
        "lease/grant" => Some(json!({ "ID": "7" })),
        "lease/keepalive" => Some(json!({ "result": { "TTL": "1" } })),
        "kv/put" => None,
        _ => Some(json!({})),
    });
    let etcd = Etcd::at(&place, 1);
    let address = Address::new(*b"a").expect("short");
    etcd.register("orders", "ring+shm#0", address, Duration::from_secs(1)).expect("room");
    wait_for(&asks, "kv/put");
    etcd.withdraw("orders", "ring+shm#0");
    wait_for(&asks, "kv/deleterange");
}

#[test]
fn an_etcd_that_ends_all_watches_is_not_read_without_a_pause() {
    const READS: u32 = 4;
    for watch in [json!({ "result": { "created": true, "canceled": true } }), json!({ "error": "no" })] {
        let (place, asks) = gateway(move |path| match path {
            "watch" => Some(watch.clone()),
            _ => Some(json!({ "header": { "revision": "1" } })),
        });
        let watch = Etcd::at(&place, 1).watch("orders").expect("any name can be watched");
        let first = wait_for(&asks, "kv/range");
        let last = (1..READS).fold(first, |_, _| wait_for(&asks, "kv/range"));
        // At least as long, however slow this machine is.
        assert!(last - first >= watcher::RETRY * (READS - 1), "{:?}", last - first);
        drop(watch);
    }
}
