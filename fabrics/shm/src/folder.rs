//! The folder of sockets: processes that share it meet there, whatever namespaces they are in.
//!
//! Abstract names belong to a network namespace, and are anybody's to take. A socket in a folder is reached
//! by all that have the folder mounted, and its mode says who may: the kernel refuses others before they
//! queue. Its price is a file, which stays when its process is killed. Nobody listens there any more then,
//! which is how a later process knows it and takes it away.
//!
//! To look at sockets of others and to bind one is done under the lock of the folder, so that a socket which
//! is bound and does not listen yet is not taken for one that was left.

use core::time::Duration;
use std::fs::{DirBuilder, Metadata, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{FileType, FlockOperation, Mode, OFlags, fchmod, flock};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};

use crate::access::Allow;

/// The longest path of a folder, in bytes: with the name of a socket it must fit into an address of 107.
pub const DIRECTORY_BYTES_MAX: usize = 64;

/// How many callers may wait to be accepted.
pub const BACKLOG: i32 = 128;

/// What names of our sockets begin with, and the most that are looked at when one is added: so few that a
/// start costs little, and more than the one that it adds.
const PREFIX: &str = "farcall-";
const PROBES_MAX: usize = 16;

/// How long to wait for the lock. A process that keeps it for longer does no correct work.
const LOCK_WITHIN: Duration = Duration::from_millis(500);
const LOCK_RETRY: Duration = Duration::from_millis(1);

/// Modes of sockets: for this user, and for all that may enter the folder.
const OWN_MODE: u32 = 0o600;
const ALL_MODE: u32 = 0o666;

/// Where the sockets are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Directory {
    /// In `farcall` in the user's run-time folder, `$XDG_RUNTIME_DIR` or `/run/user/UID`; nowhere if there is
    /// none.
    #[default]
    OfUser,
    /// In this folder, which is made if need be, for this user alone.
    At(PathBuf),
}

impl Directory {
    /// The folder, ready for sockets; `None` where the user has none.
    ///
    /// # Errors
    /// When a folder that was named cannot be used.
    pub fn open(&self) -> io::Result<Option<PathBuf>> {
        match self {
            Self::OfUser => Ok(of_user()),
            Self::At(path) => match usable(path) {
                Ok(()) => Ok(Some(path.clone())),
                Err(error) => {
                    let path = path.display();
                    Err(io::Error::new(error.kind(), format!("shm.directory={path} cannot be used: {error}")))
                }
            },
        }
    }

    /// The folder for looking, as it is.
    pub fn place(&self) -> Option<PathBuf> {
        match self {
            Self::OfUser => of_user(),
            Self::At(path) => Some(path.clone()),
        }
    }
}

fn of_user() -> Option<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let named = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let bases = named.into_iter().chain([PathBuf::from(format!("/run/user/{user}"))]);
    bases
        .filter(|base| is_private(base, user))
        .map(|base| base.join("farcall"))
        .find(|folder| usable(folder).is_ok() && is_private(folder, user))
}

/// Whether a folder is the user's, and nobody else can put anything there.
fn is_private(folder: &Path, user: u32) -> bool {
    let of_others = |status: &Metadata| status.mode() & 0o022 != 0;
    std::fs::symlink_metadata(folder)
        .is_ok_and(|status| status.is_dir() && status.uid() == user && !of_others(&status))
}

fn usable(folder: &Path) -> io::Result<()> {
    if !folder.is_absolute() {
        return Err(io::Error::other("its path does not begin with /"));
    }
    if folder.as_os_str().len() > DIRECTORY_BYTES_MAX {
        return Err(io::Error::other(format!("its path is longer than {DIRECTORY_BYTES_MAX} bytes")));
    }
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ if folder.is_dir() => Ok(()),
        _ => Err(io::Error::other("it is no folder")),
    }
}

/// A listening socket in a folder. The file goes with it; a killed process leaves the file.
#[derive(Debug)]
pub struct FolderListener {
    /// The listening socket.
    pub socket: OwnedFd,
    path: PathBuf,
}

