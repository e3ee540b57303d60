//! What an endpoint has, and how it comes to be.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant as WallTime;

use farcall_base::Address;
use farcall_driver::CounterFile;
use farcall_transport::Spares;

use crate::arrival::TcpArrival;
use crate::config::{TcpConfig, TcpCounters};
use crate::connection::{Connection, Origin};

use crate::poller::Poller;
use crate::reading::new_buffer;
use crate::secured::Secured;
use crate::slab::Slab;
use crate::socket::{ListenError, dial, open_listener, why_not_opened};
use crate::strangers::Strangers;

/// The number of the socket that others connect to.
pub const LISTENER: u32 = u32::MAX;

/// A connection that was lost, and how many messages had been handed out when everything from it will have
/// been.
pub struct Loss {
    pub(crate) number: u32,
    pub(crate) behind: u64,
    pub(crate) why: Option<String>,
}

/// One endpoint's connections.
pub struct Tcp {
    pub(crate) config: TcpConfig,
    pub(crate) counters: TcpCounters,
    pub(crate) listener: OwnedFd,
    pub(crate) local: SocketAddr,
    pub(crate) poller: Poller,
    pub(crate) connections: Slab,
    /// Those that were opened from here.
    pub(crate) dialed: HashMap<Address, u32>,
    pub(crate) strangers: Strangers,
    pub(crate) secured: Option<Secured>,
    /// Those that were given up and still have something to say.
    pub(crate) ending: Vec<u32>,
    /// Those that have something to send.
    pub(crate) to_flush: Vec<u32>,
    /// Those that have something unread that was taken from the socket.
    pub(crate) to_resume: Vec<u32>,
    /// Those that had something last, the latest first.
    pub(crate) hot: Vec<u32>,
    pub(crate) ready: Vec<u32>,
    /// Into which is read; others may be in the hands of arrivals.
    pub(crate) buffer: Arc<Vec<u8>>,
    pub(crate) lent_buffers: Vec<Arc<Vec<u8>>>,
    pub(crate) spares: Spares,
    pub(crate) arrivals: VecDeque<TcpArrival>,
    /// Messages that arrived, and that were handed out.
    pub(crate) arrived: u64,
    pub(crate) handed_out: u64,
    pub(crate) losses: Vec<Loss>,
    /// Why connections were lost whose loss was told, until somebody asks or forgets.
    pub(crate) reasons: Vec<(u32, String)>,
    pub(crate) polls: u32,
    pub(crate) polls_since_look: u32,
    /// Until when accepting rests.
    pub(crate) accepts_from: Option<WallTime>,
}

impl Tcp {
    /// Listens.
    pub fn listen(config: TcpConfig) -> Result<Self, ListenError> {
        let secured = config.tls.clone().map(Secured::new).transpose()?;
        let (listener, local) = open_listener(&config)?;
        let system = |source| ListenError::System { address: local, source };
        let poller = Poller::new().map_err(system)?;
        poller.add(&listener, LISTENER).map_err(system)?;
        let strangers =
            Strangers::new(config.strangers_max, config.strangers_per_host, config.introduction_timeout);
        Ok(Self {
            counters: TcpCounters::new(CounterFile::process(), &format!("tcp {local}")),
            config,
            listener,
            local,
            poller,
            connections: Slab::default(),
            dialed: HashMap::new(),
            strangers,
            secured,
            ending: Vec::new(),
            to_flush: Vec::new(),
            to_resume: Vec::new(),
            hot: Vec::new(),
            ready: Vec::new(),
            buffer: new_buffer(),
            lent_buffers: Vec::new(),
            spares: Spares::default(),
            arrivals: VecDeque::new(),
            arrived: 0,
            handed_out: 0,
            losses: Vec::new(),
            reasons: Vec::new(),
            polls: 0,
            polls_since_look: 0,
            accepts_from: None,
        })
    }

    /// What has happened so far.
    pub fn counters(&self) -> &TcpCounters {
        &self.counters
    }

    /// How many connections there are, whatever their state.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Opens a connection; the error says what kept it from being opened.
    pub(crate) fn open(&mut self, to: SocketAddr, address: &Address) -> Result<u32, &'static str> {
        let stream = dial(to).map_err(|error| why_not_opened(&error))?;
        self.renew_keys();
        let secure = self.secured.as_ref().map(|secured| secured.client(to)).transpose();
        let secure = secure.map_err(|_| "its certificates or keys do not serve for a connection there")?;
        let connection = Connection::new(stream, to, Origin::Dialed(address.clone()), secure, &self.config);
        let number =
            self.connections.insert(connection).ok_or("it has as many connections as there can be")?;
        let connection = self.connections.get(number).expect("it was put there");
        if let Err(error) = self.poller.add(connection.stream.file(), number) {
            self.connections.remove(number);
            return Err(why_not_opened(&error));
        }
        self.counters.connections_opened.increment();
        self.list(number);
        Ok(number)
    }

    /// Takes in keys and certificates that have changed.
    pub(crate) fn renew_keys(&mut self) {
        if let Some(secured) = &mut self.secured
            && !secured.renew()
        {
            self.counters.tls_not_renewed.increment();
        }
    }
}
