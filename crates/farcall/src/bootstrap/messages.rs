//! The messages between a member and the registry; `docs/bootstrap.md` describes their bytes.
//!
//! Decoding checks everything that can be checked without knowing the cluster: lengths, ranges and text. A
//! peer of another version is recognised by the first fields of [`Ask::Join`], which never change.

use std::sync::Arc;
use std::time::Duration;

use farcall_base::{Address, NO_RANK};

use super::fields::{Malformed, Reader, put_bytes};
use super::limits::{FRAME_BYTES_MAX, LEASE_MAX, LEASE_MIN, NAME_BYTES_MAX, RANKS_MAX, VALUE_BYTES_MAX};
use super::refusal::Refusal;
use super::secret::Secret;

/// The version of the messages that this build speaks.
pub(super) const VERSION: u16 = 3;

/// What a connection to the registry begins with.
const MAGIC: [u8; 8] = *b"farcall\0";

/// The longest name of a machine that is passed on; longer ones are cut.
const HOST_BYTES_MAX: usize = 64;

/// The most ranks that are named of those that are missing at a barrier.
pub(super) const MISSING_NAMED_MAX: usize = 16;

/// The identity of the joining process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Join {
    pub(super) place: Place,
    /// Never 0.
    pub(super) incarnation: u64,
    /// Drawn by the process: shows later that a connection is of the same process.
    pub(super) secret: Secret,
    /// Of the machine, as [`machine_number`](super::machine_number) says it; 0 when it is not known.
    pub(super) machine: u64,
    /// For people: the process's number on its machine.
    pub(super) process: u32,
    /// For people: the machine.
    pub(super) host: String,
}

/// Where a process stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In a world of fixed size.
    Rank {
        /// Less than `size`.
        rank: u32,
        /// 1 to [`RANKS_MAX`].
        size: u32,
        /// Of the host list; 0 without one.
        hosts_fingerprint: u64,
    },
    /// In no world: it registers, looks up and watches names.
    Open,
}

/// A process that listens under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    /// The registry's number for it, not used again.
    pub(super) number: u64,
    /// Of the process.
    pub(super) incarnation: u64,
    /// Of the process; [`NO_RANK`] without one.
    pub(super) rank: u32,
    /// Of the machine; 0 when it is not known.
    pub(super) machine: u64,
    /// Transport and number of the endpoint, such as `ring+shm#0`.
    pub(super) key: String,
    /// Where it is reached.
    pub(super) address: Address,
    /// For people: the machine.
    pub(super) host: String,
}

/// What a member tells the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// The first message of a connection.
    Join(Join),
    /// The first message of a process that speaks another version.
    OtherVersion,
    /// The sender's address under `key`; replaces a former one.
    Publish { key: String, address: Address },
    /// Wants the address that `rank` publishes under `key`, now or later.
    Resolve { request: u64, rank: u32, key: String },
    /// Has reached the barrier.
    Barrier { request: u64, name: String },
    /// Waits no more.
    Cancel { request: u64 },
    /// Goes: what it holds is free at once.
    Leave,
    /// Its endpoint `key` listens under `name`.
    Register { name: String, key: String, address: Address },
    /// Its endpoint `key` listens under `name` no more.
    Withdraw { name: String, key: String },
    /// Wants to know which endpoints listen under `name`, from now on.
    Watch { request: u64, name: String },
    /// Lives: the next such message, or any other, comes within the lease.
    Renew { lease: Duration },
    /// Wants `value` in the register `key`, if its revision is `expected`; 0 when it must not exist.
    CompareAndSet { request: u64, key: String, expected: u64, value: Vec<u8> },
    /// Wants to know which ranks are not at the barrier.
    Missing { request: u64, name: String },
}

