//! A library for tests, in memory: mailboxes that one thread can look into, write to and cut off.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard};

use farcall_base::Instant;
use farcall_base::{Address, AddressError, Principal};
use farcall_driver::{Destination, Wait};

use super::{Arrival, Backlog, Library, split_composed};
use crate::{Incoming, Outgoing};

/// A message in a mailbox.
#[derive(Clone, Debug)]
pub struct Letter {
    /// The head, whatever was written there.
    pub head: Vec<u8>,
    /// The payload.
    pub payload: Vec<u8>,
}

impl Arrival for Letter {
    fn head(&self) -> &[u8] {
        &self.head
    }

    fn payload(&self) -> Incoming<'_> {
        Incoming::Borrowed(&self.payload)
    }
}

/// What one instance has got and has not read.
#[derive(Debug, Default)]
pub struct Mailbox {
    /// Letters, oldest first.
    pub letters: VecDeque<Letter>,
    /// Destinations, by their numbers, that its owner has not forgotten.
    pub known: Vec<Destination>,
    /// Destinations that the owner will find dead.
    pub lost: VecDeque<Destination>,
    /// Whether nothing reaches it any more.
    pub is_deaf: bool,
    /// What its owner's library says that waits in it.
    pub backlog: Backlog,
}

/// Mailboxes by address, which is one byte.
#[derive(Clone, Debug, Default)]
pub struct Post(Arc<Mutex<Vec<Mailbox>>>);

impl Post {
    /// The mailboxes.
    ///
    /// # Panics
    /// When another thread panicked with them.
    pub fn boxes(&self) -> MutexGuard<'_, Vec<Mailbox>> {
        self.0.lock().expect("one thread")
    }

    /// A new instance, which has the next mailbox.
    pub fn open(&self) -> Counter {
        let mut boxes = self.boxes();
        boxes.push(Mailbox::default());
        Counter { post: self.clone(), own: boxes.len() - 1, renewals: 0 }
    }
}

/// One instance of the library.
#[derive(Debug)]
pub struct Counter {
    post: Post,
    own: usize,
    /// How often an address was resolved again.
    renewals: u32,
}

impl Counter {
    fn note(&self, to: Destination) -> Destination {
        let known = &mut self.post.boxes()[self.own].known;
        if !known.contains(&to) {
            known.push(to);
        }
        to
    }
}

impl Library for Counter {
    type Arrival = Letter;

    fn name(&self) -> &'static str {
        "post"
    }

    fn payload_bytes_max(&self) -> usize {
        1 << 20
    }

    fn address(&self) -> Address {
        Address::new([self.own as u8]).expect("short")
    }

    fn resolve(&mut self, to: &Address) -> Result<Destination, AddressError> {
        let &[to] = to.as_bytes() else { return Err(AddressError::WrongKind { driver: "post" }) };
        Ok(self.note(Destination(u32::from(to))))
    }

    /// Each is another way to the same mailbox.
    fn resolve_again(&mut self, to: &Address) -> Result<Destination, AddressError> {
        let Destination(to) = self.resolve(to)?;
        self.renewals += 1;
        Ok(self.note(Destination(to + (self.renewals << u8::BITS))))
    }

    /// It proves nothing.
    fn principal(&self, _of: Destination) -> Principal {
        Principal::Unproven
    }

    fn forget(&mut self, to: Destination) {
        self.post.boxes()[self.own].known.retain(|&known| known != to);
    }

    fn send(&mut self, to: Destination, head: &[u8], payload: Outgoing<'_>) {
        let letter = Letter { head: head.to_vec(), payload: payload.as_slice().to_vec() };
        let mailbox = &mut self.post.boxes()[usize::from(to.0 as u8)];
        if !mailbox.is_deaf {
            mailbox.letters.push_back(letter);
        }
    }

    fn send_behind(&mut self, to: Destination, head: &[u8], payload: Outgoing<'_>) {
        self.send(to, head, payload);
    }

    fn send_composed(&mut self, to: Destination, message: &mut Vec<u8>) {
        let (head, payload) = split_composed(message).expect("it was composed");
        self.send(to, head, Outgoing::Slice(payload));
        message.clear();
    }

    fn backlog(&self, _: Destination) -> Backlog {
        self.post.boxes()[self.own].backlog
    }

    fn progress(&mut self) -> usize {
        0
    }

    fn next_arrival(&mut self) -> Option<Letter> {
        self.post.boxes()[self.own].letters.pop_front()
    }

    fn release(&mut self, _: Letter) {}

    fn next_loss(&mut self) -> Option<Destination> {
        self.post.boxes()[self.own].lost.pop_front()
    }

    fn next_deadline(&self, _: Instant) -> Option<Instant> {
        None
    }
}

impl Wait for Counter {
    fn prepare_wait(&mut self) {}

    fn finish_wait(&mut self) {}

    fn wait_descriptors(&self) -> Vec<RawFd> {
        Vec::new()
    }
}
