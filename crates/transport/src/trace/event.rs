//! The numbers of the events and what they mean.

use farcall_driver::trace::EventDescription;

/// At the caller, in the order of a call's life; see [`CALL_EVENTS`] as for all of these.
pub const SUBMITTED: u16 = 0x200;
/// The transport's number for a call.
pub const NAMED: u16 = 0x201;
/// The request went to the driver.
pub const REQUEST_TRANSMITTED: u16 = 0x202;
/// The response was found.
pub const RESPONSE_RECEIVED: u16 = 0x203;
/// The caller was told.
pub const COMPLETED: u16 = 0x204;
/// At the server: the request was found.
pub const REQUEST_RECEIVED: u16 = 0x210;
/// The request is whole and its turn has come.
pub const DISPATCHED: u16 = 0x211;
/// The handler begins.
pub const HANDLER_BEGUN: u16 = 0x212;
/// The answer was given.
pub const REPLIED: u16 = 0x213;
/// The handler has returned.
pub const HANDLER_ENDED: u16 = 0x214;
/// The response went to the driver.
pub const RESPONSE_TRANSMITTED: u16 = 0x215;
/// At the sender of a tagged message, in the order of its life; see [`MESSAGE_EVENTS`].
pub const MESSAGE_SUBMITTED: u16 = 0x220;
/// The call that carries a message.
pub const MESSAGE_NAMED: u16 = 0x221;
/// The message went to the driver or the library.
pub const MESSAGE_TRANSMITTED: u16 = 0x222;
/// At the receiver: a poll found the message.
pub const MESSAGE_RECEIVED: u16 = 0x230;
/// A receive or the handler gets it.
pub const MESSAGE_MATCHED: u16 = 0x231;
/// The receiver has it.
pub const MESSAGE_COMPLETED: u16 = 0x232;
/// The peer's call that carried a message which is whole.
pub const ARRIVED_AS: u16 = 0x233;

/// What the events mean. All but one have the call's number on the wire and the low 16 bits of the session's
/// number.
pub const CALL_EVENTS: &[EventDescription] = &[
    describe(SUBMITTED, "submitted", "The caller made a call; its own number; session"),
    describe(NAMED, "named", "The caller's own number (in place of a time) of a call; session"),
    describe(REQUEST_TRANSMITTED, "request-transmitted", "The driver got the request; call; session"),
    describe(RESPONSE_RECEIVED, "response-received", "A poll found the response; call; session"),
    describe(COMPLETED, "completed", "The outcome goes to the caller; its own number; session"),
    describe(REQUEST_RECEIVED, "request-received", "A poll found the request; call; session"),
    describe(DISPATCHED, "dispatched", "The request goes to the endpoint; call; session"),
    describe(HANDLER_BEGUN, "handler-begun", "Its handler begins; call; session"),
    describe(
        REPLIED,
        "replied",
        "The answer was given, and its handler has returned if that holds it back; call; session",
    ),
    describe(HANDLER_ENDED, "handler-ended", "The handler has returned; call; session"),
    describe(RESPONSE_TRANSMITTED, "response-transmitted", "The driver got the response; call; session"),
];

/// What the events of tagged messages mean. All but two have the message's number among those of its session
/// and direction, from 0, and the low 16 bits of the session's number. Over packets the events of calls stand
/// for transmission and receipt.
pub const MESSAGE_EVENTS: &[EventDescription] = &[
    describe(MESSAGE_SUBMITTED, "message-submitted", "A message was given to the transport; number; session"),
    describe(
        MESSAGE_NAMED,
        "message-named",
        "The number (in place of a time) of the message that a call carries; call; session",
    ),
    describe(
        MESSAGE_TRANSMITTED,
        "message-transmitted",
        "The driver or the library got the message; number; session",
    ),
    describe(MESSAGE_RECEIVED, "message-received", "A poll found the message; number; session"),
    describe(MESSAGE_MATCHED, "message-matched", "A receive or the handler gets it; number; session"),
    describe(
        MESSAGE_COMPLETED,
        "message-completed",
        "Its callback or handler has returned, or its future has it; number; session",
    ),
    describe(
        ARRIVED_AS,
        "message-arrived-as",
        "The number (in place of a time) of the message that a peer's call carried; call; session",
    ),
];

const fn describe(event: u16, name: &'static str, doc: &'static str) -> EventDescription {
    EventDescription { event, name, doc }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_described_once_and_in_range() {
        let events = || CALL_EVENTS.iter().chain(MESSAGE_EVENTS);
        for description in events() {
            assert!((0x200..0x300).contains(&description.event), "{} is out of range", description.name);
            let same = |other: &&EventDescription| {
                other.event == description.event || other.name == description.name
            };
            assert_eq!(events().filter(same).count(), 1, "{}", description.name);
        }
    }
}
