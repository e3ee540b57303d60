//! A sorted set: members with scores, in the order of these.

use farcall_base::SipPrefix;

use super::fields::{Fields, Inserted};
use super::ranking::Ranking;
use super::trail::Trail;

/// A sorted set.
#[derive(Debug, Clone)]
pub struct Sorted {
    pub(super) members: Fields<f64>,
    ranking: Ranking,
    key_bytes: usize,
    peak: usize,
    pub(super) trail: Trail,
}

/// Memory of a member beside its bytes: its field, its places in a part and in a run, with their reserves,
/// and what the allocator adds.
const MEMBER_BYTES: usize = 144;

impl Sorted {
    /// No members.
    pub fn new(hashes: SipPrefix) -> Self {
        let (members, ranking, trail) = (Fields::new(hashes), Ranking::default(), Trail::default());
        Self { members, ranking, key_bytes: 0, peak: 0, trail }
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Memory that it takes.
    pub fn bytes(&self) -> usize {
        self.key_bytes + self.peak * MEMBER_BYTES + self.members.stamp_bytes()
    }

    /// Bytes of all members.
    pub(super) fn member_bytes(&self) -> usize {
        self.key_bytes
    }

    /// Memory that more members with this many bytes would take.
    pub fn growth(members: usize, bytes: usize) -> usize {
        bytes + members * MEMBER_BYTES
    }

    /// The score of a member.
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.members.get(member).copied()
    }

    /// The member at a place, and its score. Places are below [`Sorted::len`], and in no order.
    pub fn at(&self, place: usize) -> (&[u8], f64) {
        let field = self.members.at(place);
        (&field.key, field.value)
    }

    /// Gives a member a score, which is a number; says whether it is new.
    pub fn insert(&mut self, member: &[u8], score: f64) -> bool {
        // Zeros of both signs are one score.
        let score = score + 0.0;
        if let Some(place) = self.members.find(member) {
            if self.members.at(place).value != score {
                self.ranking.remove(&self.members, place);
                self.members.insert(member, score);
                self.ranking.insert(&self.members, place);
                self.stamp(member, score);
            }
            return false;
        }
        let inserted = self.members.insert(member, score);
        debug_assert_eq!(inserted, Inserted::New);
        self.key_bytes += member.len();
        self.peak = self.peak.max(self.len());
        self.ranking.insert(&self.members, self.members.len() - 1);
        self.stamp(member, score);
        true
    }

    /// The log gets to know the score of a member.
    pub(super) fn stamp(&mut self, member: &[u8], score: f64) {
        if let Some(stamp) = self.trail.put(member, &score.to_le_bytes()) {
            self.members.set_stamp(member, stamp);
        }
    }

    /// Removes a member; gives its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let place = self.members.find(member)?;
        self.ranking.remove(&self.members, place);
        let last = self.members.len() - 1;
        if place != last {
            self.ranking.moves(&self.members, last, place);
        }
        let field = self.members.remove(place);
        self.key_bytes -= field.key.len();
        self.trail.remove(&field.key);
        Some(field.value)
    }

    /// The rank of a member.
    pub fn rank(&self, member: &[u8]) -> Option<usize> {
        let score = self.score(member)?;
        Some(self.first(|other, key| other > score || other == score && key >= member))
    }

    /// The rank of the first member for which `is_behind` holds, which it must for all that follow.
    pub fn first(&self, is_behind: impl Fn(f64, &[u8]) -> bool) -> usize {
        self.ranking.first(&self.members, is_behind)
    }

    /// The members from a rank on, with their scores.
    pub fn from(&self, rank: usize) -> impl Iterator<Item = (&[u8], f64)> {
        self.ranking.from(rank).map(|place| self.at(place))
    }

    /// The members below a rank, the last first.
    pub fn back_from(&self, rank: usize) -> impl Iterator<Item = (&[u8], f64)> {
        self.ranking.back_from(rank).map(|place| self.at(place))
    }

    /// Removes some members before all is dropped; says whether there are more.
    pub fn shed(&mut self, members: usize) -> bool {
        self.members.shed(members)
    }
}

#[cfg(test)]
mod tests {
    use farcall_base::SipKey;
    use proptest::prelude::*;

    use super::*;

    /// Members by score and bytes, in the simplest way.
    fn ordered(model: &[(Vec<u8>, f64)]) -> Vec<(Vec<u8>, f64)> {
        let mut ordered = model.to_vec();
        ordered.sort_by(|one, other| one.1.total_cmp(&other.1).then_with(|| one.0.cmp(&other.0)));
        ordered
    }

    fn check(steps: &[(u16, Option<i8>)]) {
        let mut sorted = Sorted::new(SipKey([1, 2]).prefix(0));
        let mut model: Vec<(Vec<u8>, f64)> = Vec::new();
        for (number, score) in steps {
            let member = number.to_be_bytes().to_vec();
            let at = model.iter().position(|(known, _)| *known == member);
            match score {
                Some(score) => {
                    assert_eq!(sorted.insert(&member, f64::from(*score)), at.is_none());
                    at.map(|at| model.swap_remove(at));
                    model.push((member, f64::from(*score)));
                }
                None => assert_eq!(sorted.remove(&member), at.map(|at| model.swap_remove(at).1)),
            }
        }
        let expected = ordered(&model);
        let owned = |(member, score): (&[u8], f64)| (member.to_vec(), score);
        assert_eq!(sorted.from(0).map(owned).collect::<Vec<_>>(), expected);
        for (rank, (member, score)) in expected.iter().enumerate() {
            assert_eq!(sorted.rank(member), Some(rank));
            let first = expected.iter().position(|(_, other)| other >= score);
            assert_eq!(Some(sorted.first(|other, _| other >= *score)), first);
            assert_eq!(sorted.from(rank).next().map(owned), Some(expected[rank].clone()));
            assert_eq!(
                sorted.back_from(rank).next().map(owned),
                rank.checked_sub(1).map(|rank| expected[rank].clone())
            );
        }
        let back: Vec<_> = sorted.back_from(sorted.len()).map(owned).collect();
        assert_eq!(back, expected.into_iter().rev().collect::<Vec<_>>());
    }

    #[test]
    fn many_members_are_in_order_through_runs_that_divide_and_join() {
        let number = |step: u32| (step.wrapping_mul(2_654_435_761) >> 20) as u16;
        let inserts = (0..4000_u32).map(|step| (number(step), Some((step % 100) as i8)));
        let removals = (0..3500_u32).map(|step| (number(step), None));
        check(&inserts.chain(removals).collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn members_are_in_order(steps in prop::collection::vec((0..60_u16, any::<Option<i8>>()), 0..400)) {
            check(&steps);
        }
    }
}
