//! How the servers of a store's shards find out where Redis clients of the others connect.

use core::time::Duration;
use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::thread;

use farcall::bootstrap::Directory;
use farcall_base::Address;
use farcall_kv::resp::{Cluster, Place, ServerPlace};

use crate::arguments::kv::KvServe;
use crate::failure::Failure;

/// Under this key each shard publishes where its Redis clients connect.
const RESP_KEY: &str = "kv.resp";

/// How long a look for one shard lasts when it is not there.
const LOOK_WITHIN: Duration = Duration::from_millis(100);

/// The time between looks for two shards. A shard that begins again may do so at another port.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Refuses a server to which clients of the others cannot be sent.
pub fn check(serve: &KvServe) -> Result<(), Failure> {
    if let Some(announced) = &serve.doors.resp_announce {
        return match ServerPlace::parse(announced) {
            Some(_) => Ok(()),
            None => Err(Failure::Usage(format!("--resp-announce {announced} is not HOST:PORT"))),
        };
    }
    if serve.shards == 1 || serve.doors.resp.is_empty() {
        return Ok(());
    }
    let first = serve.doors.resp.iter().find_map(Place::address);
    let Some(first) = first else {
        return Err(Failure::Usage(format!(
            "Redis clients of the other shards, of --shards {}, cannot be sent to a path; give --resp HOST:PORT",
            serve.shards
        )));
    };
    let is_anywhere =
        |mut found: std::vec::IntoIter<_>| found.any(|at: std::net::SocketAddr| at.ip().is_unspecified());
    match first.to_socket_addrs().is_ok_and(is_anywhere) {
        true => Err(Failure::Usage(format!(
            "Redis clients of the other shards cannot be sent to --resp {first}; give --resp-announce HOST:PORT"
        ))),
        false => Ok(()),
    }
}

/// The cluster that Redis clients see; `None` when there is one shard.
pub fn of(serve: &KvServe) -> Option<Arc<Cluster>> {
    (serve.shards > 1).then(|| Arc::new(Cluster::new(serve.shard as u32, serve.shards as u32)))
}

/// Tells the others where Redis clients of this shard connect, and looks for theirs as long as this process
/// lives.
pub fn meet(
    serve: &KvServe,
    cluster: Arc<Cluster>,
    listening: &[String],
    directory: Arc<Directory>,
) -> Result<(), Failure> {
    let own = serve.doors.resp_announce.as_ref().into_iter().chain(listening);
    let Some(own) = own.filter_map(|at| ServerPlace::parse(at)).next() else { return Ok(()) };
    directory
        .publish(RESP_KEY, Address::new(own.to_string()).map_err(Failure::run)?)
        .map_err(Failure::run)?;
    cluster.set_place(cluster.own(), Some(own));
    let looking = move || {
        loop {
            for shard in (0..cluster.shards()).filter(|shard| *shard != cluster.own()) {
                let found = directory.resolve(shard, RESP_KEY, LOOK_WITHIN).ok();
                let text = found.map(|(address, _)| String::from_utf8_lossy(address.as_bytes()).into_owned());
                cluster.set_place(shard, text.and_then(|text| ServerPlace::parse(&text)));
                thread::sleep(LOOK_EVERY);
            }
        }
    };
    thread::Builder::new().name("farcall-cluster".to_owned()).spawn(looking).map_err(Failure::run)?;
    Ok(())
}
