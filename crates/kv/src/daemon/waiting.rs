//! Requests that are more than a look-up: lists, pages, tables. They wait, and a daemon does a step of one
//! in a turn, and then those of one of another client: whoever asks for one object waits for a step at most.
//!
//! A message is read where it arrived until it is put here; then it is kept, and so what waits is bounded:
//! for each client, and for all together. What does not fit is refused, and may be asked for again. Tables
//! are bounded likewise: no client can create all that a store can have.

use std::collections::{HashMap, VecDeque};

use farcall::{Deferred, Endpoint, Payload, Peer, Reply, Request, Service};

use crate::durable::Parked;
use crate::shard::{After, Answer, Many, Shard, is_for_many};
use crate::wire::{CREATE_TABLE, CREATE_TABLE_AT, Code, DROP_TABLE};

/// The most requests of a client that wait.
const REQUESTS_OF_CLIENT_MAX: usize = 256;

/// The most bytes of the requests of a client that wait, if it is more than one.
const BYTES_OF_CLIENT_MAX: usize = 4 << 20;

/// The most bytes of requests that wait, of all clients, if it is more than one.
const BYTES_MAX: usize = 64 << 20;

/// The most tables that a client may have created and not dropped, as long as its session lives.
const TABLES_OF_CLIENT_MAX: usize = 64;

/// A request, and the duty to answer it.
struct Waiting {
    service: Service,
    message: Payload,
    answer: Deferred,
}

/// The requests of one client, the oldest first. There is at least one.
#[derive(Default)]
struct Client {
    bytes: usize,
    requests: VecDeque<Waiting>,
}

/// The requests that wait.
#[derive(Default)]
pub struct WaitingRequests {
    clients: HashMap<Peer, Client>,
    /// The client whose turn is next comes first. One that is gone is passed over.
    turns: VecDeque<Peer>,
    bytes: usize,
    /// The request that is being answered, whose, and how far the answer has come.
    begun: Option<(Peer, Waiting)>,
    many: Many,
    /// How many tables clients have created.
    creators: HashMap<Peer, usize>,
}

impl WaitingRequests {
    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty() && self.begun.is_none()
    }

    /// Keeps a request until it is its client's turn.
    pub fn push(&mut self, request: Request<'_>, reply: Reply<'_>) {
        let (peer, service, bytes) = (request.peer(), request.service(), request.payload().len());
        let known = self.clients.get(&peer);
        let fits = |others: usize, most: usize| others == 0 || others + bytes <= most;
        let has_room = known.is_none_or(|client| {
            client.requests.len() < REQUESTS_OF_CLIENT_MAX && fits(client.bytes, BYTES_OF_CLIENT_MAX)
        });
        if !has_room || !fits(self.bytes, BYTES_MAX) {
            return reply.refuse(Code::Busy as u8);
        }
        let (answer, _) = reply.defer();
        let waiting = Waiting { service, message: request.take(), answer };
        self.bytes += bytes;
        let client = self.clients.entry(peer).or_insert_with(|| {
            self.turns.push_back(peer);
            Client::default()
        });
        client.bytes += bytes;
        client.requests.push_back(waiting);
    }

    /// Does a step of the request that is being answered, or else of the oldest one of the client whose
    /// turn it is; says whether there was one.
    pub fn answer_one(&mut self, endpoint: &Endpoint, shard: &mut Shard) -> bool {
        let Some((peer, waiting)) = self.begun.take().or_else(|| self.next_request()) else { return false };
        if is_for_many(waiting.service) {
            let outcome = match shard.answer_step(waiting.service, &waiting.message, &mut self.many) {
                Ok(After::Step) => {
                    self.begun = Some((peer, waiting));
                    return true;
                }
                Ok(After::Nothing) => Ok(()),
                Err(code) => Err(code),
            };
            shard.send_many(&mut self.many, outcome, LaterAnswer { endpoint, answer: waiting.answer });
            return true;
        }
        let Waiting { service, message, answer } = waiting;
        let answer = LaterAnswer { endpoint, answer };
        match service {
            CREATE_TABLE | CREATE_TABLE_AT | DROP_TABLE => {
                self.change_tables(peer, shard, (service, &message), answer)
            }
            _ => shard.answer(service, &message, answer),
        }
        true
    }

    /// The oldest request of the client whose turn it is, taken out.
    fn next_request(&mut self) -> Option<(Peer, Waiting)> {
        let (peer, client) = self.next_client()?;
        let waiting = client.requests.pop_front().expect("a client without requests is not stored");
        client.bytes -= waiting.message.len();
        let is_done = client.requests.is_empty();
        self.bytes -= waiting.message.len();
        if is_done {
            self.clients.remove(&peer);
        } else {
            self.turns.push_back(peer);
        }
        Some((peer, waiting))
    }

    /// The client whose turn it is, taken out of the order.
    fn next_client(&mut self) -> Option<(Peer, &mut Client)> {
        loop {
            let peer = self.turns.pop_front()?;
            if self.clients.contains_key(&peer) {
                return self.clients.get_mut(&peer).map(|client| (peer, client));
            }
        }
    }

    /// Creates or drops a table, and counts the tables that the client has created.
    fn change_tables(
        &mut self,
        peer: Peer,
        shard: &mut Shard,
        (service, message): (Service, &[u8]),
        answer: LaterAnswer<'_>,
    ) {
        let name = if service == CREATE_TABLE_AT { message.get(1..).unwrap_or_default() } else { message };
        let created = self.creators.get(&peer).copied().unwrap_or(0);
        let is_there = || shard.store().table_names().any(|table| table.as_bytes() == name);
        if service != DROP_TABLE && created >= TABLES_OF_CLIENT_MAX && !is_there() {
            return answer.refuse(Code::TooManyTables);
        }
        let before = shard.store().table_names().count();
        shard.answer(service, message, answer);
        let after = shard.store().table_names().count();
        let created = (created + after).saturating_sub(before);
        if created > 0 {
            self.creators.insert(peer, created);
        } else {
            self.creators.remove(&peer);
        }
    }

    /// Drops the requests of a client that is gone: nobody waits for their answers.
    pub fn forget(&mut self, peer: Peer) {
        self.creators.remove(&peer);
        if self.begun.as_ref().is_some_and(|(of, _)| *of == peer) {
            (self.begun, self.many) = (None, Many::default());
        }
        if let Some(client) = self.clients.remove(&peer) {
            self.bytes -= client.bytes;
        }
    }
}

/// The answer to a request that waited.
struct LaterAnswer<'e> {
    endpoint: &'e Endpoint,
    answer: Deferred,
}

impl Answer for LaterAnswer<'_> {
    fn send(self, message: &[u8]) {
        self.endpoint.reply(self.answer, message);
    }

    fn send_filled(self, bytes: usize, fill: impl FnOnce(&mut [u8])) {
        let mut message = vec![0; bytes];
        fill(&mut message);
        self.send(&message);
    }

    fn refuse(self, code: Code) {
        self.endpoint.refuse(self.answer, code as u8);
    }

    fn park(self) -> Parked {
        Parked::Call(self.answer)
    }
}
