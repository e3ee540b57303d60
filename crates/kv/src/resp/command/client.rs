//! `CLIENT`: who is connected, and what they are called.

use core::fmt::Write;

use super::call::{Call, Done, Refusal, subcommand};
use crate::decimal;
use crate::resp::reply::Protocol;
use crate::resp::session::{Replies, Session};

/// The longest name of a client or of its library.
const NAME_BYTES_MAX: usize = 1024;

/// The subcommands.
pub const SUBCOMMANDS: &[&str] = &[
    "getname", "id", "info", "kill", "list", "no-evict", "no-touch", "reply", "setinfo", "setname", "unblock",
];

pub fn client(call: &mut Call<'_>) -> Done {
    match subcommand(call, SUBCOMMANDS)? {
        ("id", 2) => call.reply.integer(call.session.id as i64),
        ("getname", 2) => match call.session.name.is_empty() {
            true => call.reply.null(),
            false => call.reply.bulk(&call.session.name),
        },
        ("unblock", 3 | 4) => return unblock(call),
        ("setname", 3) => {
            call.session.name = checked_name(call.args.at(2))?.to_vec();
            call.reply.ok();
        }
        ("setinfo", 4) => set_info(call)?,
        ("info", 2) => {
            let line = line_of(call.session, 0, call.engine.now_ms());
            call.reply.verbatim(&line);
        }
        ("list", _) => list(call)?,
        ("kill", 3..) => kill(call)?,
        ("no-evict", 3) if call.is(2, "on") || call.is(2, "off") => {
            call.session.is_spared = call.is(2, "on");
            call.reply.ok();
        }
        // No key is touched by being read.
        ("no-touch", 3) if call.is(2, "on") || call.is(2, "off") => call.reply.ok(),
        ("reply", 3) => set_replies(call)?,
        (name, _) => return Err(Refusal::arguments(&format!("client|{name}"))),
    }
    Ok(())
}

/// A name that a client may have.
pub fn checked_name(name: &[u8]) -> Result<&[u8], Refusal> {
    check_length(name)?;
    if name.iter().all(u8::is_ascii_graphic) {
        return Ok(name);
    }
    Err(Refusal::of("ERR Client names cannot contain spaces, newlines or special characters."))
}

fn check_length(name: &[u8]) -> Done {
    if name.len() <= NAME_BYTES_MAX {
        return Ok(());
    }
    Err(Refusal::new(format!("ERR a name is longer than {NAME_BYTES_MAX} bytes")))
}

fn set_info(call: &mut Call<'_>) -> Done {
    let part = match () {
        () if call.is(2, "lib-name") => 0,
        () if call.is(2, "lib-ver") => 1,
        () => {
            let option = String::from_utf8_lossy(call.args.at(2)).into_owned();
            return Err(Refusal::new(format!("ERR Unrecognized option '{option}'")));
        }
    };
    let text = call.args.at(3);
    check_length(text)?;
    if !text.iter().all(u8::is_ascii_graphic) {
        return Err(Refusal::of("ERR lib-name and lib-ver cannot contain spaces or special characters"));
    }
    call.session.library[part] = text.to_vec();
    call.reply.ok();
    Ok(())
}

fn set_replies(call: &mut Call<'_>) -> Done {
    call.session.replies = match () {
        () if call.is(2, "on") => {
            call.reply.ok();
            Replies::On
        }
        () if call.is(2, "off") => Replies::Off,
        () if call.is(2, "skip") => Replies::SkipNext,
        () => return Err(Refusal::SYNTAX),
    };
    Ok(())
}

fn list(call: &mut Call<'_>) -> Done {
    let args = call.args;
    let wanted = match args.len() {
        2 => Wanted::All,
        4 if call.is(2, "type") => match args.at(3).to_ascii_lowercase().as_slice() {
            b"normal" => Wanted::All,
            b"master" | b"replica" | b"slave" | b"pubsub" => Wanted::None,
            _ => {
                let kind = String::from_utf8_lossy(args.at(3)).into_owned();
                return Err(Refusal::new(format!("ERR Unknown client type '{kind}'")));
            }
        },
        4.. if call.is(2, "id") => {
            let ids: Option<Vec<_>> = args.from(3).map(decimal::parse).collect();
            Wanted::Ids(ids.ok_or(Refusal::of("ERR Invalid client ID"))?)
        }
        _ => return Err(Refusal::SYNTAX),
    };
    let now_ms = call.engine.now_ms();
    let is_wanted = |session: &Session| match &wanted {
        Wanted::All => true,
        Wanted::None => false,
        Wanted::Ids(ids) => ids.contains(&(session.id as i64)),
    };
    let mut lines: Vec<_> = call
        .engine
        .clients
        .all()
        .map(|(_, connection)| (&connection.session, connection.unsent_bytes()))
        // What this one is sent is not put together yet.
        .chain([(&*call.session, 0)])
        .filter(|(session, _)| is_wanted(session))
        .map(|(session, unsent)| (session.id, line_of(session, unsent, now_ms)))
        .collect();
    lines.sort_unstable_by_key(|(id, _)| *id);
    let text: String = lines.into_iter().map(|(_, line)| line).collect();
    call.reply.verbatim(&text);
    Ok(())
}