/// What the registry tells a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The sender of the join is a member now. Says whether other machines reach the registry.
    Welcome { beyond_machine: bool },
    /// It is not, and the connection ends.
    Refused(Refusal),
    /// An address, and the incarnation of the process that published it.
    Resolved { request: u64, incarnation: u64, address: Address },
    /// All ranks have reached the barrier.
    Released { request: u64 },
    /// An endpoint listens under the watched name.
    Listed { request: u64, listed: Arc<Listed> },
    /// The endpoint of this number listens no more.
    Gone { request: u64, number: u64 },
    /// All endpoints that listened when the watch began have been listed.
    Current { request: u64 },
    /// The watch begins again: its member is too far behind for single changes.
    Restarted { request: u64 },
    /// The register as it is now, and whether the value asked for was set.
    Compared { request: u64, was_set: bool, revision: u64, value: Vec<u8> },
    /// How many ranks are not at the barrier, and the first [`MISSING_NAMED_MAX`] of them.
    Missing { request: u64, count: u32, ranks: Vec<u32> },
    /// The registry stores as much as it may, and has not taken note of the request.
    Full { request: u64 },
    /// Nor of an endpoint that listens under a name.
    NotListed { name: String, key: String },
    /// Nor of an address.
    NotPublished { key: String },
}

impl Ask {
    /// The message with its length in front.
    pub(super) fn to_frame(&self) -> Vec<u8> {
        match self {
            Self::Join(join) => frame(1, |out| join.put(out)),
            Self::OtherVersion => unreachable!("only decoded, never sent"),
            Self::Publish { key, address } => frame(2, |out| {
                put_bytes(out, key.as_bytes());
                put_bytes(out, address.as_bytes());
            }),
            Self::Resolve { request, rank, key } => frame(3, |out| {
                out.extend_from_slice(&request.to_le_bytes());
                out.extend_from_slice(&rank.to_le_bytes());
                put_bytes(out, key.as_bytes());
            }),
            Self::Barrier { request, name } => numbered(4, *request, |out| put_bytes(out, name.as_bytes())),
            Self::Cancel { request } => numbered(5, *request, |_| ()),
            Self::Leave => frame(6, |_| ()),
            Self::Register { name, key, address } => frame(7, |out| {
                put_bytes(out, name.as_bytes());
                put_bytes(out, key.as_bytes());
                put_bytes(out, address.as_bytes());
            }),
            Self::Withdraw { name, key } => frame(8, |out| {
                put_bytes(out, name.as_bytes());
                put_bytes(out, key.as_bytes());
            }),
            Self::Watch { request, name } => numbered(9, *request, |out| put_bytes(out, name.as_bytes())),
            Self::Renew { lease } => frame(10, |out| {
                out.extend_from_slice(&(lease.as_millis() as u32).to_le_bytes());
            }),
            Self::CompareAndSet { request, key, expected, value } => numbered(11, *request, |out| {
                put_bytes(out, key.as_bytes());
                out.extend_from_slice(&expected.to_le_bytes());
                put_bytes(out, value);
            }),
            Self::Missing { request, name } => numbered(12, *request, |out| put_bytes(out, name.as_bytes())),
        }
    }

    /// What the registry says when it has no room for it; `None` of what needs none.
    pub(super) fn without_room(&self) -> Option<Answer> {
        match self {
            Self::Publish { key, .. } => Some(Answer::NotPublished { key: key.clone() }),
            Self::Register { name, key, .. } => {
                Some(Answer::NotListed { name: name.clone(), key: key.clone() })
            }
            Self::Resolve { request, .. }
            | Self::Barrier { request, .. }
            | Self::Watch { request, .. }
            | Self::CompareAndSet { request, .. } => Some(Answer::Full { request: *request }),
            _ => None,
        }
    }

