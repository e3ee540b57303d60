//! One endpoint of libfabric: what belongs to it, and what becomes of operations that are done.

use core::net::IpAddr;
use std::collections::VecDeque;

use crate::libfabric::{Completion, Endpoint, EndpointConfig, Offer, OfiError, Place, Wanted};
use farcall_base::Address;
use farcall_driver::Destination;

use crate::messages::Token;
use crate::messages::arrival::{Arrived, OfiArrival};
use crate::messages::frame::{self, Contents, FRAME_OVERHEAD_MAX, TAG_BITS};
use crate::messages::peers::{KIND, Peers};
use crate::messages::receives::{Buffers, Fetches};
use crate::messages::sends::Sends;
use crate::messages::waking::Waking;

/// How many peers that were forgotten have messages waiting for the provider. Many providers notice nothing
/// of a dead peer, so that the longest wait may find nothing.
const RESTING_MAX: usize = 64;

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
    /// The longest frame that is given to the provider to copy, in bytes; less where the provider copies
    /// less.
    pub inject_bytes: usize,
    /// The most sends that the provider is given at a time; less where the provider takes less. To a
    /// destination it is given as many as are left for others, and at least one.
    pub tx_depth: usize,
    /// How many buffers wait for frames, and how many payloads are fetched at a time; less where the provider
    /// takes less.
    pub rx_depth: usize,
    /// Whether its user may block until something arrives.
    pub may_sleep: bool,
    /// A number drawn at random, which tells the endpoint apart from others.
    pub drawn: u64,
}

/// One endpoint of libfabric.
pub struct Ofi {
    /// First of all that drops: libfabric touches nothing of the rest afterwards.
    pub(crate) endpoint: Endpoint,
    pub(crate) sends: Sends,
    pub(crate) buffers: Buffers,
    pub(crate) fetches: Fetches,
    pub(crate) peers: Peers,
    pub(crate) provider: String,
    pub(crate) number: u32,
    pub(crate) address: Address,
    pub(crate) payload_bytes_max: usize,
    pub(crate) eager_bytes: usize,
    pub(crate) inject_bytes: usize,
    /// The number of the next long payload.
    pub(crate) serial: u16,
    /// Where frames are put together.
    pub(crate) frame: Vec<u8>,
    /// Destinations with sends that wait for the provider.
    pub(crate) blocked: VecDeque<Destination>,
    pub(crate) done: Vec<Completion>,
    pub(crate) arrivals: VecDeque<OfiArrival>,
    pub(crate) failed: Vec<Destination>,
    /// Peers that were forgotten before all that was sent to them was with the provider, oldest first.
    pub(crate) resting: VecDeque<Destination>,
    pub(crate) waking: Waking,
}

// SAFETY: contexts are never cloned, so their counts move along; libfabric uses the pointers to them and to
// the memory of operations only inside calls that need `&mut self`.
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
            peers: Peers::new(tx_depth),
            provider,
            number,
            address,
            payload_bytes_max: config.payload_bytes_max.min(longest),
            eager_bytes,
            inject_bytes: config.inject_bytes.min(offer.inject_bytes()),
            serial: 0,
            frame: Vec::new(),
            blocked: VecDeque::new(),
            done: Vec::new(),
            arrivals: VecDeque::new(),
            failed: Vec::new(),
            resting: VecDeque::new(),
            waking: Waking::default(),
        })
    }

    /// Takes note of an operation that is done.
    #[inline]
    pub(crate) fn settle(&mut self, completion: Completion) {
        let Completion { token, bytes, error } = completion;
        match Token::from_word(token) {
            Token::Send(number) => {
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
            Some((head_bytes, Contents::Whole)) => {
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
            Err(sender) => self.failed.extend(sender.and_then(|number| self.peers.with_number(number))),
        }
    }

    /// Waits for what was sent to a peer that was forgotten, unless there are too many of these.
    pub(crate) fn let_rest(&mut self, to: Destination) {
        let peers = &self.peers;
        self.resting.retain(|&other| other != to && peers.is_resting(other));
        if peers.is_resting(to) {
            self.resting.push_back(to);
        }
        if self.resting.len() > RESTING_MAX
            && let Some(oldest) = self.resting.pop_front()
        {
            self.give_up(oldest);
        }
    }

    /// Drops a peer and the sends to it that the provider never had.
    pub(crate) fn give_up(&mut self, to: Destination) {
        let waiting = self.peers.give_up(&mut self.endpoint, to);
        self.drop_waiting(waiting);
    }

    /// Drops sends that the provider never had.
    pub(crate) fn drop_waiting(&mut self, waiting: VecDeque<u32>) {
        for send in waiting {
            self.sends.finish(send);
        }
    }
}
