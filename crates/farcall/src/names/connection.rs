//! The side that calls: a name, and the servers that listen under it.

use core::cell::{Cell, RefCell};
use core::fmt;
use core::time::Duration;
use std::collections::HashMap;
use std::rc::Rc;

use farcall_base::{Address, AddressError, Instant, NO_RANK};

use super::balance::Chooser;
use super::book::{WatchError, Watched};
use super::target::Target;
use super::{Balance, NamedCall};
use crate::bootstrap::{Server, URL_SCHEME, machine_number};
use crate::endpoint::{CallError, Endpoint, Peer};
use crate::transports::{TransportKind, address_for};
use farcall_transport::Service;

/// A server to which no session came up is not asked again before that time; each failure doubles it.
const AVOIDED_FIRST: Duration = Duration::from_millis(20);

/// The longest time that such a server is avoided.
const AVOIDED_MAX: Duration = Duration::from_secs(1);

/// How long a caller without a server waits for news before it polls its endpoint again.
const NEWS_WITHIN: Duration = Duration::from_millis(1);

/// A name, and sessions to the servers that listen under it.
///
/// Servers come and go behind it: every call goes to one that is there when the call begins, by the
/// [`Balance`] that was chosen. A session is opened when a server is first used; all connections of an
/// endpoint that lead to a server share it, and it outlives them.
pub struct Connection<'e> {
    endpoint: &'e Endpoint,
    name: String,
    /// The name under which its servers listen; `None` of an address.
    listed: Option<String>,
    watch: Watched,
    /// Its servers are of another registry: a rank that one has there is nobody's here.
    is_elsewhere: bool,
    state: RefCell<State>,
}

struct State {
    /// The version of the listing that `candidates` are of.
    seen: Option<u64>,
    candidates: Vec<Candidate>,
    /// Why servers that are listed cannot be reached from here.
    out_of_reach: Option<String>,
    chooser: Chooser,
}

struct Candidate {
    server: Server,
    peer: Option<Peer>,
    calls: InFlight,
    avoided_until: Instant,
    failures: u32,
    /// Why it could not be asked the last time, and when that was.
    trouble: Option<(Instant, String)>,
}

/// The calls in flight to one server over one connection.
#[derive(Clone, Default)]
pub(super) struct InFlight(Rc<Cell<u32>>);

/// A call in flight, until it is dropped.
pub(super) struct Counted(InFlight);

impl InFlight {
    pub(super) fn begin(&self) -> Counted {
        self.0.set(self.0.get() + 1);
        Counted(self.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let count = &self.0.0;
        count.set(count.get() - 1);
    }
}

/// Why there is no server to call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoServer {
    /// Nothing listens under the name, as far as the registry has said.
    #[error("nothing listens under `{name}` over {transport}: {why}")]
    NoneListens {
        /// The name.
        name: String,
        /// The endpoint's transport.
        transport: &'static str,
        /// What is known about it.
        why: String,
    },
    /// All servers that are listed failed a moment ago.
    #[error("no server of `{name}` could be reached a moment ago: {why}")]
    AllAvoided {
        /// The name.
        name: String,
        /// What the last one said.
        why: String,
    },
}

impl Endpoint {
    /// Connects to the servers of a name (`orders`), of a name at another registry
    /// (`farcall://host:7117/orders`), or at an address (`basic+udp://host:7001`, all addresses of that
    /// host).
    ///
    /// Does not wait: the servers become known during later polls, and calls wait for them.
    pub fn connect(&self, target: &str) -> Result<Connection<'_>, WatchError> {
        let directions = self.directions();
        let watch = directions.names().watch(target, directions.kind)?;
        let state = RefCell::new(State {
            seen: None,
            candidates: Vec::new(),
            out_of_reach: None,
            chooser: Chooser::new(Balance::default(), directions.draw()),
        });
        let is_elsewhere = target.starts_with(URL_SCHEME);
        let listed = match Target::parse(target, directions.kind) {
            Ok(Target::Name(name) | Target::At { name, .. }) => Some(name),
            Ok(Target::Address { .. }) | Err(_) => None,
        };
        Ok(Connection { endpoint: self, name: target.to_owned(), listed, watch, is_elsewhere, state })
    }
}

impl<'e> Connection<'e> {
    /// Chooses how calls are spread over the servers.
    pub fn balanced_by(self, balance: Balance) -> Self {
        self.state.borrow_mut().chooser.set(balance);
        self
    }

    /// The name that it leads to.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The servers that are known now and can be reached over the endpoint's transport.
    pub fn servers(&self) -> Vec<Server> {
        self.refresh();
        self.state.borrow().candidates.iter().map(|candidate| candidate.server.clone()).collect()
    }

    /// One of the servers, with a session that is up or opening. Calls and messages to it go to that server
    /// and no other; when its session ends, ask for another one.
    pub fn peer(&self) -> Result<Peer, NoServer> {
        self.choose().map(|(peer, _)| peer)
    }

    /// As [`Connection::peer`]; polls the endpoint until there is a server, at most for `within`.
    pub fn wait(&self, within: Duration) -> Result<Peer, NoServer> {
        let deadline = self.endpoint.clock().now() + within;
        loop {
            match self.peer() {
                Err(_) if self.endpoint.clock().now() < deadline => self.wait_for_news(),
                outcome => return outcome,
            }
        }
    }