    /// Reads a message without its length.
    pub(super) fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Reader::new(message);
        let ask = match fields.u8()? {
            1 => {
                if fields.array()? != MAGIC {
                    return Err(Malformed("not a member of a cluster"));
                }
                if fields.u16()? != VERSION {
                    return Ok(Self::OtherVersion);
                }
                Self::Join(Join::take(&mut fields)?)
            }
            2 => Self::Publish { key: fields.text(NAME_BYTES_MAX)?, address: take_address(&mut fields)? },
            3 => Self::Resolve {
                request: fields.u64()?,
                rank: fields.u32()?,
                key: fields.text(NAME_BYTES_MAX)?,
            },
            4 => Self::Barrier { request: fields.u64()?, name: fields.text(NAME_BYTES_MAX)? },
            5 => Self::Cancel { request: fields.u64()? },
            6 => Self::Leave,
            7 => Self::Register {
                name: fields.text(NAME_BYTES_MAX)?,
                key: fields.text(NAME_BYTES_MAX)?,
                address: take_address(&mut fields)?,
            },
            8 => Self::Withdraw { name: fields.text(NAME_BYTES_MAX)?, key: fields.text(NAME_BYTES_MAX)? },
            9 => Self::Watch { request: fields.u64()?, name: fields.text(NAME_BYTES_MAX)? },
            10 => Self::Renew { lease: take_lease(&mut fields)? },
            11 => Self::CompareAndSet {
                request: fields.u64()?,
                key: fields.text(NAME_BYTES_MAX)?,
                expected: fields.u64()?,
                value: take_value(&mut fields)?,
            },
            12 => Self::Missing { request: fields.u64()?, name: fields.text(NAME_BYTES_MAX)? },
            _ => return Err(Malformed("an unknown kind of message")),
        };
        fields.end()?;
        Ok(ask)
    }
}

impl Join {
    fn put(&self, out: &mut Vec<u8>) {
        let (rank, size, hosts_fingerprint) = match self.place {
            Place::Rank { rank, size, hosts_fingerprint } => (rank, size, hosts_fingerprint),
            Place::Open => (NO_RANK, 0, 0),
        };
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&rank.to_le_bytes());
        out.extend_from_slice(&size.to_le_bytes());
        out.extend_from_slice(&self.incarnation.to_le_bytes());
        out.extend_from_slice(&hosts_fingerprint.to_le_bytes());
        out.extend_from_slice(self.secret.as_bytes());
        out.extend_from_slice(&self.machine.to_le_bytes());
        out.extend_from_slice(&self.process.to_le_bytes());
        let mut end = self.host.len().min(HOST_BYTES_MAX);
        while !self.host.is_char_boundary(end) {
            end -= 1;
        }
        put_bytes(out, &self.host.as_bytes()[..end]);
    }

    fn take(fields: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (rank, size) = (fields.u32()?, fields.u32()?);
        let incarnation = fields.u64()?;
        let place = match (rank, size, fields.u64()?) {
            (NO_RANK, 0, 0) => Place::Open,
            (rank, size @ 1..=RANKS_MAX, hosts_fingerprint) if rank < size => {
                Place::Rank { rank, size, hosts_fingerprint }
            }
            _ => return Err(Malformed("a rank or size that no process has")),
        };
        if incarnation == 0 {
            return Err(Malformed("an incarnation that no process has"));
        }
        let secret = Secret::new(fields.array()?);
        let machine = fields.u64()?;
        let (process, host) = (fields.u32()?, fields.text(HOST_BYTES_MAX)?);
        Ok(Self { place, incarnation, secret, machine, process, host })
    }
}

impl Answer {
    /// The length of [`Answer::Gone`].
    pub(super) const GONE_BYTES: usize = 4 + 1 + 8 + 8;

