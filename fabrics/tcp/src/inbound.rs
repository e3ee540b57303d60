//! In: the bytes of a connection to messages.

use core::mem::MaybeUninit;
use std::collections::VecDeque;
use std::sync::Arc;

use farcall_transport::{ARRIVAL_HEAD_BYTES_MAX, Spares, split_composed};

use crate::arrival::{Body, COPIED_BYTES_MAX, HeadBytes, TcpArrival};
use crate::frame::{Frame, FrameFault, PREAMBLE, STREAMS_MAX, check_preamble, parse};

/// A long message that comes in pieces.
struct Assembly {
    stream: u8,
    head: HeadBytes,
    total: usize,
    memory: Vec<u8>,
}

/// A piece of which more comes.
#[derive(Clone, Copy)]
struct Piece {
    /// The place of its message in `assemblies`.
    place: usize,
    /// Bytes that have not come.
    rest: usize,
}

/// What has come of a connection and is no message yet.
#[derive(Default)]
pub struct Inbound {
    is_greeted: bool,
    /// The beginning of a frame.
    fragment: Vec<u8>,
    assemblies: Vec<Assembly>,
    piece: Option<Piece>,
}

/// Where messages go, and what they may be.
pub struct Intake<'a> {
    /// The number of the connection.
    pub from: u32,
    pub payload_bytes_max: usize,
    /// Whether nothing behind the first message is looked at.
    pub is_first_only: bool,
    /// Memory to use again.
    pub spares: &'a mut Spares,
    pub arrivals: &'a mut VecDeque<TcpArrival>,
}

impl Inbound {
    /// The beginning of a frame, which belongs before what comes next.
    pub fn fragment(&self) -> &[u8] {
        &self.fragment
    }

    /// Whether more of a piece is to come.
    pub fn is_in_a_piece(&self) -> bool {
        self.piece.is_some()
    }

    /// Memory for the next bytes of a piece that is being received: they can be read where they belong.
    pub fn place(&mut self) -> Option<&mut [MaybeUninit<u8>]> {
        let piece = self.piece?;
        Some(&mut self.assemblies[piece.place].memory.spare_capacity_mut()[..piece.rest])
    }

    /// The first `count` bytes of [`Inbound::place`] were written.
    ///
    /// # Safety
    /// They were.
    #[expect(unsafe_code, reason = "the length of memory that the kernel wrote")]
    pub unsafe fn wrote_to_place(&mut self, count: usize, intake: &mut Intake<'_>) {
        let Some(piece) = self.piece else { return };
        let memory = &mut self.assemblies[piece.place].memory;
        assert!(count <= piece.rest, "no more than the place has");
        // SAFETY: the caller wrote `count` bytes behind the length, and the place ends within the capacity.
        unsafe { memory.set_len(memory.len() + count) };
        self.went_on(piece, count, intake);
    }

    /// Takes in what was read: the bytes of `buffer` from `begin` to `end`, with the fragment in front.
    pub fn take_in(
        &mut self,
        buffer: &Arc<Vec<u8>>,
        begin: usize,
        end: usize,
        intake: &mut Intake<'_>,
    ) -> Result<(), FrameFault> {
        self.fragment.clear();
        let mut at = begin;
        if !self.is_greeted {
            if !check_preamble(&buffer[at..end])? {
                self.fragment.extend_from_slice(&buffer[at..end]);
                return Ok(());
            }
            self.is_greeted = true;
            at += PREAMBLE.len();
        }
        while at < end {
            if intake.is_first_only && !intake.arrivals.is_empty() {
                self.fragment.extend_from_slice(&buffer[at..end]);
                break;
            }
            if let Some(piece) = self.piece {
                let count = piece.rest.min(end - at);
                self.assemblies[piece.place].memory.extend_from_slice(&buffer[at..at + count]);
                self.went_on(piece, count, intake);
                at += count;
                continue;
            }
            let Some((frame, bytes)) = parse(&buffer[at..end])? else {
                self.fragment.extend_from_slice(&buffer[at..end]);
                break;
            };
            match frame {
                Frame::Whole(message) => whole(message, buffer, at + bytes, intake)?,
                Frame::Long { stream, bytes, head } => self.announce(stream, bytes, head, intake)?,
                Frame::Piece { stream, bytes } => self.begin_piece(stream, bytes)?,
            }
            at += bytes;
        }
        Ok(())
    }

    fn announce(
        &mut self,
        stream: u8,
        bytes: usize,
        head: &[u8],
        intake: &mut Intake<'_>,
    ) -> Result<(), FrameFault> {
        let is_taken = self.assemblies.iter().any(|assembly| assembly.stream == stream);
        if is_taken || bytes == 0 || self.assemblies.len() == STREAMS_MAX {
            return Err(FrameFault::Malformed);
        }
        if bytes > intake.payload_bytes_max {
            return Err(FrameFault::TooLong);
        }
        let mut memory = intake.spares.take(bytes);
        memory.try_reserve_exact(bytes).map_err(|_| FrameFault::NoMemory)?;
        self.assemblies.push(Assembly { stream, head: HeadBytes::copy(head), total: bytes, memory });
        Ok(())
    }

    fn begin_piece(&mut self, stream: u8, bytes: usize) -> Result<(), FrameFault> {
        let place = self.assemblies.iter().position(|assembly| assembly.stream == stream);
        let place = place.ok_or(FrameFault::Malformed)?;
        let assembly = &self.assemblies[place];
        if bytes > assembly.total - assembly.memory.len() {
            return Err(FrameFault::Malformed);
        }
        self.piece = Some(Piece { place, rest: bytes });
        Ok(())
    }

    /// More of a piece came.
    fn went_on(&mut self, piece: Piece, count: usize, intake: &mut Intake<'_>) {
        if count < piece.rest {
            self.piece = Some(Piece { rest: piece.rest - count, ..piece });
            return;
        }
        self.piece = None;
        let assembly = &self.assemblies[piece.place];
        if assembly.memory.len() == assembly.total {
            let Assembly { head, memory, .. } = self.assemblies.swap_remove(piece.place);
            let body = Body::Long { head, payload: memory.into() };
            intake.arrivals.push_back(TcpArrival { from: intake.from, body });
        }
    }
}

/// A message that ends at `end` of the buffer.
#[inline]
fn whole(
    message: &[u8],
    buffer: &Arc<Vec<u8>>,
    end: usize,
    intake: &mut Intake<'_>,
) -> Result<(), FrameFault> {
    let (head, payload) = split_composed(message).ok_or(FrameFault::Malformed)?;
    if head.len() > ARRIVAL_HEAD_BYTES_MAX {
        return Err(FrameFault::Malformed);
    }
    if payload.len() > intake.payload_bytes_max {
        return Err(FrameFault::TooLong);
    }
    let body = if message.len() <= COPIED_BYTES_MAX {
        let mut copy = intake.spares.take(message.len());
        copy.extend_from_slice(message);
        Body::Copied(copy)
    } else {
        Body::InBuffer { buffer: Arc::clone(buffer), begin: end - message.len(), end }
    };
    intake.arrivals.push_back(TcpArrival { from: intake.from, body });
    Ok(())
}
