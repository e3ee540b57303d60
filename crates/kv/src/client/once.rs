//! Writes that happen once, over crashes of the shard and of the way to it.

use core::cell::RefCell;
use std::collections::BTreeSet;

use farcall::Payload;

use super::failure::{Failure, FromCode};
use super::operation::{Done, Operation, Repeat, Repeats};
use super::placement::Route;
use super::{Client, message};
use crate::store::WriteError;
use crate::wire::{ADD_CLIENT, DELETE, INCREMENT, ONCE, OnceRequest, PUT};

/// What a client is to one shard.
#[derive(Debug)]
pub struct Identity {
    client: u64,
    /// The version of the map that was known when it was given.
    since: u64,
    next: u64,
    /// Writes without an answer.
    unanswered: BTreeSet<u64>,
}

impl Identity {
    /// The number of the next write, and the first one that has no answer yet.
    fn begin(&mut self) -> (u64, u64) {
        let sequence = self.next;
        self.next += 1;
        self.unanswered.insert(sequence);
        (sequence, self.unanswered.first().copied().unwrap_or(sequence))
    }
}

/// A write that was asked for. However it ends, and also when nobody waits for its answer any more, it is not
/// asked for again: the shard need not keep its result.
struct Asked<'c> {
    identities: &'c RefCell<Vec<Option<Identity>>>,
    shard: usize,
    client: u64,
    sequence: u64,
}

impl Asked<'_> {
    /// Does something to the identity that has asked, unless the client has another one at the shard by now.
    fn with_identity(&self, change: impl FnOnce(&mut Option<Identity>)) {
        let mut identities = self.identities.borrow_mut();
        let identity = &mut identities[self.shard];
        if identity.as_ref().is_some_and(|identity| identity.client == self.client) {
            change(identity);
        }
    }

    /// The shard has forgotten the client.
    fn is_forgotten(&self) {
        self.with_identity(|identity| *identity = None);
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let answered = |identity: &mut Identity| _ = identity.unanswered.remove(&self.sequence);
        self.with_identity(|identity| identity.iter_mut().for_each(answered));
    }
}

impl Client<'_> {
    /// Does a put, a delete or an increment once: it is asked for again, over new sessions and of new
    /// primaries, as long as the client's [patience](Client::be_patient) lasts, and happens once all the
    /// same. After an error it may have happened, or happen yet, once.
    ///
    /// # Panics
    /// When the operation is no write.
    pub async fn once<T, E: FromCode + From<WriteError>>(
        &self,
        operation: Operation<'_, T, E>,
    ) -> Result<T, Failure<E>> {
        assert!(matches!(operation.service, PUT | DELETE | INCREMENT), "only writes happen once");
        let mut operation = operation;
        let mut follows = Repeats::new(self);
        loop {
            let outcome = self.once_at(&mut operation).await;
            // The shard has no result of it: it did not happen there, and will not.
            if !matches!(outcome, Err(Failure::WrongShard)) || !operation.follow(&mut follows).await {
                return outcome;
            }
        }
    }

    /// Does a write once at the shard that it is for, or at the one that has taken over what that had.
    async fn once_at<T, E: FromCode + From<WriteError>>(
        &self,
        operation: &mut Operation<'_, T, E>,
    ) -> Result<T, Failure<E>> {
        if self.identities.borrow()[operation.shard as usize].is_none() {
            let since = self.placement.map().map_or(0, |map| map.version());
            let added: Operation<'_, u64, E> = self.operation(
                (operation.shard, operation.route),
                ADD_CLIENT,
                message(|_| ()),
                Repeat::Always,
                |answer: Payload| {
                    let number = <[u8; 8]>::try_from(&*answer).map_err(|_| Failure::Misunderstood)?;
                    Ok(u64::from_le_bytes(number))
                },
            );
            let Done { shard, outcome: client, .. } = added.done_somewhere().await;
            let fresh = Identity { client: client?, since, next: 1, unanswered: BTreeSet::new() };
            operation.shard = shard;
            self.identities.borrow_mut()[shard as usize].get_or_insert(fresh);
        }
        let shard = operation.shard;
        let (client, since, (sequence, first)) = {
            let mut identities = self.identities.borrow_mut();
            let identity = identities[shard as usize].as_mut().expect("it was added");
            (identity.client, identity.since, identity.begin())
        };
        let asked = Asked { identities: &self.identities, shard: shard as usize, client, sequence };
        let once =
            OnceRequest { client, sequence, first, service: operation.service, message: &operation.message };
        let repeated = Operation {
            message: message(|to| once.encode(to)),
            service: ONCE,
            repeat: Repeat::Always,
            client: operation.client,
            shard,
            // What is asked for again must be asked where the result is.
            route: match operation.route {
                Route::Slot(slot) => Route::Results { slot, since },
                _ => Route::Fixed,
            },
            timeout: operation.timeout,
            decode: operation.decode,
        };
        let Done { may_be_done, outcome, .. } = repeated.done_somewhere().await;
        if !matches!(outcome, Err(Failure::Forgotten)) {
            return outcome;
        }
        asked.is_forgotten();
        // Whoever has forgotten the client has not done it. With another identity it is asked for again.
        let may_follow = !may_be_done && operation.route != Route::Fixed;
        if may_follow { Err(Failure::WrongShard) } else { outcome }
    }
}