    /// The message with its length in front.
    pub(super) fn to_frame(&self) -> Vec<u8> {
        match self {
            Self::Welcome { beyond_machine } => frame(129, |out| out.push(u8::from(*beyond_machine))),
            Self::Refused(refusal) => frame(130, |out| put_refusal(out, refusal)),
            Self::Resolved { request, incarnation, address } => numbered(131, *request, |out| {
                out.extend_from_slice(&incarnation.to_le_bytes());
                put_bytes(out, address.as_bytes());
            }),
            Self::Released { request } => numbered(132, *request, |_| ()),
            Self::Listed { request, listed } => numbered(133, *request, |out| listed.put(out)),
            Self::Gone { request, number } => {
                numbered(134, *request, |out| out.extend_from_slice(&number.to_le_bytes()))
            }
            Self::Current { request } => numbered(135, *request, |_| ()),
            Self::Compared { request, was_set, revision, value } => numbered(136, *request, |out| {
                out.push(u8::from(*was_set));
                out.extend_from_slice(&revision.to_le_bytes());
                put_bytes(out, value);
            }),
            Self::Missing { request, count, ranks } => numbered(137, *request, |out| {
                out.extend_from_slice(&count.to_le_bytes());
                out.push(ranks.len() as u8);
                ranks.iter().for_each(|rank| out.extend_from_slice(&rank.to_le_bytes()));
            }),
            Self::Restarted { request } => numbered(138, *request, |_| ()),
            Self::Full { request } => numbered(139, *request, |_| ()),
            Self::NotListed { name, key } => frame(140, |out| {
                put_bytes(out, name.as_bytes());
                put_bytes(out, key.as_bytes());
            }),
            Self::NotPublished { key } => frame(141, |out| put_bytes(out, key.as_bytes())),
        }
    }

    /// Reads a message without its length.
    pub(super) fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Reader::new(message);
        let answer = match fields.u8()? {
            129 => Self::Welcome { beyond_machine: take_flag(&mut fields)? },
            130 => Self::Refused(take_refusal(&mut fields)?),
            131 => Self::Resolved {
                request: fields.u64()?,
                incarnation: fields.u64()?,
                address: take_address(&mut fields)?,
            },
            132 => Self::Released { request: fields.u64()? },
            133 => Self::Listed { request: fields.u64()?, listed: Arc::new(Listed::take(&mut fields)?) },
            134 => Self::Gone { request: fields.u64()?, number: fields.u64()? },
            135 => Self::Current { request: fields.u64()? },
            136 => Self::Compared {
                request: fields.u64()?,
                was_set: take_flag(&mut fields)?,
                revision: fields.u64()?,
                value: take_value(&mut fields)?,
            },
            137 => Self::Missing {
                request: fields.u64()?,
                count: fields.u32()?,
                ranks: match usize::from(fields.u8()?) {
                    named @ 0..=MISSING_NAMED_MAX => {
                        (0..named).map(|_| fields.u32()).collect::<Result<_, _>>()?
                    }
                    _ => return Err(Malformed("more missing ranks than are named")),
                },
            },
            138 => Self::Restarted { request: fields.u64()? },
            139 => Self::Full { request: fields.u64()? },
            140 => Self::NotListed { name: fields.text(NAME_BYTES_MAX)?, key: fields.text(NAME_BYTES_MAX)? },
            141 => Self::NotPublished { key: fields.text(NAME_BYTES_MAX)? },
            _ => return Err(Malformed("an unknown kind of message")),
        };
        fields.end()?;
        Ok(answer)
    }

    /// The request that it answers.
    pub(super) fn request(&self) -> Option<u64> {
        match self {
            Self::Welcome { .. } | Self::Refused(_) | Self::NotListed { .. } | Self::NotPublished { .. } => {
                None
            }
            Self::Resolved { request, .. }
            | Self::Released { request }
            | Self::Listed { request, .. }
            | Self::Gone { request, .. }
            | Self::Current { request }
            | Self::Restarted { request }
            | Self::Compared { request, .. }
            | Self::Full { request }
            | Self::Missing { request, .. } => Some(*request),
        }
    }
}

