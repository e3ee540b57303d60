//! In: which connections are read, and into what.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::connection::{Found, Origin, Phase, READ_BYTES};
use crate::endpoint::{LISTENER, Tcp};
use crate::frame::{FRAME_HEADER_BYTES, WHOLE_BYTES_MAX};
use crate::inbound::Intake;

/// Memory for one read: the beginning of a frame, and what the read brings.
const BUFFER_BYTES: usize = FRAME_HEADER_BYTES + WHOLE_BYTES_MAX + READ_BYTES;

/// Nothing more is read while so many messages wait to be looked at.
pub const ARRIVALS_MAX: usize = 64;

/// The longest message by which a stranger introduces itself: an OPEN with the longest address.
const INTRODUCTION_BYTES_MAX: usize = 4 << 10;

/// Connections that are read without asking whether there is something: those that had something last.
const HOT_MAX: usize = 2;

impl Tcp {
    /// Reads a connection once; says whether there was something.
    #[inline]
    pub(crate) fn read(&mut self, number: u32) -> bool {
        let Some(connection) = self.connections.get_mut(number) else { return false };
        if Arc::get_mut(&mut self.buffer).is_none() {
            replace_buffer(&mut self.buffer, &mut self.lent_buffers);
        }
        let is_stranger = connection.origin == Origin::Stranger;
        let is_ending = matches!(connection.phase, Phase::Ending { .. });
        if is_ending {
            return self.read_and_drop(number);
        }
        if is_stranger && connection.has_introduced {
            // It is not watched for bytes: this is an error, or its end.
            self.end(number);
            return true;
        }
        let before = self.arrivals.len();
        let mut first = VecDeque::new();
        let mut intake = Intake {
            from: number,
            payload_bytes_max: if is_stranger {
                INTRODUCTION_BYTES_MAX
            } else {
                self.config.payload_bytes_max
            },
            is_first_only: is_stranger,
            spares: &mut self.spares,
            arrivals: if is_stranger { &mut first } else { &mut self.arrivals },
        };
        let in_place = connection.inbound.is_in_a_piece();
        let found = connection.receive(&mut self.buffer, &mut intake);
        if let Some(introduction) = first.pop_front() {
            self.arrivals.push_back(introduction);
            connection.has_introduced = true;
            // What comes behind is looked at when it is known.
            let _ = self.poller.rest(connection.stream.file(), number, true);
        }
        self.arrived += (self.arrivals.len() - before) as u64;
        match found {
            Ok(Found::Nothing) => return false,
            Ok(Found::Something(bytes)) => {
                self.counters.receive_calls.increment();
                self.counters.reads_in_place.add(u64::from(in_place && self.secured.is_none()));
                self.counters.bytes_received.add(bytes as u64);
                if !is_stranger {
                    self.heat(number);
                }
                if self.secured.is_some() {
                    // Perhaps it may go on, or has to answer.
                    self.list(number);
                }
            }
            Ok(Found::End) => self.end(number),
            Err(why) => self.lose(number, &why),
        }
        true
    }

    /// Of a connection that was given up only the end matters.
    pub(crate) fn read_and_drop(&mut self, number: u32) -> bool {
        let Some(connection) = self.connections.get_mut(number) else { return false };
        let bytes = Arc::get_mut(&mut self.buffer).expect("it was replaced if somebody reads it");
        match connection.stream.read(&mut bytes[..READ_BYTES]) {
            Ok(None) => return false,
            Ok(Some(0)) | Err(_) => self.end(number),
            Ok(Some(_)) => {}
        }
        true
    }

    /// Notes that a connection had something.
    #[inline]
    pub(crate) fn heat(&mut self, number: u32) {
        if self.hot.first() != Some(&number) {
            self.hot.retain(|&hot| hot != number);
            self.hot.truncate(HOT_MAX - 1);
            self.hot.insert(0, number);
        }
    }

    /// Reads the hot connections, says whether one had something.
    #[inline]
    pub(crate) fn read_hot(&mut self) -> bool {
        let mut any = false;
        let mut place = 0;
        while let Some(&number) = self.hot.get(place) {
            any |= self.read(number);
            place += 1;
        }
        any
    }

    /// Reads all that have something, and accepts those who connect.
    pub(crate) fn look(&mut self) -> usize {
        let mut ready = core::mem::take(&mut self.ready);
        self.poller.look(&mut ready);
        let mut done = 0;
        for number in ready.drain(..) {
            if number == LISTENER {
                done += self.accept_all();
            } else if self.arrivals.len() < ARRIVALS_MAX && self.read(number) {
                done += 1;
            }
        }
        self.ready = ready;
        done
    }

    /// Goes on to read those that have introduced themselves.
    pub(crate) fn resume_all(&mut self) {
        for number in core::mem::take(&mut self.to_resume) {
            if Arc::get_mut(&mut self.buffer).is_none() {
                replace_buffer(&mut self.buffer, &mut self.lent_buffers);
            }
            let Some(connection) = self.connections.get_mut(number) else { continue };
            let before = self.arrivals.len();
            let mut intake = Intake {
                from: number,
                payload_bytes_max: self.config.payload_bytes_max,
                is_first_only: false,
                spares: &mut self.spares,
                arrivals: &mut self.arrivals,
            };
            let resumed = connection.resume(&mut self.buffer, &mut intake);
            self.arrived += (self.arrivals.len() - before) as u64;
            if let Err(why) = resumed {
                self.lose(number, &why);
            }
        }
    }
}

pub fn new_buffer() -> Arc<Vec<u8>> {
    Arc::new(vec![0; BUFFER_BYTES])
}

/// Takes a buffer that no arrival is in; the present one comes back to use when those in it are released.
fn replace_buffer(buffer: &mut Arc<Vec<u8>>, lent: &mut Vec<Arc<Vec<u8>>>) {
    let free = lent.iter_mut().position(|lent| Arc::get_mut(lent).is_some());
    let next = free.map_or_else(new_buffer, |place| lent.swap_remove(place));
    lent.push(core::mem::replace(buffer, next));
}
