//! The messages between a member of the cluster and the rendezvous; `docs/bootstrap.md` describes their
//! bytes.
//!
//! Decoding checks everything that can be checked without knowing the cluster: lengths, ranges and text. A
//! peer of another version is recognised by the first fields of [`Ask::Join`], which never change.

use farcall_base::Address;

use super::fields::{Malformed, Reader, put_bytes};
use super::limits::{FRAME_BYTES_MAX, NAME_BYTES_MAX, RANKS_MAX};
use super::refusal::Refusal;

/// The version of the messages that this build speaks.
pub(super) const VERSION: u16 = 1;

/// What a connection to the rendezvous begins with.
const MAGIC: [u8; 8] = *b"farcall\0";

/// The longest name of a machine that is passed on; longer ones are cut.
const HOST_BYTES_MAX: usize = 64;

/// The identity of the joining process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Join {
    /// Less than `size`.
    pub(super) rank: u32,
    /// 1 to [`RANKS_MAX`].
    pub(super) size: u32,
    /// Never 0.
    pub(super) incarnation: u64,
    /// Of the host list; 0 without one.
    pub(super) hosts_fingerprint: u64,
    /// For people: the process's number on its machine.
    pub(super) process: u32,
    /// For people: the machine.
    pub(super) host: String,
}

/// What a member tells the rendezvous.
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
}

/// What the rendezvous tells a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The sender of the join is a member now.
    Welcome,
    /// It is not, and the connection ends.
    Refused(Refusal),
    /// An address, and the incarnation of the process that published it.
    Resolved { request: u64, incarnation: u64, address: Address },
    /// All ranks have reached the barrier.
    Released { request: u64 },
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
            Self::Barrier { request, name } => frame(4, |out| {
                out.extend_from_slice(&request.to_le_bytes());
                put_bytes(out, name.as_bytes());
            }),
            Self::Cancel { request } => frame(5, |out| out.extend_from_slice(&request.to_le_bytes())),
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
            _ => return Err(Malformed("an unknown kind of message")),
        };
        fields.end()?;
        Ok(ask)
    }
}

impl Join {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.rank.to_le_bytes());
        out.extend_from_slice(&self.size.to_le_bytes());
        out.extend_from_slice(&self.incarnation.to_le_bytes());
        out.extend_from_slice(&self.hosts_fingerprint.to_le_bytes());
        out.extend_from_slice(&self.process.to_le_bytes());
        let mut end = self.host.len().min(HOST_BYTES_MAX);
        while !self.host.is_char_boundary(end) {
            end -= 1;
        }
        put_bytes(out, &self.host.as_bytes()[..end]);
    }

    fn take(fields: &mut Reader<'_>) -> Result<Self, Malformed> {
        let join = Self {
            rank: fields.u32()?,
            size: fields.u32()?,
            incarnation: fields.u64()?,
            hosts_fingerprint: fields.u64()?,
            process: fields.u32()?,
            host: fields.text(HOST_BYTES_MAX)?,
        };
        let size_is_fine = (1..=RANKS_MAX).contains(&join.size);
        if !size_is_fine || join.rank >= join.size || join.incarnation == 0 {
            return Err(Malformed("a rank, size or incarnation that no process has"));
        }
        Ok(join)
    }
}

impl Answer {
    /// The message with its length in front.
    pub(super) fn to_frame(&self) -> Vec<u8> {
        match self {
            Self::Welcome => frame(129, |_| ()),
            Self::Refused(refusal) => frame(130, |out| put_refusal(out, refusal)),
            Self::Resolved { request, incarnation, address } => frame(131, |out| {
                out.extend_from_slice(&request.to_le_bytes());
                out.extend_from_slice(&incarnation.to_le_bytes());
                put_bytes(out, address.as_bytes());
            }),
            Self::Released { request } => frame(132, |out| out.extend_from_slice(&request.to_le_bytes())),
        }
    }

    /// Reads a message without its length.
    pub(super) fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Reader::new(message);
        let answer = match fields.u8()? {
            129 => Self::Welcome,
            130 => Self::Refused(take_refusal(&mut fields)?),
            131 => Self::Resolved {
                request: fields.u64()?,
                incarnation: fields.u64()?,
                address: take_address(&mut fields)?,
            },
            132 => Self::Released { request: fields.u64()? },
            _ => return Err(Malformed("an unknown kind of message")),
        };
        fields.end()?;
        Ok(answer)
    }
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
        _ => Err(Malformed("an unknown refusal")),
    }
}

#[cfg(test)]
mod tests;
