//! What runs in the machine whose power is cut: a store with a flushed table, and a client of it.

use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::Poll;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use farcall::bootstrap::{Bootstrap, HostPort, RANKS_MAX};
use farcall::parameters::Settings;
use farcall::{Endpoint, Node};
use farcall_kv::store::Condition;
use farcall_kv::{Client, Name, TableId, Value};

use super::plan::{SUM, Step, round, sum_of};

const AT: &str = "127.0.0.1:7117";
const TABLE: &str = "orders";
const TRANSPORT: &str = "ring+shm";
const LONG: Duration = Duration::from_secs(120);

/// What begins the lines that are meant for the test.
pub const TELLS: &str = "power:";

/// Bytes of the ledger that are written at once.
pub const LEDGER_BYTES: usize = 4096;

/// Serves, says what is there, and goes on writing from this round until the power is cut.
pub fn run(seed: u64, first: u64, data: &str, ledger: &str) {
    serve(data);
    let at = HostPort::parse(AT).expect("an address");
    let bootstrap = Bootstrap::join(&at, RANKS_MAX / 2, RANKS_MAX, LONG).expect("it serves");
    let node = Node::new(bootstrap, Settings::default());
    let endpoint = node.endpoint(TRANSPORT).expect("an endpoint");
    let client = Client::new(&endpoint, [0]);
    tell_state(&client);
    let mut ledger = OpenOptions::new().write(true).open(ledger).expect("the second disk");
    for number in first.. {
        write_round(&endpoint, &client, &round(seed, number));
        note(&mut ledger, number);
    }
}

/// Starts the store, which ends with the machine.
#[expect(clippy::zombie_processes, reason = "the machine ends with it")]
fn serve(data: &str) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_farcall"));
    let table = format!("{TABLE}:flushed");
    command.args(["kv", "serve", "--at", AT, "--tables", &table, "--data", data, "--data-size", "64M"]);
    command.args(["--memory", "16M", "--transport", TRANSPORT]);
    let mut server = command.stdout(Stdio::piped()).spawn().expect("the program runs");
    for line in BufReader::new(server.stdout.take().expect("it is piped")).lines() {
        let line = line.expect("text");
        println!("{line}");
        if line.starts_with("shard 0 of 1 serves") {
            return;
        }
    }
    panic!("it does not serve");
}

fn name(key: &str) -> Name<'_> {
    Name::new(TableId::of(TABLE).expect("short"), key.as_bytes()).expect("short")
}

fn tell_state(client: &Client<'_>) {
    for key in (0..).map(|key| format!("key{key}")).take(super::plan::KEYS as usize) {
        if let Some(found) = client.get(name(&key)).within(LONG).wait().expect("it answers") {
            println!("{TELLS} {key} {}", sum_of(found.value()));
        }
    }
    if let Some(found) = client.get(name(SUM)).within(LONG).wait().expect("it answers") {
        println!("{TELLS} {SUM} {}", core::str::from_utf8(found.value()).expect("a number"));
    }
    println!("{TELLS} that is all");
}

/// All operations of a round at once.
fn write_round(endpoint: &Endpoint, client: &Client<'_>, steps: &[Step]) {
    let mut waiting: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> = Vec::new();
    for step in steps {
        match step {
            Step::Put(key, value) => {
                let value = Value::new(value).expect("short");
                let put = client.put(name(key), value, Condition::Always).within(LONG);
                waiting.push(Box::pin(async { _ = put.await.expect("it is flushed") }));
            }
            Step::Delete(key) => {
                let delete = client.delete(name(key), Condition::Always).within(LONG);
                waiting.push(Box::pin(async { _ = delete.await.expect("it is flushed") }));
            }
        }
    }
    let add = client.increment(name(SUM), 1).within(LONG);
    waiting.push(Box::pin(async { _ = add.await.expect("it is flushed") }));
    endpoint.block_on(poll_fn(|context| {
        waiting.retain_mut(|operation| operation.as_mut().poll(context).is_pending());
        if waiting.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }));
}

/// Says outside that this round was answered. It is known there when this returns.
fn note(ledger: &mut File, number: u64) {
    let mut block = format!("{number}\n").into_bytes();
    block.resize(LEDGER_BYTES, b' ');
    ledger.rewind().and_then(|()| ledger.write_all(&block)).expect("it has room");
    ledger.sync_data().expect("it is a file outside");
}