    /// Prepares a call to one of the servers; see [`NamedCall`] for the ways to make it.
    pub fn call<'c, 'p>(&'c self, service: Service, payload: &'p [u8]) -> NamedCall<'c, 'e, 'p> {
        NamedCall::new(self, service, payload)
    }

    pub(super) fn endpoint(&self) -> &'e Endpoint {
        self.endpoint
    }

    /// Polls once and lets other threads bring news.
    pub(super) fn wait_for_news(&self) {
        let listing = self.watch.listing();
        let seen = listing.version();
        if self.endpoint.poll_once() == 0 && !self.endpoint.directions().is_simulated() {
            listing.wait_for_change(seen, NEWS_WITHIN);
        }
    }

    /// A server, and the count of its calls.
    pub(super) fn choose(&self) -> Result<(Peer, InFlight), NoServer> {
        self.refresh();
        let now = self.endpoint.clock().now();
        loop {
            let state = &mut *self.state.borrow_mut();
            let ready: Vec<usize> = (0..state.candidates.len())
                .filter(|&place| state.candidates[place].avoided_until <= now)
                .collect();
            if ready.is_empty() {
                return Err(self.no_server(state));
            }
            let candidates = &state.candidates;
            let place = state.chooser.choose(&ready, |place| candidates[place].calls.0.get());
            match state.candidates[place].session(self.endpoint, self.listed.as_deref()) {
                Ok(peer) => return Ok((peer, state.candidates[place].calls.clone())),
                Err(error) => state.candidates[place].avoid(now, error.to_string()),
            }
        }
    }

    /// A session to a server never came up, or a server does not take requests.
    pub(super) fn avoid(&self, peer: Peer, why: &CallError) {
        let now = self.endpoint.clock().now();
        let candidates = &mut self.state.borrow_mut().candidates;
        if let Some(candidate) = candidates.iter_mut().find(|candidate| candidate.peer == Some(peer)) {
            candidate.avoid(now, why.to_string());
        }
    }

    /// A server has answered.
    pub(super) fn praise(&self, peer: Peer) {
        let candidates = &mut self.state.borrow_mut().candidates;
        if let Some(candidate) = candidates.iter_mut().find(|candidate| candidate.peer == Some(peer)) {
            (candidate.failures, candidate.trouble) = (0, None);
        }
    }

    fn no_server(&self, state: &State) -> NoServer {
        let (name, transport) = (self.name.clone(), self.endpoint.directions().transport());
        if !state.candidates.is_empty() {
            let troubles = state.candidates.iter().filter_map(|candidate| candidate.trouble.as_ref());
            let newest = troubles.max_by_key(|(at, _)| *at);
            let why = newest.map_or_else(|| "it is tried again soon".to_owned(), |(_, why)| why.clone());
            return NoServer::AllAvoided { name, why };
        }
        let listing = self.watch.listing();
        let why = match (&state.out_of_reach, listing.trouble()) {
            (Some(why), _) => why.clone(),
            (None, Some(trouble)) => format!("the source of names is away ({trouble})"),
            (None, None) if listing.is_complete() => "no process has registered it".to_owned(),
            (None, None) => "the source of names has not answered yet".to_owned(),
        };
        NoServer::NoneListens { name, transport, why }
    }

    /// Takes over what has changed in the listing.
    fn refresh(&self) {
        let listing = self.watch.listing();
        let version = listing.version();
        let state = &mut *self.state.borrow_mut();
        if state.seen == Some(version) {
            return;
        }
        state.seen = Some(version);
        let transport = self.endpoint.directions().kind;
        let mut servers = listing.servers();
        if self.is_elsewhere {
            servers.iter_mut().for_each(|server| server.rank = NO_RANK);
        }
        let (servers, others): (Vec<_>, Vec<_>) =
            servers.into_iter().partition(|server| reach_of(server, transport).is_none());
        state.out_of_reach = others.iter().find_map(|server| reach_of(server, transport));
        let former = core::mem::take(&mut state.candidates).into_iter();
        let mut former: HashMap<Server, Candidate> =
            former.map(|candidate| (candidate.server.clone(), candidate)).collect();
        let candidate = |server: Server| former.remove(&server).unwrap_or_else(|| Candidate::new(server));
        state.candidates = servers.into_iter().map(candidate).collect();
    }
}

/// Why a server cannot be reached over a transport of this process; `None` if it can.
fn reach_of(server: &Server, transport: TransportKind) -> Option<String> {
    if address_at(server, transport).is_none() {
        return Some(format!("it is served over {}; use an endpoint of that transport", server.transport));
    }
    let own = machine_number();
    let is_elsewhere = server.machine != 0 && own != 0 && server.machine != own;
    (is_elsewhere && transport.is_of_one_machine()).then(|| {
        format!(
            "{transport} reaches this machine only, and it is served on {}; use another transport",
            server.host
        )
    })
}

/// Where an endpoint of a transport reaches a server; `None` where they have nothing in common.
pub(crate) fn address_at(server: &Server, transport: TransportKind) -> Option<Address> {
    let served_over = server.transport.parse().ok()?;
    address_for(transport, served_over, &server.address, server.machine)
}

impl Candidate {
    fn new(server: Server) -> Self {
        let calls = InFlight::default();
        Self { server, peer: None, calls, avoided_until: Instant::ZERO, failures: 0, trouble: None }
    }

    /// The session to the server, opened if there is none.
    fn session(&mut self, endpoint: &Endpoint, name: Option<&str>) -> Result<Peer, AddressError> {
        if let Some(peer) = self.peer
            && endpoint.has_session(peer)
        {
            return Ok(peer);
        }
        let peer = endpoint.open_session(&self.server, name)?;
        self.peer = Some(peer);
        Ok(peer)
    }

    fn avoid(&mut self, now: Instant, why: String) {
        // All calls that waited for one session report its end: it failed once.
        if now < self.avoided_until {
            return;
        }
        let pause = AVOIDED_FIRST * (1 << self.failures.min(16));
        self.failures += 1;
        self.avoided_until = now + pause.min(AVOIDED_MAX);
        self.trouble = Some((now, why));
    }
}

impl fmt::Debug for Connection<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({})", self.name)
    }
}