impl FolderListener {
    /// Listens at a name in a folder. A socket at which nobody listens any more is replaced.
    ///
    /// # Errors
    /// `AddrInUse` when somebody listens there.
    pub fn bind(folder: &Path, name: &str, allow: &Allow) -> io::Result<Self> {
        let _lock = lock(folder)?;
        take_away_left_ones(folder);
        let path = folder.join(name);
        let address = SocketAddrUnix::new(path.as_os_str().as_bytes())?;
        let socket = seqpacket()?;
        // The file gets this mode, less what the umask takes.
        fchmod(&socket, Mode::from_raw_mode(OWN_MODE))?;
        match bind(&socket, &address) {
            Err(Errno::ADDRINUSE) if is_left(&path) => {
                std::fs::remove_file(&path)?;
                bind(&socket, &address)?;
            }
            bound => bound?,
        }
        let this = Self { socket, path };
        if *allow != Allow::SameUser {
            open_to_all(&this.path)?;
        }
        listen(&this.socket, BACKLOG)?;
        Ok(this)
    }
}

impl Drop for FolderListener {
    fn drop(&mut self) {
        // Fails only when somebody else took it away.
        let _gone_already = std::fs::remove_file(&self.path);
    }
}

/// Lets all users connect, for which they need the right to write; before `listen` nobody can. In a folder of
/// others a file may be replaced at any moment: only a socket of ours is touched, and no link is followed.
fn open_to_all(path: &Path) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    let status = rustix::fs::fstat(&file)?;
    let is_own = status.st_uid == rustix::process::geteuid().as_raw();
    if !is_own || FileType::from_raw_mode(status.st_mode) != FileType::Socket {
        return Err(io::Error::other("its sockets are replaced by others"));
    }
    // A path descriptor cannot be changed itself.
    let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
    std::fs::set_permissions(itself, Permissions::from_mode(ALL_MODE))
}

/// A new socket of the kind that all of ours are: it keeps message boundaries and never blocks.
pub fn seqpacket() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// The folder's lock, until it is dropped. The kernel opens it when its holder dies.
fn lock(folder: &Path) -> io::Result<OwnedFd> {
    let folder: OwnedFd = std::fs::File::open(folder)?.into();
    let deadline = Instant::now() + LOCK_WITHIN;
    while flock(folder.as_fd(), FlockOperation::NonBlockingLockExclusive) == Err(Errno::AGAIN) {
        if Instant::now() >= deadline {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "another process keeps the folder locked"));
        }
        std::thread::sleep(LOCK_RETRY);
    }
    Ok(folder)
}

/// Takes sockets away at which nobody listens any more: of this user, and some of many.
fn take_away_left_ones(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let ours: Vec<PathBuf> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().as_bytes().starts_with(PREFIX.as_bytes()))
        .map(|entry| entry.path())
        .filter(|path| is_own_socket(path))
        .collect();
    // Begins elsewhere each time, so that those that live do not hide the others.
    let begin = random_below(ours.len());
    for path in ours[begin..].iter().chain(&ours[..begin]).take(PROBES_MAX) {
        if is_left(path) {
            // Fails only when it is gone.
            let _gone_already = std::fs::remove_file(path);
        }
    }
}

fn random_below(count: usize) -> usize {
    let mut random = [0; size_of::<usize>()];
    let drawn = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
    if drawn.is_ok() && count > 0 { usize::from_ne_bytes(random) % count } else { 0 }
}

/// Whether a path is a socket of this user at which nobody listens. Asked under the lock only.
fn is_left(path: &Path) -> bool {
    let refuses = || -> rustix::io::Result<bool> {
        let address = SocketAddrUnix::new(path.as_os_str().as_bytes())?;
        Ok(connect(&seqpacket()?, &address) == Err(Errno::CONNREFUSED))
    };
    is_own_socket(path) && refuses().unwrap_or(false)
}

