//! What libfabric offers on this machine, and the choice among it.

use core::ffi::CStr;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ptr::{NonNull, null, null_mut};

use crate::libfabric::api::{Api, api, version};
use crate::libfabric::types::*;
use crate::libfabric::{Form, OfiError};

/// What an endpoint is to be able to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Reliable messages of any length, matched by tags, in order.
    TaggedMessages,
    /// Unreliable packets.
    Datagrams,
}

impl Wanted {
    /// What it is called in messages.
    const fn name(self) -> &'static str {
        match self {
            Self::TaggedMessages => "reliable tagged messages",
            Self::Datagrams => "datagrams",
        }
    }
}

/// How good a provider is when none is named, 0 first; of equals libfabric's order decides.
fn rank(provider: &str) -> u8 {
    match provider {
        // They reach no other machine or are no longer kept up; and a process that is killed in shared memory
        // leaves a file behind, and may leave a lock taken that others then wait for.
        "shm" | "sockets" | "udp;ofi_rxd" => 2,
        // They never end sends to a peer that died. Over TCP there is a provider that does without this
        // layer.
        "tcp;ofi_rxm" | "net;ofi_rxm" => 1,
        _ => 0,
    }
}

/// One way to communicate: a provider on a network, with its limits.
pub struct Offer {
    api: &'static Api,
    /// An entry of its own, not part of a list.
    info: NonNull<fi_info>,
}

// SAFETY: the entry is plain memory that only this value has.
#[expect(unsafe_code, reason = "libfabric's entries are pointers")]
unsafe impl Send for Offer {}

/// All that there is of that kind, in libfabric's order of preference.
pub fn offers(wanted: Wanted) -> Result<Vec<Offer>, OfiError> {
    let api = api().map_err(|why| OfiError::Absent { why })?;
    let hints = Offer::hints(api, wanted)?;
    let mut list = null_mut();
    // SAFETY: the hints are an entry of libfabric's own making, and the result is written when 0 is returned.
    #[expect(unsafe_code, reason = "a call of libfabric")]
    let result = unsafe { (api.fi_getinfo)(API_VERSION, null(), null(), 0, hints.info.as_ptr(), &mut list) };
    if result == -FI_ENODATA {
        return Ok(Vec::new());
    }
    if result != 0 {
        return Err(OfiError::refused(api, "a list of what it offers", result as isize));
    }
    let (mut offers, mut next) = (Vec::new(), list);
    while let Some(info) = NonNull::new(next) {
        // SAFETY: the entry is one of the list, which is freed below; the copy is not part of it.
        #[expect(unsafe_code, reason = "a list of libfabric")]
        let copy = unsafe {
            next = info.as_ref().next;
            (api.fi_dupinfo)(info.as_ptr())
        };
        offers.extend(NonNull::new(copy).map(|info| Offer { api, info }));
    }
    // SAFETY: the list came from libfabric and is not used again.
    #[expect(unsafe_code, reason = "a call of libfabric")]
    unsafe {
        (api.fi_freeinfo)(list);
    }
    Ok(offers)
}

/// The names of the providers of that kind, each once, in libfabric's order of preference.
pub fn provider_names(wanted: Wanted) -> Result<Vec<String>, OfiError> {
    let mut names: Vec<String> = Vec::new();
    for offer in offers(wanted)? {
        if !names.iter().any(|name| *name == offer.provider()) {
            names.push(offer.provider());
        }
    }
    Ok(names)
}

/// libfabric's version and the providers of that kind, of which there is one at least.
pub fn found(wanted: Wanted) -> Result<String, OfiError> {
    let api = api().map_err(|why| OfiError::Absent { why })?;
    let names = provider_names(wanted)?;
    if names.is_empty() {
        return Err(OfiError::NothingOffered { what: wanted.name() });
    }
    Ok(format!("libfabric {}: {}", version(api), names.join(", ")))
}

impl Offer {
    /// The best offer by the provider of that name, on the network where this machine has the address
    /// `local`. A name may leave out the layer above: `tcp` for `tcp;ofi_rxm`. Without a name it is the first
    /// of those for general use, or of the others if `FI_PROVIDER` leaves only these.
    pub fn choose(wanted: Wanted, provider: Option<&str>, local: Option<IpAddr>) -> Result<Self, OfiError> {
        let mut offers = offers(wanted)?;
        offers.retain(|offer| match (offer.source_ip(), local) {
            (Some(at), Some(local)) => at == local,
            _ => true,
        });
        let first =
            |is_wanted: &dyn Fn(&str) -> bool| offers.iter().position(|offer| is_wanted(&offer.provider()));
        let chosen = match provider {
            Some(wanted) => first(&|name| name == wanted)
                .or_else(|| first(&|name| name.split(';').next() == Some(wanted))),
            // The first of the least.
            None => (0..offers.len()).min_by_key(|&place| rank(&offers[place].provider())),
        };
        match chosen {
            Some(place) => Ok(offers.swap_remove(place)),
            None => Err(no_provider(wanted, provider)),
        }
    }

