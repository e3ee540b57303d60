//! Gathers: every member's part to one member, or to all of them.

use crate::algorithms::{AllGather, Gather};
use crate::broadcast::Tree;
use crate::error::CollectiveError;
use crate::group::{Collective, Group, Kind};
use crate::join::{all, both};
use crate::part::Part;

impl<'e> Group<'e> {
    /// Collects the parts of all members at member `root`: there the result has them in the order of the
    /// members, and it is empty everywhere else. Lengths may differ, and need not be known: what MPI calls a
    /// gather-v.
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
    /// let part = vec![7; group.own() as usize];
    /// for (member, part) in group.gather(0, &part).wait()?.iter().enumerate() {
    ///     assert_eq!(part.len(), member);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn gather<'a>(&'a mut self, root: u32, part: &'a [u8]) -> Collective<'a, Vec<Part<'e>>> {
        assert!(root < self.size(), "the root is a member");
        let group = &*self;
        group.operation(Kind::Gather, async move {
            match group.algorithms().gather {
                Gather::Direct => group.direct_gather(root, part).await,
                Gather::Tree { degree } => group.tree_gather(root, degree, part).await,
            }
        })
    }

    async fn direct_gather(&self, root: u32, part: &[u8]) -> Result<Vec<Part<'e>>, CollectiveError> {
        if self.own() != root {
            self.send(root, part).await?;
            return Ok(Vec::new());
        }
        let others = (0..self.size()).filter(|&member| member != root);
        let mut parts = all(others.map(|member| self.receive(member))).await?;
        parts.insert(root as usize, Part::of_bytes(part.to_vec()));
        Ok(parts)
    }

    async fn tree_gather(
        &self,
        root: u32,
        degree: u32,
        part: &[u8],
    ) -> Result<Vec<Part<'e>>, CollectiveError> {
        let tree = Tree { size: self.size(), root, degree };
        let place = tree.place(self.own());
        let of_child = |child| self.receive_bundle(tree.member(child), tree.subtree(child).len());
        let of_children = all(tree.children(place).map(of_child)).await?;
        let own = Part::of_bytes(part.to_vec());
        let parts: Vec<Part<'e>> = core::iter::once(own).chain(of_children.into_iter().flatten()).collect();
        if let Some(parent) = tree.parent(place) {
            self.send_bundle(tree.member(parent), parts.iter().map(|part| &**part)).await?;
            return Ok(Vec::new());
        }
        Ok(by_member(tree.subtree(0).into_iter().map(|place| tree.member(place)), parts))
    }

    /// Collects the parts of all members at all of them: `parts` has them one after another in the order of
    /// the members. All parts are as long as `part`.
    ///
    /// # Panics
    /// When `parts` has no room for one part of each member, or more.
    ///
    /// ```
    /// # use farcall::Node;
    /// # use farcall_collective::{Group, GroupId};
    /// # let node = Node::alone()?;
    /// # let endpoint = node.endpoint("ring+shm")?;
    /// # let mut group = Group::new(&endpoint, GroupId::new(0), node.rank(), 0..node.size())?;
    /// let own = [group.own() as u8; 2];
    /// let mut parts = vec![0; 2 * group.size() as usize];
    /// group.all_gather(&own, &mut parts).wait()?;
    /// assert_eq!(parts[..2], [0; 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn all_gather<'a>(&'a mut self, part: &'a [u8], parts: &'a mut [u8]) -> Collective<'a, ()> {
        let (own, bytes) = (self.own() as usize, part.len());
        assert_eq!(parts.len(), bytes * self.size() as usize, "room for one part of each member");
        let group = &*self;
        group.operation(Kind::AllGather, async move {
            parts[own * bytes..][..bytes].copy_from_slice(part);
            let algorithm = group.algorithms().all_gather.choose(bytes);
            if algorithm == AllGather::Ring {
                let size = group.size();
                let piece =
                    |member: u32| (member % size) as usize * bytes..((member % size) as usize + 1) * bytes;
                return group.pass_pieces_around(group.own(), piece, parts).await;
            }
            for (member, from) in group.all_gather_by(algorithm, part).await?.iter().enumerate() {
                let mismatch =
                    CollectiveError::Mismatch { member: member as u32, bytes: from.len(), expected: bytes };
                let place = &mut parts[member * bytes..][..bytes];
                if from.len() != bytes {
                    return Err(mismatch);
                }
                place.copy_from_slice(from);
            }
            Ok(())
        })
    }

    /// As [`Group::all_gather`], for parts whose lengths differ, and need not be known: what MPI calls an
    /// all-gather-v. The result has them in the order of the members, each in the memory in which it was
    /// received.
    ///
    /// ```
    /// # use farcall::Node;
    /// # use farcall_collective::{Group, GroupId};
    /// # let node = Node::alone()?;
    /// # let endpoint = node.endpoint("ring+shm")?;
    /// # let mut group = Group::new(&endpoint, GroupId::new(0), node.rank(), 0..node.size())?;
    /// let parts = group.all_gather_v(b"mine").wait()?;
    /// assert_eq!(&*parts[0], b"mine");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn all_gather_v<'a>(&'a mut self, part: &'a [u8]) -> Collective<'a, Vec<Part<'e>>> {
        let group = &*self;
        group.operation(Kind::AllGather, group.all_gather_by(group.algorithms().all_gather_v, part))
    }

    async fn all_gather_by(
        &self,
        algorithm: AllGather,
        part: &[u8],
    ) -> Result<Vec<Part<'e>>, CollectiveError> {
        match algorithm {
            AllGather::Ring => self.ring_all_gather(part).await,
            AllGather::RecursiveDoubling if self.size().is_power_of_two() => {
                self.doubling_all_gather(part).await
            }
            AllGather::RecursiveDoubling | AllGather::Bruck => self.bruck_all_gather(part).await,
        }
    }

    async fn ring_all_gather(&self, part: &[u8]) -> Result<Vec<Part<'e>>, CollectiveError> {
        let (behind, before) = (self.behind(1), self.before(1));
        // In the order in which they come: the own one, that of the member before, and so on.
        let mut parts = vec![Part::of_bytes(part.to_vec())];
        for _ in 1..self.size() {
            let last = parts.last().expect("the own one is there");
            let ((), next) = both(self.send(behind, last), self.receive(before)).await?;
            parts.push(next);
        }
        Ok(by_member((0..self.size()).map(|distance| self.before(distance)), parts))
    }

    /// In round k a member has the parts of 2^k members, itself and those behind it, sends as many as the
    /// other one lacks to the member 2^k before it, and gets those of the members further behind.
    async fn bruck_all_gather(&self, part: &[u8]) -> Result<Vec<Part<'e>>, CollectiveError> {
        let mut parts = vec![Part::of_bytes(part.to_vec())];
        let mut distance = 1;
        while distance < self.size() {
            let count = distance.min(self.size() - distance) as usize;
            let given = parts[..count].iter().map(|part| &**part);
            let send = self.send_bundle(self.before(distance), given);
            let ((), got) = both(send, self.receive_bundle(self.behind(distance), count)).await?;
            parts.extend(got);
            distance *= 2;
        }
        Ok(by_member((0..self.size()).map(|distance| self.behind(distance)), parts))
    }

    /// In round k the members whose numbers differ in bit k exchange the parts of the 2^k members that each
    /// has.
    async fn doubling_all_gather(&self, part: &[u8]) -> Result<Vec<Part<'e>>, CollectiveError> {
        let mut parts = vec![Part::of_bytes(part.to_vec())];
        while (parts.len() as u32) < self.size() {
            let distance = parts.len() as u32;
            let partner = self.own() ^ distance;
            let send = self.send_bundle(partner, parts.iter().map(|part| &**part));
            let ((), got) = both(send, self.receive_bundle(partner, parts.len())).await?;
            if partner < self.own() {
                parts.splice(0..0, got);
            } else {
                parts.extend(got);
            }
        }
        Ok(parts)
    }
}

/// Parts in the order of their members, which are given in the order of the parts.
fn by_member<'e>(members: impl Iterator<Item = u32>, parts: Vec<Part<'e>>) -> Vec<Part<'e>> {
    let mut numbered: Vec<(u32, Part<'e>)> = members.zip(parts).collect();
    numbered.sort_unstable_by_key(|(member, _)| *member);
    numbered.into_iter().map(|(_, part)| part).collect()
}
