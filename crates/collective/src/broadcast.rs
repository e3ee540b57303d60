//! Barriers and broadcasts: from one member, or from all, to all.

use core::ops::Range;

use crate::algorithms::Broadcast;
use crate::error::CollectiveError;
use crate::group::{Collective, Group, Kind};
use crate::join::both;

impl<'e> Group<'e> {
    /// Waits until all members have come here: a dissemination barrier (Hensgen, Finkel and Manber, 1988) of
    /// log2(n) rounds, rounded up.
    ///
    /// ```
    /// # use farcall::Node;
    /// # use farcall_collective::{Group, GroupId};
    /// # let node = Node::alone()?;
    /// # let endpoint = node.endpoint("ring+shm")?;
    /// # let mut group = Group::new(&endpoint, GroupId::new(0), node.rank(), 0..node.size())?;
    /// group.barrier().wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn barrier(&mut self) -> Collective<'_, ()> {
        let group = &*self;
        group.operation(Kind::Barrier, group.dissemination())
    }

    pub(crate) async fn dissemination(&self) -> Result<(), CollectiveError> {
        let mut distance = 1;
        while distance < self.size() {
            let send = self.send(self.behind(distance), &[]);
            both(send, self.receive_into(self.before(distance), &mut [])).await?;
            distance *= 2;
        }
        self.has_met.set(true);
        Ok(())
    }

    /// Copies the buffer of member `root` to those of all others, which are as long.
    ///
    /// # Panics
    /// When there is no such member.
    ///
    /// ```
    /// # use farcall::Node;
    /// # use farcall_collective::{Group, GroupId};
    /// # let node = Node::alone()?;
    /// # let endpoint = node.endpoint("ring+shm")?;
    /// # let mut group = Group::new(&endpoint, GroupId::new(0), node.rank(), 0..node.size())?;
    /// let mut buffer = if group.own() == 0 { *b"hello" } else { [0; 5] };
    /// group.broadcast(0, &mut buffer).wait()?;
    /// assert_eq!(&buffer, b"hello");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn broadcast<'a>(&'a mut self, root: u32, buffer: &'a mut [u8]) -> Collective<'a, ()> {
        assert!(root < self.size(), "the root is a member");
        let group = &*self;
        group.operation(Kind::Broadcast, async move {
            match group.algorithms().broadcast.choose(buffer.len()) {
                Broadcast::Binomial => group.binomial_broadcast(root, buffer).await,
                Broadcast::Tree { degree } => group.tree_broadcast(root, degree, buffer).await,
                Broadcast::ScatterAllGather => group.scatter_all_gather(root, buffer).await,
            }
        })
    }

    pub(crate) async fn binomial_broadcast(
        &self,
        root: u32,
        buffer: &mut [u8],
    ) -> Result<(), CollectiveError> {
        let tree = Binomial::new(self, root);
        if let Some(parent) = tree.parent() {
            self.receive_into(tree.member(parent), buffer).await?;
        }
        for child in tree.children() {
            self.send(tree.member(child), buffer).await?;
        }
        Ok(())
    }

    async fn tree_broadcast(&self, root: u32, degree: u32, buffer: &mut [u8]) -> Result<(), CollectiveError> {
        let tree = Tree { size: self.size(), root, degree };
        let place = tree.place(self.own());
        if let Some(parent) = tree.parent(place) {
            self.receive_into(tree.member(parent), buffer).await?;
        }
        for child in tree.children(place) {
            self.send(tree.member(child), buffer).await?;
        }
        Ok(())
    }

    /// The binomial tree again, but every member gets only what its subtree needs; then all members pass
    /// pieces around the ring.
    async fn scatter_all_gather(&self, root: u32, buffer: &mut [u8]) -> Result<(), CollectiveError> {
        let (size, bytes) = (self.size(), buffer.len());
        let tree = Binomial::new(self, root);
        let of_subtree = |place: u32| pieces(bytes, size, place..(place + tree.span_of(place)).min(size));
        if let Some(parent) = tree.parent() {
            self.receive_into(tree.member(parent), &mut buffer[of_subtree(tree.place)]).await?;
        }
        for child in tree.children() {
            self.send(tree.member(child), &buffer[of_subtree(child)]).await?;
        }
        let piece = |place: u32| pieces(bytes, size, place % size..place % size + 1);
        self.pass_pieces_around(tree.place, piece, buffer).await
    }

    /// The all-gather of the ring: in each round a member sends the piece that it got last to the one behind
    /// it, its own first. Members are counted from any one of them; this one has the place and the piece
    /// `own`.
    pub(crate) async fn pass_pieces_around(
        &self,
        own: u32,
        piece: impl Fn(u32) -> Range<usize>,
        buffer: &mut [u8],
    ) -> Result<(), CollectiveError> {
        let (behind, before) = (self.behind(1), self.before(1));
        for round in 0..self.size() - 1 {
            let (given, got) = (piece(own + self.size() - round), piece(own + self.size() - round - 1));
            let (given, got) = two_parts(buffer, given, got);
            both(self.send(behind, given), self.receive_into(before, got)).await?;
        }
        Ok(())
    }
}

