//! The right to share memory: the users whose processes may, as the kernel names them.
//!
//! The kernel answers for the user at the other end of a Unix socket (`SO_PEERCRED`), in the numbers of the
//! reader's user namespace. A user that has no number there is shown as the *overflow user*, 65534, whoever
//! it is: that number names nobody, and never counts as the same user.

use core::fmt;
use std::io;
use std::os::fd::AsFd;

use farcall_base::Principal;

use crate::folder::Directory;
use crate::options;

/// Users of a namespace that maps all of them, as the first one does: its map has this one line.
const EVERY_USER: (u64, u64) = (0, u32::MAX as u64);

/// The overflow user where `/proc` does not say which it is.
const OVERFLOW_USER: u32 = 65_534;

/// The processes that may share memory with this one. Both sides apply their own rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Allow {
    /// Those of the same user.
    #[default]
    SameUser,
    /// Those, and those that are in this group.
    Group(u32),
    /// Those, and those of these users.
    Users(Vec<u32>),
    /// All that reach the socket: where it is in a folder, the folder's mode decides.
    Any,
}

/// Who a process at the other end of a socket is to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It runs under the same user.
    SameUser,
    /// It runs under another user, which is allowed.
    OtherUser,
}

/// Where processes of this machine meet, and which may.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The folder of their sockets.
    pub directory: Directory,
    /// The processes that may connect, here and there.
    pub allow: Allow,
}

/// Whose memory is copied before it is looked at, and whose is read in place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// That of the same user's processes is read in place, that of others copied.
    #[default]
    SameUser,
    /// All is read in place.
    All,
    /// All is copied.
    None,
}

impl Trust {
    /// Whether memory of such a process is copied.
    pub fn copies(self, standing: Standing) -> bool {
        match self {
            Self::SameUser => standing != Standing::SameUser,
            Self::All => false,
            Self::None => true,
        }
    }
}

/// Why a text names no rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoSuchRule(String);

impl fmt::Display for NoSuchRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shm.allow: {}", self.0)
    }
}

impl core::error::Error for NoSuchRule {}

impl Allow {
    /// The rule in words: `same-user`, `any`, `group:G` or `users:A,B`, with names or numbers.
    ///
    /// # Errors
    /// For other words, and names that this system does not know.
    pub fn parse(text: &str) -> Result<Self, NoSuchRule> {
        match text.split_once(':') {
            None if text == "same-user" => Ok(Self::SameUser),
            None if text == "any" => Ok(Self::Any),
            Some(("group", group)) => options::group_number(group)
                .map(Self::Group)
                .ok_or_else(|| NoSuchRule(format!("this system has no group `{group}`"))),
            Some(("users", users)) => users
                .split(',')
                .map(|user| {
                    options::user_number(user)
                        .ok_or_else(|| NoSuchRule(format!("this system has no user `{user}`")))
                })
                .collect::<Result<_, _>>()
                .map(Self::Users),
            _ => Err(NoSuchRule(format!("`{text}` is none of same-user, group:G, users:A,B and any"))),
        }
    }

    /// Checks the process at the other end of a connected Unix socket.
    ///
    /// # Errors
    /// `PermissionDenied`, with both users in words.
    pub fn check(&self, socket: impl AsFd) -> io::Result<Standing> {
        let socket = socket.as_fd();
        let peer = options::peer_user(socket)?;
        let own = rustix::process::geteuid().as_raw();
        let in_group = |group| options::peer_groups(socket).is_ok_and(|groups| groups.contains(&group));
        self.judge(peer.user, own, |group| peer.group == group || in_group(group), is_nobody)
            .map_err(|why| io::Error::new(io::ErrorKind::PermissionDenied, why))
    }

    fn judge(
        &self,
        peer: u32,
        own: u32,
        is_in: impl FnOnce(u32) -> bool,
        is_nobody: impl Fn(u32) -> bool,
    ) -> Result<Standing, String> {
        let peer_is_known = !is_nobody(peer);
        let allowed = match self {
            _ if peer == own && peer_is_known => return Ok(Standing::SameUser),
            Self::Any => true,
            Self::SameUser => false,
            Self::Group(group) => is_in(*group) && !is_nobody(*group),
            Self::Users(users) => peer_is_known && users.contains(&peer),
        };
        match allowed {
            true => Ok(Standing::OtherUser),
            false if !peer_is_known => {
                Err(format!("its user ({peer}) is not mapped in the user namespace of this process"))
            }
            false => Err(format!("it runs as user {peer}, this process as user {own}")),
        }
    }
}

