//! All-to-alls: a part from every member for every member.

use crate::algorithms::AllToAll;
use crate::error::CollectiveError;
use crate::group::{Collective, Group, Kind};
use crate::join::both;
use crate::part::Part;

impl<'e> Group<'e> {
    /// Sends part m of `sent` to member m, and leaves the part that member m has for this one in part m of
    /// `received`. All parts of all members are as long.
    ///
    /// # Panics
    /// When `sent` and `received` differ in length, or cannot be cut into a part for each member.
    ///
    /// ```
    /// # use farcall::Node;
    /// # use farcall_collective::{Group, GroupId};
    /// # let node = Node::alone()?;
    /// # let endpoint = node.endpoint("ring+shm")?;
    /// # let mut group = Group::new(&endpoint, GroupId::new(0), node.rank(), 0..node.size())?;
    /// let sent = vec![1; 8 * group.size() as usize];
    /// let mut received = vec![0; sent.len()];
    /// group.all_to_all(&sent, &mut received).wait()?;
    /// assert_eq!(received, sent);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn all_to_all<'a>(&'a mut self, sent: &'a [u8], received: &'a mut [u8]) -> Collective<'a, ()> {
        let size = self.size() as usize;
        assert_eq!(sent.len(), received.len(), "as much is sent as received");
        assert!(sent.len().is_multiple_of(size), "a part for each member");
        let (group, bytes) = (&*self, sent.len() / size);
        group.operation(Kind::AllToAll, async move {
            match group.algorithms().all_to_all.choose(bytes) {
                AllToAll::Pairwise => group.pairwise(sent, received, bytes).await,
                AllToAll::Bruck => group.bruck_all_to_all(sent, received, bytes).await,
            }
        })
    }

    async fn pairwise(&self, sent: &[u8], received: &mut [u8], bytes: usize) -> Result<(), CollectiveError> {
        let part = |member: u32| member as usize * bytes..(member as usize + 1) * bytes;
        received[part(self.own())].copy_from_slice(&sent[part(self.own())]);
        for distance in 1..self.size() {
            let (to, from) = (self.behind(distance), self.before(distance));
            both(self.send(to, &sent[part(to)]), self.receive_into(from, &mut received[part(from)])).await?;
        }
        Ok(())
    }

    /// Parts are kept by the distance that they have to travel. In round k those travel on by 2^k whose
    /// distance has bit k; what arrives takes their places.
    async fn bruck_all_to_all(
        &self,
        sent: &[u8],
        received: &mut [u8],
        bytes: usize,
    ) -> Result<(), CollectiveError> {
        let part = |number: u32| number as usize * bytes..(number as usize + 1) * bytes;
        let mut by_distance = vec![0; sent.len()];
        for distance in 0..self.size() {
            by_distance[part(distance)].copy_from_slice(&sent[part(self.behind(distance))]);
        }
        let mut step = 1;
        while step < self.size() {
            let travels = |distance: &u32| distance & step != 0;
            let mut given = Vec::new();
            for distance in (0..self.size()).filter(travels) {
                given.extend(&by_distance[part(distance)]);
            }
            let mut got = vec![0; given.len()];
            both(self.send(self.behind(step), &given), self.receive_into(self.before(step), &mut got))
                .await?;
            for (distance, got) in (0..self.size()).filter(travels).zip(got.chunks_exact(bytes.max(1))) {
                by_distance[part(distance)].copy_from_slice(got);
            }
            step *= 2;
        }
        for distance in 0..self.size() {
            received[part(self.before(distance))].copy_from_slice(&by_distance[part(distance)]);
        }
        Ok(())
    }

    /// Sends `sent[m]` to member m; the result has what each member has for this one, in the order of the
    /// members and in the memory in which it was received. Lengths may differ, be 0, and need not be known to
    /// their receiver: what MPI calls an all-to-all-v. Members exchange in pairs, as in
    /// [`AllToAll::Pairwise`]. For a shuffle that pushes chunks to all at the same time see
    /// [`Group::exchange`].
    ///
    /// # Panics
    /// When there is not one part for each member.
    ///
    /// ```
    /// # use farcall::Node;
    /// # use farcall_collective::{Group, GroupId};
    /// # let node = Node::alone()?;
    /// # let endpoint = node.endpoint("ring+shm")?;
    /// # let mut group = Group::new(&endpoint, GroupId::new(0), node.rank(), 0..node.size())?;
    /// let sent: Vec<Vec<u8>> = (0..group.size()).map(|member| vec![1; member as usize]).collect();
    /// for part in group.all_to_all_v(&sent).wait()? {
    ///     assert_eq!(part.len(), group.own() as usize);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn all_to_all_v<'a, P: AsRef<[u8]>>(&'a mut self, sent: &'a [P]) -> Collective<'a, Vec<Part<'e>>> {
        assert_eq!(sent.len(), self.size() as usize, "a part for each member");
        let group = &*self;
        group.operation(Kind::AllToAll, async move {
            let own = Part::of_bytes(sent[group.own() as usize].as_ref().to_vec());
            let mut parts = vec![own; sent.len()];
            for distance in 1..group.size() {
                let (to, from) = (group.behind(distance), group.before(distance));
                let send = group.send(to, sent[to as usize].as_ref());
                let ((), part) = both(send, group.receive(from)).await?;
                parts[from as usize] = part;
            }
            Ok(parts)
        })
    }
}
