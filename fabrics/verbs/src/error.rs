//! Why a driver could not be set up, each with what its user can do, and what a failed completion means.

use core::ffi::c_int;
use std::io;

/// Why there is no verbs driver.
#[derive(Debug, thiserror::Error)]
pub enum VerbsError {
    /// Install rdma-core.
    #[error("libibverbs cannot be loaded ({why}); install it (on Debian: libibverbs1 and ibverbs-providers)")]
    NoLibrary {
        /// The loader's words.
        why: String,
    },
    /// Install librdmacm, or let the handshake connect queue pairs.
    #[error(
        "librdmacm cannot be loaded ({why}); install it (on Debian: librdmacm1), or set verbs.connect=bootstrap"
    )]
    NoCmLibrary {
        /// The loader's words.
        why: String,
    },
    /// Give the device's network interface an address.
    #[error(
        "no IP address of this machine leads rdma_cm to port {port} of {device}; give its network interface one"
    )]
    NoCmAddress {
        /// The device.
        device: String,
        /// Its port.
        port: u8,
    },
    /// No device is there, or none that this user may open.
    #[error("this machine has no RDMA device; `rdma link` and `ibv_devices` list what the kernel knows")]
    NoDevice,
    /// Name one that is there.
    #[error("there is no RDMA device `{device}`; there are: {known}")]
    UnknownDevice {
        /// The name asked for.
        device: String,
        /// The names there are.
        known: String,
    },
    /// Use InfiniBand or RoCE, the transports over UDP, or lanes that rdma_cm connects.
    #[error(
        "{devices} speaks iWARP, which has no datagrams, and whose queue pairs only rdma_cm connects: \
         it carries ring+verbs alone, with verbs.connect=auto or cm"
    )]
    Iwarp {
        /// The devices that would fit otherwise.
        devices: String,
    },
    /// Connect the cable, bring the interface up, or choose another port.
    #[error("no port of {devices} is active")]
    NoActivePort {
        /// The devices looked at.
        devices: String,
    },
    /// Choose another one; `farcall info` lists them.
    #[error("port {port} of {device} has no usable address{}", index.map_or(String::new(), |index| format!(" at index {index}")))]
    NoGid {
        /// The device.
        device: String,
        /// Its port.
        port: u8,
        /// The index asked for, if one was.
        index: Option<u8>,
    },
    /// Raise the limit, or ask for less memory.
    #[error(
        "cannot pin {needed_bytes} bytes for the network card: locked memory is limited to {limit_bytes} bytes; \
         raise the limit (ulimit -l, or memlock in /etc/security/limits.conf) or lower the driver's buffers"
    )]
    LockedMemory {
        /// What was to be pinned, beside what is pinned already.
        needed_bytes: usize,
        /// The limit of this process.
        limit_bytes: u64,
    },
    /// A value of the configuration is out of its range on this device.
    #[error("{parameter} is {value}, and must be between {least} and {most} on {device}")]
    OutOfRange {
        /// The field of the configuration.
        parameter: &'static str,
        /// Its value.
        value: usize,
        /// The least allowed.
        least: usize,
        /// The most allowed.
        most: usize,
        /// The device that sets the limit.
        device: String,
    },
    /// The system refused.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's own reason.
        source: io::Error,
    },
}

impl VerbsError {
    /// What the last call of the library left in `errno`.
    pub(crate) fn last(what: &'static str) -> Self {
        Self::System { what, source: io::Error::last_os_error() }
    }

    /// An error number that a call returned.
    pub(crate) fn number(what: &'static str, number: core::ffi::c_int) -> Self {
        Self::System { what, source: io::Error::from_raw_os_error(number) }
    }
}

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
