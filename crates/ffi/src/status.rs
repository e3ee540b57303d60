//! How functions end: one number for each way, and a sentence for each number.

use core::ffi::{CStr, c_char};

use farcall::{CallError, CallRefused, DownReason, ReceiveError, SendError, SendRefused};

/// How a function or an operation ended. Numbers keep their meaning in later versions; new ones may be added.
#[allow(non_camel_case_types, clippy::upper_case_acronyms, reason = "names of C")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Status {
    /// It did what it should.
    FARCALL_OK = 0,

    /// An argument is null that must not be, a text is not UTF-8 or means nothing, or a number is out of
    /// range.
    FARCALL_INVALID_ARGUMENT = 1,
    /// The program was compiled with a header that this library does not serve.
    FARCALL_VERSION_MISMATCH = 2,
    /// The endpoint belongs to another thread: the one that opened it.
    FARCALL_WRONG_THREAD = 3,
    /// The endpoint was opened by the parent of this process, before a fork.
    FARCALL_FORKED = 4,
    /// The function polls or waits, and so cannot be called inside a callback.
    FARCALL_IN_CALLBACK = 5,
    /// Something that was made from the handle is still open; close that first.
    FARCALL_IN_USE = 6,
    /// The library failed in a way that it should not. The operation may have happened.
    FARCALL_PANICKED = 7,
    /// The request has its reply, or was deferred.
    FARCALL_ALREADY_REPLIED = 8,
    /// The operating system refused something that is needed.
    FARCALL_RESOURCES = 9,
    /// There is no such transport.
    FARCALL_UNKNOWN_TRANSPORT = 10,
    /// A parameter has no such name or value.
    FARCALL_SETTINGS = 11,
    /// The process has no place in its cluster, or the registry cannot be reached.
    FARCALL_BOOTSTRAP = 12,

    /// The deadline passed. What was asked for may have happened, or happen yet.
    FARCALL_TIMED_OUT = 20,
    /// It was cancelled.
    FARCALL_CANCELLED = 21,
    /// The operation cannot be cancelled any more, and will complete.
    FARCALL_TOO_LATE = 22,
    /// The operation had completed before.
    FARCALL_OVER = 23,

    /// The peer's process ended, or it was silent for longer than the limit.
    FARCALL_PEER_DEAD = 30,
    /// The peer closed the session.
    FARCALL_PEER_CLOSED = 31,
    /// The peer was restarted; the session belonged to its former life.
    FARCALL_PEER_RESTARTED = 32,
    /// Nothing answers at the peer's address.
    FARCALL_PEER_UNREACHABLE = 33,
    /// The session to the peer ended for another reason: the network is broken, or a side broke the protocol.
    FARCALL_PEER_FAILED = 34,
    /// The session to the peer is down; connect again. Nothing was sent.
    FARCALL_NOT_CONNECTED = 35,
    /// The peer is not known.
    FARCALL_UNKNOWN_PEER = 36,
    /// No server listens under the name, as far as is known, or none could be reached. Nothing ran.
    FARCALL_NO_SERVER = 37,

    /// The peer does not serve this service.
    FARCALL_UNKNOWN_SERVICE = 40,
    /// The server is leaving and takes no more requests; nothing ran.
    FARCALL_LEAVING = 41,
    /// The peer's handler gave no answer.
    FARCALL_ABANDONED = 42,
    /// The peer's handler ran, but its answer was longer than the session carries.
    FARCALL_ANSWER_TOO_LONG = 43,
    /// The peer's handler refused, with a code that it chose.
    FARCALL_REFUSED = 44,
    /// Longer than the session carries; nothing was sent.
    FARCALL_TOO_LONG = 45,
    /// Too many operations are in flight; complete some first. Nothing was sent.
    FARCALL_TOO_MANY = 46,
    /// What arrived is longer than the memory for it.
    FARCALL_TRUNCATED = 47,
    /// The policy of the peer, or of the store, does not allow it. Nothing ran, and nothing was changed.
    FARCALL_NOT_ALLOWED = 48,

    /// There is no such object.
    FARCALL_NO_OBJECT = 60,
    /// There is no such table; create it first.
    FARCALL_UNKNOWN_TABLE = 61,
    /// The object has another version than the expected one. Nothing was changed.
    FARCALL_WRONG_VERSION = 62,
    /// The store has no memory left, or no room in its log or for another table. Nothing was changed.
    FARCALL_STORE_FULL = 63,
    /// The object is not a number, or the sum is out of range. Nothing was changed.
    FARCALL_NOT_A_NUMBER = 64,
    /// The store speaks another version of the protocol.
    FARCALL_MISUNDERSTOOD = 65,
    /// The disk of durable tables has failed. A write may have happened.
    FARCALL_DISK_FAILED = 66,
    /// The store cannot give the table that level: it has no log or too few replicas, or there is a table of
    /// that name whose level survives less. Nothing was changed at the shard that refused.
    FARCALL_LEVEL_REFUSED = 67,
    /// The store takes no writes of the table now: too few backups hold its log, or another process may be
    /// the primary. Nothing was changed; ask again.
    FARCALL_NOT_REPLICATED = 68,

    /// A member of the group failed or gave up, or their arguments differ. The group is of no further use.
    FARCALL_GROUP_FAILED = 80,
}

