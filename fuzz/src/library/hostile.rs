//! The hostile peer: puts letters into its victim's mailbox, and reads what the victim sends it.
//!
//! Most of them are nearly right, because nearly right gets further: they name the session, and their numbers
//! are the next ones or close to these.

use std::collections::BTreeSet;

use farcall_protocol::matching::{lines, lines_max};
use farcall_protocol::wire::{
    BATCH_ENTRY_BYTES, Batch, BriefHead, CallKey, Flags, Head, Header, MessagePacket, Protocol, TaggedPacket,
    WireSession, put_entry, put_tagged, put_whole,
};
use farcall_transport::post::{Counter, Letter, Post};
use farcall_transport::{CallId, LibraryTransport, Outbox, Service, SessionId, Submitted};

use super::{CONFIG, WINDOW_LINES};
use crate::input::Input;

/// The mailboxes of victim and hostile peer.
const VICTIM: usize = 0;
const OWN: usize = 2;

/// What the messages of a packet count at most: a line each and their bytes, of which it has no more than the
/// victim takes. Whose messages are received one after the other may send more in a packet than the window
/// has, as each is reported to it.
const PACKET_LINES_MAX: u32 = CONFIG.message_bytes_max / BATCH_ENTRY_BYTES as u32;

/// The most messages of a batch that is made on purpose.
const ENTRIES_MAX: u8 = 12;

/// The code of the notice before a message that is not counted.
const BEYOND: u8 = 4;

pub struct Hostile {
    post: Post,
    /// Brought the session up, and keeps it so by not saying good-bye.
    _lured: LibraryTransport<Counter>,
    /// The session's number at the victim.
    session: WireSession,
    /// The number of the next packet with messages that the victim will take, and those of packets that are
    /// ahead of it.
    next: u32,
    ahead: BTreeSet<u32>,
    /// Packets with messages that it has sent, whatever their numbers.
    sent: u32,
    /// Lines of messages that the victim has sent, and that it was told were consumed.
    lines_sent: u32,
    lines_released: u32,
    packets_read: u32,
    /// Whether the message of the next packet is not counted.
    is_next_beyond: bool,
    calls: Vec<CallKey>,
    pub responses_read: usize,
}

impl Hostile {
    /// Takes the session of `lured` over, which is up.
    pub fn new(post: Post, mut lured: LibraryTransport<Counter>, session: SessionId) -> Self {
        // A call that never arrives says by which number the victim knows the session.
        let call = lured.call(session, CallId(0), Service(0), b"");
        assert_eq!(call, Submitted::Sent, "the session is up");
        let letter = post.boxes()[VICTIM].letters.pop_back().expect("it was sent");
        let header = Header::parse(&letter.head).expect("it is well formed");
        Self {
            post,
            _lured: lured,
            session: header.session,
            next: 0,
            ahead: BTreeSet::new(),
            sent: 0,
            lines_sent: 0,
            lines_released: 0,
            packets_read: 0,
            is_next_beyond: false,
            calls: Vec::new(),
            responses_read: 0,
        }
    }

    fn put(&mut self, head: &[u8], payload: Vec<u8>) {
        let letter = Letter { head: head.to_vec(), payload };
        self.post.boxes()[VICTIM].letters.push_back(letter);
    }

    /// A message, a batch of them, or credit.
    pub fn send_tagged(&mut self, input: &mut Input<'_>) {
        let shape = input.u8();
        let number = match shape >> 4 {
            0 => input.u64() as u32,
            1..=3 => self.next.wrapping_add(u32::from(input.u8() % 50)),
            _ => self.next,
        };
        let (packet, payload) = match shape % 8 {
            0 => (self.credit(input), Vec::new()),
            1..=3 => {
                let tag = farcall_transport::Tag(u32::from(input.u8() % 16));
                let length = usize::from(input.u16() % if shape & 8 == 0 { 100 } else { 2100 });
                (TaggedPacket::One { number, tag }, vec![3; length])
            }
            4 => {
                let (code, tag) = (1 + input.u8() % 8, farcall_transport::Tag(u32::from(input.u8() % 16)));
                let lines = u32::from(input.u8() % 40);
                (TaggedPacket::Notice { number, code, tag }, lines.to_le_bytes().to_vec())
            }
            _ => (TaggedPacket::Batch { number }, batch(input)),
        };
        if !matches!(packet, TaggedPacket::Credit { .. }) {
            self.count_sent(number);
        }
        if let TaggedPacket::One { number, tag } = packet
            && payload.len().is_multiple_of(2)
        {
            return self.put(&BriefHead { session: self.session, number, tag }.to_bytes(), payload);
        }
        let mut head = Head::new();
        put_tagged(&mut head, self.session, packet);
        self.put(head.as_bytes(), payload);
    }

