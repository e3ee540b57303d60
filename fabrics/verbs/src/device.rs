//! An open device with one of its ports chosen: what everything else of a driver belongs to.
//!
//! Which device, port and address a driver uses follows from how its peers reach it: the port whose address
//! is the one of this machine that the cluster uses, else the first active one. Each part of the choice can
//! be fixed.

use core::ffi::{CStr, c_int};
use core::net::IpAddr;
use std::sync::Arc;

use crate::choice::choose;
use crate::config::DeviceChoice;
use crate::error::VerbsError;
use crate::gid::Gid;
use crate::sys::{self, Library, library};

/// The most addresses of one device that are looked at.
const GIDS_MAX: usize = 1024;

/// An open device, its protection domain and the port in use. Everything made from it keeps it open.
pub struct Device {
    pub library: &'static Library,
    pub context: *mut sys::ibv_context,
    pub domain: *mut sys::ibv_pd,
    pub name: String,
    pub attributes: sys::ibv_device_attr,
    pub network: Network,
    pub port: Port,
    /// The address at which the cluster reaches this machine.
    pub local: Option<IpAddr>,
}

/// What the cards of a network speak: those of one kind understand each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// InfiniBand on its own links.
    InfiniBand,
    /// InfiniBand over Ethernet.
    Roce,
    /// RDMA over TCP: neither datagrams nor writes with immediate values, and queue pairs that only rdma_cm
    /// connects.
    Iwarp,
}

// SAFETY: libibverbs' objects may be used from any thread, and it locks what it shares between them.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

/// The port of a device and how it is addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its number, from 1.
    pub number: u8,
    /// Whether it is on Ethernet rather than InfiniBand.
    pub ethernet: bool,
    /// Whether queue pairs can be told its address: on Ethernet, one of RoCE.
    pub routable: bool,
    /// Its local identifier on InfiniBand; 0 on Ethernet.
    pub lid: u16,
    /// Its address.
    pub gid: Gid,
    /// The place of that address in the port's table.
    pub gid_index: u8,
    /// The longest packet on the link, as verbs number it: 1 for 256 bytes to 5 for 4096.
    pub mtu: c_int,
}

impl Port {
    /// The longest packet on the link, in bytes.
    pub fn mtu_bytes(&self) -> usize {
        128 << self.mtu
    }
}

impl Device {
    /// Opens the device that fits the choice; one that speaks iWARP only `with_iwarp`, and if there is no
    /// other.
    pub fn open(choice: &DeviceChoice, with_iwarp: bool) -> Result<Arc<Self>, VerbsError> {
        let library = library().map_err(|why| VerbsError::NoLibrary { why: why.into() })?;
        let opened = Opened::all(library)?;
        let known = opened.iter().map(|device| device.name.as_str()).collect::<Vec<_>>().join(", ");
        if opened.is_empty() {
            return Err(VerbsError::NoDevice);
        }
        let wanted = |device: &Opened| choice.device.as_ref().is_none_or(|name| *name == device.name);
        let fitting: Vec<_> = opened.into_iter().filter(wanted).collect();
        if fitting.is_empty() {
            return Err(VerbsError::UnknownDevice {
                device: choice.device.clone().unwrap_or_default(),
                known,
            });
        }
        let devices = fitting.iter().map(|device| device.name.as_str()).collect::<Vec<_>>().join(", ");
        let mut fitting: Vec<_> =
            fitting.into_iter().filter(|device| with_iwarp || !device.is_iwarp()).collect();
        fitting.sort_by_key(Opened::is_iwarp);
        if fitting.is_empty() {
            return Err(VerbsError::Iwarp { devices });
        }
        let (index, port) = choose(&fitting, choice)?.ok_or(VerbsError::NoActivePort { devices })?;
        let device = fitting.into_iter().nth(index).expect("the index of one of them");
        device.with_port(port, choice.local)
    }

    /// How to reach a port: what a queue pair or an address handle needs.
    pub fn route(&self, gid: Gid, lid: u16) -> sys::ibv_ah_attr {
        let is_global = self.is_global(gid);
        let mut route = sys::ibv_ah_attr { port_num: self.port.number, ..sys::ibv_ah_attr::default() };
        route.is_global = u8::from(is_global);
        route.dlid = lid;
        if is_global {
            route.grh.dgid = sys::ibv_gid(gid.0);
            route.grh.sgid_index = self.port.gid_index;
            route.grh.hop_limit = HOPS_MAX;
        }
        route
    }

    /// Whether packets to that port carry a global route header: always on Ethernet, else to other subnets
    /// only.
    pub fn is_global(&self, gid: Gid) -> bool {
        self.port.ethernet || gid.is_set() && gid.subnet() != self.port.gid.subnet()
    }
}

