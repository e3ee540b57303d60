//! Clients that wait for elements of lists and sorted sets.
//!
//! A command that finds nothing is stored with its client, and runs again when one of its keys may have
//! something: clients that wait for one key are served in the order in which they came. Within a transaction
//! nothing waits. The keys of a client are bounded, and so is what it sends meanwhile.

use core::ops::Range;
use std::collections::{BTreeSet, HashMap, VecDeque};

use super::call::{Call, Done, Refusal, joined};
use super::entry::{Command, Effect};
use super::{Engine, numbers};
use crate::resp::clients::Handle;
use crate::resp::parse::Args;
use crate::resp::reply::Reply;
use crate::resp::session::{Replies, Session};
use crate::wire::hash_slot;
use crate::{Name, Shard, TableId};

/// The most keys that a client waits for.
const WAITED_KEYS_MAX: usize = 1024;

/// The longest time that a client waits for, in seconds: what is longer is an error.
const SECONDS_MAX: f64 = 1e12;

/// What a client gets that would wait within a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nothing {
    /// No string.
    String,
    /// No array.
    Array,
}

/// A command that waits.
#[derive(Debug)]
pub struct Blocked {
    command: &'static Command,
    bytes: Vec<u8>,
    ranges: Vec<Range<usize>>,
    /// The arguments that are keys it waits for.
    keys: Range<usize>,
    deadline: Option<u64>,
    /// What it is told when it has waited long enough, if it waits for the log.
    otherwise: Option<Vec<u8>>,
}

impl Blocked {
    /// Memory that it takes, about; its keys lie with those who wait for them as well.
    pub fn memory_bytes(&self) -> usize {
        const KEY_BYTES: usize = size_of::<(Vec<u8>, VecDeque<Handle>)>();
        let ranges = self.ranges.capacity() * size_of::<Range<usize>>();
        size_of::<Self>() + 2 * self.bytes.capacity() + ranges + self.keys.len() * KEY_BYTES
    }

    fn args(&self) -> Args<'_> {
        Args::new(&self.bytes, &self.ranges)
    }
}

/// Why a command of a client that waits runs again.
#[derive(Debug)]
enum Retry {
    /// This key may have something.
    Key(Vec<u8>),
    /// The log has got on.
    Log,
}

/// Who waits for what.
#[derive(Debug, Default)]
pub struct Waiting {
    by_key: HashMap<Vec<u8>, VecDeque<Handle>>,
    deadlines: BTreeSet<(u64, u64)>,
    /// Keys that may have something now.
    ready: VecDeque<Vec<u8>>,
    clients: usize,
    /// Clients that wait for the log.
    for_log: Vec<Handle>,
    /// What the one is told whose command runs again if it waits no longer.
    otherwise: Option<Vec<u8>>,
    /// Why a command of a client that waits runs again, while it does.
    retried: Option<Retry>,
}

impl Waiting {
    /// How many clients wait.
    pub fn clients(&self) -> usize {
        self.clients
    }

    /// The key that may have something for a client that waits, while its command runs again.
    pub fn served(&self) -> Option<&[u8]> {
        match &self.retried {
            Some(Retry::Key(key)) => Some(key),
            Some(Retry::Log) | None => None,
        }
    }

    /// The keys that clients wait for, and who does.
    pub fn waited_for(&self) -> impl Iterator<Item = (&[u8], impl Iterator<Item = Handle>)> {
        self.by_key.iter().map(|(key, clients)| (&**key, clients.iter().copied()))
    }

    /// Whether any waits for the log, or for it to take what it is served.
    pub fn waits_for_log(&self) -> bool {
        !self.for_log.is_empty() || !self.ready.is_empty()
    }

    /// When the next client has waited long enough.
    pub fn next_deadline(&self) -> Option<u64> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Keys that a command names may have something now.
    pub fn note(&mut self, command: &Command, args: Args<'_>) {
        if self.clients == 0 || !matches!(command.effect, Effect::Writes | Effect::Grows) {
            return;
        }
        for key in command.keys_of(args) {
            if self.by_key.contains_key(key) && !self.ready.iter().any(|ready| ready == key) {
                self.ready.push_back(key.to_vec());
            }
        }
    }