    /// What is to be looked for.
    #[expect(unsafe_code, reason = "a structure of libfabric")]
    fn hints(api: &'static Api, wanted: Wanted) -> Result<Self, OfiError> {
        // SAFETY: null asks for an empty entry with all its parts.
        let info = NonNull::new(unsafe { (api.fi_dupinfo)(null()) });
        let out_of_memory = || OfiError::refused(api, "memory", -(libc::ENOMEM as isize));
        let mut hints = Self { api, info: info.ok_or_else(out_of_memory)? };
        let order = if wanted == Wanted::TaggedMessages { FI_ORDER_SAS } else { 0 };
        // SAFETY: the entry is new and ours, and its parts are there.
        unsafe {
            let info = hints.info.as_mut();
            let (endpoint, domain) = (&mut *info.ep_attr, &mut *info.domain_attr);
            info.mode = FI_CONTEXT | FI_CONTEXT2;
            (info.caps, endpoint.type_) = match wanted {
                Wanted::TaggedMessages => (FI_TAGGED, FI_EP_RDM),
                Wanted::Datagrams => (FI_MSG, FI_EP_DGRAM),
            };
            (*info.tx_attr).msg_order = order;
            (*info.rx_attr).msg_order = order;
            domain.threading = FI_THREAD_DOMAIN;
            domain.resource_mgmt = FI_RM_ENABLED;
        }
        Ok(hints)
    }

    pub(crate) fn api(&self) -> &'static Api {
        self.api
    }

    /// The entry, for calls of libfabric.
    pub(crate) fn as_ptr(&self) -> *mut fi_info {
        self.info.as_ptr()
    }

    /// The entry.
    fn info(&self) -> &fi_info {
        // SAFETY: it lives as long as this value, and nobody writes to it.
        #[expect(unsafe_code, reason = "libfabric's entries are pointers")]
        unsafe {
            self.info.as_ref()
        }
    }

    /// The name of the provider, such as `tcp;ofi_rxm`.
    pub fn provider(&self) -> String {
        // SAFETY: what libfabric offers has this part, and the name in it ends with a zero if there is one.
        #[expect(unsafe_code, reason = "libfabric's entries are pointers")]
        unsafe {
            let name = (*self.info().fabric_attr).prov_name;
            if name.is_null() { String::new() } else { CStr::from_ptr(name).to_string_lossy().into_owned() }
        }
    }

    /// The address of this machine on the network, where that has addresses of IP.
    pub fn source_ip(&self) -> Option<IpAddr> {
        let info = self.info();
        if info.src_addr.is_null() {
            return None;
        }
        // SAFETY: libfabric keeps an address of that length there; bytes have no alignment and no invalid
        // values.
        #[expect(unsafe_code, reason = "libfabric's entries are pointers")]
        let bytes = unsafe { core::slice::from_raw_parts(info.src_addr.cast::<u8>(), info.src_addrlen) };
        // In a `sockaddr_in` the address follows family and port, in a `sockaddr_in6` also a word of flow
        // information.
        match info.addr_format {
            FI_SOCKADDR_IN => Some(Ipv4Addr::from(*bytes.get(4..)?.first_chunk::<4>()?).into()),
            FI_SOCKADDR_IN6 => Some(Ipv6Addr::from(*bytes.get(8..)?.first_chunk::<16>()?).into()),
            _ => None,
        }
    }

    /// What the provider's addresses look like.
    pub(crate) fn form(&self) -> Form {
        match self.info().addr_format {
            FI_ADDR_STR => Form::Text,
            FI_SOCKADDR | FI_SOCKADDR_IN | FI_SOCKADDR_IN6 => Form::Socket,
            _ => Form::Fixed,
        }
    }

    /// The longest message, in bytes.
    pub fn message_bytes_max(&self) -> usize {
        self.endpoint_attributes().max_msg_size
    }

    /// How many of a tag's bits can be used, from the lowest.
    pub fn tag_bits(&self) -> u32 {
        u64::BITS - self.endpoint_attributes().mem_tag_format.leading_zeros()
    }

    /// The longest message that is copied while it is posted, in bytes.
    pub fn inject_bytes(&self) -> usize {
        // SAFETY: what libfabric offers has this part.
        #[expect(unsafe_code, reason = "libfabric's entries are pointers")]
        unsafe {
            (*self.info().tx_attr).inject_size
        }
    }

    /// The most sends in flight.
    pub fn sends_max(&self) -> usize {
        // SAFETY: as above.
        #[expect(unsafe_code, reason = "libfabric's entries are pointers")]
        unsafe {
            (*self.info().tx_attr).size
        }
    }

    /// The most receives that wait.
    pub fn receives_max(&self) -> usize {
        // SAFETY: as above.
        #[expect(unsafe_code, reason = "libfabric's entries are pointers")]
        unsafe {
            (*self.info().rx_attr).size
        }
    }

    fn endpoint_attributes(&self) -> &fi_ep_attr {
        // SAFETY: what libfabric offers has this part.
        #[expect(unsafe_code, reason = "libfabric's entries are pointers")]
        unsafe {
            &*self.info().ep_attr
        }
    }
}

/// The providers that there are, as a part of a sentence.
fn in_words(names: &[String]) -> String {
    match names {
        [] => "it offers none by any provider".to_owned(),
        names => format!("it offers {}", names.join(", ")),
    }
}

fn no_provider(wanted: Wanted, provider: Option<&str>) -> OfiError {
    let what = wanted.name();
    let provider = provider.map_or("a network provider".to_owned(), |name| format!("provider `{name}`"));
    let names = provider_names(wanted).unwrap_or_default();
    OfiError::NoProvider { what, provider, offered: in_words(&names) }
}

impl Drop for Offer {
    fn drop(&mut self) {
        // SAFETY: the entry is this value's own and is not used again.
        #[expect(unsafe_code, reason = "a call of libfabric")]
        unsafe {
            (self.api.fi_freeinfo)(self.info.as_ptr());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_without_providers_has_an_end() {
        assert_eq!(in_words(&[]), "it offers none by any provider");
        assert_eq!(in_words(&["shm".to_owned(), "tcp".to_owned()]), "it offers shm, tcp");
    }
}
