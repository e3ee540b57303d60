//! Results of writes that are retried: what was done once is answered again, and not done again.
//!
//! It follows RIFL (Lee, Park, Kejriwal, Matsushita and Ousterhout, "Implementing linearizability at large
//! scale and low latency", SOSP 2015). A client has an identity at each shard, and numbers its writes there.
//! The result of a write lies in the log right behind the write, in the same group, so that after a crash
//! either both are there or none. A client says with each write which results it still may ask for.

use core::time::Duration;
use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use crate::durable::When;

/// The most clients that a shard knows.
pub const CLIENTS_MAX: usize = 16_384;

/// The most results of a client: it has no more writes in flight.
pub const RESULTS_MAX: usize = 64;

/// A client that was not heard of for so long is forgotten, with its results.
pub const CLIENT_LEASE: Duration = Duration::from_secs(600);

/// A result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The answer to the write.
    pub answer: Vec<u8>,
    /// When it may be given.
    pub when: When,
}

#[derive(Debug)]
struct Client {
    heard_at: Instant,
    results: BTreeMap<u64, Recorded>,
    /// Results before this one are not asked for any more.
    first: u64,
}

/// The results of all clients.
#[derive(Debug, Default)]
pub struct Results {
    clients: HashMap<u64, Client>,
    bytes: u64,
}

/// What is known of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// Nothing: it is done now.
    New,
    /// It was done.
    Done(Recorded),
    /// The client has too many results.
    TooMany,
    /// The client was forgotten, or never there: whether the write was done nobody knows.
    Forgotten,
    /// The client has said that it does not ask for it any more.
    Stale,
}

impl Results {
    /// Adds a client; says whether there is room.
    pub fn add_client(&mut self, client: u64) -> bool {
        let has_room = self.clients.len() < CLIENTS_MAX || self.clients.contains_key(&client);
        if has_room {
            let fresh = || Client { heard_at: Instant::now(), results: BTreeMap::new(), first: 0 };
            self.clients.entry(client).or_insert_with(fresh);
        }
        has_room
    }

    /// Forgets a client.
    pub fn remove_client(&mut self, client: u64) {
        if let Some(client) = self.clients.remove(&client) {
            self.bytes -= client.results.values().map(bytes_of).sum::<u64>();
        }
    }

    /// Clients whose lease is over.
    pub fn silent(&self) -> Vec<u64> {
        let is_silent = |client: &Client| client.heard_at.elapsed() > CLIENT_LEASE;
        self.clients.iter().filter(|(_, client)| is_silent(client)).map(|(&number, _)| number).collect()
    }

    /// Looks a write up. Results before `first` are not needed any more.
    pub fn look_up(&mut self, client: u64, sequence: u64, first: u64) -> Known {
        let Some(client) = self.clients.get_mut(&client) else { return Known::Forgotten };
        client.heard_at = Instant::now();
        self.bytes -= client.acknowledge(first);
        if sequence < client.first {
            return Known::Stale;
        }
        match client.results.get(&sequence) {
            Some(recorded) => Known::Done(recorded.clone()),
            None if client.results.len() >= RESULTS_MAX => Known::TooMany,
            None => Known::New,
        }
    }

    /// Records a result, as it was given or as a log has it.
    pub fn record(&mut self, client: u64, (sequence, first): (u64, u64), recorded: Recorded) {
        let Some(client) = self.clients.get_mut(&client) else { return };
        self.bytes -= client.acknowledge(first);
        if sequence >= client.first {
            self.bytes += bytes_of(&recorded);
            if let Some(before) = client.results.insert(sequence, recorded) {
                self.bytes -= bytes_of(&before);
            }
        }
    }

    /// All clients, the first results that they may ask for, and their results.
    pub fn all(&self) -> impl Iterator<Item = (u64, u64, &BTreeMap<u64, Recorded>)> {
        self.clients.iter().map(|(number, client)| (*number, client.first, &client.results))
    }

    /// Whether a client is known.
    pub fn has_client(&self, client: u64) -> bool {
        self.clients.contains_key(&client)
    }

    /// Whether a result may still be asked for.
    pub fn has(&self, client: u64, sequence: u64) -> bool {
        self.clients.get(&client).is_some_and(|client| client.results.contains_key(&sequence))
    }

    /// Bytes of their records in a log, of clients as well.
    pub fn bytes(&self) -> u64 {
        const CLIENT_BYTES: u64 = 9;
        self.bytes + self.clients.len() as u64 * CLIENT_BYTES
    }
}

impl Client {
    /// Results before `first` are not needed any more; gives their bytes.
    fn acknowledge(&mut self, first: u64) -> u64 {
        if first <= self.first {
            return 0;
        }
        self.first = first;
        let needed = self.results.split_off(&first);
        core::mem::replace(&mut self.results, needed).values().map(bytes_of).sum()
    }
}

/// Bytes of the record of a result.
fn bytes_of(recorded: &Recorded) -> u64 {
    const HEADER_BYTES: u64 = 26;
    HEADER_BYTES + recorded.answer.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(answer: u8) -> Recorded {
        Recorded { answer: vec![answer], when: When::Now }
    }

    #[test]
    fn a_result_is_there_until_its_client_says_otherwise() {
        let mut results = Results::default();
        assert_eq!(results.look_up(7, 1, 1), Known::Forgotten);
        assert!(results.add_client(7));
        assert_eq!(results.look_up(7, 1, 1), Known::New);
        results.record(7, (1, 1), recorded(1));
        results.record(7, (2, 1), recorded(2));
        assert_eq!(results.look_up(7, 1, 1), Known::Done(recorded(1)));
        assert_eq!(results.look_up(7, 2, 2), Known::Done(recorded(2)));
        assert!(!results.has(7, 1) && results.has(7, 2));
        assert_eq!(results.look_up(7, 1, 1), Known::Stale, "it has said so");
        let bytes = results.bytes();
        results.remove_client(7);
        assert!(bytes > 0 && results.bytes() == 0);
        results.record(7, (3, 3), recorded(3));
        assert_eq!(results.bytes(), 0, "nobody asks for it");
    }

    #[test]
    fn what_a_client_may_have_is_bounded() {
        let mut results = Results::default();
        results.add_client(7);
        (0..RESULTS_MAX as u64).for_each(|sequence| results.record(7, (sequence, 0), recorded(0)));
        assert_eq!(results.look_up(7, 1000, 0), Known::TooMany);
        assert_eq!(results.look_up(7, 1000, 1), Known::New);
        (8..CLIENTS_MAX as u64 + 7).for_each(|client| assert!(results.add_client(client)));
        assert!(!results.add_client(1 << 40) && results.add_client(7));
    }
}
