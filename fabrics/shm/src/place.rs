//! Where a driver or a service listens, and how it is found: one name, in a folder and as an abstract name.
//!
//! The folder is tried first. What is there is reached from other network namespaces, and not by other users
//! if its mode says so; an abstract name needs no folder and leaves no file.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use farcall_base::{Address, AddressError};
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, SocketFlags, accept_with, bind, connect, listen};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::access::{Access, Allow};
use crate::folder::{BACKLOG, Directory, FolderListener, seqpacket};

const PREFIX: &str = "farcall-";

/// Random digits after the prefix.
const DIGITS: usize = 32;

/// A place to be called at: by a socket in the folder, an abstract one, or both.
#[derive(Debug)]
pub struct Door {
    in_folder: Option<FolderListener>,
    by_name: Option<OwnedFd>,
}

impl Door {
    /// Listens at a name.
    ///
    /// # Errors
    /// `AddrInUse` when somebody listens at it already. A name that is taken as an abstract one only does not
    /// matter where there is a folder: there it is looked for first.
    pub fn open(name: &str, access: &Access) -> io::Result<Self> {
        let is_named = matches!(access.directory, Directory::At(_));
        let in_folder = match access.directory.open()? {
            Some(folder) => match FolderListener::bind(&folder, name, &access.allow) {
                Err(error) if is_named || error.kind() == io::ErrorKind::AddrInUse => return Err(error),
                // The user's own folder is taken where it can be.
                bound => bound.ok(),
            },
            None => None,
        };
        // Where the folder's mode decides, there must be no other way in.
        if access.allow == Allow::Any && is_named {
            return Ok(Self { in_folder, by_name: None });
        }
        let by_name = match abstract_listener(name) {
            Err(_) if in_folder.is_some() => None,
            bound => Some(bound?),
        };
        Ok(Self { in_folder, by_name })
    }

    /// The sockets that become readable when somebody calls.
    pub fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let in_folder = self.in_folder.as_ref().map(|listener| listener.socket.as_fd());
        in_folder.into_iter().chain(self.by_name.as_ref().map(AsFd::as_fd))
    }

    /// The next caller, those in the folder first.
    ///
    /// # Errors
    /// `AGAIN` when there is none.
    pub fn accept(&self) -> rustix::io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let mut outcome = Err(Errno::AGAIN);
        for socket in self.sockets() {
            match accept_with(socket, flags) {
                Ok(caller) => return Ok(caller),
                Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => {}
                Err(error) => outcome = Err(error),
            }
        }
        outcome
    }

    /// One descriptor that can be read while callers wait.
    pub fn waker(&self) -> io::Result<OwnedFd> {
        let waker = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for socket in self.sockets() {
            epoll::add(&waker, socket, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        }
        Ok(waker)
    }
}

fn abstract_listener(name: &str) -> io::Result<OwnedFd> {
    let socket = seqpacket()?;
    bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Why nobody was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotReached {
    /// Nobody listens at the name.
    NotThere,
    /// Too many others call; try again.
    Full,
    /// The system refused.
    Refused(Errno),
}

/// Connects a new socket to a name: in the folder, and if nobody is there, by the abstract name.
pub fn reach(name: &str, access: &Access) -> Result<OwnedFd, NotReached> {
    let socket = seqpacket().map_err(NotReached::Refused)?;
    let in_folder = access.directory.place().map(|folder| folder.join(name));
    let in_folder = in_folder.and_then(|path| SocketAddrUnix::new(path.as_os_str().as_bytes()).ok());
    let by_name = SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(NotReached::Refused)?;
    let mut outcome = NotReached::NotThere;
    for address in in_folder.into_iter().chain([by_name]) {
        match connect(&socket, &address) {
            Ok(()) => return Ok(socket),
            Err(Errno::AGAIN | Errno::INTR) => return Err(NotReached::Full),
            Err(Errno::CONNREFUSED | Errno::NOENT | Errno::NOTDIR) => {}
            Err(error) => outcome = NotReached::Refused(error),
        }
    }
    Err(outcome)
}

/// A door with a random name, and its address: `tag`, which tells one kind of driver from another, and the
/// name.
pub fn listen_somewhere(tag: u8, access: &Access) -> io::Result<(Door, Address)> {
    let mut random = [0; 16];
    getrandom(&mut random, GetRandomFlags::empty())?;
    let name = format!("{PREFIX}{:032x}", u128::from_le_bytes(random));
    let door = Door::open(&name, access)?;
    let address = Address::new([&[tag], name.as_bytes()].concat()).map_err(io::Error::other)?;
    Ok((door, address))
}

/// The name of the socket in an address with this tag.
pub fn name_in(address: &Address, tag: u8) -> Result<&str, AddressError> {
    match address.as_bytes() {
        [first, name @ ..] if *first == tag => core::str::from_utf8(name).ok().filter(|name| is_name(name)),
        _ => None,
    }
    .ok_or(AddressError::WrongKind { driver: "shm" })
}

/// Whether `name` can be that of a driver's socket. It is a part of a path.
fn is_name(name: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    name.strip_prefix(PREFIX).is_some_and(|digits| digits.len() == DIGITS && digits.bytes().all(is_digit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::tests::Scratch;

    fn in_folder(scratch: &Scratch, allow: Allow) -> Access {
        Access { directory: Directory::At(scratch.0.clone()), allow }
    }

    #[test]
    fn an_address_is_a_tag_and_a_name_and_nothing_more() {
        let (_door, address) = listen_somewhere(b'X', &Access::default()).expect("a socket");
        assert_eq!(name_in(&address, b'X').map(str::len), Ok(PREFIX.len() + DIGITS));
        let refusal = Err(AddressError::WrongKind { driver: "shm" });
        assert_eq!(name_in(&address, b'Y'), refusal, "of another kind of driver");
        let bytes = address.as_bytes();
        let climbing = b"Xfarcall-../../../../../../../../../x0";
        for wrong in
            [&bytes[..bytes.len() - 1], &[bytes, b"0"].concat(), &bytes.to_ascii_uppercase(), b"", climbing]
        {
            assert_eq!(name_in(&Address::new(wrong).expect("short"), b'X'), refusal, "{wrong:?}");
        }
    }

    #[test]
    fn a_name_in_a_folder_is_found_by_those_that_have_the_folder() {
        let (scratch, elsewhere) = (Scratch::new(), Scratch::new());
        let any = in_folder(&scratch, Allow::Any);
        let door = Door::open("farcall-here", &any).expect("free");
        assert!(reach("farcall-here", &any).is_ok() && door.accept().is_ok());
        let stranger = in_folder(&elsewhere, Allow::Any);
        assert_eq!(reach("farcall-here", &stranger).err(), Some(NotReached::NotThere), "no other way in");
        assert_eq!(door.accept().err(), Some(Errno::AGAIN));
    }

    #[test]
    fn an_abstract_name_that_others_occupy_stops_nobody_with_a_folder() {
        let scratch = Scratch::new();
        let name = format!("farcall-squat-{}", std::process::id());
        let squatter = abstract_listener(&name).expect("free");
        let access = in_folder(&scratch, Allow::SameUser);
        let door = Door::open(&name, &access).expect("the folder is free");
        let waker = door.waker().expect("a descriptor");
        assert!(reach(&name, &access).is_ok());
        farcall_driver::wait_readable(
            &[std::os::fd::AsRawFd::as_raw_fd(&waker)],
            core::time::Duration::from_secs(60),
        );
        assert!(door.accept().is_ok(), "the caller came here and not to the squatter");
        drop(squatter);
    }
}
