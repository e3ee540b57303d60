//! A store on some hosts, and one operation of a client.

use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use farcall::Endpoint;
use farcall_kv::store::{Condition, MEMORY_BYTES_MIN, Store};
use farcall_kv::wire::{DELETE, GET, INCREMENT, PUT};
use farcall_kv::{Client, Failure, Name, Shard, TableId, Value};

use super::{Visit, VisitKind};
use crate::mail::Mail;

/// A value says which operation wrote it.
pub const NUMBER_BYTES: usize = crate::mail::NUMBER_BYTES;

/// The one table.
const TABLE: &str = "swarm";

/// The key of the counter to which all add.
const COUNTER: &[u8] = b"counter";

/// The shard of a host, until its life is over.
pub type SharedShard = Arc<Mutex<Shard>>;

/// Serves shard number `shard`; an error says why it cannot be made.
pub fn serve(endpoint: &Endpoint, shard: u32, shards: u32) -> Result<SharedShard, String> {
    let store = Store::new(MEMORY_BYTES_MIN).map_err(|error| error.to_string())?;
    let mut served = Shard::new(store, shard, shards);
    served.create_table(TABLE).map_err(|error| error.to_string())?;
    let served = Arc::new(Mutex::new(served));
    for service in [GET, PUT, DELETE, INCREMENT] {
        let served = Arc::clone(&served);
        endpoint.serve(service, move |request, reply| {
            served.lock().unwrap_or_else(PoisonError::into_inner).handle(request, reply);
        });
    }
    Ok(served)
}

fn table() -> TableId {
    TableId::of(TABLE).expect("the name is short enough")
}

fn name(key: &[u8]) -> Name<'_> {
    Name::new(table(), key).expect("the key is short enough")
}

/// What the counter is now, if this shard has it.
pub fn counted(shard: &SharedShard) -> Option<i64> {
    let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
    let object = shard.store().get(name(COUNTER)).ok().flatten()?;
    core::str::from_utf8(&object.to_vec()).ok()?.parse().ok()
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VisitEnd {
    /// The object has this version now.
    Written { version: u64 },
    /// The object was found: its version, and the operation that wrote it if its bytes are right.
    Found { version: u64, writer: Option<usize> },
    /// There is no such object.
    Nothing,
    /// The counter is this much now.
    Added { sum: i64 },
    /// Nothing was changed.
    NotDone,
    /// It was or will be done, or not.
    Unknown,
    /// The store refused what it should not.
    Refused(String),
}

/// Does one operation.
pub async fn visit(endpoint: Rc<Endpoint>, shards: u32, number: usize, visit: Visit) -> VisitEnd {
    let client = Client::new(&endpoint, 0..shards);
    let key = format!("object of {}", visit.host);
    let name_of_own = name(key.as_bytes());
    match visit.kind {
        VisitKind::Put { bytes } => {
            let bytes = Mail::bytes_of(number, bytes);
            let value = Value::new(&bytes).expect("the value is short enough");
            let put = client.put(name_of_own, value, Condition::Always).within(visit.within);
            end_of(put.await, |version| VisitEnd::Written { version })
        }
        VisitKind::Get => {
            let get = client.get(name_of_own).within(visit.within);
            end_of(get.await, |found| match found {
                Some(found) => {
                    let value = found.value();
                    let writer = Mail::number_of(0, value);
                    let writer = writer.filter(|writer| Mail::bytes_of(*writer, value.len()) == value);
                    VisitEnd::Found { version: found.version(), writer }
                }
                None => VisitEnd::Nothing,
            })
        }
        VisitKind::Delete => {
            let delete = client.delete(name_of_own, Condition::Always).within(visit.within);
            end_of(delete.await, |version| match version {
                Some(version) => VisitEnd::Written { version },
                None => VisitEnd::Nothing,
            })
        }
        VisitKind::Add(amount) => {
            let add = client.increment(name(COUNTER), amount.into()).within(visit.within);
            end_of(add.await, |(_, sum)| VisitEnd::Added { sum })
        }
    }
}

fn end_of<T, E: core::fmt::Display>(
    result: Result<T, Failure<E>>,
    of_success: impl FnOnce(T) -> VisitEnd,
) -> VisitEnd {
    match result {
        Ok(value) => of_success(value),
        Err(Failure::NotConnected(_) | Failure::Busy) => VisitEnd::NotDone,
        Err(Failure::NoAnswer(farcall::CallError::NotSent(_))) => VisitEnd::NotDone,
        Err(Failure::NoAnswer(_)) => VisitEnd::Unknown,
        Err(Failure::Store(error)) => VisitEnd::Refused(error.to_string()),
        Err(Failure::WrongShard) => VisitEnd::Refused("it was asked for at the wrong shard".to_owned()),
        Err(Failure::Misunderstood) => VisitEnd::Refused("it was misunderstood".to_owned()),
        Err(Failure::Forgotten) => VisitEnd::Refused("it was forgotten".to_owned()),
        Err(Failure::NotReplicated(refusal)) => VisitEnd::Refused(refusal.to_string()),
        Err(Failure::NotAllowed { why }) => VisitEnd::Refused(format!("it was not allowed{why}")),
    }
}
