//! A client: knows which shard has an object, and asks it.
//!
//! It needs nobody to tell it where objects are: the shard follows from the hash slot of the key and the
//! number of shards, until a shard says that slots have moved.

mod failure;
mod found;
mod many;
mod once;
mod operation;
mod parts;
mod placement;
mod receipt;
mod tables;

use core::time::Duration;
use std::cell::{Cell, RefCell};

use farcall::{ConnectError, Endpoint, Payload, Peer, Service};
use farcall_replica::{FateCounts, ScrubOutcome};

pub use failure::Failure;
pub use found::FoundObject;
pub use many::{Page, ScanPosition};
pub use operation::Operation;
pub use parts::FoundPart;
pub use receipt::Receipt;
pub use tables::CreateTableAtError;

pub(crate) use failure::FromCode;
use failure::refused;
use once::Identity;
use operation::{Decode, Repeat};
use placement::{KnownPlacement, Route};

use crate::store::{Condition, IncrementError, ReadError, WriteError};
use crate::wire::{
    Code, CreateTableResponse, DELETE, DeleteRequest, GET, GetRequest, HAND_OVER, INCREMENT,
    IncrementRequest, IncrementResponse, PUT, PartResponse, PutRequest, REPLICATION, Replication, SCRUB,
    STATISTICS, ShardStatistics, WriteResponse, decode_scrubbed, found, hash_slot,
};
use crate::{Name, Value};

/// A client of all shards of a store.
pub struct Client<'e> {
    endpoint: &'e Endpoint,
    /// The rank of each shard, in the order of the shards.
    ranks: Vec<u32>,
    /// The session to each shard, once there is one.
    peers: RefCell<Vec<Option<Peer>>>,
    /// How long an operation waits for a shard that is not there, or whose replicas are not.
    patience: Duration,
    /// What this client is to each shard that does its writes once.
    identities: RefCell<Vec<Option<Identity>>>,
    /// Where objects are whose hash slots have moved.
    placement: KnownPlacement,
    /// How many others were asked for that because a shard was away.
    asked_of: Cell<u32>,
}

impl<'e> Client<'e> {
    /// A client over `endpoint` of the shards on these ranks: shard 0 on the first, and so on.
    ///
    /// # Panics
    /// When there are none.
    pub fn new(endpoint: &'e Endpoint, ranks: impl IntoIterator<Item = u32>) -> Self {
        let ranks: Vec<u32> = ranks.into_iter().collect();
        assert!(!ranks.is_empty(), "a store has at least one shard");
        let peers = RefCell::new(vec![None; ranks.len()]);
        let identities = RefCell::new(ranks.iter().map(|_| None).collect());
        Self {
            endpoint,
            ranks,
            peers,
            patience: Duration::ZERO,
            identities,
            placement: KnownPlacement::default(),
            asked_of: Cell::new(0),
        }
    }

    /// From now on operations that changed nothing, because their shard is not there or lacks replicas, are
    /// asked for again for so long; by default they fail at once. For shards that others take over.
    pub fn be_patient(&mut self, within: Duration) {
        self.patience = within;
    }

    fn is_patient(&self) -> bool {
        !self.patience.is_zero()
    }

    /// How many shards there are.
    pub fn shards(&self) -> u32 {
        self.ranks.len() as u32
    }

    /// The session to a shard, opened if there is none.
    pub fn peer(&self, shard: u32) -> Result<Peer, ConnectError> {
        self.find_peer(shard, self.endpoint.resolve_timeout())
    }

    /// The same, for a shard that is looked for no longer than this.
    fn find_peer(&self, shard: u32, within: Duration) -> Result<Peer, ConnectError> {
        let shard = shard as usize;
        if let Some(peer) = self.peers.borrow()[shard] {
            return Ok(peer);
        }
        let peer = self.endpoint.peer_within(self.ranks[shard], within)?;
        self.peers.borrow_mut()[shard] = Some(peer);
        Ok(peer)
    }

    /// Reads an object; `None` when there is none.
    pub fn get(&self, name: Name<'_>) -> Operation<'_, Option<FoundObject>, ReadError> {
        let message = message(|to| GetRequest { name }.encode(to));
        self.operation(self.route(name), GET, message, Repeat::Always, |answer| {
            let Some((version, value)) = found(&answer)? else { return Ok(None) };
            let value = answer.len() - value.len()..answer.len();
            Ok(Some(FoundObject::new(version, answer, value)))
        })
    }

    /// Writes an object if the one that is there fulfils the condition; gives its version.
    pub fn put(
        &self,
        name: Name<'_>,
        value: Value<'_>,
        condition: Condition,
    ) -> Operation<'_, u64, WriteError> {
        let put = PutRequest { name, value, condition };
        let message = message(|to| put.encode(to));
        self.operation(self.route(name), PUT, message, Repeat::IfNotSent, written)
    }

