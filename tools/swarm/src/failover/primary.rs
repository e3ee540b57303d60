//! A simulated primary: a shard, its mirror, and operations that wait for their answers.

use farcall::Service;
use farcall_kv::durable::{Parked, Released};
use farcall_kv::store::Condition;
use farcall_kv::wire::{Code, GET, GetRequest, PUT, PutRequest, WriteResponse, found};
use farcall_kv::{Answer, Name, Shard, TableId, Value};
use farcall_replica::{Mirror, Place, Record, RegistryJob, ReplicaStatus};

use super::book::Book;

/// The table of all operations.
pub const TABLE: &str = "orders";

/// An operation that waits.
struct Waiting {
    number: u64,
    key: u8,
    floor: u64,
    /// The value that is written; `None` for a read.
    value: Option<u64>,
}

/// A process that is, or was, the primary.
pub struct Primary {
    pub incarnation: u64,
    pub shard: Shard,
    pub mirror: Mirror,
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
    pub fn new(incarnation: u64, shard: Shard, mirror: Mirror) -> Self {
        let (is_paused, asked, waiting) = (false, None, Vec::new());
        Self { incarnation, shard, mirror, is_paused, asked, waiting, numbers: 0, done: 0 }
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
    pub fn ask(&mut self, book: &mut Book, key: u8, value: Option<u64>) {
        self.numbers += 1;
        let waiting = Waiting { number: self.numbers, key, floor: book.begin(key), value };
        let bytes = [key];
        let name = Name::new(TableId::of(TABLE).expect("short"), &bytes).expect("a good key");
        let mut message = Vec::new();
        let service = match value {
            Some(value) => {
                let contents = value.to_le_bytes();
                let value = Value::new(&contents).expect("short");
                PutRequest { name, value, condition: Condition::Always }.encode(&mut message);
                PUT
            }
            None => {
                GetRequest { name }.encode(&mut message);
                GET
            }
        };
        match self.send(service, &message) {
            Taken::Answered(answer) => self.answered(book, &waiting, &answer),
            Taken::Parked => self.waiting.push(waiting),
            Taken::Nothing => {}
        }
    }

    fn send(&mut self, service: Service, message: &[u8]) -> Taken {
        let mut taken = Taken::Nothing;
        let number = self.numbers;
        self.shard.answer(service, message, Caller { taken: &mut taken, number });
        taken
    }

    /// A turn of its log; answers that may be given are held against the book.
    pub fn turn(&mut self, book: &mut Book) {
        self.shard.turn_log();
        while let Some(Released { to, answer }) = self.shard.release() {
            let Parked::Numbered(number) = to else { continue };
            let Some(place) = self.waiting.iter().position(|waiting| waiting.number == number) else {
                continue;
            };
            let waiting = self.waiting.swap_remove(place);
            if let Ok(answer) = answer.answer() {
                self.answered(book, &waiting, answer);
            }
        }
    }

    fn answered(&mut self, book: &mut Book, waiting: &Waiting, answer: &[u8]) {
        book.answered(self.mirror.status().record.epoch, self.incarnation);
        self.done += 1;
        match waiting.value {
            Some(value) => {
                if let Ok(WriteResponse { code: Code::Done, version, .. }) = WriteResponse::decode(answer) {
                    book.wrote(waiting.key, waiting.floor, (version, value));
                }
            }
            None => {
                let found = found(answer).ok().flatten().unwrap_or((0, &[0; 8]));
                let value = found.1.try_into().map_or(u64::MAX, u64::from_le_bytes);
                book.read(waiting.key, waiting.floor, (found.0, value));
            }
        }
    }
}

/// What became of a request at once; nothing if it was refused.
enum Taken {
    Nothing,
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

    fn refuse(self, _: Code) {}

    fn park(self) -> Parked {
        *self.taken = Taken::Parked;
        Parked::Numbered(self.number)
    }
}
