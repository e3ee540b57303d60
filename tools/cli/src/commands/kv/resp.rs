//! The protocols of Redis and of memcached of `farcall kv serve`.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use farcall::parameters::Settings;
use farcall::said::{Kind, Level};
use farcall_base::explained;
use farcall_kv::SharedShard;
use farcall_kv::resp::{Cluster, Front, ListenError, Options, Place, ServerFiles};

use super::{access, cluster, memory};
use crate::arguments::kv::KvServe;
use crate::failure::Failure;
use crate::progress;

/// What is said of sockets that are served no longer.
static ENDED: Kind = Kind::new(Level::Error, "sockets of clients that ended");

/// What others than the owner of a file may do with it.
const OF_OTHERS: u32 = 0o077;

/// Clients at a time unless it is said otherwise.
const CLIENTS_MAX: u64 = 10_000;

/// The longest password.
const PASSWORD_BYTES_MAX: usize = 512;

/// Where clients connect.
#[derive(Debug, Default)]
pub struct Doors {
    pub resp: Vec<String>,
    pub memcached: Vec<String>,
}

/// The Unix sockets at which clients connect: their files go with the process.
fn sockets(serve: &KvServe) -> Vec<PathBuf> {
    let places = serve.doors.resp.iter().chain(&serve.doors.memcached);
    let path = |place: &Place| match place {
        Place::Unix(path) => Some(path.clone()),
        Place::Tcp(_) | Place::Tls(_) => None,
    };
    places.filter_map(path).collect()
}

/// Whether clients of Redis or memcached are to be served.
pub fn is_asked(serve: &KvServe) -> bool {
    !serve.doors.resp.is_empty() || !serve.doors.memcached.is_empty()
}

/// Serves such clients of a shard on a thread of their own.
pub fn start(
    serve: &KvServe,
    settings: &Settings,
    shared: &Arc<SharedShard>,
    cluster: Option<&Arc<Cluster>>,
) -> Result<Doors, Failure> {
    let options = Options { cluster: cluster.map(Arc::clone), ..options(serve, settings)? };
    let front = Front::bind(&serve.doors.resp, options, Arc::clone(shared));
    let front = front.map_err(|error| cannot_listen(&error))?;
    let sockets = sockets(serve);
    if !sockets.is_empty() {
        progress::before_signals_end(move || {
            // Somebody else may have removed them.
            sockets.iter().for_each(|path| drop(std::fs::remove_file(path)));
        })?;
    }
    let doors = Doors { resp: front.addresses(), memcached: front.memcached_addresses() };
    let thread = thread::Builder::new().name("farcall-resp".to_owned());
    let serving = move || {
        // Without its sockets the daemon goes on: slots and calls do not need them.
        if let Err(error) = front.run() {
            ENDED.say(format_args!("clients of Redis and memcached are served no longer: {error}"));
        }
    };
    thread.spawn(serving).map_err(Failure::run)?;
    Ok(doors)
}

/// Clients at a time.
fn clients_max(serve: &KvServe) -> usize {
    serve.doors.resp_clients.unwrap_or(CLIENTS_MAX) as usize
}

/// Refuses places that others than this machine's processes could reach, unless the store is meant for all,
/// and stores of several shards for memcached clients, which cannot be told who has a key.
pub fn check(serve: &KvServe) -> Result<(), Failure> {
    if !serve.doors.memcached.is_empty() && serve.shards > 1 {
        return Err(Failure::Usage(format!(
            "--memcached serves the objects of one shard, and --shards {} spreads them; give --shards 1",
            serve.shards
        )));
    }
    cluster::check(serve)?;
    let mut places = serve.doors.resp.iter().chain(&serve.doors.memcached);
    if serve.doors.tls_cert.is_some() && !places.any(|place| matches!(place, Place::Tls(_))) {
        return Err(Failure::Usage(
            "--tls-cert is for clients at tls://HOST:PORT; give --resp or --memcached such a place"
                .to_owned(),
        ));
    }
    for (option, places) in [("--resp", &serve.doors.resp), ("--memcached", &serve.doors.memcached)] {
        for place in places {
            if let Some(address) = place.address() {
                access::check_address(option, address, serve.allow)?;
            }
        }
    }
    Ok(())
}

fn options(serve: &KvServe, settings: &Settings) -> Result<Options, Failure> {
    let password = serve.doors.resp_password_file.as_deref().map(password).transpose()?;
    let is_for_all = serve.allow == crate::arguments::kv::AllowArgument::Any;
    let policy = settings.security.policy_file.map(|path| path.as_str().into());
    let (clients_max, memcached) = (clients_max(serve), serve.doors.memcached.clone());
    let clients_bytes_max = usize::try_from(memory::for_clients(serve)?).unwrap_or(usize::MAX);
    let value_bytes_max = serve.doors.resp_value_max.0;
    Ok(Options {
        password,
        tls: server_files(serve),
        clients_max,
        clients_bytes_max,
        value_bytes_max,
        is_for_all,
        policy,
        memcached,
        ..Options::default()
    })
}

/// What is shown to clients that speak TLS.
fn server_files(serve: &KvServe) -> Option<ServerFiles> {
    let (certificate, key) = serve.doors.tls_cert.clone().zip(serve.doors.tls_key.clone())?;
    Some(ServerFiles { certificate, key, clients: serve.doors.tls_clients_ca.clone() })
}

/// The first line of a file, which must not be empty.
fn password(path: &Path) -> Result<String, Failure> {
    let failed = |why: &dyn core::fmt::Display| {
        Failure::Usage(format!("--resp-password-file {}: {why}", path.display()))
    };
    let file = File::open(path).map_err(|error| failed(&error))?;
    let mode = file.metadata().map_err(|error| failed(&error))?.mode();
    if mode & OF_OTHERS != 0 {
        return Err(failed(&"others than its owner may read or change it; `chmod 600` it"));
    }
    let mut line = String::new();
    let mut read = BufReader::new(file.take(PASSWORD_BYTES_MAX as u64 + 2));
    read.read_line(&mut line).map_err(|error| failed(&error))?;
    let password = line.trim_end_matches(['\r', '\n']);
    match password.len() {
        0 => Err(failed(&"its first line is empty")),
        1..=PASSWORD_BYTES_MAX => Ok(password.to_owned()),
        _ => Err(failed(&format!("its first line is longer than {PASSWORD_BYTES_MAX} bytes"))),
    }
}

fn cannot_listen(error: &ListenError) -> Failure {
    match error {
        ListenError::NoCertificate { .. } => {
            Failure::Usage(format!("{error}: give --tls-cert and --tls-key"))
        }
        _ => Failure::Run(explained(error)),
    }
}
