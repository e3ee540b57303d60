//! Names that the user wrote down: in a file, a line for each name, with the addresses where it is served.
//!
//! ```text
//! # name = transport://host:port …
//! orders = basic+udp://10.0.0.1:7001 basic+udp://[fd00::2]:7001
//! audit  = homa+udp://audit.cluster:7002
//! ```
//!
//! A host that is a name has all the addresses that the system's resolver gives, of both families. One thread
//! reads the file and asks the resolver again every few seconds, as long as names are watched, so that a name
//! that moves is noticed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use farcall_base::{Address, NO_RANK};

use super::target::parse_address;
use super::{Compared, Names, TargetError};
use crate::bootstrap::{CompareError, HostPort, Listing, NameWatch, PublishError, ResolveError, Server};
use crate::transports::TransportKind;

/// How often what is written down, and the addresses of hosts, are looked up again.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// The longest file.
const FILE_BYTES_MAX: u64 = 1 << 20;

type Places = BTreeMap<String, Vec<(TransportKind, HostPort)>>;

/// Names from a file.
#[derive(Debug)]
pub struct WrittenDown {
    path: PathBuf,
    /// The listings that a thread keeps up to date, by name.
    listings: Listings,
}

/// Listings that threads keep up to date, by what they are of, as long as anybody uses them.
#[derive(Debug, Default)]
struct Listings(Mutex<BTreeMap<String, Weak<Listing>>>);

impl Listings {
    /// The listing of this name; begins to keep one up to date if there is none.
    fn of(&self, name: String, read: impl Fn() -> Read + Send + 'static) -> Arc<Listing> {
        let mut listings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        listings.retain(|_, listing| listing.strong_count() > 0);
        if let Some(listing) = listings.get(&name).and_then(Weak::upgrade) {
            return listing;
        }
        let listing = Listing::new();
        listings.insert(name, Arc::downgrade(&listing));
        keep_up_to_date(&listing, read);
        listing
    }
}

/// The addresses of hosts that connections name.
#[derive(Debug, Default)]
pub(super) struct WatchedPlaces(Listings);

impl WatchedPlaces {
    /// Those of one host, kept up to date as long as the listing is used.
    pub(super) fn watch(&self, transport: TransportKind, place: HostPort) -> Arc<Listing> {
        self.0.of(format!("{transport}://{place}"), move || Ok(vec![(transport, place.clone())]))
    }
}

/// Why a file of names is of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrittenDownError {
    /// It cannot be read.
    #[error("cannot read the names in {path}: {reason}; check FARCALL_NAMES")]
    Unreadable {
        /// The file.
        path: String,
        /// The system's own words.
        reason: String,
    },
    /// A line is not as it should be.
    #[error("line {line} of {path} is not `name = transport://host:port …`")]
    Malformed {
        /// The file.
        path: String,
        /// The line, from 1.
        line: usize,
    },
    /// Peers of a transport cannot be named by host and port.
    #[error("line {line} of {path}: {error}")]
    Transport {
        /// The file.
        path: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        error: TargetError,
    },
}

impl WrittenDown {
    /// The names in a file, which must be right now; what is wrong later leaves what was right before.
    pub fn read(path: impl Into<PathBuf>) -> Result<Self, WrittenDownError> {
        let path = path.into();
        read_places(&path)?;
        Ok(Self { path, listings: Listings::default() })
    }
}

impl Names for WrittenDown {
    fn register(&self, _: &str, _: &str, _: Address, _: Duration) -> Result<(), PublishError> {
        Err(PublishError::NoRegistry)
    }

    fn withdraw(&self, _: &str, _: &str) {}

    fn watch(&self, name: &str) -> Result<NameWatch, ResolveError> {
        let (path, wanted) = (self.path.clone(), name.to_owned());
        let read = move || Ok(read_places(&path)?.remove(&wanted).unwrap_or_default());
        Ok(NameWatch::Shared(self.listings.of(name.to_owned(), read)))
    }

    fn compare_and_set(&self, _: &str, _: u64, _: &[u8], _: Duration) -> Result<Compared, CompareError> {
        Err(CompareError::NoRegistry)
    }
}

