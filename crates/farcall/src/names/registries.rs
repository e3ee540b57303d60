//! The registries that the targets of connections name: `farcall://host:port/name`.
//!
//! Each is a thread and a TCP connection. One is there as long as a connection uses it, and a few stay behind
//! that, because whoever connects again to the same place is then answered at once. A process that is pointed
//! to many over months keeps no more than these.

use std::sync::{Arc, Mutex, PoisonError};

use super::Names;
use crate::bootstrap::{HostPort, JoinError};

/// How many registries stay that nothing uses.
const UNUSED_MAX: usize = 4;

/// Registries by their places.
#[derive(Clone, Default)]
pub(super) struct Registries(Arc<Mutex<Vec<Kept>>>);

/// The one that was asked for last is the last.
struct Kept {
    place: String,
    names: Arc<dyn Names>,
}

impl Kept {
    /// Nothing else than the list has it.
    fn is_unused(&self) -> bool {
        Arc::strong_count(&self.names) == 1
    }
}

/// A registry that is used until this is dropped.
pub(super) struct Use {
    /// `None` once it ends.
    names: Option<Arc<dyn Names>>,
    of: Registries,
}

impl Use {
    /// The registry.
    pub(super) fn names(&self) -> &dyn Names {
        &**self.names.as_ref().expect("it is there until the use ends")
    }

    /// The registry, for as long as the process lives.
    pub(super) fn for_good(&self) -> Arc<dyn Names> {
        Arc::clone(self.names.as_ref().expect("it is there until the use ends"))
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        drop(self.names.take());
        self.of.let_go();
    }
}

impl Registries {
    /// The registry at a place, opened if there is none.
    pub(super) fn at(
        &self,
        place: &HostPort,
        open: impl FnOnce() -> Result<Arc<dyn Names>, JoinError>,
    ) -> Result<Use, JoinError> {
        let place = place.to_string();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().position(|one| one.place == place);
        let one = match found {
            Some(at) => kept.remove(at),
            None => Kept { place, names: open()? },
        };
        let names = Some(Arc::clone(&one.names));
        kept.push(one);
        Ok(Use { names, of: self.clone() })
    }

    /// Lets those go that were unused for the longest time, as far as they are too many.
    fn let_go(&self) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let unused = kept.iter().filter(|one| one.is_unused()).count();
        let mut surplus = unused.saturating_sub(UNUSED_MAX);
        let gone: Vec<Kept> = kept
            .extract_if(.., |one| {
                let goes = surplus > 0 && one.is_unused();
                surplus -= usize::from(goes);
                goes
            })
            .collect();
        // Their ends say goodbye over the network: not under the lock.
        drop(kept);
        drop(gone);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;
    use std::time::Duration;

    use farcall_base::Address;

    use super::super::NamesSource;
    use super::super::book::{NamesBook, Watched};
    use super::*;
    use crate::bootstrap::{Directory, Rendezvous};
    use crate::transports::TransportKind;

    /// Far longer than anything here takes.
    const PLENTY: Duration = Duration::from_secs(60);

    fn book() -> NamesBook {
        NamesBook::new(NamesSource::Joined(Arc::new(Directory::nowhere(1))), 1)
    }

    fn registry() -> Rendezvous {
        Rendezvous::bind_open("127.0.0.1:0").expect("a free port")
    }

    fn connect(book: &NamesBook, to: &Rendezvous) -> Watched {
        let transport: TransportKind = "basic+udp".parse().expect("a transport");
        book.watch(&format!("farcall://{}/orders", to.address()), transport).expect("it is a target")
    }

    /// The registries that there are, without a use of them.
    fn known(book: &NamesBook) -> Vec<Weak<dyn Names>> {
        let kept = book.registries().0.lock().expect("nothing panics there");
        kept.iter().map(|one| Arc::downgrade(&one.names)).collect()
    }

    /// How many servers a connection sees at last.
    fn wait_for_servers(watched: &Watched, count: usize) {
        let listing = watched.listing();
        let mut seen = listing.version();
        while listing.servers().len() != count || !listing.is_complete() {
            listing.wait_for_change(seen, PLENTY);
            seen = listing.version();
        }
    }

    #[test]
    fn few_registries_stay_that_nothing_uses_and_all_that_something_uses() {
        let (book, places) = (book(), [(); 3 * UNUSED_MAX].map(|()| registry()));
        let used = connect(&book, &places[0]);
        let uses: Vec<Watched> = places[1..].iter().map(|place| connect(&book, place)).collect();
        let all = known(&book);
        assert_eq!(all.len(), places.len());
        drop(uses);
        let stay: Vec<bool> = all.iter().map(|one| one.strong_count() > 0).collect();
        let last = places.len() - UNUSED_MAX;
        let expected: Vec<bool> = (0..places.len()).map(|at| at == 0 || at >= last).collect();
        assert_eq!(stay, expected, "the one that is used, and those that were asked for last");
        assert_eq!(known(&book).len(), 1 + UNUSED_MAX);

        // The one that is used goes on.
        let server = Directory::open(&places[0].address().into(), 2, PLENTY).expect("it is there");
        let address = Address::new(*b"a").expect("short");
        Names::register(&server, "orders", "basic+udp#0", address, PLENTY).expect("room");
        wait_for_servers(&used, 1);
    }

    #[test]
    fn one_that_stays_is_used_again_and_one_that_has_gone_is_opened_again() {
        let (book, places) = (book(), [(); UNUSED_MAX + 1].map(|()| registry()));
        for place in &places {
            drop(connect(&book, place));
        }
        let before = known(&book);
        let (first, last) = (connect(&book, &places[0]), connect(&book, &places[UNUSED_MAX]));
        let after = known(&book);
        assert!(Weak::ptr_eq(&before[UNUSED_MAX - 1], &after[UNUSED_MAX]), "the last stayed");
        assert!(before.iter().all(|one| !Weak::ptr_eq(one, &after[UNUSED_MAX - 1])), "the first is another");
        wait_for_servers(&first, 0);
        wait_for_servers(&last, 0);
    }
}
