//! Operations on many objects: one call for each shard, all in flight together.

use core::future::{Future, IntoFuture, poll_fn};
use core::pin::Pin;
use core::task::Poll;
use std::collections::HashSet;

use farcall::Payload;

use super::failure::{Failure, refused};
use super::found::FoundObject;
use super::operation::{Operation, Repeat, Repeats};
use super::placement::Route;
use super::{Client, Receipt, message};
use crate::store::{ReadError, ScanFrom, ScanNext, WriteError};
use crate::wire::{
    Code, LeftOut, MULTI_GET, MULTI_PUT, Malformed, MultiGetRequest, MultiGetResponse, MultiPutRequest,
    MultiPutResponse, NAMES_LEFT_OUT, PAGE_BYTES_MAX, PutRequest, SCAN, ScanItem, ScanRequest, ScanResponse,
    TURN_OBJECTS_MAX, TURN_WRITE_BYTES_MAX, hash_slot,
};
use crate::{Name, TableId};

/// The most bytes of names in one call; more take more calls, one after the other.
const NAMES_BYTES_MAX: usize = PAGE_BYTES_MAX;

/// Where a scan is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScanPosition {
    shard: u32,
    hash: u64,
    /// The key behind which the page begins; empty when the hash says where.
    after: Vec<u8>,
}

impl ScanPosition {
    fn from(&self) -> ScanFrom<'_> {
        match &*self.after {
            [] => ScanFrom::Hash(self.hash),
            key => ScanFrom::After(key),
        }
    }
}

/// A page of a scan.
#[derive(Clone, Debug)]
pub struct Page {
    answer: Payload,
    /// Where the next page begins; `None` after the last.
    pub next: Option<ScanPosition>,
}

impl Page {
    /// The objects.
    pub fn objects(&self) -> impl Iterator<Item = ScanItem<'_>> {
        self.items().filter(|item| item.left_out.is_none())
    }

    /// The keys of objects that are left out, and why they are; of pages of
    /// [`Client::scan_naming_left_out`].
    pub fn left_out(&self) -> impl Iterator<Item = (&[u8], LeftOut)> {
        self.items().filter_map(|item| Some((item.key, item.left_out?)))
    }

    fn items(&self) -> impl Iterator<Item = ScanItem<'_>> {
        let page = ScanResponse::decode(&self.answer).expect("checked when it arrived");
        page.items().map(|item| item.expect("checked when it arrived"))
    }
}

/// Follows objects whose hash slots move.
struct Follower {
    repeats: Repeats,
    /// Those that are followed no longer.
    refused: HashSet<usize>,
}

/// What becomes of one object of many.
type Outcome<T, E> = Result<T, Failure<E>>;

