//! The places where one process finds names: its own, and those that it was pointed to.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::etcd::{Etcd, EtcdPlace};
use super::registries::{Registries, Use};
use super::target::Target;
use super::written::{WatchedPlaces, WrittenDown};
use super::{ListenError, Names, TargetError};
use crate::bootstrap::{Directory, HostPort, JoinError, Listing, NameWatch, PublishError, ResolveError};
use crate::transports::TransportKind;

/// Where a process looks for names unless it is pointed elsewhere.
#[derive(Debug)]
pub(crate) enum NamesSource {
    /// The registry that it has joined, or the other ranks.
    Joined(Arc<Directory>),
    /// A registry that is joined when it is needed.
    Registry(HostPort),
    /// What the user wrote down.
    Written(Arc<WrittenDown>),
    /// Etcd.
    Etcd(EtcdPlace),
}

/// All sources of names of one process.
pub(crate) struct NamesBook {
    source: NamesSource,
    incarnation: u64,
    own: OnceLock<Arc<dyn Names>>,
    registries: Registries,
    places: WatchedPlaces,
    /// How many listeners there are of each name and endpoint: the last one withdraws it.
    listeners: Mutex<BTreeMap<(String, String), usize>>,
}

/// What a connection leads to, kept up to date until this is dropped.
pub(super) struct Watched {
    // Dropped first: a registry that is still there is told so.
    watch: NameWatch,
    /// One that the connection itself names.
    _registry: Option<Use>,
}

impl Watched {
    /// What is known now.
    pub(super) fn listing(&self) -> &Listing {
        self.watch.listing()
    }
}

/// Why a name cannot be watched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// It is not something to connect to.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A registry cannot be asked.
    #[error(transparent)]
    Registry(#[from] JoinError),
    /// The source of names refuses.
    #[error(transparent)]
    Refused(#[from] ResolveError),
}

impl NamesBook {
    /// The sources of a process of this incarnation.
    pub(crate) fn new(source: NamesSource, incarnation: u64) -> Self {
        Self {
            source,
            incarnation,
            own: OnceLock::new(),
            registries: Registries::default(),
            places: WatchedPlaces::default(),
            listeners: Mutex::default(),
        }
    }

    /// Registers an endpoint of this process under a name, for one more listener.
    pub(crate) fn listen(
        &self,
        name: &str,
        key: &str,
        register: impl FnOnce(&dyn Names) -> Result<(), PublishError>,
    ) -> Result<(), ListenError> {
        let own = self.own()?;
        // Locked meanwhile, or the last listener of before could withdraw what is registered here.
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        register(&*own)?;
        *listeners.entry((name.to_owned(), key.to_owned())).or_default() += 1;
        Ok(())
    }

    /// A listener is no more.
    pub(crate) fn listen_no_more(&self, name: &str, key: &str) {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let place = (name.to_owned(), key.to_owned());
        let Some(count) = listeners.get_mut(&place) else { return };
        *count -= 1;
        if *count == 0 {
            listeners.remove(&place);
            self.withdraw(name, key);
        }
    }

    /// Withdraws a name of an endpoint, whoever listens.
    pub(crate) fn withdraw(&self, name: &str, key: &str) {
        // It was registered there, so that it is there.
        if let Some(own) = self.own.get() {
            own.withdraw(name, key);
        }
    }

    /// The source of names that it registers at and looks up.
    pub(crate) fn own(&self) -> Result<Arc<dyn Names>, JoinError> {
        if let Some(own) = self.own.get() {
            return Ok(Arc::clone(own));
        }
        let own: Arc<dyn Names> = match &self.source {
            NamesSource::Joined(directory) => Arc::clone(directory) as _,
            NamesSource::Registry(place) => self.registry(place)?.for_good(),
            NamesSource::Written(written) => Arc::clone(written) as _,
            NamesSource::Etcd(place) => Arc::new(Etcd::at(place, self.incarnation)),
        };
        Ok(Arc::clone(self.own.get_or_init(|| own)))
    }

    /// The registry at a place, joined in the background when it was not yet.
    fn registry(&self, place: &HostPort) -> Result<Use, JoinError> {
        self.registries.at(place, || Ok(Arc::new(Directory::open_later(place, self.incarnation)?)))
    }

    /// The registries that connections named.
    #[cfg(test)]
    pub(super) fn registries(&self) -> &Registries {
        &self.registries
    }

    /// Watches what an endpoint of `transport` is to connect to.
    pub(super) fn watch(&self, text: &str, transport: TransportKind) -> Result<Watched, WatchError> {
        match Target::parse(text, transport)? {
            Target::Name(name) => Ok(Watched { watch: self.own()?.watch(&name)?, _registry: None }),
            Target::At { registry, name } => {
                let registry = self.registry(&registry)?;
                Ok(Watched { watch: registry.names().watch(&name)?, _registry: Some(registry) })
            }
            Target::Address { transport, place } => {
                let watch = NameWatch::Shared(self.places.watch(transport, place));
                Ok(Watched { watch, _registry: None })
            }
        }
    }
}

impl fmt::Debug for NamesBook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NamesBook({:?})", self.source)
    }
}
