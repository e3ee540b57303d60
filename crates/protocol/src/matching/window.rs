//! How much of a peer's messages may wait unexpected.
//!
//! Both sides count, in lines, what was sent and what was consumed: given to a receive or a handler. The
//! sender stays within the limit that the receiver announced when the session came up, and the receiver tells
//! from time to time how much was consumed. A message counts one line more than its bytes fill, for what is
//! kept beside them.

/// Bytes of a line.
pub const WINDOW_LINE_BYTES: usize = 64;

/// What a message of `bytes` bytes counts.
#[inline]
pub const fn lines(bytes: usize) -> u32 {
    1 + payload_lines(bytes)
}

/// What the bytes of a message count.
#[inline]
#[expect(
    clippy::manual_div_ceil,
    reason = "fewer instructions, and nothing is so long that the sum would overflow"
)]
pub const fn payload_lines(bytes: usize) -> u32 {
    ((bytes + (WINDOW_LINE_BYTES - 1)) / WINDOW_LINE_BYTES) as u32
}

/// The most that a single message may count within a limit. Up to a quarter of the limit may be consumed
/// without the sender being told, and what counts more than the rest could wait for ever.
#[inline]
pub const fn lines_max(limit: u32) -> u32 {
    limit - limit / 4
}

/// The longest message within a limit, in bytes: see [`lines_max`].
pub const fn message_bytes_max(limit: u32) -> usize {
    (lines_max(limit) as usize).saturating_sub(1) * WINDOW_LINE_BYTES
}

/// The peer counts otherwise than we do: more was sent than may be, or more consumed than was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrun;

/// The sender's side. Counts wrap.
#[derive(Clone, Copy, Debug, Default)]
pub struct SendWindow {
    limit: u32,
    /// How much of the limit is free: one number to look at and to change for each message.
    room: u32,
    consumed: u32,
}

impl SendWindow {
    /// Nothing was sent. `limit` is in lines.
    pub const fn new(limit: u32) -> Self {
        Self { limit, room: limit, consumed: 0 }
    }

    /// Whether a message that counts so much may be sent now.
    #[inline]
    pub const fn admits(&self, lines: u32) -> bool {
        lines <= self.room
    }

    /// A message was sent that [`SendWindow::admits`].
    #[inline]
    pub const fn send(&mut self, lines: u32) {
        self.room -= lines;
    }

    /// The receiver has consumed so much in all.
    pub const fn credit(&mut self, consumed: u32) -> Result<(), Overrun> {
        let gained = consumed.wrapping_sub(self.consumed);
        if gained > self.limit - self.room {
            return Err(Overrun);
        }
        self.room += gained;
        self.consumed = consumed;
        Ok(())
    }
}

/// The receiver's side. Counts wrap.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReceiveWindow {
    limit: u32,
    arrived: u32,
    consumed: u32,
    /// How much the sender was last told to be consumed.
    told: u32,
    /// How much is, or may yet come, beyond the limit. What is consumed next makes up for it, and is not told
    /// to the sender, which has not counted it either.
    beyond: u32,
}

impl ReceiveWindow {
    /// Nothing came. `limit` is in lines.
    pub const fn new(limit: u32) -> Self {
        Self { limit, arrived: 0, consumed: 0, told: 0, beyond: 0 }
    }

    /// Whether a message may come.
    #[inline]
    pub const fn admits(&self, lines: u32) -> bool {
        let arrived = self.arrived.wrapping_add(lines);
        arrived.wrapping_sub(self.told) as u64 <= self.limit as u64 + self.beyond as u64
    }

    /// A message came.
    #[inline]
    pub const fn arrive(&mut self, lines: u32) -> Result<(), Overrun> {
        if !self.admits(lines) {
            return Err(Overrun);
        }
        self.arrived = self.arrived.wrapping_add(lines);
        Ok(())
    }

    /// A message comes that its sender does not count.
    pub const fn exceed(&mut self, lines: u32) -> Result<(), Overrun> {
        if lines > lines_max(self.limit) {
            return Err(Overrun);
        }
        self.beyond = self.beyond.saturating_add(lines);
        Ok(())
    }

    /// Whether another message may come that its sender does not count: all of them together stay within a
    /// second limit, but for those that were granted at the same time.
    pub const fn may_exceed(&self) -> bool {
        self.beyond < self.limit
    }

    /// How much came that has not been consumed.
    #[inline]
    pub const fn unread(&self) -> u32 {
        self.arrived.wrapping_sub(self.consumed)
    }

    /// A message that came has been consumed.
    #[inline]
    pub const fn consume(&mut self, lines: u32) {
        if self.beyond > 0 {
            return self.make_up(lines);
        }
        self.consumed = self.consumed.wrapping_add(lines);
    }

    const fn make_up(&mut self, lines: u32) {
        let made_up = if lines < self.beyond { lines } else { self.beyond };
        self.beyond -= made_up;
        self.arrived = self.arrived.wrapping_sub(made_up);
        self.consumed = self.consumed.wrapping_add(lines - made_up);
    }

    /// Whether so much was consumed since the last credit that the next one is worth its cost.
    #[inline]
    pub const fn credit_is_due(&self) -> bool {
        self.consumed.wrapping_sub(self.told) >= self.limit / 4 && self.limit > 0
    }

    /// The credit to send now; counts as told.
    pub const fn take_credit(&mut self) -> u32 {
        self.told = self.consumed;
        self.consumed
    }
}