    fn add(&mut self, client: Handle, blocked: &Blocked) {
        self.clients += 1;
        for key in blocked.keys.clone().map(|number| blocked.args().at(number)) {
            let clients = self.by_key.entry(key.to_vec()).or_default();
            if !clients.contains(&client) {
                clients.push_back(client);
            }
        }
        if let Some(deadline) = blocked.deadline {
            self.deadlines.insert((deadline, client.to_bits()));
        }
        if blocked.otherwise.is_some() {
            self.for_log.push(client);
        }
    }

    /// A client waits no longer.
    pub fn forget(&mut self, client: Handle, session: &mut Session) -> Option<Box<Blocked>> {
        let blocked = session.blocked.take()?;
        self.clients -= 1;
        for key in blocked.keys.clone().map(|number| blocked.args().at(number)) {
            let Some(clients) = self.by_key.get_mut(key) else { continue };
            clients.retain(|other| *other != client);
            if clients.is_empty() {
                self.by_key.remove(key);
            }
        }
        if let Some(deadline) = blocked.deadline {
            self.deadlines.remove(&(deadline, client.to_bits()));
        }
        if blocked.otherwise.is_some() {
            self.for_log.retain(|other| *other != client);
        }
        Some(blocked)
    }
}

/// The seconds that an argument is, as a deadline; `None` for ever.
fn deadline(call: &Call<'_>, number: usize) -> Result<Option<u64>, Refusal> {
    let not_one = Refusal::of("ERR timeout is not a float or out of range");
    let seconds = numbers::float(call.args.at(number)).map_err(|_| not_one.clone())?;
    match () {
        () if seconds < 0.0 => Err(Refusal::of("ERR timeout is negative")),
        () if seconds > SECONDS_MAX => Err(not_one),
        () if seconds == 0.0 => Ok(None),
        () => Ok(Some(call.engine.now_ms() + (seconds * 1000.0).ceil() as u64)),
    }
}

/// Lets the client wait for the keys that some arguments are.
pub fn wait(call: &mut Call<'_>, keys: Range<usize>, timeout_at: usize, nothing: Nothing) -> Done {
    let deadline = deadline(call, timeout_at)?;
    if call.engine.waiting.retried.is_some() {
        return Ok(());
    }
    if call.engine.is_in_transaction {
        match nothing {
            Nothing::String => call.reply.null(),
            Nothing::Array => call.reply.null_array(),
        }
        return Ok(());
    }
    if keys.len() > WAITED_KEYS_MAX {
        return Err(Refusal::new(format!("ERR a client waits for at most {WAITED_KEYS_MAX} keys")));
    }
    block(call, keys, (deadline, None))
}

/// Lets the client wait for the log, until it has waited for some milliseconds, 0 for ever: then it is told
/// what `otherwise` says.
pub fn wait_for_log(call: &mut Call<'_>, timeout_ms: u64, otherwise: Vec<u8>) -> Done {
    if call.engine.waiting.retried.is_some() {
        call.engine.waiting.otherwise = Some(otherwise);
        return Ok(());
    }
    if call.engine.is_in_transaction {
        call.reply.append(&otherwise);
        return Ok(());
    }
    let deadline = (timeout_ms > 0).then(|| call.engine.now_ms().saturating_add(timeout_ms));
    block(call, 0..0, (deadline, Some(otherwise)))
}

fn block(
    call: &mut Call<'_>,
    keys: Range<usize>,
    (deadline, otherwise): (Option<u64>, Option<Vec<u8>>),
) -> Done {
    let command = call.engine.lookup.find(call.args.at(0)).ok_or(Refusal::SYNTAX)?;
    let (bytes, ranges) = joined(call.args.from(0));
    let client = call.engine.current;
    call.engine.waiting.forget(client, call.session);
    let blocked = Box::new(Blocked { command, bytes, ranges, keys, deadline, otherwise });
    call.engine.waiting.add(client, &blocked);
    call.session.blocked = Some(blocked);
    Ok(())
}

/// Refuses a time-out that is none before anything is done.
pub fn check_timeout(call: &Call<'_>, number: usize) -> Done {
    deadline(call, number).map(drop)
}

