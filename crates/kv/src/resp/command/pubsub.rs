//! Subscriptions: messages to channels, and who gets them.
//!
//! A message is not stored. It is put behind the replies of its subscribers at once; one that does not read
//! is sent away when too much is unread.

use std::collections::{HashMap, HashSet};

use super::call::{Call, Done, Refusal, subcommand};
use crate::resp::clients::Handle;
use crate::resp::glob;
use crate::resp::reply::Reply;
use crate::resp::session::Session;

/// The most bytes of messages and replies that a subscriber leaves unread.
const UNREAD_BYTES_MAX: usize = 32 << 20;

/// The most channels, and the most patterns, of a client.
const SUBSCRIBED_MAX: usize = 64 << 10;

/// The longest name of a channel that has subscribers.
const CHANNEL_BYTES_MAX: usize = 1024;

/// The subcommands of `PUBSUB`.
pub const SUBCOMMANDS: &[&str] = &["channels", "numpat", "numsub"];

/// What a client may send while it has subscriptions and speaks RESP2.
const WHILE_SUBSCRIBED: [&str; 7] =
    ["subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ping", "quit", "reset"];

/// Who subscribes to what.
#[derive(Debug, Default)]
pub struct Subscriptions {
    channels: HashMap<Vec<u8>, Vec<Handle>>,
    patterns: Vec<(Vec<u8>, Handle)>,
}

impl Subscriptions {
    /// A client is gone, or begins again.
    pub fn forget(&mut self, client: Handle, session: &mut Session) {
        for channel in core::mem::take(&mut session.channels) {
            self.leave(&channel, client);
        }
        if !core::mem::take(&mut session.patterns).is_empty() {
            self.patterns.retain(|(_, subscriber)| *subscriber != client);
        }
        session.subscribed_bytes = 0;
    }

    fn leave(&mut self, channel: &[u8], client: Handle) {
        if let Some(subscribers) = self.channels.get_mut(channel) {
            subscribers.retain(|subscriber| *subscriber != client);
            if subscribers.is_empty() {
                self.channels.remove(channel);
            }
        }
    }
}

/// Memory that a subscription takes, about: its name lies with the client, and with all subscriptions.
fn memory_of(name: &[u8]) -> usize {
    2 * (size_of::<Vec<u8>>() + name.len()) + size_of::<Vec<Handle>>() + size_of::<Handle>()
}

/// Refuses a command that a client with subscriptions may not send.
pub fn check(session: &Session, command: &str) -> Done {
    if !session.is_subscribed() || WHILE_SUBSCRIBED.contains(&command) {
        return Ok(());
    }
    Err(Refusal::new(format!(
        "ERR Can't execute '{command}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed \
         in this context"
    )))
}

pub fn subscribe(call: &mut Call<'_>) -> Done {
    check_number(call.session.channels.len() + call.args.len())?;
    let client = call.engine.current;
    if call.args.from(1).any(|channel| channel.len() > CHANNEL_BYTES_MAX) {
        return Err(Refusal::new(format!("ERR a channel is longer than {CHANNEL_BYTES_MAX} bytes")));
    }
    for channel in call.args.from(1) {
        if call.session.channels.insert(channel.to_vec()) {
            call.session.subscribed_bytes += memory_of(channel);
            call.engine.subscriptions.channels.entry(channel.to_vec()).or_default().push(client);
        }
        confirm(call, "subscribe", Some(channel));
    }
    Ok(())
}

pub fn psubscribe(call: &mut Call<'_>) -> Done {
    check_number(call.session.patterns.len() + call.args.len())?;
    let client = call.engine.current;
    (1..call.args.len()).try_for_each(|number| call.pattern(number).map(drop))?;
    for pattern in call.args.from(1) {
        if call.session.patterns.insert(pattern.to_vec()) {
            call.session.subscribed_bytes += memory_of(pattern);
            call.engine.subscriptions.patterns.push((pattern.to_vec(), client));
        }
        confirm(call, "psubscribe", Some(pattern));
    }
    Ok(())
}

fn check_number(number: usize) -> Done {
    if number <= SUBSCRIBED_MAX {
        return Ok(());
    }
    Err(Refusal::new(format!("ERR more than {SUBSCRIBED_MAX} subscriptions")))
}

