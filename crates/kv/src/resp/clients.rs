//! All clients of a front, by their places.

use super::connection::Connection;
use super::session::Session;
use super::socket::Socket;

/// Names a client for as long as it is connected: its place, and a part of its number, since places are used
/// again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Handle {
    place: u32,
    id: u32,
}

impl Handle {
    /// The handle as a number below 2⁶³.
    pub fn to_bits(self) -> u64 {
        u64::from(self.id & (u32::MAX >> 1)) << 32 | u64::from(self.place)
    }

    /// The handle that a number came from.
    pub fn from_bits(bits: u64) -> Self {
        Self { place: bits as u32, id: (bits >> 32) as u32 }
    }
}

/// The clients.
#[derive(Debug, Default)]
pub struct Clients {
    places: Vec<Option<Box<Connection>>>,
    free: Vec<u32>,
    count: usize,
    last_id: u64,
    /// Memory that all of them take, as far as it was counted.
    bytes: usize,
}

impl Clients {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Memory that they take beside the store, as it was counted last.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts again what a client takes.
    pub fn count_bytes(&mut self, handle: Handle) {
        let Some(connection) = self.get(handle) else { return };
        let now = connection.memory_bytes();
        let before = core::mem::replace(&mut connection.counted_bytes, now);
        self.bytes = self.bytes - before + now;
    }

    /// Those that must go for the others to take no more than this, from the one that takes most on. Who
    /// asked not to be among them is not, as far as all who did leave a quarter for those who did not.
    pub fn beyond(&mut self, bytes_max: usize) -> Vec<Handle> {
        let (spared, others) = self.all().partition(|(_, connection)| connection.session.is_spared);
        let mut gone = Vec::new();
        let kept = keep_up_to(bytes_max / 4 * 3, spared, &mut gone);
        keep_up_to(bytes_max - kept, others, &mut gone);
        gone
    }

    /// Adds one.
    pub fn insert(&mut self, socket: Socket, session: impl FnOnce(u64) -> Session) -> Handle {
        self.last_id += 1;
        let connection = Box::new(Connection::new(socket, session(self.last_id)));
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            (self.places.len() - 1) as u32
        });
        let handle = handle_of(place, &connection);
        self.places[place as usize] = Some(connection);
        self.count += 1;
        handle
    }

    /// A client, unless it is gone.
    #[inline]
    pub fn get(&mut self, handle: Handle) -> Option<&mut Connection> {
        let connection = self.places.get_mut(handle.place as usize)?.as_deref_mut()?;
        (handle_of(handle.place, connection) == handle).then_some(connection)
    }

    /// Takes a client out while its commands run; [`put_back`](Self::put_back) follows.
    #[inline]
    pub fn take(&mut self, handle: Handle) -> Option<Box<Connection>> {
        self.get(handle)?;
        self.places[handle.place as usize].take()
    }

    /// Puts a client back.
    #[inline]
    pub fn put_back(&mut self, handle: Handle, connection: Box<Connection>) {
        self.places[handle.place as usize] = Some(connection);
    }

    /// Removes a client.
    pub fn remove(&mut self, handle: Handle) -> Option<Box<Connection>> {
        let connection = self.take(handle)?;
        self.free.push(handle.place);
        self.count -= 1;
        self.bytes -= connection.counted_bytes;
        Some(connection)
    }

    /// All but the one that was taken out.
    pub fn all(&mut self) -> impl Iterator<Item = (Handle, &mut Connection)> {
        self.places.iter_mut().enumerate().filter_map(|(place, connection)| {
            let connection = connection.as_deref_mut()?;
            Some((handle_of(place as u32, connection), connection))
        })
    }
}

/// Puts those that take most among the ones that go, until the rest takes no more than this; gives how much
/// that is.
fn keep_up_to(
    bytes_max: usize,
    mut clients: Vec<(Handle, &mut Connection)>,
    gone: &mut Vec<Handle>,
) -> usize {
    clients.sort_unstable_by_key(|(_, connection)| core::cmp::Reverse(connection.counted_bytes));
    let mut left = clients.iter().map(|(_, connection)| connection.counted_bytes).sum();
    for (client, connection) in clients {
        if left <= bytes_max {
            break;
        }
        left -= connection.counted_bytes;
        gone.push(client);
    }
    left
}

fn handle_of(place: u32, connection: &Connection) -> Handle {
    Handle { place, id: connection.session.id as u32 & (u32::MAX >> 1) }
}
