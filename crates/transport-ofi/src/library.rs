//! libfabric as a library of messages.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::OnceLock;
use std::time::Instant as WallTime;

use farcall_driver::{Address, AddressError, Destination};
use farcall_libfabric::{
    Completion, Endpoint, EndpointConfig, Offer, OfiError, Place, Posted, Wanted, api, provider_names,
    version,
};
use farcall_protocol::Instant;
use farcall_transport::{Arrival, Incoming, Library, Outgoing, Payload, Presence};

use crate::frame::{self, Contents, FRAME_OVERHEAD_MAX, FRAME_TAG, TAG_BITS};
use crate::peers::{KIND, Peers};
use crate::receives::{Buffers, Fetches};
use crate::sends::Sends;

/// How often the completions are read at a time.
const READS_PER_PROGRESS: usize = 4;
/// The time between two looks of an endpoint that blocks, where the provider cannot wake it.
const NAP: Duration = Duration::from_micros(50);
/// How long an endpoint that is dropped waits for its last messages to leave.
const LINGER: Duration = Duration::from_millis(100);

/// How an instance is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfiConfig {
    /// The provider's name; without it libfabric's first choice for general use.
    pub provider: Option<String>,
    /// The address of this machine by which others reach it.
    pub local: Option<IpAddr>,
    /// The longest payload that is accepted, in bytes.
    pub payload_bytes_max: usize,
    /// The longest payload that travels whole, in bytes; longer ones are announced.
    pub eager_bytes: usize,
    /// The longest frame that is given to the provider to copy, in bytes; less where the provider copies less.
    pub inject_bytes: usize,
    /// The most sends that the provider is given at a time; less where the provider takes less.
    pub tx_depth: usize,
    /// How many buffers wait for frames, and how many payloads are fetched at a time; less where the provider takes less.
    pub rx_depth: usize,
    /// Whether its user may block until something arrives.
    pub may_sleep: bool,
    /// A number drawn at random, which tells the endpoint apart from others.
    pub drawn: u64,
}

/// What an operation is, as its context says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    Send(u32),
    Frame(u32),
    Payload(u32),
}

impl Token {
    pub const fn to_word(self) -> u64 {
        let (kind, number) = match self {
            Self::Send(number) => (0, number),
            Self::Frame(number) => (1, number),
            Self::Payload(number) => (2, number),
        };
        kind << 32 | number as u64
    }

    #[inline]
    pub const fn from_word(word: u64) -> Self {
        let number = word as u32;
        match word >> 32 {
            0 => Self::Send(number),
            1 => Self::Frame(number),
            _ => Self::Payload(number),
        }
    }
}

/// A message that has arrived.
pub struct OfiArrival(Arrived);

enum Arrived {
    /// In a buffer for frames, which goes back.
    Frame {
        buffer: u32,
        memory: Vec<u8>,
        head_bytes: usize,
        bytes: usize,
    },
    Fetched {
        head: Vec<u8>,
        payload: Payload,
    },
}

impl Arrival for OfiArrival {
    #[inline]
    fn head(&self) -> &[u8] {
        match &self.0 {
            Arrived::Frame { memory, head_bytes, .. } => &memory[1..1 + head_bytes],
            Arrived::Fetched { head, .. } => head,
        }
    }

    #[inline]
    fn payload(&self) -> Incoming<'_> {
        match &self.0 {
            Arrived::Frame { memory, head_bytes, bytes, .. } => {
                Incoming::Borrowed(&memory[1 + head_bytes..*bytes])
            }
            Arrived::Fetched { payload, .. } => Incoming::Owned(payload.clone()),
        }
    }
}

/// One endpoint of libfabric.
pub struct Ofi {
    /// First of all that drops: libfabric touches nothing of the rest afterwards.
    endpoint: Endpoint,
    sends: Sends,
    buffers: Buffers,
    fetches: Fetches,
    peers: Peers,
    provider: String,
    number: u32,
    address: Address,
    payload_bytes_max: usize,
    eager_bytes: usize,
    inject_bytes: usize,
    tx_depth: usize,
    /// Sends that the provider has.
    posted: usize,
    /// The number of the next long payload.
    serial: u16,
    /// Where frames are put together.
    frame: Vec<u8>,
    /// Destinations with sends that wait for the provider.
    blocked: VecDeque<Destination>,
    done: Vec<Completion>,
    arrivals: VecDeque<OfiArrival>,
    failed: Vec<Destination>,
    must_not_sleep: bool,
    naps: bool,
}

// SAFETY: contexts are never cloned, so their counts move along; libfabric uses the pointers to them and to the memory of
// operations only inside calls that need `&mut self`.
#[expect(unsafe_code, reason = "libfabric has pointers to contexts and memory")]
unsafe impl Send for Ofi {}