/// Routers that a packet may pass.
const HOPS_MAX: u8 = 64;

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: both are live and, as everything made from them holds this device, without users.
        unsafe {
            (self.library.ibv_dealloc_pd)(self.domain);
            (self.library.ibv_close_device)(self.context);
        }
    }
}

/// A device that has been opened to be looked at.
pub struct Opened {
    library: &'static Library,
    context: *mut sys::ibv_context,
    pub name: String,
    pub attributes: sys::ibv_device_attr,
}

impl Opened {
    /// All devices that can be opened.
    pub fn all(library: &'static Library) -> Result<Vec<Self>, VerbsError> {
        let mut count: c_int = 0;
        // SAFETY: the library writes the count and returns a list of that many devices, or null.
        let list = unsafe { (library.ibv_get_device_list)(&raw mut count) };
        if list.is_null() {
            // No support in the kernel is no device, not a failure.
            return Ok(Vec::new());
        }
        let mut devices = Vec::new();
        for index in 0..usize::try_from(count).unwrap_or(0) {
            // SAFETY: within the list, whose entries are devices until it is freed.
            let device = unsafe { *list.add(index) };
            // SAFETY: a device of the list; the name is a string of C that lives as long.
            let (context, name) = unsafe {
                ((library.ibv_open_device)(device), CStr::from_ptr((library.ibv_get_device_name)(device)))
            };
            if context.is_null() {
                continue;
            }
            let name = name.to_string_lossy().into_owned();
            let mut opened = Self { library, context, name, attributes: no_attributes() };
            // SAFETY: a live context, and room for the attributes.
            if unsafe { (library.ibv_query_device)(context, &raw mut opened.attributes) } == 0 {
                devices.push(opened);
            }
        }
        // SAFETY: the list came from the library; devices that are open stay.
        unsafe { (library.ibv_free_device_list)(list) };
        Ok(devices)
    }

    /// Whether it speaks iWARP, which has neither datagrams nor writes with an immediate value.
    pub fn is_iwarp(&self) -> bool {
        // SAFETY: a live context, whose device lives as long.
        unsafe { (*(*self.context).device).transport_type == sys::IBV_TRANSPORT_IWARP }
    }

    /// The numbers of its ports.
    pub fn ports(&self) -> core::ops::RangeInclusive<u8> {
        1..=self.attributes.phys_port_cnt
    }

    /// What a port is like; `None` when the device does not say.
    pub fn port(&self, number: u8) -> Option<sys::ibv_port_attr> {
        let mut attributes = no_port_attributes();
        // SAFETY: a live context, and room for more than the attributes that this function writes.
        let result = unsafe { (self.library.ibv_query_port)(self.context, number, &raw mut attributes) };
        (result == 0).then_some(attributes)
    }

    /// The addresses of a port that are in use.
    pub fn gids(&self, port: u8) -> Vec<sys::ibv_gid_entry> {
        let mut entries = vec![sys::ibv_gid_entry::default(); GIDS_MAX];
        let entry_bytes = size_of::<sys::ibv_gid_entry>();
        // SAFETY: a live context, and room for that many entries of that size.
        let count = unsafe {
            (self.library._ibv_query_gid_table)(
                self.context,
                entries.as_mut_ptr(),
                entries.len(),
                0,
                entry_bytes,
            )
        };
        entries.truncate(usize::try_from(count).unwrap_or(0));
        entries.retain(|entry| entry.port_num == u32::from(port) && Gid(entry.gid).is_set());
        entries
    }

    fn with_port(self, port: Port, local: Option<IpAddr>) -> Result<Arc<Device>, VerbsError> {
        // SAFETY: a live context.
        let domain = unsafe { (self.library.ibv_alloc_pd)(self.context) };
        if domain.is_null() {
            return Err(VerbsError::last("allocate a protection domain"));
        }
        let mut this = core::mem::ManuallyDrop::new(self);
        let (name, attributes, library) = (core::mem::take(&mut this.name), this.attributes, this.library);
        let network = match (this.is_iwarp(), port.ethernet) {
            (true, _) => Network::Iwarp,
            (false, true) => Network::Roce,
            (false, false) => Network::InfiniBand,
        };
        Ok(Arc::new(Device {
            library,
            context: this.context,
            domain,
            name,
            attributes,
            network,
            port,
            local,
        }))
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: a live context that nothing was made from.
        unsafe { (self.library.ibv_close_device)(self.context) };
    }
}

fn no_attributes() -> sys::ibv_device_attr {
    // SAFETY: all fields are integers, for which zeros are valid.
    unsafe { core::mem::zeroed() }
}

fn no_port_attributes() -> sys::ibv_port_attr {
    // SAFETY: as above.
    unsafe { core::mem::zeroed() }
}
