//! An endpoint of libfabric and what it takes: fabric, domain, table of addresses, queue of completions.

use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::ptr::{NonNull, null_mut};
use std::os::fd::RawFd;

use farcall_driver::kept_from_children;

use crate::libfabric::api::Api;
use crate::libfabric::retirement::{self, Objects};
use crate::libfabric::types::*;
use crate::libfabric::{Offer, OfiError};

/// The longest address of an endpoint, in bytes.
const NAME_BYTES_MAX: usize = 512;

/// How an endpoint is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointConfig {
    /// How many completions can wait to be read.
    pub completions_max: usize,
    /// Whether a descriptor is to become readable when something is completed; not every provider can.
    pub may_sleep: bool,
}

/// An endpoint that is in operation. Whoever owns it uses it from one thread at a time.
pub struct Endpoint {
    pub(crate) ep: NonNull<fid_ep>,
    pub(crate) cq: NonNull<fid_cq>,
    av: NonNull<fid_av>,
    domain: NonNull<fid_domain>,
    fabric: NonNull<fid_fabric>,
    descriptor: Option<RawFd>,
    name: Vec<u8>,
    form: Form,
}

/// What an address of a provider looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Text up to a zero, as that of shared memory; see [`retirement`].
    Text,
    /// A `sockaddr`: its first two bytes are the family, from which its reader takes its length.
    Socket,
    /// Of the provider's own; all have one length.
    Fixed,
}

impl Form {
    /// Whether a provider, whose own address is `own`, finds all bytes that it reads in `name`: of a text up
    /// to a zero, of a `sockaddr` as many as the family has.
    fn is_whole(self, name: &[u8], own: &[u8]) -> bool {
        match self {
            Self::Text => name.len() <= NAME_BYTES_MAX && name.last() == Some(&0),
            Self::Socket => name.len() == own.len() && name.first_chunk::<2>() == own.first_chunk::<2>(),
            Self::Fixed => name.len() == own.len(),
        }
    }
}

// SAFETY: the domain was opened for use by one thread at a time, whichever that is, and everything else
// belongs to it.
#[expect(unsafe_code, reason = "libfabric's objects are pointers")]
unsafe impl Send for Endpoint {}

/// What has been opened so far; closed again unless all of it comes to be.
#[derive(Default)]
struct Opened(Vec<NonNull<fid>>);

impl Opened {
    /// Takes note of an object that libfabric has returned with `result`.
    fn add<T>(
        &mut self,
        api: &Api,
        what: &'static str,
        result: c_int,
        object: *mut T,
    ) -> Result<NonNull<T>, OfiError> {
        match NonNull::new(object).filter(|_| result == 0) {
            Some(object) => {
                self.0.push(object.cast());
                Ok(object)
            }
            None => Err(OfiError::refused(api, what, result as isize)),
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.0.drain(..).rev().for_each(close);
    }
}

/// Closes an object of libfabric, which must not be used again.
pub(crate) fn close(object: NonNull<fid>) {
    // SAFETY: all objects begin with a `fid`, whose table has this entry. Nothing can be done when it is
    // refused.
    #[expect(unsafe_code, reason = "a call of libfabric")]
    unsafe {
        ((*(*object.as_ptr()).ops).close)(object.as_ptr());
    }
}

impl Endpoint {
    /// Opens what is offered. Children of this process do not get its descriptors.
    pub fn open(offer: &Offer, config: &EndpointConfig) -> Result<Self, OfiError> {
        kept_from_children(|| Self::open_here(offer, config))
    }