pub fn unsubscribe(call: &mut Call<'_>) -> Done {
    let client = call.engine.current;
    let names = given_or(call, &call.session.channels);
    for channel in &names {
        if call.session.channels.remove(channel) {
            call.session.subscribed_bytes -= memory_of(channel);
        }
        call.engine.subscriptions.leave(channel, client);
        confirm(call, "unsubscribe", Some(channel));
    }
    if names.is_empty() {
        confirm(call, "unsubscribe", None);
    }
    Ok(())
}

pub fn punsubscribe(call: &mut Call<'_>) -> Done {
    let client = call.engine.current;
    let names = given_or(call, &call.session.patterns);
    let left: HashSet<_> = names.iter().collect();
    call.engine.subscriptions.patterns.retain(|(known, of)| *of != client || !left.contains(known));
    for pattern in &names {
        if call.session.patterns.remove(pattern) {
            call.session.subscribed_bytes -= memory_of(pattern);
        }
        confirm(call, "punsubscribe", Some(pattern));
    }
    if names.is_empty() {
        confirm(call, "punsubscribe", None);
    }
    Ok(())
}

/// The names that are arguments; without any, all of these.
fn given_or(call: &Call<'_>, all: &HashSet<Vec<u8>>) -> Vec<Vec<u8>> {
    if call.args.len() == 1 {
        all.iter().cloned().collect()
    } else {
        call.args.from(1).map(<[u8]>::to_vec).collect()
    }
}

fn confirm(call: &mut Call<'_>, what: &str, name: Option<&[u8]>) {
    call.reply.push(3);
    call.reply.bulk(what.as_bytes());
    match name {
        Some(name) => call.reply.bulk(name),
        None => call.reply.null(),
    }
    call.reply.count(call.session.channels.len() + call.session.patterns.len());
}

pub fn publish(call: &mut Call<'_>) -> Done {
    let (channel, message) = (call.args.at(1), call.args.at(2));
    let subscriptions = core::mem::take(&mut call.engine.subscriptions);
    let mut receivers = 0;
    for &client in subscriptions.channels.get(channel).into_iter().flatten() {
        receivers += usize::from(deliver(call, client, |reply| {
            reply.push(3);
            [b"message", channel, message].into_iter().for_each(|part| reply.bulk(part));
        }));
    }
    for (pattern, client) in &subscriptions.patterns {
        if glob::is_match(pattern, channel) {
            receivers += usize::from(deliver(call, *client, |reply| {
                reply.push(4);
                [b"pmessage", pattern.as_slice(), channel, message]
                    .into_iter()
                    .for_each(|part| reply.bulk(part));
            }));
        }
    }
    call.engine.subscriptions = subscriptions;
    call.reply.count(receivers);
    Ok(())
}

/// Puts a message behind a client's replies; says whether there is such a client.
fn deliver(call: &mut Call<'_>, client: Handle, put: impl FnOnce(&mut Reply)) -> bool {
    if client == call.engine.current {
        put(call.reply);
        return true;
    }
    let Some(connection) = call.engine.clients.get(client) else { return false };
    if connection.is_closing {
        return false;
    }
    connection.append(put);
    if connection.unsent_bytes() > UNREAD_BYTES_MAX {
        call.engine.counters.stuck.increment();
        connection.discard();
    }
    call.engine.touched.push(client);
    true
}

pub fn pubsub(call: &mut Call<'_>) -> Done {
    let subscriptions = &call.engine.subscriptions;
    match subcommand(call, SUBCOMMANDS)? {
        ("channels", arguments @ 2..=3) => {
            let pattern = if arguments == 2 { None } else { Some(call.pattern(2)?) };
            let is_wanted = |channel: &[u8]| pattern.is_none_or(|pattern| glob::is_match(pattern, channel));
            let channels: Vec<_> =
                subscriptions.channels.keys().filter(|channel| is_wanted(channel)).collect();
            call.reply.array(channels.len());
            channels.into_iter().for_each(|channel| call.reply.bulk(channel));
        }
        ("numsub", arguments) => {
            call.reply.array(2 * (arguments - 2));
            for channel in call.args.from(2) {
                call.reply.bulk(channel);
                call.reply.count(subscriptions.channels.get(channel).map_or(0, Vec::len));
            }
        }
        ("numpat", 2) => {
            let mut patterns: Vec<_> = subscriptions.patterns.iter().map(|(pattern, _)| pattern).collect();
            patterns.sort_unstable();
            patterns.dedup();
            call.reply.count(patterns.len());
        }
        (name, _) => return Err(Refusal::arguments(&format!("pubsub|{name}"))),
    }
    Ok(())
}
