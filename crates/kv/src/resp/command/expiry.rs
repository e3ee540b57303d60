//! Commands about when objects expire.

use super::call::{Call, Done, Refusal};
use crate::store::Condition;

/// How a time is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds from now on.
    Seconds,
    /// Milliseconds from now on.
    Milliseconds,
    /// Seconds since 1970.
    UnixSeconds,
    /// Milliseconds since 1970.
    UnixMilliseconds,
}

impl Unit {
    /// The unit that an option of `SET` and `GETEX` names.
    pub fn of_option(option: &[u8]) -> Option<Self> {
        match option.to_ascii_lowercase().as_slice() {
            b"ex" => Some(Self::Seconds),
            b"px" => Some(Self::Milliseconds),
            b"exat" => Some(Self::UnixSeconds),
            b"pxat" => Some(Self::UnixMilliseconds),
            _ => None,
        }
    }

    /// The millisecond since 1970 that a number of these means; `None` when there is no such one.
    fn to_unix_ms(self, number: i64, now: u64) -> Option<i64> {
        let now = i64::try_from(now).ok()?;
        match self {
            Self::Seconds => number.checked_mul(1000)?.checked_add(now),
            Self::Milliseconds => number.checked_add(now),
            Self::UnixSeconds => number.checked_mul(1000),
            Self::UnixMilliseconds => Some(number),
        }
    }
}

/// The deadline that an argument gives, which must not be zero or less.
pub fn deadline(call: &Call<'_>, number: usize, unit: Unit, command: &str) -> Result<u64, Refusal> {
    let time = call.integer(number)?;
    let deadline = unit.to_unix_ms(time, call.shard.store().clock()).filter(|_| time > 0);
    let deadline = deadline.and_then(|deadline| u64::try_from(deadline).ok());
    deadline.ok_or_else(|| invalid(command))
}

fn invalid(command: &str) -> Refusal {
    Refusal::new(format!("ERR invalid expire time in '{command}' command"))
}

pub fn expire(call: &mut Call<'_>) -> Done {
    expire_after(call, Unit::Seconds, "expire")
}

pub fn pexpire(call: &mut Call<'_>) -> Done {
    expire_after(call, Unit::Milliseconds, "pexpire")
}

pub fn expireat(call: &mut Call<'_>) -> Done {
    expire_after(call, Unit::UnixSeconds, "expireat")
}

pub fn pexpireat(call: &mut Call<'_>) -> Done {
    expire_after(call, Unit::UnixMilliseconds, "pexpireat")
}

/// When a new deadline is taken.
#[derive(Clone, Copy, Debug, Default)]
struct When {
    none: bool,
    some: bool,
    later: bool,
    sooner: bool,
}

impl When {
    fn of(call: &Call<'_>) -> Result<Self, Refusal> {
        let mut when = Self::default();
        for number in 3..call.args.len() {
            match () {
                () if call.is(number, "nx") => when.none = true,
                () if call.is(number, "xx") => when.some = true,
                () if call.is(number, "gt") => when.later = true,
                () if call.is(number, "lt") => when.sooner = true,
                () => {
                    let option = String::from_utf8_lossy(call.args.at(number)).into_owned();
                    return Err(Refusal::new(format!("ERR Unsupported option {option}")));
                }
            }
        }
        if when.none && (when.some || when.later || when.sooner) {
            return Err(Refusal::of("ERR NX and XX, GT or LT options at the same time are not compatible"));
        }
        if when.later && when.sooner {
            return Err(Refusal::of("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(when)
    }

    /// Whether a deadline takes the place of another one. Never is later than any.
    fn takes(self, new: i64, old: Option<u64>) -> bool {
        let old = old.map(|old| i64::try_from(old).unwrap_or(i64::MAX));
        !(self.none && old.is_some()
            || self.some && old.is_none()
            || self.later && old.is_none_or(|old| new <= old)
            || self.sooner && old.is_some_and(|old| new >= old))
    }
}

fn expire_after(call: &mut Call<'_>, unit: Unit, command: &str) -> Done {
    let name = call.name(1)?;
    let (time, now) = (call.integer(2)?, call.store().clock());
    let when = When::of(call)?;
    let deadline = unit.to_unix_ms(time, now).ok_or_else(|| invalid(command))?;
    let old = call.store().get(name)?.map(|object| object.deadline());
    let Some(old) = old.filter(|old| when.takes(deadline, *old)) else {
        call.reply.integer(0);
        return Ok(());
    };
    match u64::try_from(deadline).ok().filter(|deadline| *deadline > now) {
        Some(deadline) if old == Some(deadline) => {}
        Some(deadline) => _ = call.store().set_deadline(name, Some(deadline))?,
        None => _ = call.store().delete(name, Condition::Always)?,
    }
    call.reply.integer(1);
    Ok(())
}

pub fn persist(call: &mut Call<'_>) -> Done {
    let name = call.name(1)?;
    let expires = call.store().get(name)?.is_some_and(|object| object.deadline().is_some());
    if expires {
        call.store().set_deadline(name, None)?;
    }
    call.reply.integer(i64::from(expires));
    Ok(())
}

pub fn ttl(call: &mut Call<'_>) -> Done {
    // Rounded as Redis does.
    reply_deadline(call, |deadline, now| (deadline.saturating_sub(now) + 500) / 1000)
}

pub fn pttl(call: &mut Call<'_>) -> Done {
    reply_deadline(call, u64::saturating_sub)
}

pub fn expiretime(call: &mut Call<'_>) -> Done {
    reply_deadline(call, |deadline, _| (deadline + 500) / 1000)
}

pub fn pexpiretime(call: &mut Call<'_>) -> Done {
    reply_deadline(call, |deadline, _| deadline)
}

/// Replies -2 when there is no object, -1 when it does not expire, and otherwise what `shown` makes of the
/// deadline and the time.
fn reply_deadline(call: &mut Call<'_>, shown: fn(u64, u64) -> u64) -> Done {
    let name = call.name(1)?;
    let now = call.store().clock();
    let number = match call.store().get(name)?.map(|object| object.deadline()) {
        None => -2,
        Some(None) => -1,
        Some(Some(deadline)) => i64::try_from(shown(deadline, now)).unwrap_or(i64::MAX),
    };
    call.reply.integer(number);
    Ok(())
}
