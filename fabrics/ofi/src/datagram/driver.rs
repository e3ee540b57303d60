//! The driver itself: one endpoint, its two halves, and the peers that both of them know.

use core::cell::OnceCell;
use std::collections::VecDeque;
use std::os::fd::RawFd;

use crate::libfabric::{
    Completion, Endpoint, EndpointConfig, Form, Kind, Offer, OfiError, Place, Wanted, found,
};
use farcall_base::Instant;
use farcall_base::{Address, AddressError};
use farcall_driver::{
    CounterFile, Datagram, DatagramLimits, Destination, Packet, Peers, STRANGERS_MAX, SendError, Wait,
};

use crate::datagram::receiving::Receiving;
use crate::datagram::sending::{SEND_TOKEN, Sending};
use crate::datagram::{Name, OfiDatagramConfig, OfiDatagramCounters};

/// The kind of this driver's addresses, which have no use for a number.
const KIND: Kind = *b"fODG";
/// The longest packet, address included, where the provider does not say what it carries: what Ethernet
/// carries in one frame over IPv6 (1500 − 40 − 8).
const PACKET_BYTES: usize = 1452;
/// The longest packet of any datagram protocol, in bytes.
const PACKET_BYTES_MAX: usize = 65_507;
/// The most packets that one receive hands out.
const BURST_PACKETS: usize = 32;

/// How to send to a peer: libfabric's number for it, `None` when the provider cannot use the address.
struct Route {
    name: Name,
    at: OnceCell<Option<u64>>,
}

impl Route {
    fn to(name: Name) -> Self {
        Self { name, at: OnceCell::new() }
    }
}

/// Packets over one datagram endpoint.
///
/// The endpoint is dropped first, and with it all use of the memory of the rest.
pub struct OfiDatagram {
    endpoint: Endpoint,
    sending: Sending,
    receiving: Receiving,
    peers: Peers<Name, Route>,
    provider: String,
    limits: DatagramLimits,
    /// Receives that are done and not handed out yet; never more than there are buffers with the provider.
    arrivals: VecDeque<Completion>,
    /// libfabric's numbers of peers that have been replaced, kept until nothing is on its way.
    retired: Vec<u64>,
    counters: OfiDatagramCounters,
}

// SAFETY: contexts are never cloned, so their counts move along; libfabric uses the pointers to them and to
// the memory of operations only inside calls that need `&mut self`.
#[expect(unsafe_code, reason = "libfabric has pointers to contexts and memory")]
unsafe impl Send for OfiDatagram {}

/// libfabric's version and the providers that have datagrams here.
pub fn providers() -> Result<String, OfiError> {
    found(Wanted::Datagrams)
}

impl OfiDatagram {
    /// Opens an endpoint and makes all memory that the driver will ever need.
    pub fn open(config: &OfiDatagramConfig) -> Result<Self, OfiError> {
        let offer = Offer::choose(Wanted::Datagrams, config.provider.as_deref(), config.local)?;
        let tx_depth = config.tx_depth.min(offer.sends_max()).max(1);
        let rx_depth = config.rx_depth.min(offer.receives_max()).max(1);
        let endpoint_config =
            EndpointConfig { completions_max: tx_depth + rx_depth, may_sleep: config.may_sleep };
        let mut endpoint = Endpoint::open(&offer, &endpoint_config)?;
        let provider = offer.provider();
        if config.may_sleep && endpoint.descriptor().is_none() {
            let why = format!("{provider} cannot wake an endpoint that sleeps; set endpoint.idle=yield");
            return Err(OfiError::Refused { what: "a descriptor", why });
        }
        let header_bytes = endpoint.name().len();
        let fits = offer.form() != Form::Text && Name::new(endpoint.name()).is_some();
        fits.then_some(()).ok_or_else(|| OfiError::Refused {
            what: "addresses of a usual form",
            why: format!("those of {provider} do not fit into packets"),
        })?;
        let longest = offer.message_bytes_max();
        let packet_bytes = match config.mtu_bytes {
            Some(mtu_bytes) => (mtu_bytes + header_bytes).min(longest).min(PACKET_BYTES_MAX),
            None if longest > PACKET_BYTES_MAX => PACKET_BYTES,
            None => longest,
        };
        let inject_bytes = config.inject_bytes.min(offer.inject_bytes());
        let mut receiving = Receiving::new(4 * rx_depth, packet_bytes, rx_depth);
        receiving.refill(&mut endpoint);
        let mtu_bytes = packet_bytes - header_bytes;
        let counters = OfiDatagramCounters::new(CounterFile::process(), &format!("ofi {provider}"));
        Ok(Self {
            endpoint,
            sending: Sending::new(tx_depth, packet_bytes, inject_bytes),
            receiving,
            peers: Peers::new(STRANGERS_MAX),
            provider,
            limits: DatagramLimits {
                mtu_bytes,
                priorities: 1,
                burst_packets: BURST_PACKETS,
                checks_packets: false,
            },
            arrivals: VecDeque::with_capacity(rx_depth),
            retired: Vec::new(),
            counters,
        })
    }

