//! Who calls: the identity that the transport of the caller's session proves.

use core::ffi::c_char;

use farcall::policy::{Principal, read_principal};

use crate::border::{bytes_mut, give, guarded, text};
use crate::served::RequestHandle;
use crate::status::Status::{self, FARCALL_INVALID_ARGUMENT, FARCALL_TRUNCATED};

/// The transport proves nothing of the caller.
pub const FARCALL_CALLER_UNPROVEN: u32 = 0;
/// A process of a user of this machine, as the kernel says.
pub const FARCALL_CALLER_USER: u32 = 1;
/// One of those that have a cluster key.
pub const FARCALL_CALLER_KEY: u32 = 2;
/// The holder of a certificate.
pub const FARCALL_CALLER_CERTIFICATE: u32 = 3;
/// One that knows a password.
pub const FARCALL_CALLER_PASSWORD: u32 = 4;
/// The holder of a private key whose public half is listed in `security.peers_file`.
pub const FARCALL_CALLER_IDENTITY: u32 = 5;

/// Who calls, by what the transport of its session proves and nothing that it says of itself: `kind` is
/// FARCALL_CALLER_USER or another of those, and `user` the number of the user, UINT32_MAX of another kind.
/// `words` gets the identity as policies write it, such as `uid 1000`, with a zero at its end;
/// FARCALL_TRUNCATED if there is no room for it. Places may be null, and `bytes` then 0.
///
/// In the handler, before the reply: FARCALL_ALREADY_REPLIED afterwards. Allocates. Neither polls nor blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_request_caller(
    request: *const RequestHandle,
    kind: *mut u32,
    user: *mut u32,
    words: *mut c_char,
    bytes: usize,
) -> Status {
    // SAFETY: null, or that of a handler that runs; places are null or may be written to.
    guarded(|| unsafe {
        let principal = RequestHandle::principal(request)?;
        let (number, id) = match principal {
            Principal::Unproven => (FARCALL_CALLER_UNPROVEN, u32::MAX),
            Principal::User(id) => (FARCALL_CALLER_USER, id),
            Principal::Key(_) => (FARCALL_CALLER_KEY, u32::MAX),
            Principal::Certificate(_) => (FARCALL_CALLER_CERTIFICATE, u32::MAX),
            Principal::Password => (FARCALL_CALLER_PASSWORD, u32::MAX),
            Principal::Identity(_) => (FARCALL_CALLER_IDENTITY, u32::MAX),
        };
        give(kind, number);
        give(user, id);
        if words.is_null() {
            return Ok(());
        }
        let said = principal.to_string();
        let place = bytes_mut(words.cast(), bytes)?.get_mut(..=said.len()).ok_or(FARCALL_TRUNCATED)?;
        let (place, end) = place.split_at_mut(said.len());
        place.copy_from_slice(said.as_bytes());
        end[0] = 0;
        Ok(())
    })
}

/// Whether the caller has an identity, written as in a policy: `uid 1000`, `key 5f1a0c7d2e9b8364`,
/// `identity worker-3`, `certificate worker.example`, which is one of the names of its certificate. `yes` is
/// 1 or 0. FARCALL_INVALID_ARGUMENT if `identity` is none.
///
/// In the handler, before the reply: FARCALL_ALREADY_REPLIED afterwards. Allocates. Neither polls nor blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_request_caller_is(
    request: *const RequestHandle,
    identity: *const c_char,
    yes: *mut i32,
) -> Status {
    // SAFETY: null, or that of a handler that runs; the place is null or may be written to.
    guarded(|| unsafe {
        let principal = RequestHandle::principal(request)?;
        let identity = text(identity, "the identity").map_err(|_| FARCALL_INVALID_ARGUMENT)?;
        let asked = read_principal(identity).map_err(|_| FARCALL_INVALID_ARGUMENT)?;
        give(yes, i32::from(principal.has(&asked)));
        Ok(())
    })
}
