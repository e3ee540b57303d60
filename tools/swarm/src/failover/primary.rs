//! A simulated primary: a shard, its mirror, and operations that wait for their answers.

use farcall::Service;
use farcall_kv::durable::{Parked, Released};
use farcall_kv::placement::SlotMap;
use farcall_kv::replicated::MoverSteps;
use farcall_kv::store::Condition;
use farcall_kv::wire::{
    ADD_CLIENT, Code, GET, GetRequest, INCREMENT, IncrementRequest, IncrementResponse, ONCE, OnceRequest,
    PUT, PutRequest, WriteResponse, found,
};
use farcall_kv::{Answer, Name, Shard, TableId, Value};
use farcall_replica::{Mirror, Place, Record, RegistryJob, ReplicaStatus};

use super::clients::{Adder, Addition, Clients, Identity};
use crate::history::{Asked, Told};

/// The table of all operations.
pub const TABLE: &str = "orders";

/// A request that waits.
struct Waiting {
    number: u64,
    what: What,
}

/// What was asked for, by whom.
#[derive(Clone, Copy)]
enum What {
    /// An object was asked for, or written with a value; its place in the history.
    Object { key: u8, floor: u64, value: Option<u64>, place: usize },
    /// A client wants an identity.
    Identity { adder: usize },
    /// A client adds.
    Addition { adder: usize, sequence: u64, asked: Identity },
}

/// A process that is, or was, the primary.
pub struct Primary {
    pub incarnation: u64,
    pub shard: Shard,
    pub mirror: Mirror,
    /// What it does of spreads, in a store of several shards.
    pub mover: Option<MoverSteps>,
    /// It stands still, as a process that was stopped, or whose machine was.
    pub is_paused: bool,
    /// What it has asked the registry.
    pub asked: Option<RegistryJob>,
    waiting: Vec<Waiting>,
    numbers: u64,
    /// Operations that were answered as done.
    pub done: u64,
}

impl Primary {
    pub fn new(incarnation: u64, shard: Shard, mirror: Mirror, mover: Option<MoverSteps>) -> Self {
        let (is_paused, asked, waiting) = (false, None, Vec::new());
        Self { incarnation, shard, mirror, mover, is_paused, asked, waiting, numbers: 0, done: 0 }
    }

    /// The number of its shard.
    pub fn number(&self) -> u32 {
        self.mirror.log().shard
    }

    /// The sets of replicas that it may record next, and that it is recording.
    pub fn next_replicas(&self) -> impl Iterator<Item = Vec<Place>> {
        let replicas = self.mirror.status().replicas.into_iter();
        let made = replicas.map(|ReplicaStatus { backup, replica, .. }| Place { backup, replica }).collect();
        let asked = match &self.asked {
            Some(RegistryJob::Set { value, .. }) => Record::decode(value).map(|record| record.replicas),
            Some(RegistryJob::Backups) | None => None,
        };
        [made].into_iter().chain(asked)
    }

    /// Asks for an object, or writes one.
    pub fn ask(&mut self, clients: &mut Clients, key: u8, value: Option<u64>) {
        let asked = value.map_or(Asked::Get, |value| Asked::Put(value.to_string()));
        let (floor, place) = (clients.book.begin(key), clients.begin(key, asked));
        let bytes = [key];
        let mut message = Vec::new();
        let service = match value {
            Some(value) => {
                let contents = value.to_string();
                let value = Value::new(contents.as_bytes()).expect("short");
                PutRequest { name: name(&bytes), value, condition: Condition::Always }.encode(&mut message);
                PUT
            }
            None => {
                GetRequest { name: name(&bytes) }.encode(&mut message);
                GET
            }
        };
        self.request(clients, What::Object { key, floor, value, place }, (service, &message));
    }

    /// Asks for an identity of a client.
    pub fn ask_for_identity(&mut self, clients: &mut Clients, adder: usize) {
        self.request(clients, What::Identity { adder }, (ADD_CLIENT, &[]));
    }

