//! A C program is a client of a shard of this process.

mod common;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{compile, succeed};
use farcall::Node;
use farcall::bootstrap::{Bootstrap, HostPort, Rendezvous};
use farcall::parameters::Settings;
use farcall_disk::MemoryDisk;
use farcall_kv::Shard;
use farcall_kv::durable::{LOG_BYTES_MIN, Level, Parked, Released};
use farcall_kv::store::{MEMORY_BYTES_MIN, Store};

/// Generous: reached only when something hangs.
const LONG: Duration = Duration::from_secs(60);

fn serve(address: &HostPort, transport: &str, is_over: &AtomicBool) {
    let bootstrap = Bootstrap::join(address, 0, 2, LONG).expect("rank 0 joins");
    let endpoint = Node::new(bootstrap, Settings::default()).endpoint(transport).expect("it is there");
    let mut shard = Shard::new(Store::new(MEMORY_BYTES_MIN).expect("enough"), 0, 1);
    shard.open_log(Box::new(MemoryDisk::new()), LOG_BYTES_MIN).expect("memory");
    shard.create_table_at("kept", Level::Flushed).expect("the first");
    while !is_over.load(Ordering::Relaxed) {
        endpoint.stay_awake(shard.is_flushing());
        endpoint.poll_requests_idle(|request, reply| shard.handle(request, reply), |_, _| {});
        shard.turn_log();
        while let Some(Released { to: Parked::Call(call), answer }) = shard.release() {
            endpoint.reply(call, answer.answer().expect("memory takes it"));
        }
    }
}

#[test]
fn objects() {
    for (name, flags) in [("store", &[][..]), ("store-sanitized", &["-fsanitize=address,undefined"])] {
        let program = compile("tests/c/store.c", name, flags);
        for transport in ["ring+shm", "basic+udp", "homa+udp"] {
            let rendezvous = Rendezvous::bind("127.0.0.1:0", 2).expect("a free port");
            let (address, is_over) = (HostPort::from(rendezvous.address()), Arc::new(AtomicBool::new(false)));
            let place = address.to_string();
            let ended = Arc::clone(&is_over);
            let server = std::thread::spawn(move || serve(&address, transport, &ended));
            let mut client = Command::new(&program);
            client
                .arg(transport)
                .env("FARCALL_RENDEZVOUS", place)
                .env("FARCALL_RANK", "1")
                .env("FARCALL_SIZE", "2");
            succeed(&mut client);
            is_over.store(true, Ordering::Relaxed);
            server.join().expect("the shard does not panic");
        }
    }
}
