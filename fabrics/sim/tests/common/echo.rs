//! An echo without a protocol: requests of one packet, answers of as many as they take.

use std::sync::{Arc, Mutex};

use farcall_base::Instant;
use farcall_driver::clock::Clock;
use farcall_driver::{Datagram, Destination, Packet};
use farcall_sim::{Host, Program, SimDatagram};

/// Bytes of a request: how long its answer shall be, and padding.
const REQUEST_BYTES: usize = 30;

/// Sends requests, and notes how long each took to its complete answer.
pub struct Client {
    driver: SimDatagram,
    clock: Clock,
    server: Destination,
    answer_bytes: usize,
    window: usize,
    calls_left: usize,
    /// Calls in flight in the order of their requests: when each was made, and what is missing of its answer.
    in_flight: Vec<(Instant, usize)>,
    times: Arc<Mutex<Vec<u64>>>,
    packets: Vec<Packet>,
}

impl Client {
    pub fn new(
        host: &Host,
        server: u32,
        answer_bytes: usize,
        window: usize,
        calls: usize,
        times: Arc<Mutex<Vec<u64>>>,
    ) -> Self {
        Self {
            driver: host.datagram(),
            clock: host.clock(),
            server: Destination(server),
            answer_bytes,
            window,
            calls_left: calls,
            in_flight: Vec::new(),
            times,
            packets: Vec::new(),
        }
    }
}

impl Program for Client {
    fn turn(&mut self) -> usize {
        let received = self.driver.receive(&mut self.packets);
        for packet in self.packets.drain(..) {
            let (began, missing) = self.in_flight.first_mut().expect("an answer to a call");
            *missing -= packet.len();
            if *missing == 0 {
                self.times.lock().expect("no panic").push((self.clock.now() - *began).as_nanos() as u64);
                self.in_flight.remove(0);
            }
            self.driver.release(packet);
        }
        let mut sent = 0;
        while self.in_flight.len() < self.window && self.calls_left > 0 {
            let mut request = [0; REQUEST_BYTES];
            request[..8].copy_from_slice(&(self.answer_bytes as u64).to_le_bytes());
            self.in_flight.push((self.clock.now(), self.answer_bytes));
            self.driver.send(self.server, 0, &[&request]).expect("a short window");
            (self.calls_left, sent) = (self.calls_left - 1, sent + 1);
        }
        self.driver.flush();
        received + sent
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }
}

/// Answers requests, as fast as the send queue takes it.
pub struct Server {
    host: Host,
    driver: SimDatagram,
    /// To whom, and how many bytes.
    owed: Vec<(Destination, usize)>,
    packets: Vec<Packet>,
}

impl Server {
    pub fn new(host: &Host) -> Self {
        Self { host: host.clone(), driver: host.datagram(), owed: Vec::new(), packets: Vec::new() }
    }
}

impl Program for Server {
    fn turn(&mut self) -> usize {
        let received = self.driver.receive(&mut self.packets);
        for packet in self.packets.drain(..) {
            let bytes = u64::from_le_bytes(packet[..8].try_into().expect("a request")) as usize;
            self.host.spend_handler();
            self.owed.push((packet.source(), bytes));
            self.driver.release(packet);
        }
        let mtu_bytes = self.driver.limits().mtu_bytes;
        let payload = vec![0; mtu_bytes];
        let mut sent = 0;
        while let Some((to, bytes)) = self.owed.first_mut() {
            let next = mtu_bytes.min(*bytes);
            if self.driver.send(*to, 0, &[&payload[..next]]).is_err() {
                break;
            }
            // Handed over one by one, so that the card works while the processor does.
            self.driver.flush();
            sent += 1;
            *bytes -= next;
            if *bytes == 0 {
                self.owed.remove(0);
            }
        }
        received + sent
    }

    fn next_deadline(&self) -> Option<Instant> {
        (!self.owed.is_empty()).then_some(Instant::ZERO)
    }
}