    /// What has happened so far.
    pub fn counters(&self) -> &OfiDatagramCounters {
        &self.counters
    }

    /// libfabric's number for a peer, which is asked for when it is first needed.
    #[inline]
    fn way(&mut self, to: Destination) -> Option<u64> {
        let Some(route) = self.peers.way(to) else {
            self.counters.stale_destinations.increment();
            return None;
        };
        let endpoint = &mut self.endpoint;
        let at = *route.at.get_or_init(|| endpoint.insert(route.name.as_bytes()));
        if at.is_none() {
            self.counters.packets_unsendable.increment();
        }
        at
    }

    fn retire(&mut self, replaced: Route) {
        self.counters.peers_replaced.increment();
        self.retired.extend(replaced.at.into_inner().flatten());
    }

    /// Takes note of what is done; packets that have arrived wait for the next receive. Returns how much
    /// there was.
    #[inline]
    fn collect(&mut self) -> usize {
        let Self { endpoint, sending, arrivals, counters, .. } = self;
        let count = endpoint.completions(|completion| {
            if completion.token & SEND_TOKEN == 0 {
                return arrivals.push_back(completion);
            }
            sending.end(completion.token as u32);
            if completion.error != 0 {
                counters.packets_unsendable.increment();
            }
        });
        if !self.retired.is_empty() && self.sending.is_empty() {
            self.retired.drain(..).for_each(|at| self.endpoint.remove(at));
        }
        count
    }

    /// A packet, or a receive that failed.
    #[inline]
    fn settle(&mut self, arrival: Completion, packets: &mut Vec<Packet>) {
        let Completion { token, bytes, error } = arrival;
        let number = token as u32;
        self.receiving.take(number);
        if error != 0 {
            self.counters.receive_failures.increment();
            return self.receiving.put_back(number);
        }
        let header_bytes = self.endpoint.name().len();
        let (Some(payload_bytes), Some(name)) = (
            bytes.checked_sub(header_bytes),
            self.receiving.bytes(number, bytes).get(..header_bytes).and_then(Name::new),
        ) else {
            self.counters.packets_malformed.increment();
            return self.receiving.put_back(number);
        };
        let (source, replaced) = self.peers.source(name, || Route::to(name));
        replaced.into_iter().for_each(|replaced| self.retire(replaced));
        self.counters.packets_received.increment();
        self.counters.bytes_received.add(payload_bytes as u64);
        packets.push(self.receiving.lend(number, header_bytes, payload_bytes, source));
    }
}