impl<'e> Client<'e> {
    /// Reads objects. Each has an outcome of its own, in the order of the names.
    pub async fn multi_get(&self, names: &[Name<'_>]) -> Vec<Outcome<Option<FoundObject>, ReadError>> {
        let mut outcomes = none_yet(names.len());
        let mut shards = self.by_shard(names.iter().copied());
        let mut follower = self.follower();
        while shards.iter().any(|places| !places.is_empty()) {
            let asked = shards.iter().enumerate().filter(|(_, places)| !places.is_empty());
            let calls = asked.map(|(shard, places)| self.multi_get_of(shard as u32, names, places));
            let answers = join(calls.collect()).await;
            for (places, answer) in shards.iter_mut().filter(|places| !places.is_empty()).zip(answers) {
                let found = match answer.and_then(found_objects) {
                    // As many as fitted; the rest is asked for again.
                    Ok(found) if !found.is_empty() && found.len() <= places.len() => found,
                    Ok(_) => vec![Err(Failure::Misunderstood); places.len()],
                    Err(failure) => vec![Err(failure); places.len()],
                };
                let done: Vec<usize> = places.drain(..found.len()).collect();
                done.into_iter().zip(found).for_each(|(place, found)| outcomes[place] = Some(found));
            }
            self.follow(&mut follower, &mut outcomes, &mut shards, |place| names[place]).await;
        }
        all_of(outcomes)
    }

    /// Writes objects, each if the one that is there fulfils its condition. Each has an outcome of its own,
    /// in their order; objects of one shard are written in that order.
    pub async fn multi_put(&self, puts: &[PutRequest<'_>]) -> Vec<Outcome<u64, WriteError>> {
        let written = self.multi_put_with_receipts(puts).await;
        written.into_iter().map(|outcome| outcome.map(|receipt| receipt.result)).collect()
    }

    /// The same; each outcome also says what the write survives.
    pub async fn multi_put_with_receipts(
        &self,
        puts: &[PutRequest<'_>],
    ) -> Vec<Outcome<Receipt<u64>, WriteError>> {
        let mut outcomes = none_yet(puts.len());
        let mut shards = self.by_shard(puts.iter().map(|put| put.name));
        let mut follower = self.follower();
        while shards.iter().any(|places| !places.is_empty()) {
            let batches: Vec<(u32, Vec<usize>)> = (0..)
                .zip(&mut shards)
                .filter(|(_, places)| !places.is_empty())
                .map(|(shard, places)| {
                    (shard, take_batch(places, TURN_WRITE_BYTES_MAX, |place| puts[place].bytes()))
                })
                .collect();
            let calls = batches.iter().map(|(shard, places)| {
                let message = message(|to| {
                    places.iter().for_each(|&place| MultiPutRequest::encode_item(&puts[place], to))
                });
                let route = self.route_of_batch(places.first().map(|place| puts[*place].name));
                self.operation((*shard, route), MULTI_PUT, message, Repeat::IfNotSent, Ok)
            });
            let answers = join(calls.collect()).await;
            for ((shard, places), answer) in batches.into_iter().zip(answers) {
                let written = match answer.and_then(written_objects) {
                    // As many as went into a turn; the rest is asked for again, before what comes behind it.
                    Ok(written) if !written.is_empty() && written.len() <= places.len() => written,
                    Ok(_) => vec![Err(Failure::Misunderstood); places.len()],
                    Err(failure) => vec![Err(failure); places.len()],
                };
                shards[shard as usize].splice(..0, places[written.len()..].iter().copied());
                places.into_iter().zip(written).for_each(|(place, written)| outcomes[place] = Some(written));
            }
            self.follow(&mut follower, &mut outcomes, &mut shards, |place| puts[place].name).await;
        }
        all_of(outcomes)
    }

    /// Reads a page of a table's objects, of at most `page_bytes` or 1 MiB of keys and values, or one object.
    /// A page may have none and not be the last. Every object that exists from the first page to the last is
    /// on one page, unless its hash slot goes to another shard meanwhile: whether one did say
    /// [`slot_map`](Self::slot_map) of all shards, before and after, and [`SlotMap::moved_since`].
    ///
    /// [`SlotMap::moved_since`]: crate::placement::SlotMap::moved_since
    pub fn scan(
        &self,
        table: TableId,
        from: ScanPosition,
        page_bytes: usize,
    ) -> impl Future<Output = Result<Page, Failure<ReadError>>> + use<'_, 'e> {
        self.page(table, from, page_bytes.min(PAGE_BYTES_MAX) as u32)
    }

    /// The same; pages also name the objects that are left out of them, because they are not read at one go:
    /// see [`Page::left_out`]. Shards of an older version do not.
    pub fn scan_naming_left_out(
        &self,
        table: TableId,
        from: ScanPosition,
        page_bytes: usize,
    ) -> impl Future<Output = Result<Page, Failure<ReadError>>> + use<'_, 'e> {
        self.page(table, from, page_bytes.min(PAGE_BYTES_MAX) as u32 | NAMES_LEFT_OUT)
    }

    fn page(
        &self,
        table: TableId,
        from: ScanPosition,
        page_bytes: u32,
    ) -> impl Future<Output = Result<Page, Failure<ReadError>>> + use<'_, 'e> {
        let message = message(|to| ScanRequest { table, page_bytes, from: from.from() }.encode(to));
        let shards = self.shards();
        async move {
            let call: Operation<'_, Payload, ReadError> =
                self.operation((from.shard, Route::Waiting), SCAN, message, Repeat::Always, Ok);
            let answer = match call.await {
                // It is away, and others have taken over what it had.
                Err(Failure::WrongShard) if self.has_no_slots(from.shard) => empty_page(),
                answer => answer?,
            };
            Ok(page_of(&from, answer, shards)?)
        }
    }

    /// Who follows objects whose hash slots move, from now on.
    fn follower(&self) -> Follower {
        Follower { repeats: Repeats::new(self), refused: HashSet::new() }
    }

    /// Has the objects asked for again, where they are by now, that their shards have refused because their
    /// hash slots are elsewhere. Those of one shard stay in their order.
    async fn follow<'n, T, E>(
        &self,
        follower: &mut Follower,
        outcomes: &mut [Option<Outcome<T, E>>],
        shards: &mut [Vec<usize>],
        name: impl Fn(usize) -> Name<'n>,
    ) {
        let is_elsewhere =
            |outcome: &Option<Outcome<T, E>>| matches!(outcome, Some(Err(Failure::WrongShard)));
        let Follower { repeats, refused } = follower;
        let places =
            (0..outcomes.len()).filter(|place| is_elsewhere(&outcomes[*place]) && !refused.contains(place));
        let places: Vec<usize> = places.collect();
        let Some(&first) = places.first() else { return };
        let said = self.slot_map(self.shard_of(name(first))).await;
        if !self.learn(said) || !repeats.follows() {
            refused.extend(places);
            return;
        }
        poll_fn(|context| repeats.poll_due(context)).await;
        for place in places {
            outcomes[place] = None;
            shards[self.shard_of(name(place)) as usize].push(place);
        }
        shards.iter_mut().for_each(|places| places.sort_unstable());
    }

    fn multi_get_of<'c>(
        &'c self,
        shard: u32,
        names: &[Name<'_>],
        places: &[usize],
    ) -> Operation<'c, Payload, ReadError> {
        let batch = take_batch(&mut places.to_vec(), NAMES_BYTES_MAX, |place| names[place].key().len());
        let message =
            message(|to| batch.iter().for_each(|&place| MultiGetRequest::encode_item(names[place], to)));
        let route = self.route_of_batch(batch.first().map(|place| names[*place]));
        self.operation((shard, route), MULTI_GET, message, Repeat::Always, Ok)
    }

    /// How a request for objects of one shard, with this one first, goes there.
    fn route_of_batch(&self, first: Option<Name<'_>>) -> Route {
        match first {
            Some(name) if self.shards() > 1 => Route::Batch(hash_slot(name.key())),
            _ => Route::Fixed,
        }
    }

    /// The places of names in their list, by shard.
    fn by_shard<'n>(&self, names: impl Iterator<Item = Name<'n>>) -> Vec<Vec<usize>> {
        let mut shards = vec![Vec::new(); self.shards() as usize];
        for (place, name) in names.enumerate() {
            shards[self.shard_of(name) as usize].push(place);
        }
        shards
    }
}

