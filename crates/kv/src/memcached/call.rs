//! What all requests use: objects by key, times, and answers.

use crate::resp::Engine;
use crate::store::{Condition, Eviction, Expiry, Object, Store, Tail, WriteError};
use crate::{Name, Shard, Value};

/// What is longer is no time from now on, but one since 1970, in seconds.
const RELATIVE_SECONDS_MAX: i64 = 60 * 60 * 24 * 30;

/// A request as it is done.
pub struct Call<'c> {
    pub engine: &'c mut Engine,
    pub shard: &'c mut Shard,
    pub out: &'c mut Vec<u8>,
}

/// When an object ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Never,
    /// At this millisecond since 1970.
    At(u64),
    /// It has ended.
    Past,
}

impl End {
    /// What an *exptime* means: 0 is never, what is less is over, up to 30 days count from now on, and what
    /// is more from 1970 on.
    pub fn of(exptime: i64, now_ms: u64) -> Self {
        let seconds = match u64::try_from(exptime) {
            Err(_) => return Self::Past,
            Ok(0) => return Self::Never,
            Ok(seconds) => seconds,
        };
        let ms = seconds.saturating_mul(1000);
        match exptime <= RELATIVE_SECONDS_MAX {
            true => Self::At(now_ms.saturating_add(ms)),
            false if ms > now_ms => Self::At(ms),
            false => Self::Past,
        }
    }

    /// The deadline of an object that has not ended.
    pub fn deadline(self) -> Option<Option<u64>> {
        match self {
            Self::Never => Some(None),
            Self::At(deadline) => Some(Some(deadline)),
            Self::Past => None,
        }
    }
}

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("SERVER_ERROR out of memory storing object")]
    OutOfMemory,
    #[error("SERVER_ERROR object too large for cache")]
    LongValue,
    #[error("CLIENT_ERROR cannot increment or decrement non-numeric value")]
    NotANumber,
    /// What the store says, of a table that was dropped for instance.
    #[error("SERVER_ERROR {0}")]
    Store(WriteError),
}

impl From<WriteError> for Refusal {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::OutOfMemory => Self::OutOfMemory,
            error => Self::Store(error),
        }
    }
}

impl<'c> Call<'c> {
    /// The objects.
    pub fn store(&mut self) -> &mut Store {
        self.shard.store_mut()
    }

    /// The object of a key.
    pub fn name<'k>(&self, key: &'k [u8]) -> Name<'k> {
        Name::new(self.engine.memcached.table, key).expect("keys of memcached are short, and none is empty")
    }

    /// The object of a key that has a value: collections of Redis clients have none, and their long values
    /// are too long for this door.
    pub fn value(&self, key: &[u8]) -> Option<Object<'_>> {
        value_of(self.shard.store(), self.name(key))
    }

    /// The version of the object of a key, whatever it is, and what it has beside its value.
    pub fn version_and_tail(&self, key: &[u8]) -> Option<(u64, Tail)> {
        let found = self.shard.store().get(self.name(key)).ok().flatten();
        found.map(|object| (object.version(), object.tail()))
    }

    /// A key is used.
    pub fn count_use(&mut self, key: &[u8]) {
        if self.shard.store().eviction() != Eviction::Never {
            let name = self.name(key);
            self.store().count_use(name);
        }
    }

    /// Writes a value that ends so; gives its version, `None` when it has ended.
    pub fn put(
        &mut self,
        key: &[u8],
        value: &[u8],
        end: End,
        tail_of: impl FnOnce(Tail) -> Tail,
    ) -> Result<Option<u64>, Refusal> {
        let value = Value::new(value).map_err(|_| Refusal::LongValue)?;
        let name = self.name(key);
        let Some(deadline) = end.deadline() else {
            self.store().delete(name, Condition::Always)?;
            return Ok(None);
        };
        let tail_of = |old| Tail { deadline, ..tail_of(old) };
        Ok(Some(self.store().put_with_tail(name, value, Condition::Always, tail_of)?))
    }

    /// Writes another value in the place of one, of which everything else stays; gives its version.
    pub fn change(&mut self, key: &[u8], value: &[u8]) -> Result<u64, Refusal> {
        let value = Value::new(value).map_err(|_| Refusal::LongValue)?;
        let name = self.name(key);
        Ok(self.store().put_until(name, value, Condition::Always, Expiry::Keep)?)
    }

    /// Gives an object that is there something else beside its value. Its version stays: the value does.
    pub fn change_tail(&mut self, key: &[u8], tail: Tail) -> Result<(), Refusal> {
        let name = self.name(key);
        self.store().change_tail(name, |object| (object.version(), tail))?;
        Ok(())
    }

    /// Deletes an object; says whether there was one.
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, Refusal> {
        let name = self.name(key);
        Ok(self.store().delete(name, Condition::Always)?.is_some())
    }

    /// Answers with a line.
    pub fn line(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }
}

/// The object of a name that has a value.
pub fn value_of<'s>(store: &'s Store, name: Name<'_>) -> Option<Object<'s>> {
    store.get(name).ok().flatten().filter(|object| !object.is_collection() && !object.is_long())
}

/// Writes an object's value.
pub fn push_value(out: &mut Vec<u8>, object: &Object<'_>) {
    let start = out.len();
    out.resize(start + object.value_bytes(), 0);
    object.copy_value_to(&mut out[start..]);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_count_from_now_or_from_1970() {
        const NOW_MS: u64 = 1_700_000_000_123;
        for (exptime, end) in [
            (0, End::Never),
            (-1, End::Past),
            (i64::MIN, End::Past),
            (1, End::At(NOW_MS + 1000)),
            (RELATIVE_SECONDS_MAX, End::At(NOW_MS + RELATIVE_SECONDS_MAX as u64 * 1000)),
            (RELATIVE_SECONDS_MAX + 1, End::Past),
            (1_700_000_000, End::Past),
            (1_700_000_001, End::At(1_700_000_001_000)),
            (i64::MAX, End::At(u64::MAX)),
        ] {
            assert_eq!(End::of(exptime, NOW_MS), end, "{exptime}");
        }
    }
}