impl Datagram for OfiDatagram {
    fn name(&self) -> &'static str {
        "ofi"
    }

    fn limits(&self) -> DatagramLimits {
        self.limits
    }

    fn address(&self) -> Address {
        let place = Place { number: 0, provider: &self.provider, name: self.endpoint.name() };
        place.to_address(KIND).expect("far shorter than the limit")
    }

    fn keep_peer(&mut self, peer: Destination, keep: bool) {
        self.peers.keep(peer, keep);
    }

    /// Names of providers have forms of their own.
    fn host_of(&self, _peer: Destination) -> Option<u64> {
        None
    }

    fn resolve(&mut self, address: &Address) -> Result<Destination, AddressError> {
        let wrong_kind = AddressError::WrongKind { driver: "ofi" };
        let place = Place::parse(address, KIND, &self.provider)?;
        let has_our_length = place.name.len() == self.endpoint.name().len();
        let name = Name::new(place.name).filter(|_| has_our_length).ok_or(wrong_kind)?;
        let (to, replaced) = self.peers.resolve(name, || Route::to(name))?;
        replaced.into_iter().for_each(|replaced| self.retire(replaced));
        Ok(to)
    }

    #[inline]
    fn send(&mut self, to: Destination, _priority: u8, parts: &[&[u8]]) -> Result<(), SendError> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let mtu_bytes = self.limits.mtu_bytes;
        if bytes > mtu_bytes {
            return Err(SendError::TooLong { bytes, mtu_bytes });
        }
        let Some(at) = self.way(to) else { return Ok(()) };
        self.sending.push(at, self.endpoint.name(), parts).map_err(|full| {
            self.counters.queue_full.increment();
            full.into()
        })
    }

    #[inline]
    fn send_room(&self) -> usize {
        self.sending.room()
    }

    #[inline]
    fn flush(&mut self) {
        let header_bytes = self.endpoint.name().len();
        self.sending.flush(&mut self.endpoint, header_bytes, &self.counters);
        if self.sending.room() == 0 {
            self.collect();
        }
    }

    #[inline]
    fn is_backed_up(&self) -> bool {
        self.sending.is_backed_up()
    }

    #[inline]
    fn receive(&mut self, packets: &mut Vec<Packet>) -> usize {
        let before = packets.len();
        while packets.len() - before < BURST_PACKETS {
            let Some(arrival) = self.arrivals.pop_front() else {
                if self.collect() == 0 {
                    break;
                }
                continue;
            };
            self.settle(arrival, packets);
        }
        self.receiving.refill(&mut self.endpoint);
        packets.len() - before
    }

    #[inline]
    fn release(&mut self, packet: Packet) {
        self.receiving.put_back(packet.slot());
    }

    /// A flush may have found packets, which make no descriptor readable any more.
    fn next_deadline(&self) -> Option<Instant> {
        (!self.arrivals.is_empty()).then_some(Instant::ZERO)
    }

    fn next_unreachable(&mut self) -> Option<Destination> {
        None
    }
}

impl Wait for OfiDatagram {
    fn prepare_wait(&mut self) {
        // What is there already is taken in by the receive that follows.
        self.endpoint.prepare_wait();
    }

    fn finish_wait(&mut self) {}

    fn wait_descriptors(&self) -> Vec<RawFd> {
        self.endpoint.descriptor().into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use farcall_driver::conformance::until;

    use super::*;

    fn driver() -> Result<OfiDatagram, OfiError> {
        let local = Some(core::net::IpAddr::V4(core::net::Ipv4Addr::LOCALHOST));
        OfiDatagram::open(&OfiDatagramConfig {
            provider: Some("udp".to_owned()),
            local,
            mtu_bytes: None,
            tx_depth: 1,
            rx_depth: 64,
            inject_bytes: 0,
            may_sleep: true,
        })
    }

    #[test]
    fn packets_that_a_flush_has_found_are_a_reason_to_receive() {
        let (mut near, mut far) = match (driver(), driver()) {
            (Ok(near), Ok(far)) => (near, far),
            (Err(why), _) | (_, Err(why)) => return println!("not tested: {why}"),
        };
        let (to_far, to_near) =
            (near.resolve(&far.address()).expect("an address"), far.resolve(&near.address()).expect("one"));
        assert_eq!(near.next_deadline(), None);
        until("a flush finds a packet", || {
            // Queues that are full empty themselves.
            let _full = (far.send(to_near, 0, &[b"packet"]), near.send(to_far, 0, &[b"packet"]));
            far.flush();
            near.flush();
            (!near.arrivals.is_empty()).then_some(())
        });
        assert_eq!(near.next_deadline(), Some(Instant::ZERO));
    }
}