impl Ofi {
    /// A new endpoint.
    pub fn new(config: &OfiConfig) -> Result<Self, OfiError> {
        let offer = Offer::choose(Wanted::TaggedMessages, config.provider.as_deref(), config.local)?;
        if offer.tag_bits() < TAG_BITS {
            let why = format!("those of {} have {}", offer.provider(), offer.tag_bits());
            return Err(OfiError::Refused { what: "tags of 48 bits", why });
        }
        let tx_depth = config.tx_depth.min(offer.sends_max()).max(1);
        // As many payloads can be fetched as buffers wait for frames.
        let rx_depth = config.rx_depth.min(offer.receives_max() / 2).max(1);
        let completions_max = tx_depth + 2 * rx_depth;
        let endpoint_config = EndpointConfig { completions_max, may_sleep: config.may_sleep };
        let mut endpoint = Endpoint::open(&offer, &endpoint_config)?;
        let (provider, number) = (offer.provider(), frame::endpoint_number(config.drawn));
        let place = Place { number, provider: &provider, name: endpoint.name() };
        let address = place.to_address(KIND).map_err(|error| OfiError::Refused {
            what: "an address of a usual length",
            why: error.to_string(),
        })?;
        let longest = offer.message_bytes_max();
        let eager_bytes = config.eager_bytes.min(longest.saturating_sub(FRAME_OVERHEAD_MAX));
        let mut buffers = Buffers::new(rx_depth, eager_bytes + FRAME_OVERHEAD_MAX);
        buffers.post(&mut endpoint);
        Ok(Self {
            endpoint,
            sends: Sends::default(),
            buffers,
            fetches: Fetches::new(rx_depth),
            peers: Peers::default(),
            provider,
            number,
            address,
            payload_bytes_max: config.payload_bytes_max.min(longest),
            eager_bytes,
            inject_bytes: config.inject_bytes.min(offer.inject_bytes()),
            tx_depth,
            posted: 0,
            serial: 0,
            frame: Vec::new(),
            blocked: VecDeque::new(),
            done: Vec::new(),
            arrivals: VecDeque::new(),
            failed: Vec::new(),
            must_not_sleep: false,
            naps: false,
        })
    }

    /// Sends the frame that was put together.
    #[inline]
    fn send_frame(&mut self, to: Destination) {
        let Some(peer) = self.peers.reachable(to) else { return };
        if self.frame.len() <= self.inject_bytes && peer.waiting.is_empty() {
            match self.endpoint.inject_tagged(&self.frame, peer.at, FRAME_TAG) {
                Posted::Taken => return,
                Posted::Again => {}
                Posted::Failed => return self.failed.push(to),
            }
        }
        let send = self.sends.add(to, FRAME_TAG, Outgoing::Slice(&self.frame));
        self.start(to, send);
    }

    /// Gives a send to the provider, or lets it wait behind others to the same destination.
    fn start(&mut self, to: Destination, send: u32) {
        let Some(peer) = self.peers.reachable(to) else {
            self.sends.finish(send);
            return;
        };
        peer.under_way += 1;
        peer.waiting.push_back(send);
        if peer.waiting.len() == 1 && !self.go_on(to) {
            self.blocked.push_back(to);
        }
    }

    /// Gives the provider what waits for a destination, as much as it takes. False when something is left.
    fn go_on(&mut self, to: Destination) -> bool {
        loop {
            let Some(peer) = self.peers.reachable(to) else { return true };
            let Some(&send) = peer.waiting.front() else { return true };
            if self.posted >= self.tx_depth {
                return false;
            }
            match self.sends.post(&mut self.endpoint, send, peer.at) {
                Posted::Taken => self.posted += 1,
                Posted::Again => return false,
                Posted::Failed => {
                    self.failed.push(to);
                    return true;
                }
            }
            peer.waiting.pop_front();
        }
    }

    /// Tries again what the provider had no room for.
    fn retry(&mut self) {
        for _ in 0..self.blocked.len() {
            if let Some(to) = self.blocked.pop_front()
                && !self.go_on(to)
            {
                self.blocked.push_back(to);
            }
        }
        self.buffers.post(&mut self.endpoint);
        self.fetches.post(&mut self.endpoint);
    }

    /// Takes note of an operation that is done.
    #[inline]
    fn settle(&mut self, completion: Completion) {
        let Completion { token, bytes, error } = completion;
        match Token::from_word(token) {
            Token::Send(number) => {
                self.posted -= 1;
                if let Some(to) = self.sends.finish(number) {
                    self.peers.end_send(&mut self.endpoint, to);
                    if error != 0 {
                        self.failed.push(to);
                    }
                }
            }
            Token::Frame(number) => self.take_frame(number, if error == 0 { bytes } else { 0 }),
            Token::Payload(number) => self.end_fetch(number, (error == 0).then_some(bytes)),
        }
    }

    #[inline]
    fn take_frame(&mut self, buffer: u32, bytes: usize) {
        let memory = self.buffers.take(buffer);
        match frame::parse(&memory[..bytes]) {
            Some((head_bytes, Contents::Whole { .. })) => {
                let arrived = Arrived::Frame { buffer, memory, head_bytes, bytes };
                return self.arrivals.push_back(OfiArrival(arrived));
            }
            Some((head_bytes, Contents::Announced { bytes, tag })) if bytes <= self.payload_bytes_max => {
                self.fetches.add(&mut self.endpoint, &memory[1..1 + head_bytes], bytes, tag);
            }
            // What no correct peer sends is dropped here.
            _ => {}
        }
        self.buffers.give_back(&mut self.endpoint, buffer, memory);
    }