impl Listed {
    /// The length of the answer that lists it.
    pub(super) fn bytes(&self) -> usize {
        const FIXED_BYTES: usize = 4 + 1 + 8 + 8 + 8 + 4 + 8 + 3 * 2;
        FIXED_BYTES + self.key.len() + self.address.as_bytes().len() + self.host.len()
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.incarnation.to_le_bytes());
        out.extend_from_slice(&self.rank.to_le_bytes());
        out.extend_from_slice(&self.machine.to_le_bytes());
        put_bytes(out, self.key.as_bytes());
        put_bytes(out, self.address.as_bytes());
        put_bytes(out, self.host.as_bytes());
    }

    fn take(fields: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            number: fields.u64()?,
            incarnation: fields.u64()?,
            rank: fields.u32()?,
            machine: fields.u64()?,
            key: fields.text(NAME_BYTES_MAX)?,
            address: take_address(fields)?,
            host: fields.text(HOST_BYTES_MAX)?,
        })
    }
}

fn numbered(kind: u8, request: u64, put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    frame(kind, |out| {
        out.extend_from_slice(&request.to_le_bytes());
        put(out);
    })
}

fn take_flag(fields: &mut Reader<'_>) -> Result<bool, Malformed> {
    match fields.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed("a flag is 0 or 1")),
    }
}

fn take_value(fields: &mut Reader<'_>) -> Result<Vec<u8>, Malformed> {
    let value = fields.bytes()?;
    if value.len() > VALUE_BYTES_MAX { Err(Malformed("a value is too long")) } else { Ok(value.to_vec()) }
}

fn take_lease(fields: &mut Reader<'_>) -> Result<Duration, Malformed> {
    let lease = Duration::from_millis(u64::from(fields.u32()?));
    if (LEASE_MIN..=LEASE_MAX).contains(&lease) { Ok(lease) } else { Err(Malformed("a lease out of range")) }
}

fn frame(kind: u8, put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = vec![0, 0, 0, 0, kind];
    put(&mut out);
    let length = out.len() - 4;
    assert!(length <= FRAME_BYTES_MAX, "the fields' bounds keep every message below the bound of a frame");
    out[..4].copy_from_slice(&(length as u32).to_le_bytes());
    out
}

fn take_address(fields: &mut Reader<'_>) -> Result<Address, Malformed> {
    Address::new(fields.bytes()?).map_err(|_| Malformed("an address is too long"))
}

fn put_refusal(out: &mut Vec<u8>, refusal: &Refusal) {
    match refusal {
        Refusal::Version { rendezvous } => {
            out.push(0);
            out.extend_from_slice(&rendezvous.to_le_bytes());
        }
        Refusal::Size { asked, size } => {
            out.push(1);
            out.extend_from_slice(&asked.to_le_bytes());
            out.extend_from_slice(&size.to_le_bytes());
        }
        Refusal::RankTaken { rank, process, host } => {
            out.push(2);
            out.extend_from_slice(&rank.to_le_bytes());
            out.extend_from_slice(&process.to_le_bytes());
            put_bytes(out, host.as_bytes());
        }
        Refusal::Hosts => out.push(3),
        Refusal::RankHeld { rank } => {
            out.push(4);
            out.extend_from_slice(&rank.to_le_bytes());
        }
        Refusal::NoWorld => out.push(5),
        Refusal::Full => out.push(6),
        Refusal::Impostor => out.push(7),
        Refusal::Key => out.push(8),
    }
}

fn take_refusal(fields: &mut Reader<'_>) -> Result<Refusal, Malformed> {
    match fields.u8()? {
        0 => Ok(Refusal::Version { rendezvous: fields.u16()? }),
        1 => Ok(Refusal::Size { asked: fields.u32()?, size: fields.u32()? }),
        2 => Ok(Refusal::RankTaken {
            rank: fields.u32()?,
            process: fields.u32()?,
            host: fields.text(HOST_BYTES_MAX)?,
        }),
        3 => Ok(Refusal::Hosts),
        4 => Ok(Refusal::RankHeld { rank: fields.u32()? }),
        5 => Ok(Refusal::NoWorld),
        6 => Ok(Refusal::Full),
        7 => Ok(Refusal::Impostor),
        8 => Ok(Refusal::Key),
        _ => Err(Malformed("an unknown refusal")),
    }
}

#[cfg(test)]
mod tests;
