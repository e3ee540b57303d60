//! Failures of farcall as statuses of gRPC.

use core::time::Duration;

use farcall::{CallError, CallRefused, ClientError};
use http::HeaderMap;
use tonic::Status;

use crate::wire::Malformed;

/// A request that cannot be read.
pub const MALFORMED: u8 = 1;
/// There is no such exchange: it was cancelled, or its server has ended it.
pub const UNKNOWN_EXCHANGE: u8 = 2;
/// The caller has too many exchanges.
pub const TOO_MANY: u8 = 3;

/// The status of a call that farcall could not carry.
pub fn of_error(error: &ClientError) -> Status {
    let sentence = error.to_string();
    match error {
        ClientError::Full { .. } => Status::resource_exhausted(sentence),
        ClientError::Stopped | ClientError::NoServer(_) | ClientError::Name(_) => {
            Status::unavailable(sentence)
        }
        ClientError::Call(error) => of_call(error, sentence),
    }
}

fn of_call(error: &CallError, sentence: String) -> Status {
    match error {
        CallError::TimedOut => Status::deadline_exceeded(sentence),
        CallError::Cancelled => Status::cancelled(sentence),
        CallError::PeerDown(_) | CallError::Leaving | CallError::NotSent(CallRefused::Down) => {
            Status::unavailable(sentence)
        }
        CallError::NotAllowed { .. } => Status::permission_denied(sentence),
        CallError::UnknownService => Status::unimplemented("the peer serves no gRPC over farcall"),
        CallError::Abandoned => Status::unknown("the server dropped the call without an answer"),
        CallError::AnswerTooLong | CallError::NotSent(CallRefused::TooLong { .. }) => {
            Status::out_of_range(sentence)
        }
        CallError::NotSent(CallRefused::TooManyCalls { .. }) | CallError::TooManyCalls { .. } => {
            Status::resource_exhausted(sentence)
        }
        CallError::Refused { code: TOO_MANY, .. } => {
            Status::resource_exhausted("the server has too many calls of this client; have fewer in flight")
        }
        CallError::Refused { code: UNKNOWN_EXCHANGE, .. } => Status::aborted("the server has ended the call"),
        CallError::Refused { code, .. } => Status::internal(format!("the server refused with code {code}")),
    }
}

impl From<Malformed> for Status {
    fn from(Malformed: Malformed) -> Self {
        Self::internal("the peer and this program do not understand each other")
    }
}

/// The time that the caller gives a call: digits and a unit, as gRPC has it.
pub fn timeout_of(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let is_number = (1..=8).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = digits.parse().ok().filter(|_| is_number)?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_those_of_grpc() {
        let timeout = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-timeout", text.parse().expect("a value"));
            timeout_of(&headers)
        };
        assert_eq!(timeout("2H"), Some(Duration::from_secs(7200)));
        assert_eq!(timeout("15m"), Some(Duration::from_millis(15)));
        assert_eq!(timeout("99999999n"), Some(Duration::from_nanos(99_999_999)));
        for wrong in ["", "m", "1", "123456789S", "+1S", "1x"] {
            assert_eq!(timeout(wrong), None, "{wrong}");
        }
    }
}