    /// Asks for what a client adds.
    pub fn ask_for_addition(&mut self, clients: &mut Clients, adder: usize, asked: Identity) {
        let Adder { sequence, current, .. } = clients.adders[adder];
        let Some(Addition { key, amount, .. }) = current else { return };
        let (bytes, mut increment, mut message) = ([key], Vec::new(), Vec::new());
        IncrementRequest { name: name(&bytes), amount }.encode(&mut increment);
        let (first, service, client) = (sequence, INCREMENT, asked.client);
        OnceRequest { client, sequence, first, service, message: &increment }.encode(&mut message);
        self.request(clients, What::Addition { adder, sequence, asked }, (ONCE, &message));
    }

    fn request(&mut self, clients: &mut Clients, what: What, (service, message): (Service, &[u8])) {
        self.numbers += 1;
        let (mut taken, number) = (Taken::Parked, self.numbers);
        self.shard.answer(service, message, Caller { taken: &mut taken, number });
        match taken {
            Taken::Answered(answer) => self.answered(clients, what, &answer),
            Taken::Refused(code) => refused(clients, what, code, &self.shard.map()),
            Taken::Parked => self.waiting.push(Waiting { number, what }),
        }
    }

    /// A turn of its log; answers that may be given are held against what clients know.
    pub fn turn(&mut self, clients: &mut Clients) {
        self.shard.turn_log();
        while let Some(Released { to, answer }) = self.shard.release() {
            let Parked::Numbered(number) = to else { continue };
            let Some(place) = self.waiting.iter().position(|waiting| waiting.number == number) else {
                continue;
            };
            let waiting = self.waiting.swap_remove(place);
            if let Ok(answer) = answer.answer() {
                self.answered(clients, waiting.what, answer);
            }
        }
    }

    fn answered(&mut self, clients: &mut Clients, what: What, answer: &[u8]) {
        let record = self.mirror.status().record;
        clients.book.answered((record.log.shard, record.epoch), self.incarnation);
        self.done += 1;
        match what {
            What::Object { key, floor, value: Some(value), place } => {
                if let Ok(WriteResponse { code: Code::Done, version, .. }) = WriteResponse::decode(answer) {
                    clients.book.wrote(key, floor, (version, value));
                    clients.told(place, Told::Done);
                }
            }
            What::Object { key, floor, value: None, place } => {
                let found = found(answer).expect("an answer to a read");
                let (version, text) = found.unwrap_or((0, b"0"));
                let text = core::str::from_utf8(text).expect("what was written is text");
                clients.book.read(key, floor, (version, text.parse().expect("it is a number")));
                clients.told(place, if version == 0 { Told::Nothing } else { Told::Found(text.to_owned()) });
            }
            What::Identity { adder } => {
                let number = answer.try_into().map(u64::from_le_bytes).expect("an identity");
                clients.identified(adder, (self.number(), number), &self.shard.map());
            }
            What::Addition { adder, sequence, .. } => {
                let sum = IncrementResponse::decode(answer).expect("an answer to an increment").sum;
                clients.added(adder, sequence, sum);
            }
        }
    }
}

fn refused(clients: &mut Clients, what: What, code: Code, map: &SlotMap) {
    match what {
        What::Object { place, .. } => clients.refused(place, code),
        What::Addition { adder, asked, .. } if code == Code::ClientForgotten => {
            clients.forgotten(adder, asked, map);
        }
        // Whoever does not have the object, and has no result, has never done it.
        What::Addition { adder, asked, .. } if code == Code::WrongShard => clients.not_there(adder, asked),
        What::Addition { .. } | What::Identity { .. } => {}
    }
}

fn name(key: &[u8]) -> Name<'_> {
    Name::new(TableId::of(TABLE).expect("short"), key).expect("a good key")
}

/// What became of a request at once.
enum Taken {
    Refused(Code),
    Answered(Vec<u8>),
    Parked,
}

struct Caller<'a> {
    taken: &'a mut Taken,
    number: u64,
}

impl Answer for Caller<'_> {
    fn send(self, message: &[u8]) {
        *self.taken = Taken::Answered(message.to_vec());
    }

    fn send_filled(self, bytes: usize, fill: impl FnOnce(&mut [u8])) {
        let mut message = vec![0; bytes];
        fill(&mut message);
        self.send(&message);
    }

    fn refuse(self, code: Code) {
        *self.taken = Taken::Refused(code);
    }

    fn park(self) -> Parked {
        *self.taken = Taken::Parked;
        Parked::Numbered(self.number)
    }
}
