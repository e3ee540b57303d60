//! The order of a sorted set: places of members by score and, where two have one score, by their bytes.
//!
//! Runs of at most [`RUN_LEN_MAX`] members, one behind the other. A change moves the members of one run, and
//! a rank is the sum of the lengths before it: a few microseconds with a million members.

use super::fields::Fields;

/// Members of a run; a longer one is divided.
const RUN_LEN_MAX: usize = 512;

/// Two neighbours with no more members become one run.
const RUNS_JOINED_LEN: usize = 256;

/// A member: its score, and its place among the fields.
type Ranked = (f64, u32);

/// Places in order.
#[derive(Debug, Default, Clone)]
pub struct Ranking {
    runs: Vec<Vec<Ranked>>,
}

impl Ranking {
    /// The rank of the first member for which `is_behind` holds, which it must for all that follow.
    pub fn first(&self, members: &Fields<f64>, is_behind: impl Fn(f64, &[u8]) -> bool) -> usize {
        let is_before = |&(score, place): &Ranked| !is_behind(score, &members.at(place as usize).key);
        let run = self.runs.partition_point(|run| is_before(&run[run.len() - 1]));
        let before = self.runs[..run].iter().map(Vec::len).sum::<usize>();
        before + self.runs.get(run).map_or(0, |run| run.partition_point(is_before))
    }

    /// The places of the members from a rank on.
    pub fn from(&self, rank: usize) -> impl Iterator<Item = usize> {
        let (run, at) = self.position(rank);
        let first = self.runs.get(run).map_or(&[][..], |run| &run[at..]);
        let rest = self.runs.get(run + 1..).unwrap_or(&[]);
        first.iter().chain(rest.iter().flatten()).map(|&(_, place)| place as usize)
    }

    /// The places of the members below a rank, the last first.
    pub fn back_from(&self, rank: usize) -> impl Iterator<Item = usize> {
        let (run, at) = self.position(rank);
        let first = self.runs.get(run).map_or(&[][..], |run| &run[..at]);
        let rest = &self.runs[..run.min(self.runs.len())];
        let places = first.iter().rev().chain(rest.iter().rev().flat_map(|run| run.iter().rev()));
        places.map(|&(_, place)| place as usize)
    }

    /// Adds the member at a place.
    pub fn insert(&mut self, members: &Fields<f64>, place: usize) {
        let (run, at) = self.place_of(members, place);
        let ranked = (members.at(place).value, place as u32);
        let Some(to) = self.runs.get_mut(run) else {
            return match self.runs.last_mut() {
                Some(last) if last.len() < RUN_LEN_MAX => last.push(ranked),
                _ => self.runs.push(vec![ranked]),
            };
        };
        to.insert(at, ranked);
        if to.len() > RUN_LEN_MAX {
            let rest = to.split_off(RUN_LEN_MAX / 2);
            self.runs.insert(run + 1, rest);
        }
    }

    /// Removes the member at a place, before it or its score is changed.
    pub fn remove(&mut self, members: &Fields<f64>, place: usize) {
        let (run, at) = self.place_of(members, place);
        debug_assert_eq!(self.runs[run][at].1 as usize, place, "all members are ranked");
        self.runs[run].remove(at);
        let len = |run: usize| self.runs.get(run).map_or(usize::MAX / 2, Vec::len);
        if len(run) == 0 {
            self.runs.remove(run);
        } else if len(run) + len(run + 1) <= RUNS_JOINED_LEN {
            let next = self.runs.remove(run + 1);
            self.runs[run].extend(next);
        }
    }

    /// The last member, at `from`, is about to take another place.
    pub fn moves(&mut self, members: &Fields<f64>, from: usize, to: usize) {
        let (run, at) = self.place_of(members, from);
        self.runs[run][at].1 = to as u32;
    }

    /// Where the member at a place is, or belongs.
    fn place_of(&self, members: &Fields<f64>, place: usize) -> (usize, usize) {
        let (score, member) = (members.at(place).value, &*members.at(place).key);
        let is_before = |&(other, place): &Ranked| {
            other < score || other == score && *members.at(place as usize).key < *member
        };
        let run = self.runs.partition_point(|run| is_before(&run[run.len() - 1]));
        (run, self.runs.get(run).map_or(0, |run| run.partition_point(is_before)))
    }

    /// The run of a rank, and where in it.
    fn position(&self, rank: usize) -> (usize, usize) {
        let mut rest = rank;
        for (number, run) in self.runs.iter().enumerate() {
            if rest < run.len() {
                return (number, rest);
            }
            rest -= run.len();
        }
        (self.runs.len(), 0)
    }
}
