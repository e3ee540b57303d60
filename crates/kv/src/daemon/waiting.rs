//! Requests that are more than a look-up: lists, pages, tables. They wait, and a daemon does one of them in a
//! turn, of another client each time: whoever asks for one object waits for one of them at most.
//!
//! A message is read where it arrived until it is put here; then it is kept, and so what waits is bounded:
//! for each client, and for all together. What does not fit is refused, and may be asked for again. Tables
//! are bounded likewise: no client can create all that a store can have.

use std::collections::VecDeque;

use farcall::{Deferred, Endpoint, Payload, Peer, Reply, Request, Service};

use crate::shard::{Answer, Shard};
use crate::wire::{CREATE_TABLE, Code, DROP_TABLE};

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
struct Client {
    peer: Peer,
    bytes: usize,
    requests: VecDeque<Waiting>,
}

/// The requests that wait.
#[derive(Default)]
pub struct WaitingRequests {
    /// The client whose turn is next comes first.
    clients: VecDeque<Client>,
    bytes: usize,
    /// How many tables clients have created.
    creators: Vec<(Peer, usize)>,
}

impl WaitingRequests {
    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// Keeps a request until it is its client's turn.
    pub fn push(&mut self, request: Request<'_>, reply: Reply<'_>) {
        let (peer, service, bytes) = (request.peer(), request.service(), request.payload().len());
        let known = self.clients.iter().position(|client| client.peer == peer);
        let fits = |others: usize, most: usize| others == 0 || others + bytes <= most;
        let has_room = known.is_none_or(|place| {
            let client = &self.clients[place];
            client.requests.len() < REQUESTS_OF_CLIENT_MAX && fits(client.bytes, BYTES_OF_CLIENT_MAX)
        });
        if !has_room || !fits(self.bytes, BYTES_MAX) {
            return reply.refuse(Code::Busy as u8);
        }
        let (answer, _) = reply.defer();
        let waiting = Waiting { service, message: request.take(), answer };
        self.bytes += bytes;
        match known {
            Some(place) => {
                let client = &mut self.clients[place];
                client.bytes += bytes;
                client.requests.push_back(waiting);
            }
            None => self.clients.push_back(Client { peer, bytes, requests: [waiting].into() }),
        }
    }

    /// Answers the oldest request of the client whose turn it is; says whether there was one.
    pub fn answer_one(&mut self, endpoint: &Endpoint, shard: &mut Shard) -> bool {
        let Some(mut client) = self.clients.pop_front() else { return false };
        let Waiting { service, message, answer } =
            client.requests.pop_front().expect("a client without requests is not stored");
        let peer = client.peer;
        client.bytes -= message.len();
        self.bytes -= message.len();
        if !client.requests.is_empty() {
            self.clients.push_back(client);
        }
        let answer = LaterAnswer { endpoint, answer };
        match service {
            CREATE_TABLE | DROP_TABLE => self.change_tables(peer, shard, (service, &message), answer),
            _ => shard.answer(service, &message, answer),
        }
        true
    }

    /// Creates or drops a table, and counts the tables that the client has created.
    fn change_tables(
        &mut self,
        peer: Peer,
        shard: &mut Shard,
        (service, name): (Service, &[u8]),
        answer: LaterAnswer<'_>,
    ) {
        let known = self.creators.iter().position(|(creator, _)| *creator == peer);
        let created = known.map_or(0, |place| self.creators[place].1);
        let is_there = || shard.store().table_names().any(|table| table.as_bytes() == name);
        if service == CREATE_TABLE && created >= TABLES_OF_CLIENT_MAX && !is_there() {
            return answer.refuse(Code::TooManyTables);
        }
        let before = shard.store().table_names().count();
        shard.answer(service, name, answer);
        let after = shard.store().table_names().count();
        let created = (created + after).saturating_sub(before);
        match known {
            Some(place) => self.creators[place].1 = created,
            None if created > 0 => self.creators.push((peer, created)),
            None => {}
        }
    }

    /// Drops the requests of a client that is gone: nobody waits for their answers.
    pub fn forget(&mut self, peer: Peer) {
        self.creators.retain(|(creator, _)| *creator != peer);
        let Some(place) = self.clients.iter().position(|client| client.peer == peer) else { return };
        let client = self.clients.remove(place).expect("it was found");
        self.bytes -= client.bytes;
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
}
