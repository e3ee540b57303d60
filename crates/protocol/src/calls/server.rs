//! One call of the peer's after another, in one slot.
//!
//! ```text
//! any ──supersede──▶ Expected ──receive──▶ Receiving ──run──▶ Running ──answer──▶ Answered ──forget──▶ Forgotten
//!                        └──────────────run───────────────────▶┘
//! Receiving ──expect_again──▶ Expected
//! ```
//!
//! A request runs on the way out of Expected or Receiving, and a slot comes to Expected only with a number
//! higher than all before. That is the whole of "at most once": what was run, answered or forgotten stays so.

use super::assembly::Assembly;
use super::event::Payload;
use super::sending::Sending;
use super::upkeep::Upkeep;

/// Where a call of the peer's stands.
#[derive(Debug)]
pub(super) enum ServerState {
    /// The peer is done with it, and with all before.
    Forgotten,
    /// Its number is known, but none of its bytes.
    Expected,
    /// A part of the request is here.
    Receiving(Box<Assembly>),
    /// The handler has it.
    Running,
    /// The result is kept until the peer is done with it.
    Answered,
}

/// The place of one call after another.
#[derive(Debug)]
pub(super) struct ServerSlot<B> {
    pub(super) state: ServerState,
    /// The highest number seen.
    pub(super) sequence: u64,
    pub(super) upkeep: Upkeep,
    pub(super) response: Sending<B>,
}

impl<B> Default for ServerSlot<B> {
    fn default() -> Self {
        Self {
            state: ServerState::Forgotten,
            sequence: 0,
            upkeep: Upkeep::default(),
            response: Sending::default(),
        }
    }
}

impl<B: AsRef<[u8]>> ServerSlot<B> {
    /// Any → Expected, by a higher number. The peer is done with the former call; gives back what was here of
    /// it.
    #[inline]
    #[must_use = "the policy must learn that the request does not arrive any more"]
    pub(super) fn supersede(&mut self, sequence: u64) -> Option<Box<Assembly>> {
        debug_assert!(sequence > self.sequence);
        self.sequence = sequence;
        self.leave(ServerState::Expected)
    }

    /// Expected → Receiving.
    pub(super) fn receive(&mut self, request: Box<Assembly>) {
        debug_assert!(matches!(self.state, ServerState::Expected));
        self.upkeep.heard();
        self.state = ServerState::Receiving(request);
    }

    /// Expected or Receiving → Running; gives the request back if it came in pieces.
    #[inline]
    #[must_use = "the policy must learn that the request does not arrive any more"]
    pub(super) fn run(&mut self) -> Option<Box<Assembly>> {
        debug_assert!(matches!(self.state, ServerState::Expected | ServerState::Receiving(_)));
        let request = match core::mem::replace(&mut self.state, ServerState::Running) {
            ServerState::Receiving(request) => Some(request),
            _ => None,
        };
        self.upkeep.renew();
        request
    }

    /// Running → Answered.
    #[inline(always)]
    pub(super) fn answer(&mut self, status: u16, payload: Payload<'_, B>) {
        debug_assert!(matches!(self.state, ServerState::Running));
        self.upkeep.renew();
        self.response.load(status, payload);
        self.state = ServerState::Answered;
    }

    /// Running or Answered → Expected: what no correct server does. For [`Rule::AtMostOnce`] left out.
    ///
    /// [`Rule::AtMostOnce`]: farcall_base::canary::Rule::AtMostOnce
    pub(super) fn run_again(&mut self) {
        if matches!(self.state, ServerState::Running | ServerState::Answered) {
            self.state = ServerState::Expected;
        }
    }

    /// Receiving → Expected: the rest did not come. Gives back what was here.
    #[must_use = "the policy must learn that the request does not arrive any more"]
    pub(super) fn expect_again(&mut self) -> Option<Box<Assembly>> {
        debug_assert!(matches!(self.state, ServerState::Receiving(_)));
        self.leave(ServerState::Expected)
    }

    /// Any → Forgotten: the peer is done with the call, answered or not. Gives back what was here of the
    /// request.
    #[must_use = "the policy must learn that the request does not arrive any more"]
    pub(super) fn forget(&mut self) -> Option<Box<Assembly>> {
        self.leave(ServerState::Forgotten)
    }

    #[inline(always)]
    fn leave(&mut self, next: ServerState) -> Option<Box<Assembly>> {
        let request = match core::mem::replace(&mut self.state, next) {
            ServerState::Receiving(request) => Some(request),
            _ => None,
        };
        self.response.clear();
        self.upkeep.renew();
        request
    }

    /// The request under construction.
    pub(super) fn request_mut(&mut self) -> Option<&mut Assembly> {
        match &mut self.state {
            ServerState::Receiving(request) => Some(request),
            _ => None,
        }
    }

    /// Whether bytes are kept, or a handler is to answer. A call that is only expected may have been
    /// cancelled before any of its bytes arrived, and costs nothing.
    pub(super) fn holds_anything(&self) -> bool {
        !matches!(self.state, ServerState::Forgotten | ServerState::Expected)
    }

    /// Bytes held for the peer: its request under construction, its result, and memory for the next result.
    #[inline]
    pub(super) fn held_bytes(&self) -> usize {
        let request = match &self.state {
            ServerState::Receiving(request) => request.total() as usize,
            _ => 0,
        };
        request + self.response.held_bytes()
    }

    /// Frees memory that is stored for the next result.
    pub(super) fn drop_spare(&mut self) {
        if !matches!(self.state, ServerState::Answered) {
            self.response.drop_spare();
        }
    }
}