    #[cold]
    fn end_fetch(&mut self, number: u32, bytes: Option<usize>) {
        match self.fetches.end(number, bytes) {
            Ok((head, memory)) => {
                let arrived = Arrived::Fetched { head, payload: memory.into() };
                self.arrivals.push_back(OfiArrival(arrived));
            }
            Err(sender) => self.failed.extend(self.peers.with_number(sender)),
        }
    }

    /// Lets go of sends that the provider never had.
    fn drop_waiting(&mut self, waiting: VecDeque<u32>) {
        for send in waiting {
            self.sends.finish(send);
        }
    }
}

impl Library for Ofi {
    type Arrival = OfiArrival;

    fn name(&self) -> &'static str {
        "ofi"
    }

    fn payload_bytes_max(&self) -> usize {
        self.payload_bytes_max
    }

    fn address(&self) -> Address {
        self.address.clone()
    }

    fn resolve(&mut self, to: &Address) -> Result<Destination, AddressError> {
        self.peers.resolve(&mut self.endpoint, &self.provider, to)
    }

    fn forget(&mut self, to: Destination) {
        if let Some((number, waiting)) = self.peers.forget(&mut self.endpoint, to) {
            self.drop_waiting(waiting);
            self.fetches.cancel_from(&mut self.endpoint, number);
        }
    }

    #[inline]
    fn send(&mut self, to: Destination, head: &[u8], payload: Outgoing<'_>) {
        if payload.len() <= self.eager_bytes {
            frame::put_whole(&mut self.frame, head, payload.as_slice());
            return self.send_frame(to);
        }
        if self.peers.reachable(to).is_none() {
            return;
        }
        let tag = frame::payload_tag(self.number, self.serial);
        self.serial = self.serial.wrapping_add(1);
        frame::put_announcement(&mut self.frame, head, payload.len(), tag);
        self.send_frame(to);
        let send = self.sends.add(to, tag, payload);
        self.start(to, send);
    }

    #[inline]
    fn progress(&mut self) -> usize {
        let mut total = 0;
        for _ in 0..READS_PER_PROGRESS {
            let done = &mut self.done;
            let count = self.endpoint.completions(|completion| done.push(completion));
            if count == 0 {
                break;
            }
            total += count;
            for place in 0..self.done.len() {
                self.settle(self.done[place]);
            }
            self.done.clear();
        }
        self.retry();
        total
    }

    #[inline]
    fn next_arrival(&mut self) -> Option<OfiArrival> {
        self.arrivals.pop_front()
    }

    #[inline]
    fn release(&mut self, arrival: OfiArrival) {
        if let Arrived::Frame { buffer, memory, .. } = arrival.0 {
            self.buffers.give_back(&mut self.endpoint, buffer, memory);
        }
    }

    fn next_loss(&mut self) -> Option<Destination> {
        loop {
            let lost = self.failed.pop()?;
            if let Some(waiting) = self.peers.lose(lost) {
                self.drop_waiting(waiting);
                return Some(lost);
            }
        }
    }

    fn next_deadline(&self, now: Instant) -> Option<Instant> {
        if self.must_not_sleep || !self.failed.is_empty() {
            return Some(Instant::ZERO);
        }
        self.naps.then(|| now + NAP)
    }

    fn prepare_wait(&mut self) {
        self.naps = self.endpoint.descriptor().is_none() || !self.blocked.is_empty();
        self.must_not_sleep = self.endpoint.descriptor().is_some() && !self.endpoint.prepare_wait();
    }

    fn finish_wait(&mut self) {
        (self.naps, self.must_not_sleep) = (false, false);
    }

    fn wait_descriptors(&self) -> Vec<RawFd> {
        self.endpoint.descriptor().into_iter().collect()
    }
}

/// The last messages, such as the good-bye, get a moment to leave.
impl Drop for Ofi {
    fn drop(&mut self) {
        let give_up_at = WallTime::now() + LINGER;
        while !(self.sends.is_empty() && self.fetches.is_empty()) && WallTime::now() < give_up_at {
            self.progress();
        }
        self.sends.leak();
    }
}

/// Whether libfabric is on this machine, in which version, and with which providers for this transport.
pub fn presence() -> Presence {
    static PRESENCE: OnceLock<Presence> = OnceLock::new();
    let look = || {
        let api = api().map_err(str::to_owned)?;
        let names = provider_names(Wanted::TaggedMessages).map_err(|error| error.to_string())?;
        Ok::<_, String>(format!("libfabric {}: {}", version(api), names.join(", ")))
    };
    let found = || match look() {
        Ok(found) => Presence::Here { found },
        Err(why) => Presence::Absent { why },
    };
    PRESENCE.get_or_init(found).clone()
}
