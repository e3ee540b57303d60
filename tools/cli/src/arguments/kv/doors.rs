//! The grammar of the doors for clients of other protocols, at `farcall kv serve`.

use std::path::PathBuf;

use clap::Args;
use farcall_kv::VALUE_BYTES_MAX;
use farcall_kv::resp::Place;
use farcall_kv::store::LONG_BYTES_MAX;
use farcall_lab::units::Size;

use super::super::whole_number;
use super::size_within;

/// Where clients of Redis and memcached connect, and what holds for them.
#[derive(Debug, Args)]
pub struct KvDoors {
    /// Also serves Redis clients there, by RESP2 and RESP3; can be repeated. A path is that of a Unix socket;
    /// at tls://HOST:PORT they speak TLS
    #[arg(long, value_delimiter = ',', value_name = "HOST:PORT|PATH", group = "doors")]
    pub resp: Vec<Place>,
    /// Where Redis clients of a store of several shards are sent for this one, if that is not the first
    /// address of --resp
    #[arg(long, value_name = "HOST:PORT", requires = "resp")]
    pub resp_announce: Option<String>,
    /// What Redis clients must say with AUTH or HELLO: the first line of this file
    #[arg(long, value_name = "FILE", requires = "resp")]
    pub resp_password_file: Option<PathBuf>,
    /// Redis and memcached clients at a time, together [default: 10000]
    #[arg(long, value_parser = whole_number::<1_000_000>, value_name = "NUMBER", requires = "doors")]
    pub resp_clients: Option<u64>,
    /// Most memory that Redis and memcached clients may take together beside --memory; the one that takes
    /// most is sent away then. 0 is no limit [default: 1G, or what memory.max of its control group leaves]
    #[arg(long, value_name = "SIZE", requires = "doors")]
    pub maxmemory_clients: Option<Size>,
    /// Longest string of Redis clients, from 1M to 512M. Those of more than 1 MiB are not read through other
    /// doors
    #[arg(long, default_value = "512M", value_parser = string_size, value_name = "SIZE", requires = "resp")]
    pub resp_value_max: Size,
    /// Also serves memcached clients there, by the text and the meta protocol, on the strings of Redis
    /// clients; can be repeated. Places are those of --resp
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "HOST:PORT|PATH",
        group = "doors",
        conflicts_with_all = ["resp_password_file", "data", "registry"]
    )]
    pub memcached: Vec<Place>,
    /// What is shown to clients that speak TLS: a certificate, and those between it and its authority (PEM).
    /// This and the two files below are read again when they change
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "doors"])]
    pub tls_cert: Option<PathBuf>,
    /// Its private key (PEM), which its owner alone may read
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Authorities (PEM): clients that speak TLS must show a certificate of one of them, whose names a
    /// policy may name
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_clients_ca: Option<PathBuf>,
}

fn string_size(text: &str) -> Result<Size, String> {
    size_within(text, (VALUE_BYTES_MAX, LONG_BYTES_MAX))
}
