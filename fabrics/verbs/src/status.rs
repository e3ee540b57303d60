//! What a failed completion means.

use core::ffi::c_int;

/// The status of a completion in words; the numbers are those of `ibv_wc_status`.
pub fn describe(status: c_int) -> &'static str {
    match status {
        1 => "a message was longer than the memory for it",
        2 => "the queue pair could not carry the request out",
        4 => "a request named memory that is not registered",
        5 => "the connection had broken before",
        6 => "a memory window could not be bound",
        7 => "the peer's card answered nonsense",
        8 => "a message arrived for memory that it may not write",
        9 => "the peer's card found a request invalid",
        10 => "the peer's card refused access to its memory",
        11 => "the peer's card could not carry the request out",
        12 => "the peer's card does not answer",
        13 => "the peer took no messages for too long",
        16 => "the peer gave the operation up",
        19 => "the device failed",
        20 => "an answer took too long",
        _ => "an unknown failure",
    }
}
