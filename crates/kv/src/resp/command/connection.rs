//! Commands about the connection itself.

use farcall::policy::Principal;

use super::call::{Call, Done, Refusal};
use crate::decimal;
use crate::resp::DATABASES;
use crate::resp::reply::Protocol;
use crate::resp::session::Session;

/// The version of Redis whose commands these are.
pub const REDIS_VERSION: &str = "7.0.15";

pub fn ping(call: &mut Call<'_>) -> Done {
    if call.session.is_subscribed() && call.args.len() <= 2 {
        call.reply.array(2);
        call.reply.bulk(b"pong");
        call.reply.bulk(call.args.get(1).unwrap_or_default());
        return Ok(());
    }
    match call.args.len() {
        1 => call.reply.simple("PONG"),
        2 => call.reply.bulk(call.args.at(1)),
        _ => return Err(Refusal::arguments("ping")),
    }
    Ok(())
}

pub fn echo(call: &mut Call<'_>) -> Done {
    call.reply.bulk(call.args.at(1));
    Ok(())
}

pub fn quit(call: &mut Call<'_>) -> Done {
    call.session.ends = true;
    call.reply.ok();
    Ok(())
}

/// A request of HTTP: a page in somebody's browser must not write to the store.
pub fn http(call: &mut Call<'_>) -> Done {
    call.session.ends = true;
    Err(Refusal::of("ERR this is no web server; the connection is closed"))
}

pub fn select(call: &mut Call<'_>) -> Done {
    call.session.database = database(call, 1)?;
    call.reply.ok();
    Ok(())
}

/// The database that an argument names.
pub fn database(call: &Call<'_>, number: usize) -> Result<usize, Refusal> {
    let database = database_of(call.args.at(number))?;
    check_database(call, database)?;
    Ok(database)
}

/// The database that a number given so has.
pub fn database_of(number: &[u8]) -> Result<usize, Refusal> {
    decimal::parse(number).ok_or(Refusal::NOT_AN_INTEGER)?;
    database_numbered(number).ok_or(Refusal::of("ERR DB index is out of range"))
}

/// Refuses a database that a cluster does not have.
pub fn check_database(call: &Call<'_>, database: usize) -> Done {
    match database {
        1.. if call.engine.cluster.is_some() => Err(Refusal::of("ERR a cluster has database 0 only")),
        _ => Ok(()),
    }
}

/// The same, if there is one.
pub fn database_numbered(number: &[u8]) -> Option<usize> {
    let number = usize::try_from(decimal::parse(number)?).ok()?;
    (number < DATABASES).then_some(number)
}

pub fn reset(call: &mut Call<'_>) -> Done {
    let client = call.engine.current;
    call.engine.subscriptions.forget(client, call.session);
    let Session { id, since_ms, .. } = *call.session;
    let (session, is_known) = (&mut *call.session, call.engine.password.is_none());
    let address = core::mem::take(&mut session.address);
    let principal = match core::mem::take(&mut session.principal) {
        Principal::Password => Principal::Unproven,
        of_socket => of_socket,
    };
    *session = Session::new(id, address, principal, is_known, since_ms);
    call.reply.protocol = Protocol::default();
    call.reply.simple("RESET");
    Ok(())
}

pub fn auth(call: &mut Call<'_>) -> Done {
    match call.args.len() {
        2 => log_in(call, b"default", call.args.at(1))?,
        3 => log_in(call, call.args.at(1), call.args.at(2))?,
        _ => return Err(Refusal::SYNTAX),
    }
    call.reply.ok();
    Ok(())
}

fn log_in(call: &mut Call<'_>, user: &[u8], password: &[u8]) -> Done {
    let Some(right) = &call.engine.password else {
        return match user {
            b"default" if call.args.len() == 2 => Err(Refusal::of(
                "ERR AUTH <password> called without any password configured for the default user. Are you \
                 sure your configuration is correct?",
            )),
            b"default" => Ok(()),
            _ => Err(Refusal::WRONG_PASSWORD),
        };
    };
    if user != b"default" || !is_same(password, right.as_bytes()) {
        return Err(Refusal::WRONG_PASSWORD);
    }
    call.session.is_known = true;
    // The kernel says more about who it is than a password that several know.
    if call.session.principal == Principal::Unproven {
        call.session.principal = Principal::Password;
    }
    Ok(())
}

/// Whether two secrets are the same; how long it takes says nothing about where they differ.
fn is_same(given: &[u8], right: &[u8]) -> bool {
    let mut differences = given.len() ^ right.len();
    for (number, byte) in given.iter().enumerate() {
        differences |= usize::from(byte ^ right[number % right.len()]);
    }
    core::hint::black_box(differences) == 0
}

pub fn hello(call: &mut Call<'_>) -> Done {
    let mut protocol = call.session.protocol;
    let mut at = 1;
    if let Some(version) = call.args.get(1) {
        protocol = match crate::decimal::parse(version) {
            Some(2) => Protocol::Resp2,
            Some(3) => Protocol::Resp3,
            Some(_) => return Err(Refusal::of("NOPROTO unsupported protocol version")),
            None => {
                return Err(Refusal::of("ERR Protocol version is not an integer or out of range"));
            }
        };
        at = 2;
    }
    let mut name = None;
    while at < call.args.len() {
        let left = call.args.len() - at - 1;
        if call.is(at, "auth") && left >= 2 {
            log_in(call, call.args.at(at + 1), call.args.at(at + 2))?;
            at += 3;
        } else if call.is(at, "setname") && left >= 1 {
            name = Some(super::client::checked_name(call.args.at(at + 1))?.to_vec());
            at += 2;
        } else {
            let option = String::from_utf8_lossy(call.args.at(at)).into_owned();
            return Err(Refusal::new(format!("ERR Syntax error in HELLO option '{option}'")));
        }
    }
    if !call.session.is_known {
        return Err(Refusal::of(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> \
             AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol \
             version at the same time",
        ));
    }
    if let Some(name) = name {
        call.session.name = name;
    }
    call.session.protocol = protocol;
    call.reply.protocol = protocol;
    greet(call);
    Ok(())
}

fn greet(call: &mut Call<'_>) {
    let reply = &mut *call.reply;
    reply.map(7);
    for (key, text) in [("server", "farcall"), ("version", REDIS_VERSION)] {
        reply.bulk(key.as_bytes());
        reply.bulk(text.as_bytes());
    }
    reply.bulk(b"proto");
    reply.integer(if reply.protocol == Protocol::Resp3 { 3 } else { 2 });
    reply.bulk(b"id");
    reply.integer(call.session.id as i64);
    for (key, text) in [("mode", "standalone"), ("role", "master")] {
        reply.bulk(key.as_bytes());
        reply.bulk(text.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
}