/// Takes the first places off, as many as a shard does in a turn, at least one.
fn take_batch(places: &mut Vec<usize>, bytes_max: usize, bytes_of: impl Fn(usize) -> usize) -> Vec<usize> {
    let mut bytes = 0;
    let mut fits = |place: &usize| {
        let first = bytes == 0;
        bytes += bytes_of(*place);
        first || bytes <= bytes_max
    };
    let count = places.iter().take(TURN_OBJECTS_MAX).take_while(|place| fits(place)).count();
    places.drain(..count).collect()
}

/// What a shard says that has nothing.
fn empty_page() -> Payload {
    let mut answer = Vec::new();
    ScanResponse::begin(&mut answer);
    ScanResponse::end(ScanNext::End, &mut answer);
    Payload::from(answer)
}

/// The page from a position, whose objects are all there.
fn page_of(from: &ScanPosition, answer: Payload, shards: u32) -> Result<Page, Malformed> {
    let page = ScanResponse::decode(&answer)?;
    let mut last_key = None;
    for item in page.items() {
        last_key = Some(item?.key);
    }
    let next = next_position(from, page.next, last_key, shards)?;
    Ok(Page { answer, next })
}

/// Where the page after one from `from` begins. A shard that leads back to where the scan has been would
/// never let it end.
fn next_position(
    from: &ScanPosition,
    next: ScanNext,
    last_key: Option<&[u8]>,
    shards: u32,
) -> Result<Option<ScanPosition>, Malformed> {
    let at = |shard, hash, after| Some(ScanPosition { shard, hash, after });
    match (next, last_key) {
        (ScanNext::Hash(hash), _) if !from.after.is_empty() || hash > from.hash => {
            Ok(at(from.shard, hash, Vec::new()))
        }
        (ScanNext::AfterLast, Some(key)) if !key.is_empty() && *key != *from.after => {
            Ok(at(from.shard, 0, key.to_vec()))
        }
        (ScanNext::End, _) if from.shard + 1 < shards => Ok(at(from.shard + 1, 0, Vec::new())),
        (ScanNext::End, _) => Ok(None),
        (ScanNext::Hash(_) | ScanNext::AfterLast, _) => Err(Malformed),
    }
}