enum Wanted {
    All,
    None,
    Ids(Vec<i64>),
}

/// A client on a line.
fn line_of(session: &Session, unsent: usize, now_ms: u64) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut line = String::new();
    let seconds = |since_ms: u64| now_ms.saturating_sub(since_ms) / 1000;
    let resp = if session.protocol == Protocol::Resp3 { 3 } else { 2 };
    let _never_fails = writeln!(
        line,
        "id={} addr={} laddr= fd=0 name={} age={} idle={} flags={} db={} sub=0 psub=0 ssub=0 multi=-1 \
         omem={unsent} cmd={} user=default redir=-1 resp={resp} lib-name={} lib-ver={}",
        session.id,
        session.address,
        text(&session.name),
        seconds(session.since_ms),
        seconds(session.last_ms),
        if session.blocked.is_some() { 'b' } else { 'N' },
        session.database,
        session.last_command,
        text(&session.library[0]),
        text(&session.library[1]),
    );
    line
}

/// Ends the wait of a client.
fn unblock(call: &mut Call<'_>) -> Done {
    let error = match call.args.get(3) {
        None => None,
        Some(_) if call.is(3, "timeout") => None,
        Some(_) if call.is(3, "error") => Some("UNBLOCKED client unblocked via CLIENT UNBLOCK"),
        Some(_) => {
            return Err(Refusal::of("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"));
        }
    };
    let id = call.integer(2)?;
    let is_it = |session: &Session| i64::try_from(session.id) == Ok(id);
    let client = call.engine.clients.all().find(|(_, connection)| is_it(&connection.session));
    let client = client.map(|(client, _)| client);
    let waited = client.is_some_and(|client| call.engine.unblock(client, error));
    call.reply.integer(i64::from(waited));
    Ok(())
}

/// Which clients are sent away.
#[derive(Default)]
struct Victims {
    id: Option<i64>,
    address: Option<Vec<u8>>,
    none: bool,
    spares_me: bool,
}

impl Victims {
    fn has(&self, session: &Session) -> bool {
        !self.none
            && self.id.is_none_or(|id| session.id as i64 == id)
            && self.address.as_ref().is_none_or(|address| session.address.as_bytes() == address)
    }
}

fn kill(call: &mut Call<'_>) -> Done {
    let args = call.args;
    if args.len() == 3 {
        let victims = Victims { address: Some(args.at(2).to_vec()), ..Victims::default() };
        if send_away(call, &victims) == 0 {
            return Err(Refusal::of("ERR No such client"));
        }
        call.reply.ok();
        return Ok(());
    }
    let mut victims = Victims { spares_me: true, ..Victims::default() };
    for at in (2..args.len()).step_by(2) {
        let value = args.get(at + 1).ok_or(Refusal::SYNTAX)?;
        match args.at(at).to_ascii_lowercase().as_slice() {
            b"id" => {
                let id = decimal::parse(value).filter(|id| *id > 0);
                victims.id = Some(id.ok_or(Refusal::of("ERR client-id should be greater than 0"))?);
            }
            b"addr" => victims.address = Some(value.to_vec()),
            b"type" => victims.none |= !value.eq_ignore_ascii_case(b"normal"),
            b"user" if value == b"default" => {}
            b"user" => {
                let user = String::from_utf8_lossy(value).into_owned();
                return Err(Refusal::new(format!("ERR No such user '{user}'")));
            }
            b"skipme" if value.eq_ignore_ascii_case(b"yes") => victims.spares_me = true,
            b"skipme" if value.eq_ignore_ascii_case(b"no") => victims.spares_me = false,
            _ => return Err(Refusal::SYNTAX),
        }
    }
    let killed = send_away(call, &victims);
    call.reply.count(killed);
    Ok(())
}

/// Closes the connections of clients; gives how many.
fn send_away(call: &mut Call<'_>, victims: &Victims) -> usize {
    let mut killed = 0;
    for (client, connection) in call.engine.clients.all() {
        if victims.has(&connection.session) {
            connection.is_closing = true;
            call.engine.touched.push(client);
            killed += 1;
        }
    }
    if !victims.spares_me && victims.has(call.session) {
        call.session.ends = true;
        killed += 1;
    }
    killed
}