    #[expect(unsafe_code, reason = "calls of libfabric")]
    fn open_here(offer: &Offer, config: &EndpointConfig) -> Result<Self, OfiError> {
        let (api, info, mut opened) = (offer.api(), offer.as_ptr(), Opened::default());
        let (mut fabric, mut domain, mut av, mut ep) = (null_mut(), null_mut(), null_mut(), null_mut());
        // SAFETY: the entry and its parts are libfabric's own and live through all of these calls; each
        // object that is used was opened before and is not closed yet, and each result is written when 0 is
        // returned.
        unsafe {
            let result = (api.fi_fabric)((*info).fabric_attr, &mut fabric, null_mut());
            let fabric = opened.add(api, "a fabric", result, fabric)?;
            let open = (*(*fabric.as_ptr()).ops).domain;
            let result = open(fabric.as_ptr(), info, &mut domain, null_mut());
            let domain = opened.add(api, "a domain", result, domain)?;
            let mut attributes: fi_av_attr = MaybeUninit::zeroed().assume_init();
            attributes.type_ = (*(*info).domain_attr).av_type;
            let operations = (*domain.as_ptr()).ops;
            let result = ((*operations).av_open)(domain.as_ptr(), &mut attributes, &mut av, null_mut());
            let av = opened.add(api, "a table of addresses", result, av)?;
            let (cq, descriptor) = open_queue(api, domain, config, &mut opened)?;
            let result = ((*operations).endpoint)(domain.as_ptr(), info, &mut ep, null_mut());
            let ep = opened.add(api, "an endpoint", result, ep)?;
            let this = ep.as_ptr().cast::<fid>();
            let table = (*this).ops;
            let steps = [
                ((*table).bind)(this, cq.as_ptr().cast(), FI_TRANSMIT | FI_RECV),
                ((*table).bind)(this, av.as_ptr().cast(), 0),
                ((*table).control)(this, FI_ENABLE, null_mut()),
            ];
            if let Some(&result) = steps.iter().find(|&&result| result != 0) {
                return Err(OfiError::refused(api, "an endpoint", result as isize));
            }
            let name = name(api, ep)?;
            opened.0.clear();
            let form = offer.form();
            if form == Form::Text {
                retirement::enter();
            }
            Ok(Self { ep, cq, av, domain, fabric, descriptor, name, form })
        }
    }

    /// Where others reach it, in the provider's form.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// What becomes readable when something is completed, if anything does.
    pub fn descriptor(&self) -> Option<RawFd> {
        self.descriptor
    }

    /// Asks for the descriptor to become readable; false when there is something to do already.
    #[expect(unsafe_code, reason = "a call of libfabric")]
    pub fn prepare_wait(&mut self) -> bool {
        let mut queue = self.cq.as_ptr().cast::<fid>();
        // SAFETY: fabric and queue are open; the array has one entry.
        unsafe { ((*(*self.fabric.as_ptr()).ops).trywait)(self.fabric.as_ptr(), &mut queue, 1) == 0 }
    }

    /// Makes an address known, as `name` gave it elsewhere; `None` when the provider cannot use it.
    #[expect(unsafe_code, reason = "a call of libfabric")]
    pub fn insert(&mut self, name: &[u8]) -> Option<fi_addr_t> {
        let is_whole = self.form.is_whole(name, &self.name);
        let mut address = FI_ADDR_NOTAVAIL;
        // SAFETY: the table is open, and the name has all bytes that are read, as was checked.
        let inserted = is_whole.then(|| unsafe {
            let insert = (*(*self.av.as_ptr()).ops).insert;
            insert(self.av.as_ptr(), name.as_ptr().cast(), 1, &mut address, 0, null_mut())
        });
        (inserted == Some(1) && address != FI_ADDR_NOTAVAIL).then_some(address)
    }

