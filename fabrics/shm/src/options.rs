//! What the C library and socket options say of users and processes, as far as `rustix` does not.

use core::ffi::c_int;
use core::mem::MaybeUninit;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::fs::{fstat, fstatfs};

/// `SO_PEERPIDFD` of Linux 6.5.
const SO_PEERPIDFD: c_int = 77;
/// The kind of file system that descriptors of processes are in, since Linux 6.9. There an inode is a
/// process, and its number is never used again.
const PID_FS_MAGIC: i64 = 0x5049_4446;

/// The most groups of a process that are looked at: the kernel's own limit.
const GROUPS_MAX: usize = 65_536;

/// Room for an entry of the user or group database, in bytes.
const ENTRY_BYTES: usize = 64 << 10;

/// The user and main group of the process at the other end of a socket.
#[derive(Clone, Copy, Debug)]
pub struct PeerUser {
    /// Its effective user, in the numbers of this process's namespace.
    pub user: u32,
    /// Its effective group.
    pub group: u32,
}

/// Names a process, for counting what it has here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Caller {
    /// By a number that no other process has had or will have.
    Process(u64),
    /// By its process number, where the kernel has none of the former; 0 for all of other namespaces.
    Number(i32),
}

/// One option of a socket, into as many values as there is room for; gives how many came.
fn socket_option<T: Copy>(
    socket: BorrowedFd<'_>,
    name: c_int,
    into: &mut [MaybeUninit<T>],
) -> io::Result<usize> {
    let mut bytes = size_of_val(into) as libc::socklen_t;
    // SAFETY: the kernel writes up to `bytes` bytes, for which there is room, and says how many; what it
    // writes is of plain numbers, as all callers' `T` are.
    let result = unsafe {
        let to = into.as_mut_ptr().cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, name, to, &mut bytes)
    };
    if result == 0 { Ok(bytes as usize / size_of::<T>()) } else { Err(io::Error::last_os_error()) }
}

fn credentials(socket: BorrowedFd<'_>) -> io::Result<libc::ucred> {
    let mut found = [MaybeUninit::<libc::ucred>::uninit()];
    match socket_option(socket, libc::SO_PEERCRED, &mut found)? {
        // SAFETY: the kernel has written all of it.
        1 => Ok(unsafe { found[0].assume_init() }),
        _ => Err(io::Error::other("the kernel does not name the process at the other end")),
    }
}

/// The user at the other end of a connected Unix socket; the listener's, at the end that connected.
pub fn peer_user(socket: BorrowedFd<'_>) -> io::Result<PeerUser> {
    credentials(socket).map(|found| PeerUser { user: found.uid, group: found.gid })
}

/// The other groups of the process at the other end.
pub fn peer_groups(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut found = vec![MaybeUninit::<libc::gid_t>::uninit(); GROUPS_MAX];
    let count = socket_option(socket, libc::SO_PEERGROUPS, &mut found)?;
    // SAFETY: the kernel has written as many.
    Ok(found[..count].iter().map(|group| unsafe { group.assume_init() }).collect())
}

/// The process at the other end.
pub fn caller(socket: BorrowedFd<'_>) -> Caller {
    process_inode(socket).unwrap_or_else(|| Caller::Number(credentials(socket).map_or(0, |found| found.pid)))
}

fn process_inode(socket: BorrowedFd<'_>) -> Option<Caller> {
    let mut found = [MaybeUninit::<c_int>::uninit()];
    let count = socket_option(socket, SO_PEERPIDFD, &mut found).ok()?;
    // SAFETY: the kernel has written a number, and it is that of a new descriptor, which nobody else has.
    let process = (count == 1).then(|| unsafe { OwnedFd::from_raw_fd(found[0].assume_init()) })?;
    let is_inode_of_process = fstatfs(&process).is_ok_and(|system| system.f_type == PID_FS_MAGIC);
    let status = fstat(&process).ok().filter(|_| is_inode_of_process)?;
    Some(Caller::Process(status.st_ino))
}

/// The number of a user, by number or name.
pub fn user_number(text: &str) -> Option<u32> {
    number_of(text, |name, room| {
        let mut entry = MaybeUninit::<libc::passwd>::uninit();
        let mut found = core::ptr::null_mut();
        // SAFETY: the name ends with a zero, there is room of the length given, and the entry is read only
        // when it was found, while the room is there.
        unsafe {
            let (room, bytes) = (room.as_mut_ptr().cast(), room.len());
            libc::getpwnam_r(name.as_ptr(), entry.as_mut_ptr(), room, bytes, &mut found);
            (!found.is_null()).then(|| (*found).pw_uid)
        }
    })
}

/// The number of a group, by number or name.
pub fn group_number(text: &str) -> Option<u32> {
    number_of(text, |name, room| {
        let mut entry = MaybeUninit::<libc::group>::uninit();
        let mut found = core::ptr::null_mut();
        // SAFETY: as in `user_number`.
        unsafe {
            let (room, bytes) = (room.as_mut_ptr().cast(), room.len());
            libc::getgrnam_r(name.as_ptr(), entry.as_mut_ptr(), room, bytes, &mut found);
            (!found.is_null()).then(|| (*found).gr_gid)
        }
    })
}

fn number_of(text: &str, look_up: impl FnOnce(CString, &mut [u8]) -> Option<u32>) -> Option<u32> {
    match text.parse() {
        // The number that system calls take for "no change".
        Ok(u32::MAX) => None,
        Ok(number) => Some(number),
        Err(_) if text.is_empty() => None,
        Err(_) => look_up(CString::new(text).ok()?, &mut vec![0; ENTRY_BYTES]),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    #[test]
    fn the_kernel_names_the_process_at_the_other_end() {
        let kind = SocketType::SEQPACKET;
        let pair = || socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).expect("sockets");
        let ((one, _end), (other, _other_end)) = (pair(), pair());
        let peer = peer_user(one.as_fd()).expect("it is connected");
        assert_eq!(peer.user, rustix::process::geteuid().as_raw());
        assert_eq!(peer.group, rustix::process::getegid().as_raw());
        assert!(peer_groups(one.as_fd()).is_ok());
        let own = std::process::id() as i32;
        match caller(one.as_fd()) {
            Caller::Number(number) => assert_eq!(number, own),
            process => assert_eq!(process, caller(other.as_fd()), "both are of this process"),
        }
    }
}