fn is_own_socket(path: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    std::fs::symlink_metadata(path).is_ok_and(|status| status.file_type().is_socket() && status.uid() == user)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A folder of a test's own.
    pub(crate) struct Scratch(pub PathBuf);

    impl Scratch {
        pub(crate) fn new() -> Self {
            let mut random = [0; 8];
            rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).expect("random");
            let path = std::env::temp_dir().join(format!("fc-{:016x}", u64::from_ne_bytes(random)));
            DirBuilder::new().mode(0o700).create(&path).expect("a folder");
            Self(path)
        }

        pub(crate) fn names(&self) -> Vec<String> {
            let entries = std::fs::read_dir(&self.0).expect("the folder");
            let mut names: Vec<_> = entries
                .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
                .collect();
            names.sort();
            names
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).expect("the test's own folder");
        }
    }

    /// What a killed process leaves.
    fn leave(folder: &Path, name: &str) {
        let socket = seqpacket().expect("a socket");
        let path = folder.join(name);
        bind(&socket, &SocketAddrUnix::new(path.as_os_str().as_bytes()).expect("short")).expect("free");
        listen(&socket, BACKLOG).expect("bound");
    }

    #[test]
    fn a_socket_goes_with_its_listener_and_one_that_was_left_is_replaced() {
        let scratch = Scratch::new();
        leave(&scratch.0, "farcall-one");
        let one = FolderListener::bind(&scratch.0, "farcall-one", &Allow::SameUser).expect("nobody listens");
        let taken = FolderListener::bind(&scratch.0, "farcall-one", &Allow::SameUser).map(|_| ());
        assert_eq!(taken.map_err(|error| error.kind()), Err(io::ErrorKind::AddrInUse));
        let mode = |name| std::fs::metadata(scratch.0.join(name)).expect("a socket").mode() & 0o777;
        assert_eq!(mode("farcall-one"), 0o600);
        let two = FolderListener::bind(&scratch.0, "farcall-two", &Allow::Any).expect("free");
        assert_eq!(mode("farcall-two"), 0o666);
        drop((one, two));
        assert_eq!(scratch.names(), [""; 0]);
    }

    #[test]
    fn what_was_left_is_taken_away_by_the_next_and_nothing_else_is() {
        let scratch = Scratch::new();
        (0..40).for_each(|number| leave(&scratch.0, &format!("farcall-{number}")));
        leave(&scratch.0, "other");
        std::fs::write(scratch.0.join("farcall-file"), "").expect("a file");
        let alive = FolderListener::bind(&scratch.0, "farcall-alive", &Allow::SameUser).expect("free");
        for _ in 0..40 {
            drop(FolderListener::bind(&scratch.0, "farcall-next", &Allow::SameUser).expect("free"));
        }
        assert_eq!(scratch.names(), ["farcall-alive", "farcall-file", "other"]);
        drop(alive);
    }

    #[test]
    fn a_folder_is_made_for_its_user_alone_and_one_that_cannot_be_is_named() {
        let scratch = Scratch::new();
        let folder = scratch.0.join("sockets");
        assert_eq!(Directory::At(folder.clone()).open().expect("it is made"), Some(folder.clone()));
        assert_eq!(std::fs::metadata(&folder).expect("a folder").mode() & 0o777, 0o700);
        assert!(is_private(&folder, rustix::process::geteuid().as_raw()));
        for wrong in ["relative", "/no/such/folder", "/dev/null", &format!("/{}", "x".repeat(64))] {
            let refused = Directory::At(wrong.into()).open().expect_err("no folder").to_string();
            assert!(refused.contains(wrong), "{refused}");
        }
    }

    #[test]
    fn a_lock_that_is_kept_is_waited_for_a_bounded_time() {
        let scratch = Scratch::new();
        let _kept = lock(&scratch.0).expect("nobody has it");
        let refused = FolderListener::bind(&scratch.0, "farcall-x", &Allow::SameUser).map(|_| ());
        assert_eq!(refused.map_err(|error| error.kind()), Err(io::ErrorKind::TimedOut));
    }
}
