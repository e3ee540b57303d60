//! The address of an endpoint over several fabrics: its address on each.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `farcall*` |
//! | 8 | the machine's number, little-endian; 0 when it is not known |
//! | 8 + 4 | the namespace of the process, and its number there; 0 when they are not known |
//! | 1 | how many ways follow |
//! | 1 + n | for each way the length of its name, and the name |
//! | 2 + n | the length of its address, little-endian, and the address |

use farcall_base::{Address, AddressError};
use farcall_driver::ProcessMark;

use super::WAYS_MAX;

/// What it begins with.
const MAGIC: &[u8; 8] = b"farcall*";

/// The most ways of a peer that are looked at; those of later versions may be more than ours.
const PEER_WAYS_MAX: usize = 16;
const _: () = assert!(WAYS_MAX <= PEER_WAYS_MAX);

/// The addresses of one endpoint, by the names of their transports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WayAddresses {
    machine: u64,
    process: ProcessMark,
    ways: Vec<(String, Address)>,
}

impl WayAddresses {
    /// Of an endpoint on the machine of that number, 0 if it is not known.
    pub fn new(machine: u64, process: ProcessMark, ways: Vec<(String, Address)>) -> Self {
        Self { machine, process, ways }
    }

    /// The process.
    pub fn process(&self) -> ProcessMark {
        self.process
    }

    /// The number of the machine; 0 when it is not known.
    pub fn machine(&self) -> u64 {
        self.machine
    }

    /// The address over that transport.
    pub fn of(&self, transport: &str) -> Option<&Address> {
        self.ways.iter().find(|(name, _)| name == transport).map(|(_, address)| address)
    }

    /// All in one address.
    ///
    /// # Errors
    /// They are too long together.
    pub fn encode(&self) -> Result<Address, AddressError> {
        let ProcessMark { namespace, pid } = self.process;
        let mut bytes = [&MAGIC[..], &self.machine.to_le_bytes(), &namespace.to_le_bytes()].concat();
        bytes.extend_from_slice(&pid.to_le_bytes());
        bytes.push(self.ways.len() as u8);
        for (name, address) in &self.ways {
            let address = address.as_bytes();
            bytes.push(name.len() as u8);
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(&(address.len() as u16).to_le_bytes());
            bytes.extend_from_slice(address);
        }
        Address::new(bytes)
    }

    /// What `encode` has made; `None` for anything else.
    pub fn decode(address: &Address) -> Option<Self> {
        let rest = address.as_bytes().strip_prefix(MAGIC)?;
        let (machine, rest) = rest.split_first_chunk()?;
        let (namespace, rest) = rest.split_first_chunk()?;
        let (pid, rest) = rest.split_first_chunk()?;
        let process =
            ProcessMark { namespace: u64::from_le_bytes(*namespace), pid: u32::from_le_bytes(*pid) };
        let (&count, mut rest) = rest.split_first()?;
        if usize::from(count) > PEER_WAYS_MAX {
            return None;
        }
        let mut ways = Vec::with_capacity(count.into());
        for _ in 0..count {
            let (&length, behind) = rest.split_first()?;
            let (name, behind) = behind.split_at_checked(length.into())?;
            let (&length, behind) = behind.split_first_chunk()?;
            let (address, behind) = behind.split_at_checked(u16::from_le_bytes(length).into())?;
            ways.push((String::from_utf8(name.to_vec()).ok()?, Address::new(address).ok()?));
            rest = behind;
        }
        rest.is_empty().then_some(Self { machine: u64::from_le_bytes(*machine), process, ways })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(bytes: &[u8]) -> Address {
        Address::new(bytes).expect("short")
    }

    #[test]
    fn what_was_encoded_is_decoded_and_nothing_else() {
        let ways = vec![("ring+shm".to_owned(), address(b"shm@x")), ("basic+udp".to_owned(), address(b""))];
        let all = WayAddresses::new(7, ProcessMark { namespace: 5, pid: 3 }, ways);
        let encoded = all.encode().expect("short");
        assert_eq!(WayAddresses::decode(&encoded), Some(all.clone()));
        assert_eq!(all.of("basic+udp"), Some(&address(b"")));
        assert_eq!(all.of("homa+udp"), None);
        for length in 0..encoded.as_bytes().len() {
            let part = address(&encoded.as_bytes()[..length]);
            assert_eq!(WayAddresses::decode(&part), None, "{length} bytes of it");
        }
        let longer = [encoded.as_bytes(), b"x"].concat();
        assert_eq!(WayAddresses::decode(&address(&longer)), None, "a byte too many");
    }

    #[test]
    fn addresses_that_are_too_long_together_are_refused() {
        let long = address(&[1; 2000]);
        let ways = vec![("a".to_owned(), long.clone()), ("b".to_owned(), long)];
        let all = WayAddresses::new(0, ProcessMark::default(), ways);
        assert!(matches!(all.encode(), Err(AddressError::TooLong { .. })));
    }
}