    /// A packet with messages goes: it may be the next, or fill a gap before others.
    fn count_sent(&mut self, number: u32) {
        self.sent += 1;
        self.ahead.insert(number);
        while self.ahead.remove(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
    }

    /// Says that all was consumed, or a part, or anything.
    fn credit(&mut self, input: &mut Input<'_>) -> TaggedPacket {
        let limit = if input.u8() == 0 { u32::from(input.u16()).max(1) } else { WINDOW_LINES };
        let consumed = match input.u8() % 4 {
            0 => input.u64() as u32,
            1 => self.lines_released + self.lines_sent.saturating_sub(self.lines_released) / 2,
            _ => self.lines_sent,
        };
        // What is more than was sent ends the session, and what is less than before as well. More may have
        // been sent than was read, and until the victim polls, but no more than the window: then it holds.
        let may_hold = consumed <= self.lines_released.saturating_add(WINDOW_LINES);
        self.lines_released = self.lines_released.max(if may_hold { consumed } else { self.lines_sent });
        let (reads_brief, reads_notices) = (consumed.is_multiple_of(2), consumed.is_multiple_of(3));
        TaggedPacket::Credit { reads_brief, reads_notices, consumed, limit }
    }

    /// A request, or an answer to a call that was made or was not.
    pub fn send_call(&mut self, input: &mut Input<'_>) {
        let shape = input.u8();
        let length = usize::from(input.u16() % 2100);
        let mut head = Head::new();
        if shape.is_multiple_of(2) {
            let call = CallKey::from_wire(u64::from(shape));
            put_whole(&mut head, Flags::FROM_CALLER, self.session, call, u16::from(shape >> 1));
        } else {
            let call = self.calls.pop().unwrap_or(CallKey::from_wire(u64::from(shape)));
            put_whole(&mut head, Flags::NONE, self.session, call, u16::from(shape >> 5));
        }
        self.put(head.as_bytes(), vec![4; length]);
    }

    /// Sends anything.
    pub fn scribble(&mut self, input: &mut Input<'_>) {
        let (head_bytes, bytes) = (usize::from(input.u8() % 65), usize::from(input.u8()));
        let head = input.bytes(head_bytes).to_vec();
        let payload = input.bytes(bytes).to_vec();
        self.put(&head, payload);
    }

    /// Reads all that the victim has sent.
    pub fn read_all(&mut self) {
        loop {
            let Some(letter) = self.post.boxes()[OWN].letters.pop_front() else { return };
            self.read(&letter);
        }
    }

    fn read(&mut self, letter: &Letter) {
        if let Some(brief) = BriefHead::parse(&letter.head) {
            self.read_single(brief.number, &letter.payload);
            return self.check_window();
        }
        let header = Header::parse(&letter.head).expect("the victim sends headers that are in order");
        if header.opcode.is_of_session() {
            return;
        }
        let tagged = TaggedPacket::parse(&header, &letter.head).expect("farcall sends what it can read");
        match tagged {
            Some(TaggedPacket::One { number, .. }) => self.read_single(number, &letter.payload),
            Some(TaggedPacket::Notice { number, code, .. }) => {
                self.count_read(number);
                self.is_next_beyond = code == BEYOND;
            }
            Some(TaggedPacket::Batch { number }) => {
                self.count_read(number);
                for entry in Batch::new(&letter.payload) {
                    let (_, message) = entry.expect("a batch of whole messages");
                    self.lines_sent += lines(message.len()).min(lines_max(WINDOW_LINES));
                }
            }
            Some(TaggedPacket::Credit { consumed, limit, .. }) => {
                let arrived_max = self.sent * PACKET_LINES_MAX;
                assert!(
                    limit == WINDOW_LINES && consumed <= arrived_max,
                    "{consumed} lines, credit for nothing"
                );
            }
            None if header.flags.has(Flags::FROM_CALLER) => {
                let packet = MessagePacket::parse(&header, &letter.head, Protocol::Library);
                assert!(packet.is_ok(), "a request is well formed");
                self.calls.push(header.call);
            }
            None => self.responses_read += 1,
        }
        self.check_window();
    }

    fn read_single(&mut self, number: u32, message: &[u8]) {
        self.count_read(number);
        if !core::mem::take(&mut self.is_next_beyond) {
            self.lines_sent += lines(message.len()).min(lines_max(WINDOW_LINES));
        }
    }

    fn check_window(&self) {
        let unread = self.lines_sent.saturating_sub(self.lines_released);
        assert!(unread <= WINDOW_LINES, "{unread} lines are in flight, {WINDOW_LINES} were offered");
    }

    fn count_read(&mut self, number: u32) {
        assert_eq!(number, self.packets_read, "packets are numbered one after the other");
        self.packets_read += 1;
    }
}

/// Some messages, perhaps with an end that is missing or too much.
fn batch(input: &mut Input<'_>) -> Vec<u8> {
    let mut batch = Vec::new();
    let entries = input.u8();
    for _ in 0..entries % ENTRIES_MAX {
        let shape = input.u8();
        let length = usize::from(shape >> 4) * if shape & 8 == 0 { 1 } else { 30 };
        // Some are all for a receiver that asks for one after the other.
        let tag = if entries >= 0xc0 { 0 } else { shape % 8 };
        put_entry(&mut batch, farcall_transport::Tag(u32::from(tag)), &vec![2; length]);
    }
    match input.u8() {
        0 => batch.truncate(usize::from(input.u16())),
        1 => batch.extend_from_slice(input.bytes(20)),
        _ => {}
    }
    batch
}