fn found_objects(
    answer: Payload,
) -> Result<Vec<Outcome<Option<FoundObject>, ReadError>>, Failure<ReadError>> {
    let start = answer.as_ptr().addr();
    let object = |item| {
        let crate::wire::MultiGetItem { code, version, value } = item?;
        let offset = value.as_ptr().addr() - start;
        let range = offset..offset + value.len();
        let found = || (version != 0).then(|| FoundObject::new(version, answer.clone(), range));
        Ok(if code == Code::Done { Ok(found()) } else { Err(refused(code, version)) })
    };
    MultiGetResponse::decode(&answer).items().map(object).collect()
}

fn written_objects(answer: Payload) -> Result<Vec<Outcome<Receipt<u64>, WriteError>>, Failure<WriteError>> {
    let items: Result<Vec<_>, Malformed> = MultiPutResponse::decode(&answer).items().collect();
    let outcome = |item: crate::wire::WriteResponse| match item.code {
        Code::Done => Ok(Receipt { result: item.version, level: item.level }),
        code => Err(refused(code, item.version)),
    };
    Ok(items?.into_iter().map(outcome).collect())
}

fn none_yet<T>(length: usize) -> Vec<Option<T>> {
    (0..length).map(|_| None).collect()
}

fn all_of<T>(outcomes: Vec<Option<T>>) -> Vec<T> {
    outcomes.into_iter().map(|outcome| outcome.expect("every object was asked for")).collect()
}

/// Sends all operations, and waits for all of their outcomes.
pub(super) async fn join<'c, T: 'c, E: super::failure::FromCode + 'c>(
    operations: Vec<Operation<'c, T, E>>,
) -> Vec<Outcome<T, E>> {
    let mut futures: Vec<Pin<Box<_>>> = operations.into_iter().map(IntoFuture::into_future).collect();
    let mut outcomes = none_yet(futures.len());
    core::future::poll_fn(|task| {
        for (future, outcome) in futures.iter_mut().zip(&mut outcomes) {
            if outcome.is_none()
                && let Poll::Ready(done) = future.as_mut().poll(task)
            {
                *outcome = Some(done);
            }
        }
        if outcomes.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    all_of(outcomes)
}

/// Takes some bytes for each of the answers that a hostile shard could give to requests for many objects.
pub(super) fn fuzz_many(bytes: &[u8]) {
    let answer = || Payload::from(bytes.to_vec());
    for object in found_objects(answer()).into_iter().flatten().flatten().flatten() {
        assert!(object.version() != 0 && object.value().len() < bytes.len());
    }
    assert!(written_objects(answer()).map_or(0, |written| written.len()) <= bytes.len());
    let positions = [(0, &b""[..]), (7, b""), (0, b"k")].map(|(hash, after)| (hash, after.to_vec()));
    for (hash, after) in positions {
        let from = ScanPosition { shard: 1, hash, after };
        let Ok(page) = page_of(&from, answer(), 2) else { continue };
        assert!(page.objects().count() < bytes.len());
        assert!(page.next.is_none_or(|next| next != from && next.shard == 1), "shard 1 is the last");
    }
}