/// Of `bytes` bytes in `count` pieces of as equal length as may be, those of a range.
pub(crate) fn pieces(bytes: usize, count: u32, range: Range<u32>) -> Range<usize> {
    let start_of = |piece: u32| (bytes as u128 * u128::from(piece) / u128::from(count)) as usize;
    start_of(range.start)..start_of(range.end)
}

/// Two ranges of a buffer that do not overlap, of which the second is to be written.
pub(crate) fn two_parts(buffer: &mut [u8], one: Range<usize>, other: Range<usize>) -> (&[u8], &mut [u8]) {
    if one.end <= other.start {
        let (front, back) = buffer.split_at_mut(other.start);
        (&front[one], &mut back[..other.end - other.start])
    } else {
        let (front, back) = buffer.split_at_mut(one.start);
        (&back[..one.end - one.start], &mut front[other])
    }
}

/// A binomial tree over the members, of which `root` has place 0.
pub(crate) struct Binomial {
    size: u32,
    root: u32,
    /// That of this member.
    pub(crate) place: u32,
}

impl Binomial {
    pub(crate) fn new(group: &Group<'_>, root: u32) -> Self {
        let size = group.size();
        Self { size, root, place: (group.own() + size - root) % size }
    }

    pub(crate) fn member(&self, place: u32) -> u32 {
        (place + self.root) % self.size
    }

    /// How many places the tree below a place may have, itself included: its lowest bit.
    fn span_of(&self, place: u32) -> u32 {
        if place == 0 { self.size.next_power_of_two() } else { 1 << place.trailing_zeros() }
    }

    pub(crate) fn parent(&self) -> Option<u32> {
        (self.place > 0).then(|| self.place & (self.place - 1))
    }

    /// The largest subtree first.
    fn children(&self) -> impl Iterator<Item = u32> {
        let (place, size) = (self.place, self.size);
        let distances = (0..self.span_of(place).trailing_zeros()).rev().map(|bit| 1 << bit);
        distances.map(move |distance: u32| place + distance).filter(move |&child| child < size)
    }

    /// The smallest subtree first: the order in which a reduction hears of them.
    pub(crate) fn children_from_near(&self) -> Vec<u32> {
        let mut children: Vec<u32> = self.children().collect();
        children.reverse();
        children
    }
}

/// A tree of a fixed degree over the members, of which `root` has place 0.
#[derive(Clone, Copy)]
pub(crate) struct Tree {
    pub(crate) size: u32,
    pub(crate) root: u32,
    pub(crate) degree: u32,
}

impl Tree {
    pub(crate) fn place(&self, member: u32) -> u32 {
        (member + self.size - self.root) % self.size
    }

    pub(crate) fn member(&self, place: u32) -> u32 {
        (place + self.root) % self.size
    }

    pub(crate) fn parent(&self, place: u32) -> Option<u32> {
        place.checked_sub(1).map(|before| before / self.degree)
    }

    pub(crate) fn children(&self, place: u32) -> Range<u32> {
        let first = place.saturating_mul(self.degree).saturating_add(1).min(self.size);
        first..first.saturating_add(self.degree).min(self.size)
    }

    /// The places of the tree below a place, itself first, and then subtree by subtree.
    pub(crate) fn subtree(&self, place: u32) -> Vec<u32> {
        let mut places = vec![place];
        self.children(place).for_each(|child| places.extend(self.subtree(child)));
        places
    }
}