/// The user at the other end of a connected Unix socket, when it connected or began to listen. One that has
/// no number in the user namespace of this process is nobody.
pub fn principal(socket: impl AsFd) -> Principal {
    let user = options::peer_user(socket.as_fd()).map(|peer| peer.user);
    user.ok().filter(|user| !is_nobody(*user)).map_or(Principal::Unproven, Principal::User)
}

/// Whether a number stands for every user without one. In a namespace that maps all users nobody is without.
fn is_nobody(user: u32) -> bool {
    let overflow = std::fs::read_to_string("/proc/sys/kernel/overflowuid");
    let overflow = overflow.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(OVERFLOW_USER);
    user == overflow && !std::fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| maps_every_user(&map))
}

/// A namespace that maps some users only shows all others as the overflow user, which it may map as well: so
/// that number is of use only where nobody else can have it.
fn maps_every_user(map: &str) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        let (Some(Ok(first)), _, Some(Ok(count))) = (numbers.next(), numbers.next(), numbers.next()) else {
            return false;
        };
        (first, count) == EVERY_USER
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: u32 = 65_534;

    fn judge(allow: &Allow, peer: u32, own: u32) -> Result<Standing, String> {
        allow.judge(peer, own, |group| group == 50, |_| false)
    }

    #[test]
    fn only_processes_of_the_same_user_are_taken_by_default() {
        assert_eq!(judge(&Allow::default(), 1000, 1000), Ok(Standing::SameUser));
        for (peer, own) in [(1000, 1001), (0, 1000), (1000, 0)] {
            let why = judge(&Allow::default(), peer, own).expect_err("another user");
            assert!(why.contains(&peer.to_string()) && why.contains(&own.to_string()), "{why:?}");
        }
    }

    #[test]
    fn groups_and_users_that_are_named_are_taken_and_no_others() {
        for (allow, is_taken) in [
            (Allow::Group(50), true),
            (Allow::Group(51), false),
            (Allow::Users(vec![7, 1000]), true),
            (Allow::Users(vec![7]), false),
            (Allow::Any, true),
        ] {
            let expected = is_taken.then_some(Standing::OtherUser);
            assert_eq!(judge(&allow, 1000, 0).ok(), expected, "{allow:?}");
            assert_eq!(judge(&allow, 0, 0), Ok(Standing::SameUser), "{allow:?}");
        }
    }

    #[test]
    fn a_user_that_is_not_mapped_is_no_user() {
        let is_nobody = |user| user == NOBODY;
        for allow in [Allow::SameUser, Allow::Users(vec![NOBODY]), Allow::Group(NOBODY)] {
            let judged = allow.judge(NOBODY, NOBODY, |_| true, is_nobody);
            assert!(judged.is_err_and(|why| why.contains("not mapped")), "{allow:?}");
        }
        assert_eq!(Allow::Any.judge(NOBODY, NOBODY, |_| false, is_nobody), Ok(Standing::OtherUser));
        assert_eq!(judge(&Allow::SameUser, NOBODY, NOBODY), Ok(Standing::SameUser), "where all are mapped");
    }

    #[test]
    fn only_the_whole_map_maps_every_user() {
        assert!(maps_every_user("         0          0 4294967295\n"));
        for map in ["", "0 1000 1\n", "0 100000 65536\n", "0 0\n", "a b c\n", "1 0 4294967294\n"] {
            assert!(!maps_every_user(map), "{map:?}");
        }
    }

    #[test]
    fn rules_are_read_by_names_and_numbers() {
        assert_eq!(Allow::parse("same-user"), Ok(Allow::SameUser));
        assert_eq!(Allow::parse("any"), Ok(Allow::Any));
        assert_eq!(Allow::parse("group:0"), Ok(Allow::Group(0)));
        assert_eq!(Allow::parse("group:root"), Ok(Allow::Group(0)));
        assert_eq!(Allow::parse("users:root,1000"), Ok(Allow::Users(vec![0, 1000])));
        for wrong in ["", "all", "users:", "users:root,", "group:no-such-group", "user:root", "group:-1"] {
            assert!(Allow::parse(wrong).is_err(), "{wrong}");
        }
    }
}