type Read = Result<Vec<(TransportKind, HostPort)>, WrittenDownError>;

/// Fills a listing, now and again, until nothing else uses it. Resolvers take their time, so a thread does
/// it. It keeps the listing from one look to the next: who comes meanwhile needs no thread again.
fn keep_up_to_date(listing: &Arc<Listing>, read: impl Fn() -> Read + Send + 'static) {
    let mut used = Some(Arc::clone(listing));
    let life = move || {
        let mut known = Known::default();
        while let Some(listing) = used.take() {
            match read() {
                Ok(places) => known.update(&listing, &places),
                Err(error) => listing.source_lost(&error.to_string()),
            }
            std::thread::sleep(LOOK_AGAIN);
            let weak = Arc::downgrade(&listing);
            drop(listing);
            used = weak.upgrade();
        }
    };
    if let Err(error) = std::thread::Builder::new().name("names".to_owned()).spawn(life) {
        listing.source_lost(&format!("no thread can be started: {error}"));
    }
}

/// What a listing has been told.
#[derive(Default)]
struct Known {
    /// The number of each and where it was written, by address and transport.
    servers: BTreeMap<(Address, &'static str), (u64, HostPort)>,
    numbers_used: u64,
}

impl Known {
    fn update(&mut self, listing: &Listing, places: &[(TransportKind, HostPort)]) {
        let (mut trouble, mut unknown) = (None, Vec::new());
        let mut present = BTreeMap::new();
        for (transport, place) in places {
            match place.look_up() {
                Ok(addresses) => {
                    let addresses = addresses.into_iter().filter_map(|at| transport.address_of_place(at));
                    present.extend(addresses.map(|address| ((address, transport.name()), place)));
                }
                Err(error) => {
                    trouble = Some(format!("the host of {place} is not known: {error}"));
                    unknown.push(place);
                }
            }
        }
        // While a resolver is silent about a host, the addresses that it gave stay, of that host alone.
        self.servers.retain(|place, (number, written)| {
            let stays = present.contains_key(place) || unknown.contains(&&*written);
            if !stays {
                listing.gone(*number);
            }
            stays
        });
        for ((address, transport), place) in present {
            if self.servers.contains_key(&(address.clone(), transport)) {
                continue;
            }
            self.numbers_used += 1;
            self.servers.insert((address.clone(), transport), (self.numbers_used, place.clone()));
            let server = Server {
                incarnation: 0,
                rank: NO_RANK,
                machine: 0,
                host: place.to_string(),
                transport: transport.to_owned(),
                endpoint: 0,
                address,
            };
            listing.listed(self.numbers_used, server);
        }
        match trouble {
            Some(trouble) => listing.source_lost(&trouble),
            None => listing.complete(),
        }
    }
}

fn read_places(path: &Path) -> Result<Places, WrittenDownError> {
    let shown = path.display().to_string();
    let unreadable = |reason: String| WrittenDownError::Unreadable { path: shown.clone(), reason };
    let failed = |error: std::io::Error| unreadable(error.to_string());
    // A pipe or a device has no length, and may have no end.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(unreadable("it is no regular file".to_owned()));
    }
    let mut text = String::new();
    let file = File::open(path).map_err(failed)?;
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(unreadable(format!("it is longer than {FILE_BYTES_MAX} bytes")));
    }
    let mut places = Places::new();
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.split('#').next().unwrap_or_default().trim();
        if text.is_empty() {
            continue;
        }
        let malformed = || WrittenDownError::Malformed { path: shown.clone(), line };
        let (name, addresses) = text.split_once('=').ok_or_else(malformed)?;
        let (name, addresses) = (name.trim(), addresses.split_whitespace());
        if name.is_empty() {
            return Err(malformed());
        }
        for address in addresses {
            let parsed = parse_address(address).ok_or_else(malformed)?;
            let place =
                parsed.map_err(|error| WrittenDownError::Transport { path: shown.clone(), line, error })?;
            places.entry(name.to_owned()).or_default().push(place);
        }
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Far longer than anything here takes.
    const PLENTY: Duration = Duration::from_secs(60);

    /// A file that is removed.
    struct Written(PathBuf);

    impl Written {
        fn new(name: &str, text: &str) -> Self {
            let path = std::env::temp_dir().join(format!("farcall-names-{}-{name}", std::process::id()));
            std::fs::write(&path, text).expect("the folder for temporary files takes it");
            Self(path)
        }
    }

    impl Drop for Written {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn a_name_has_all_addresses_of_its_hosts() {
        let text = "# comment\n\norders = basic+udp://127.0.0.1:7001 basic+udp://[::1]:7001 # two\n";
        let file = Written::new("all", text);
        let names = WrittenDown::read(&file.0).expect("it is right");
        let watch = names.watch("orders").expect("any name can be watched");
        let mut seen = watch.listing().version();
        while !watch.listing().is_complete() {
            watch.listing().wait_for_change(seen, PLENTY);
            seen = watch.listing().version();
        }
        let mut hosts: Vec<String> =
            watch.listing().servers().into_iter().map(|server| server.host).collect();
        hosts.sort();
        assert_eq!(hosts, ["127.0.0.1:7001", "[::1]:7001"]);
        let refused = names.register("orders", "basic+udp#0", Address::new(*b"a").expect("short"), PLENTY);
        assert_eq!(refused, Err(PublishError::NoRegistry));
    }

    /// Two transports whose peers can be named by host and port.
    fn transports() -> [TransportKind; 2] {
        ["basic+udp", "homa+udp"].map(|name| name.parse().expect("a transport"))
    }

    #[test]
    fn a_server_that_changes_its_transport_is_another_one() {
        let place = HostPort::parse("127.0.0.1:7001").expect("a place");
        let (listing, mut known) = (Listing::new(), Known::default());
        let found = || listing.servers().into_iter().map(|server| server.transport).collect::<Vec<_>>();
        for transport in transports() {
            known.update(&listing, &[(transport, place.clone())]);
            assert_eq!(found(), [transport.name()]);
        }
        known.update(&listing, &transports().map(|transport| (transport, place.clone())));
        assert_eq!(found().len(), 2);
    }

    #[test]
    fn a_place_that_is_taken_out_goes_although_the_host_of_another_is_unknown() {
        let place = |text: &str| (transports()[0], HostPort::parse(text).expect("a place"));
        let (listing, mut known) = (Listing::new(), Known::default());
        let found = || listing.servers().into_iter().map(|server| server.host).collect::<Vec<_>>();
        let unknown = place("host.invalid:7003");
        known.update(&listing, &[place("127.0.0.1:7001"), unknown.clone()]);
        assert_eq!(found(), ["127.0.0.1:7001"]);
        known.update(&listing, &[place("127.0.0.1:7002"), unknown]);
        assert_eq!(found(), ["127.0.0.1:7002"]);
    }

    #[test]
    fn one_thread_looks_a_place_up_for_all_that_connect_to_it() {
        let (places, place) = (WatchedPlaces::default(), HostPort::parse("127.0.0.1:7001").expect("a place"));
        let [one, other] = transports();
        let (first, second) = (places.watch(one, place.clone()), places.watch(one, place.clone()));
        assert!(Arc::ptr_eq(&first, &second));
        let other = places.watch(other, place.clone());
        assert!(!Arc::ptr_eq(&first, &other), "it is of another transport");
        // The thread keeps it for the next one, before its first look as well.
        let kept = Arc::downgrade(&first);
        drop((first, second));
        let third = places.watch(one, place);
        assert!(Weak::ptr_eq(&kept, &Arc::downgrade(&third)));
    }

    #[test]
    fn a_file_that_is_wrong_is_refused_with_its_line() {
        for (name, text, line) in [
            ("equals", "orders basic+udp://a:1", 1),
            ("transport", "\norders = pigeon://a:1", 2),
            ("port", "orders = basic+udp://a", 1),
        ] {
            let file = Written::new(name, text);
            let path = file.0.display().to_string();
            let error = WrittenDown::read(&file.0).map(drop);
            assert_eq!(error, Err(WrittenDownError::Malformed { path, line }), "{text}");
        }
        let missing = WrittenDown::read("/nowhere/names").map(drop);
        assert!(matches!(missing, Err(WrittenDownError::Unreadable { .. })));
    }
}