    /// Deletes an object if the one that is there fulfils the condition; gives the version that it had,
    /// `None` when there was none.
    pub fn delete(&self, name: Name<'_>, condition: Condition) -> Operation<'_, Option<u64>, WriteError> {
        let message = message(|to| DeleteRequest { name, condition }.encode(to));
        self.operation(self.route(name), DELETE, message, Repeat::IfNotSent, |answer| {
            written(answer).map(|version| (version != 0).then_some(version))
        })
    }

    /// Adds to the number that an object is, in decimal digits; one that does not exist counts as 0. Gives
    /// the new version and the sum.
    pub fn increment(&self, name: Name<'_>, amount: i64) -> Operation<'_, (u64, i64), IncrementError> {
        let message = message(|to| IncrementRequest { name, amount }.encode(to));
        self.operation(self.route(name), INCREMENT, message, Repeat::IfNotSent, |answer| {
            let IncrementResponse { version, sum, .. } = IncrementResponse::decode(&answer)?;
            Ok((version, sum))
        })
    }

    /// What a shard holds. One that is away and has no hash slots fails as [`Failure::WrongShard`].
    pub fn statistics(&self, shard: u32) -> Operation<'_, ShardStatistics, ReadError> {
        self.operation((shard, Route::Waiting), STATISTICS, message(|_| ()), Repeat::Always, |answer| {
            Ok(ShardStatistics::decode(&answer)?)
        })
    }

    /// Who has replicas of a shard's log; `None` if it is not replicated. One that is away and has no hash
    /// slots fails as [`Failure::WrongShard`].
    pub fn replication(&self, shard: u32) -> Operation<'_, Option<Replication>, ReadError> {
        self.operation((shard, Route::Waiting), REPLICATION, message(|_| ()), Repeat::Always, |answer| {
            Ok(if answer.is_empty() { None } else { Some(Replication::decode(&answer)?) })
        })
    }

    /// Begins to compare all replicas of a shard's log, and later tells what that found, and how many damaged
    /// parts it has not named; `None` until then. Asked again and again, with the same `run`: a number drawn
    /// for this comparison. With `repairs` what is damaged is written again from what is not.
    pub fn scrub(
        &self,
        shard: u32,
        run: u64,
        repairs: bool,
    ) -> Operation<'_, Option<(ScrubOutcome, FateCounts)>, ReadError> {
        let message = message(|to| {
            to.push(u8::from(repairs));
            to.extend_from_slice(&run.to_le_bytes());
        });
        self.operation((shard, Route::Fixed), SCRUB, message, Repeat::Always, |answer| {
            Ok(decode_scrubbed(&answer)?)
        })
    }

    /// Asks the primary of a shard to end, so that a process that waits takes over. It refuses durable tables
    /// from then on: patient clients ask again until they find the next primary.
    pub fn hand_over(&self, shard: u32) -> Operation<'_, (), ReadError> {
        self.operation((shard, Route::Fixed), HAND_OVER, message(|_| ()), Repeat::Always, |_| Ok(()))
    }

    fn operation<'c, T, E>(
        &'c self,
        (shard, route): (u32, Route),
        service: Service,
        message: Vec<u8>,
        repeat: Repeat,
        decode: Decode<T, E>,
    ) -> Operation<'c, T, E> {
        Operation { client: self, shard, route, service, message, repeat, timeout: None, decode }
    }

    /// The shard that has an object, and how it is found again.
    #[inline]
    fn route(&self, name: Name<'_>) -> (u32, Route) {
        // One shard has everything; then nobody needs the slot.
        if self.shards() == 1 {
            return (0, Route::Fixed);
        }
        let slot = hash_slot(name.key());
        (self.shard_of_slot(slot), Route::Slot(slot))
    }

    /// Forgets a session that has ended.
    fn forget(&self, shard: u32) {
        self.peers.borrow_mut()[shard as usize] = None;
    }
}

/// A message that `encode` appends to.
fn message(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut message = Vec::new();
    encode(&mut message);
    message
}

/// The version that the answer to a write has.
fn written(answer: Payload) -> Result<u64, Failure<WriteError>> {
    match WriteResponse::decode(&answer)? {
        WriteResponse { code: Code::Done, version, .. } => Ok(version),
        WriteResponse { code, version, .. } => Err(refused(code, version)),
    }
}

/// Takes some bytes for each of the answers that a hostile shard could give.
#[doc(hidden)]
pub fn fuzz_answers(bytes: &[u8]) {
    if let Ok(Some((version, value))) = found(bytes) {
        assert!(version != 0 && value.len() + 8 == bytes.len());
    }
    let _malformed = (WriteResponse::decode(bytes), IncrementResponse::decode(bytes));
    let _malformed = (Replication::decode(bytes), decode_scrubbed(bytes));
    let _malformed = CreateTableResponse::decode(bytes);
    if let Ok(Some(found)) = PartResponse::decode(bytes) {
        assert_eq!(found.part.len() + PartResponse::HEADER_BYTES, bytes.len(), "the part ends the answer");
    }
    if let Ok(statistics) = ShardStatistics::decode(bytes) {
        assert!((1..=crate::wire::SHARDS_MAX).contains(&statistics.shards), "a client makes room for them");
        assert!(statistics.shard < statistics.shards && statistics.tables.len() < bytes.len());
    }
    many::fuzz_many(bytes);
    crate::daemon::flight::fuzz_slot_answers(bytes);
}
