//! Queue pairs that rdma_cm is connecting: the caller's, step by step as it reports, and the called side's,
//! in one.

use core::net::SocketAddr;
use std::sync::Arc;

use farcall_driver::LaneFault;

use super::conductor::{Shared, Terms};
use super::half::Half;
use super::handshake::{COOKIE_BYTES, Offer, PeerMemory};
use super::link::Link;
use super::manager::{Claim, Manager, terms};
use super::socket::unusable;
use crate::cm::{CmId, Happening};

/// What is kept of the peer's offer until the queue pairs are connected.
pub struct Agreed {
    half: Half,
    pub claim: Claim,
    memory: PeerMemory,
    mtu: u8,
    hello: Vec<u8>,
}

impl Agreed {
    /// We were called with `offer`.
    pub fn called(half: Half, cookie: [u8; COOKIE_BYTES], offer: &Offer<'_>) -> Self {
        let claim = Claim { cookie, called: half.pair.number(), caller: offer.number };
        Self { half, claim, memory: offer.memory, mtu: offer.mtu, hello: offer.hello.to_vec() }
    }

    /// Our call was answered with `offer`.
    fn answered(half: Half, cookie: [u8; COOKIE_BYTES], offer: &Offer<'_>) -> Self {
        let claim = Claim { cookie, called: offer.number, caller: half.pair.number() };
        Self { half, claim, memory: offer.memory, mtu: offer.mtu, hello: offer.hello.to_vec() }
    }

    /// The caller's request is here: agrees to it. The lane, and what the caller said in its offer.
    pub fn accept(self, shared: &Shared, id: CmId) -> Result<(Arc<Link>, Vec<u8>), LaneFault> {
        let device = &shared.terms.device;
        if !id.is_on(device.library, &device.name, device.port.number) {
            return Err(unusable("its request came to another device"));
        }
        let number = self.half.pair.number();
        self.half.make_ready_by(device, &shared.terms.config, &id, self.mtu).map_err(unusable)?;
        let answer = terms(number, self.half.announcements.is_none());
        id.accept(answer).map_err(unusable)?;
        self.into_link(&shared.terms, id)
    }

    fn into_link(self, terms: &Terms, id: CmId) -> Result<(Arc<Link>, Vec<u8>), LaneFault> {
        let link = self.half.into_link(terms, self.memory, Some(id)).map_err(unusable)?;
        Ok((Arc::new(link), self.hello))
    }
}

/// The caller's side of a connection that is being made.
pub struct Joining {
    agreed: Agreed,
    id: CmId,
}

impl Joining {
    /// Starts to connect to the place that the called side named in its offer.
    pub fn start(
        manager: &Manager,
        place: SocketAddr,
        half: Half,
        cookie: [u8; COOKIE_BYTES],
        offer: &Offer<'_>,
    ) -> Result<Self, LaneFault> {
        let id = CmId::new(&manager.events).map_err(unusable)?;
        // Our own address decides on the device.
        id.bind(manager.place.ip()).map_err(unusable)?;
        id.resolve_address(place).map_err(unusable)?;
        Ok(Self { agreed: Agreed::answered(half, cookie, offer), id })
    }

    /// Whose events matter.
    pub fn id(&self) -> &CmId {
        &self.id
    }

    /// Goes on after something happened; says whether the queue pairs are connected now.
    pub fn step(&self, shared: &Shared, what: Happening) -> Result<bool, LaneFault> {
        let Terms { device, config, .. } = &shared.terms;
        let Agreed { half, claim, mtu, .. } = &self.agreed;
        match what {
            Happening::AddressFound if !self.id.is_on(device.library, &device.name, device.port.number) => {
                Err(unusable(format!("rdma_cm reaches it by another device than {}", device.name)))
            }
            Happening::AddressFound => self.id.resolve_route().map_err(unusable).map(|()| false),
            Happening::RouteFound => {
                let request = terms(half.pair.number(), half.announcements.is_none());
                self.id.connect(request, &claim.encode()).map_err(unusable)?;
                Ok(false)
            }
            Happening::Answered => {
                half.make_ready_by(device, config, &self.id, *mtu).map_err(unusable)?;
                self.id.establish().map_err(unusable)?;
                Ok(true)
            }
            // The device has made the queue pair ready itself.
            Happening::Established => Ok(true),
            Happening::Failed(fault) => Err(fault),
            Happening::Asked(..) | Happening::DeviceGone => Ok(false),
        }
    }

    /// The lane, and what the peer said in its offer.
    pub fn finish(self, shared: &Shared) -> Result<(Arc<Link>, Vec<u8>), LaneFault> {
        self.agreed.into_link(&shared.terms, self.id)
    }
}
