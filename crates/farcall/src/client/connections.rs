//! The connections of a client to names: they stay while calls use them, and for a while after.
//!
//! Each has its price: of an address a thread asks the resolver again, of a name the registry is asked to say
//! what changes. A program may call any number of addresses in its life, so what no call uses goes by time,
//! and beyond a number at once. Whether a server is there does not matter: who calls one that is gone gets
//! its failures from the same connection, and who stops calling leaves it idle. Sessions outlive connections,
//! and a connection that is needed again is made again.

use core::time::Duration;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use farcall_base::Instant;

/// The most connections of a client that no call uses; beyond, that goes which was unused for longest.
pub const CLIENT_IDLE_CONNECTIONS_MAX: usize = 64;

/// How long a connection stays that no call uses.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// How often idle connections are looked for; one may stay for as much longer.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// A connection, and when a call used it last.
struct Known<C> {
    connection: Rc<C>,
    used: Instant,
}

impl<C> Known<C> {
    /// Whether a call has it now.
    fn is_used(&self) -> bool {
        Rc::strong_count(&self.connection) > 1
    }
}

/// Connections by the names that they lead to.
pub struct Connections<C> {
    known: BTreeMap<Arc<str>, Known<C>>,
    look_at: Instant,
}

impl<C> Connections<C> {
    /// None yet.
    pub fn new() -> Self {
        Self { known: BTreeMap::new(), look_at: Instant::ZERO }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The connection to a name, made if there is none. It is in use until what this returns is dropped.
    pub fn get<E>(
        &mut self,
        name: Arc<str>,
        now: Instant,
        connect: impl FnOnce(&str) -> Result<C, E>,
    ) -> Result<Rc<C>, E> {
        if let Some(known) = self.known.get_mut(&name) {
            known.used = now;
            return Ok(Rc::clone(&known.connection));
        }
        let connection = Rc::new(connect(&name)?);
        self.known.insert(name, Known { connection: Rc::clone(&connection), used: now });
        self.drop_surplus();
        Ok(connection)
    }

    /// Drops those that no call has used for a while. It costs a comparison while none is due.
    pub fn drop_idle(&mut self, now: Instant) {
        if now < self.look_at {
            return;
        }
        self.look_at = now + LOOK_EVERY;
        self.known.retain(|_, known| {
            if known.is_used() {
                known.used = now;
            }
            now - known.used < IDLE_MAX
        });
    }

    /// Drops those that were unused for longest, until no more are idle than may be.
    fn drop_surplus(&mut self) {
        let idle = self.known.iter().filter(|(_, known)| !known.is_used());
        let mut idle: Vec<(Instant, Arc<str>)> =
            idle.map(|(name, known)| (known.used, Arc::clone(name))).collect();
        let surplus = idle.len().saturating_sub(CLIENT_IDLE_CONNECTIONS_MAX);
        if surplus > 0 {
            idle.sort_unstable();
            idle[..surplus].iter().for_each(|(_, name)| _ = self.known.remove(name));
        }
    }
}

#[cfg(test)]
mod tests {
    use core::convert::Infallible;

    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn get(connections: &mut Connections<String>, name: &str, seconds: u64) -> Rc<String> {
        let made = |name: &str| Ok::<_, Infallible>(name.to_owned());
        let Ok(connection) = connections.get(name.into(), at(seconds), made);
        connection
    }

    #[test]
    fn what_no_call_uses_goes_after_a_while_and_what_one_uses_stays() {
        let mut connections = Connections::new();
        let used = get(&mut connections, "used", 0);
        let idle = Rc::downgrade(&get(&mut connections, "idle", 0));
        for second in 0..60 {
            connections.drop_idle(at(second));
        }
        assert_eq!(idle.strong_count(), 1, "it may be called again soon");
        assert!(Rc::ptr_eq(&get(&mut connections, "used", 60), &used), "a name has one connection");
        connections.drop_idle(at(70));
        assert_eq!((idle.strong_count(), Rc::strong_count(&used)), (0, 2));
        // Its call lasts longer than idle ones stay; from its end on it is idle.
        connections.drop_idle(at(300));
        let ended = Rc::downgrade(&used);
        drop(used);
        connections.drop_idle(at(350));
        assert_eq!(ended.strong_count(), 1);
        connections.drop_idle(at(360));
        assert!(ended.strong_count() == 0 && connections.is_empty());
    }

    #[test]
    fn of_many_idle_ones_those_go_first_that_were_unused_for_longest() {
        let mut connections = Connections::new();
        let busy = get(&mut connections, "busy", 0);
        let first = Rc::downgrade(&get(&mut connections, "first", 1));
        for number in 0..CLIENT_IDLE_CONNECTIONS_MAX {
            get(&mut connections, &number.to_string(), 2);
        }
        assert_eq!(first.strong_count(), 1, "they are as many as may be, and one that was in use");
        get(&mut connections, "last", 3);
        assert_eq!((first.strong_count(), Rc::strong_count(&busy)), (0, 2));
        for number in 0..1000 {
            get(&mut connections, &format!("other {number}"), 4);
        }
        // One was in use when it was made.
        assert_eq!(connections.known.len(), CLIENT_IDLE_CONNECTIONS_MAX + 2);
    }
}