    /// Forgets an address; nothing is in flight to it.
    #[expect(unsafe_code, reason = "a call of libfabric")]
    pub fn remove(&mut self, mut address: fi_addr_t) {
        // SAFETY: the table is open and the address came from `insert`.
        unsafe {
            ((*(*self.av.as_ptr()).ops).remove)(self.av.as_ptr(), &mut address, 1, 0);
        }
    }
}

/// A queue of completions, and its descriptor. A provider that has no descriptors gets a queue without.
///
/// # Safety
/// The domain is open.
#[expect(unsafe_code, reason = "calls of libfabric")]
unsafe fn open_queue(
    api: &Api,
    domain: NonNull<fid_domain>,
    config: &EndpointConfig,
    opened: &mut Opened,
) -> Result<(NonNull<fid_cq>, Option<RawFd>), OfiError> {
    let mut cq = null_mut();
    let mut open = |wait_obj| {
        // SAFETY: numbers and pointers may be 0 and null.
        let mut attributes: fi_cq_attr = unsafe { MaybeUninit::zeroed().assume_init() };
        attributes.size = config.completions_max;
        attributes.format = FI_CQ_FORMAT_MSG;
        attributes.wait_obj = wait_obj;
        // SAFETY: the domain is open, as the caller promises, and the attributes live through the call.
        unsafe { ((*(*domain.as_ptr()).ops).cq_open)(domain.as_ptr(), &mut attributes, &mut cq, null_mut()) }
    };
    let with_descriptor = config.may_sleep && open(FI_WAIT_FD) == 0;
    let result = if with_descriptor { 0 } else { open(FI_WAIT_NONE) };
    let cq = opened.add(api, "a queue of completions", result, cq)?;
    let mut descriptor: c_int = -1;
    if with_descriptor {
        let queue = cq.as_ptr().cast::<fid>();
        // SAFETY: the queue is open, and was opened with a descriptor, which is an `int`.
        let result = unsafe { ((*(*queue).ops).control)(queue, FI_GETWAIT, (&raw mut descriptor).cast()) };
        descriptor = if result == 0 { descriptor } else { -1 };
    }
    Ok((cq, (descriptor >= 0).then_some(descriptor)))
}

/// The endpoint's own address.
///
/// # Safety
/// The endpoint is open and enabled.
#[expect(unsafe_code, reason = "calls of libfabric")]
unsafe fn name(api: &Api, ep: NonNull<fid_ep>) -> Result<Vec<u8>, OfiError> {
    let (mut name, mut bytes) = (vec![0; NAME_BYTES_MAX], NAME_BYTES_MAX);
    // SAFETY: the endpoint is open, as the caller promises, and there is room for that many bytes.
    let result =
        unsafe { ((*(*ep.as_ptr()).cm).getname)(ep.as_ptr().cast(), name.as_mut_ptr().cast(), &mut bytes) };
    if result != 0 {
        return Err(OfiError::refused(api, "an endpoint's address", result as isize));
    }
    name.truncate(bytes);
    Ok(name)
}

/// What is in flight is given up; its memory is nobody's business any more.
impl Drop for Endpoint {
    fn drop(&mut self) {
        // The order is libfabric's: what uses others goes first.
        let objects =
            [self.ep.cast(), self.cq.cast(), self.av.cast(), self.domain.cast(), self.fabric.cast()];
        if self.form == Form::Text {
            retirement::retire(Objects(objects));
        } else {
            objects.into_iter().for_each(close);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A `sockaddr_in` of 16 bytes whose family says `AF_INET6` would be read 12 bytes past its end.
    #[test]
    fn an_address_of_another_family_or_length_is_not_whole() {
        let own = [&[2, 0][..], &[0; 14]].concat();
        let other_family = [&[10, 0][..], &[0; 14]].concat();
        assert!(Form::Socket.is_whole(&own, &own) && !Form::Socket.is_whole(&other_family, &own));
        assert!(!Form::Socket.is_whole(&own[..15], &own) && !Form::Socket.is_whole(&[], &own));
        assert!(Form::Fixed.is_whole(&other_family, &own) && !Form::Fixed.is_whole(&own[..15], &own));
        assert!(Form::Text.is_whole(b"fi_shm://1\0", b"") && !Form::Text.is_whole(b"fi_shm://1", b""));
        assert!(!Form::Text.is_whole(&[0; NAME_BYTES_MAX + 1], b""));
    }
}