use Status::*;

impl Status {
    /// What it means, as one sentence.
    pub fn text(self) -> &'static CStr {
        match self {
            FARCALL_OK => c"it did what it should",
            FARCALL_INVALID_ARGUMENT => c"an argument is null, malformed or out of range",
            FARCALL_VERSION_MISMATCH => c"the header and the library are of different versions",
            FARCALL_WRONG_THREAD => c"the endpoint belongs to another thread",
            FARCALL_FORKED => c"the endpoint belongs to the parent of this process",
            FARCALL_IN_CALLBACK => c"this cannot be done inside a callback",
            FARCALL_IN_USE => c"something that was made from it is still open",
            FARCALL_PANICKED => c"the library failed in a way that it should not",
            FARCALL_ALREADY_REPLIED => c"the request has its reply",
            FARCALL_RESOURCES => c"the operating system refused something that is needed",
            FARCALL_UNKNOWN_TRANSPORT => c"there is no such transport",
            FARCALL_SETTINGS => c"a parameter has no such name or value",
            FARCALL_BOOTSTRAP => c"the process has no place in its cluster",
            FARCALL_TIMED_OUT => c"the deadline passed",
            FARCALL_CANCELLED => c"it was cancelled",
            FARCALL_TOO_LATE => c"it cannot be cancelled any more",
            FARCALL_OVER => c"it had completed before",
            FARCALL_PEER_DEAD => {
                c"the peer is dead: its process ended or it was silent for longer than the limit"
            }
            FARCALL_PEER_CLOSED => c"the peer closed the session",
            FARCALL_PEER_RESTARTED => c"the peer was restarted",
            FARCALL_PEER_UNREACHABLE => c"nothing answers at the peer's address",
            FARCALL_PEER_FAILED => c"the session to the peer failed",
            FARCALL_NOT_CONNECTED => c"the session to the peer is down",
            FARCALL_UNKNOWN_PEER => c"the peer is not known",
            FARCALL_NO_SERVER => c"no server listens under the name, or none can be reached",
            FARCALL_UNKNOWN_SERVICE => c"the peer does not serve this service",
            FARCALL_LEAVING => c"the server is leaving",
            FARCALL_ABANDONED => c"the peer's handler gave no answer",
            FARCALL_ANSWER_TOO_LONG => c"the peer's answer was longer than the session's limit",
            FARCALL_REFUSED => c"the peer's handler refused",
            FARCALL_TOO_LONG => c"the message is longer than the session carries",
            FARCALL_TOO_MANY => c"too many operations are in flight",
            FARCALL_TRUNCATED => c"what arrived is longer than the memory for it",
            FARCALL_NOT_ALLOWED => c"the policy does not allow it",
            FARCALL_NO_OBJECT => c"there is no such object",
            FARCALL_UNKNOWN_TABLE => c"there is no such table",
            FARCALL_WRONG_VERSION => c"the object has another version",
            FARCALL_STORE_FULL => c"the store is full",
            FARCALL_NOT_A_NUMBER => c"the object is not a number, or the sum is out of range",
            FARCALL_MISUNDERSTOOD => c"the store speaks another version of the protocol",
            FARCALL_DISK_FAILED => c"the disk of durable tables has failed",
            FARCALL_LEVEL_REFUSED => c"the store cannot give the table that level",
            FARCALL_NOT_REPLICATED => c"the store takes no writes of the table now",
            FARCALL_GROUP_FAILED => c"a member of the group failed, or gave up",
        }
    }
}