impl Engine {
    /// Runs the commands again that wait for keys which may have something now.
    pub fn serve_waiting(&mut self, shard: &mut Shard) {
        // Nobody is served from what has gone to another shard and is still here.
        self.send_waiting_on(shard);
        let current = self.current;
        let mut stuck = VecDeque::new();
        while let Some(key) = self.waiting.ready.pop_front() {
            if shard.is_frozen(hash_slot(&key)) || !self.may_serve(&key, shard) {
                stuck.push_back(key);
                continue;
            }
            let clients: Vec<_> = self.waiting.by_key.get(&key).into_iter().flatten().copied().collect();
            for client in clients {
                if !self.has_any(&key, shard) {
                    break;
                }
                self.serve(client, Retry::Key(key.clone()), shard);
            }
        }
        // Once the log takes more.
        self.waiting.ready = stuck;
        self.current = current;
    }

    /// Runs the commands again that wait for the log.
    pub fn serve_log_waits(&mut self, shard: &mut Shard) {
        let current = self.current;
        for client in self.waiting.for_log.clone() {
            self.serve(client, Retry::Log, shard);
        }
        self.current = current;
    }

    /// Whether a key is there in any database.
    fn has_any(&self, key: &[u8], shard: &Shard) -> bool {
        let is_there = |table: &TableId| {
            Name::new(*table, key).is_ok_and(|name| matches!(shard.store().get(name), Ok(Some(_))))
        };
        self.tables.iter().any(is_there)
    }

    /// Runs the command again that a client waits with.
    fn serve(&mut self, client: Handle, why: Retry, shard: &mut Shard) {
        let Some(mut connection) = self.clients.take(client) else { return };
        if connection.is_closing {
            // Nobody would read what was taken for it.
            self.waiting.forget(client, &mut connection.session);
        } else if let Some(blocked) = connection.session.blocked.take() {
            self.current = client;
            let needed = self.take_needed();
            let mut reply = Reply::new(core::mem::take(&mut connection.output), connection.session.protocol);
            let start = reply.len();
            self.waiting.retried = Some(why);
            let (command, args) = (blocked.command, blocked.args());
            let done = self.check_policy(command, args, &connection.session).and_then(|()| {
                let session = &mut connection.session;
                let mut call = Call { args, shard, session, reply: &mut reply, engine: self };
                (command.run)(&mut call)
            });
            self.waiting.retried = None;
            self.record(&mut connection.session, shard);
            let waits = match done {
                Ok(()) => reply.len() == start,
                Err(refusal) => {
                    reply.truncate(start);
                    self.refuse(&refusal, &mut reply);
                    false
                }
            };
            if !waits {
                self.waiting.note(command, args);
            }
            let mut blocked = blocked;
            if let Some(otherwise) = self.waiting.otherwise.take() {
                blocked.otherwise = Some(otherwise);
            }
            connection.session.blocked = Some(blocked);
            if waits {
                reply.truncate(start);
            } else {
                self.waiting.forget(client, &mut connection.session);
                if connection.session.replies == Replies::Off {
                    reply.truncate(start);
                }
                self.touched.push(client);
            }
            connection.output = reply.into_bytes();
            self.hold(client, &mut connection, start, shard);
            self.needed = needed;
        }
        self.clients.put_back(client, connection);
    }

    /// Ends the waits whose time is over.
    pub fn end_waits(&mut self) {
        while let Some(&(deadline, client)) = self.waiting.deadlines.first()
            && deadline <= self.now_ms
        {
            if !self.unblock(Handle::from_bits(client), None) {
                self.waiting.deadlines.remove(&(deadline, client));
            }
        }
    }

    /// Ends the wait of a client, with an error if there is one; says whether it waited.
    pub fn unblock(&mut self, client: Handle, error: Option<&str>) -> bool {
        let Some(mut connection) = self.clients.take(client) else { return false };
        let blocked = self.waiting.forget(client, &mut connection.session);
        if blocked.is_some() {
            let mut reply = Reply::new(core::mem::take(&mut connection.output), connection.session.protocol);
            match (error, blocked.as_ref().and_then(|blocked| blocked.otherwise.as_ref())) {
                _ if connection.session.replies == Replies::Off => {}
                (Some(error), _) => reply.error(error),
                (None, Some(otherwise)) => reply.append(otherwise),
                (None, None) => reply.null_array(),
            }
            connection.output = reply.into_bytes();
            self.touched.push(client);
        }
        self.clients.put_back(client, connection);
        blocked.is_some()
    }
}
