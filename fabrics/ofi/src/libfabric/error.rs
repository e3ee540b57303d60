//! Why libfabric cannot be used.

use core::ffi::{CStr, c_int};

use crate::libfabric::api::Api;

/// Why there is no endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OfiError {
    /// The library is not on this machine.
    #[error("{why}")]
    Absent {
        /// What was missing, and what to install.
        why: &'static str,
    },
    /// No provider here has what was asked for; `FI_PROVIDER` may leave some out.
    #[error("no provider of libfabric has {what} here")]
    NothingOffered {
        /// What was asked for.
        what: &'static str,
    },
    /// Nothing of what libfabric offers here is what was asked for: name another provider, or leave the
    /// choice.
    #[error("libfabric offers no {what} by {provider} here; {offered}")]
    NoProvider {
        /// What was asked for.
        what: &'static str,
        /// By which provider.
        provider: String,
        /// The providers that there are, as a part of the sentence.
        offered: String,
    },
    /// The library refused something; `FI_LOG_LEVEL=warn` lets it say more.
    #[error("libfabric refuses {what}: {why}")]
    Refused {
        /// What was asked for.
        what: &'static str,
        /// libfabric's own words.
        why: String,
    },
}

impl OfiError {
    /// libfabric has no `what` for us, as a negative result of one of its functions says.
    #[cold]
    pub(crate) fn refused(api: &Api, what: &'static str, result: isize) -> Self {
        // SAFETY: every number has a text that is never freed.
        #[expect(unsafe_code, reason = "a call of libfabric")]
        let words = unsafe { CStr::from_ptr((api.fi_strerror)(-result as c_int)) };
        Self::Refused { what, why: words.to_string_lossy().into_owned() }
    }
}
