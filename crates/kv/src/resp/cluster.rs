//! The shards of a store as Redis Cluster's clients see them: servers, each with ranges of hash slots.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use sha1::{Digest, Sha1};

/// The servers of all shards. Where the others are is learnt while this one serves; which slots they have its
/// shard knows.
#[derive(Debug)]
pub struct Cluster {
    own: u32,
    places: Mutex<Vec<Option<ServerPlace>>>,
}

/// Where the clients of a server connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerPlace {
    /// A name, or an address.
    pub host: String,
    /// A port of TCP.
    pub port: u16,
}

impl ServerPlace {
    /// The place that `HOST:PORT` names, if it is one. Clients that came by TLS go on by TLS: what says so
    /// in front of it is passed over.
    pub fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.strip_prefix(super::TLS_PREFIX).unwrap_or(text).rsplit_once(':')?;
        let host = host.strip_prefix('[').map_or(host, |host| host.trim_end_matches(']'));
        let is_text = |c: char| c.is_ascii_graphic();
        let port = port.parse().ok().filter(|port| *port != 0)?;
        (!host.is_empty() && host.chars().all(is_text)).then(|| Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for ServerPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Cluster {
    /// The cluster of a store of `shards`, of which this server has number `own`; it knows no places yet.
    ///
    /// # Panics
    /// When `own` is not less than `shards`.
    pub fn new(own: u32, shards: u32) -> Self {
        assert!(own < shards, "shards are counted from 0");
        Self { own, places: Mutex::new(vec![None; shards as usize]) }
    }

    /// The shard of this server.
    pub fn own(&self) -> u32 {
        self.own
    }

    /// How many shards there are.
    pub fn shards(&self) -> u32 {
        self.places().len() as u32
    }

    /// Where the server of a shard is; `None` when that is not known.
    pub fn place(&self, shard: u32) -> Option<ServerPlace> {
        self.places().get(shard as usize)?.clone()
    }

    /// From now on the server of a shard is there, or nobody knows where.
    pub fn set_place(&self, shard: u32, place: Option<ServerPlace>) {
        if let Some(old) = self.places().get_mut(shard as usize) {
            *old = place;
        }
    }

    /// What names a shard's server for clients, as long as there is the store.
    pub fn id(&self, shard: u32) -> String {
        let digest = Sha1::digest(format!("farcall-kv shard {shard} of {}", self.shards()));
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn places(&self) -> std::sync::MutexGuard<'_, Vec<Option<ServerPlace>>> {
        // Each change is whole.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn places_are_hosts_with_ports() {
        let place = |text: &str| ServerPlace::parse(text).map(|place| place.to_string());
        assert_eq!(place("127.0.0.1:7000").as_deref(), Some("127.0.0.1:7000"));
        assert_eq!(place("[::1]:7000").as_deref(), Some("::1:7000"), "as Redis writes it");
        for text in ["", ":1", "host", "host:0", "host:65536", "a b:1"] {
            assert_eq!(place(text), None, "{text}");
        }
    }
}