/// Every status, so that a number of C can be looked up.
const EVERY: [Status; 44] = [
    FARCALL_OK,
    FARCALL_INVALID_ARGUMENT,
    FARCALL_VERSION_MISMATCH,
    FARCALL_WRONG_THREAD,
    FARCALL_FORKED,
    FARCALL_IN_CALLBACK,
    FARCALL_IN_USE,
    FARCALL_PANICKED,
    FARCALL_ALREADY_REPLIED,
    FARCALL_RESOURCES,
    FARCALL_UNKNOWN_TRANSPORT,
    FARCALL_SETTINGS,
    FARCALL_BOOTSTRAP,
    FARCALL_TIMED_OUT,
    FARCALL_CANCELLED,
    FARCALL_TOO_LATE,
    FARCALL_OVER,
    FARCALL_PEER_DEAD,
    FARCALL_PEER_CLOSED,
    FARCALL_PEER_RESTARTED,
    FARCALL_PEER_UNREACHABLE,
    FARCALL_PEER_FAILED,
    FARCALL_NOT_CONNECTED,
    FARCALL_UNKNOWN_PEER,
    FARCALL_NO_SERVER,
    FARCALL_UNKNOWN_SERVICE,
    FARCALL_LEAVING,
    FARCALL_ABANDONED,
    FARCALL_ANSWER_TOO_LONG,
    FARCALL_REFUSED,
    FARCALL_TOO_LONG,
    FARCALL_TOO_MANY,
    FARCALL_TRUNCATED,
    FARCALL_NOT_ALLOWED,
    FARCALL_NO_OBJECT,
    FARCALL_UNKNOWN_TABLE,
    FARCALL_WRONG_VERSION,
    FARCALL_STORE_FULL,
    FARCALL_NOT_A_NUMBER,
    FARCALL_MISUNDERSTOOD,
    FARCALL_DISK_FAILED,
    FARCALL_LEVEL_REFUSED,
    FARCALL_NOT_REPLICATED,
    FARCALL_GROUP_FAILED,
];

/// What a status means, as one sentence that lives as long as the program. Any number is allowed.
///
/// From any thread. Neither allocates nor blocks.
#[unsafe(no_mangle)]
pub extern "C" fn farcall_status_text(status: i32) -> *const c_char {
    let known = EVERY.iter().find(|known| **known as i32 == status);
    known.map_or(c"a status of a later version", |known| known.text()).as_ptr()
}

/// Why a session ended.
pub fn of_end(reason: &DownReason) -> Status {
    match reason {
        DownReason::Dead => FARCALL_PEER_DEAD,
        DownReason::Closed => FARCALL_PEER_CLOSED,
        DownReason::Restarted => FARCALL_PEER_RESTARTED,
        DownReason::Unreachable => FARCALL_PEER_UNREACHABLE,
        _ => FARCALL_PEER_FAILED,
    }
}

/// Why a call has no answer, and the code of a handler that refused, 0 for others.
pub fn of_call(error: &CallError) -> (Status, u8) {
    let status = match error {
        CallError::TimedOut => FARCALL_TIMED_OUT,
        CallError::Cancelled => FARCALL_CANCELLED,
        CallError::PeerDown(reason) => of_end(reason),
        CallError::UnknownService => FARCALL_UNKNOWN_SERVICE,
        CallError::Leaving => FARCALL_LEAVING,
        CallError::NotAllowed { .. } => FARCALL_NOT_ALLOWED,
        CallError::Abandoned => FARCALL_ABANDONED,
        CallError::AnswerTooLong => FARCALL_ANSWER_TOO_LONG,
        CallError::Refused { code, .. } => return (FARCALL_REFUSED, *code),
        CallError::NotSent(CallRefused::TooLong { .. }) => FARCALL_TOO_LONG,
        CallError::NotSent(CallRefused::Down) => FARCALL_NOT_CONNECTED,
        CallError::NotSent(CallRefused::TooManyCalls { .. }) | CallError::TooManyCalls { .. } => {
            FARCALL_TOO_MANY
        }
    };
    (status, 0)
}

impl From<CallError> for Status {
    fn from(error: CallError) -> Self {
        of_call(&error).0
    }
}

impl From<SendError> for Status {
    fn from(error: SendError) -> Self {
        match error {
            SendError::TimedOut => FARCALL_TIMED_OUT,
            SendError::Cancelled => FARCALL_CANCELLED,
            SendError::PeerDown(reason) => of_end(&reason),
            SendError::NotSent(SendRefused::TooLong { .. }) => FARCALL_TOO_LONG,
            SendError::NotSent(SendRefused::Down) => FARCALL_NOT_CONNECTED,
            SendError::TooMany { .. } => FARCALL_TOO_MANY,
        }
    }
}

impl From<ReceiveError> for Status {
    fn from(error: ReceiveError) -> Self {
        match error {
            ReceiveError::TimedOut => FARCALL_TIMED_OUT,
            ReceiveError::Cancelled => FARCALL_CANCELLED,
            ReceiveError::Truncated { .. } => FARCALL_TRUNCATED,
            ReceiveError::PeerDown(reason) => of_end(&reason),
            ReceiveError::TooMany { .. } => FARCALL_TOO_MANY,
        }
    }
}
