//! Ranges of sorted sets: by rank, by score and by member.

use super::call::{Call, Refusal};
use super::lists;
use crate::store::Sorted;

/// A limit of a range of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ScoreLimit {
    score: f64,
    is_open: bool,
}

impl ScoreLimit {
    fn of(text: &[u8]) -> Result<Self, Refusal> {
        let (is_open, number) = match text.strip_prefix(b"(") {
            Some(number) => (true, number),
            None => (false, text),
        };
        let score =
            super::numbers::float(number).map_err(|_| Refusal::of("ERR min or max is not a float"))?;
        Ok(Self { score, is_open })
    }

    /// Whether a score is at or behind the beginning that this is.
    fn begins(self, score: f64) -> bool {
        score > self.score || score == self.score && !self.is_open
    }

    /// Whether a score is behind the end that this is.
    fn ends(self, score: f64) -> bool {
        score > self.score || score == self.score && self.is_open
    }
}

/// A limit of a range of members.
#[derive(Clone, Copy, Debug, PartialEq)]
enum MemberLimit<'a> {
    Lowest,
    Highest,
    Closed(&'a [u8]),
    Open(&'a [u8]),
}

impl<'a> MemberLimit<'a> {
    fn of(text: &'a [u8]) -> Result<Self, Refusal> {
        match text {
            b"-" => Ok(Self::Lowest),
            b"+" => Ok(Self::Highest),
            [b'[', member @ ..] => Ok(Self::Closed(member)),
            [b'(', member @ ..] => Ok(Self::Open(member)),
            _ => Err(Refusal::of("ERR min or max not valid string range item")),
        }
    }

    fn begins(self, member: &[u8]) -> bool {
        match self {
            Self::Lowest => true,
            Self::Highest => false,
            Self::Closed(limit) => member >= limit,
            Self::Open(limit) => member > limit,
        }
    }

    fn ends(self, member: &[u8]) -> bool {
        match self {
            Self::Lowest => true,
            Self::Highest => false,
            Self::Closed(limit) => member > limit,
            Self::Open(limit) => member >= limit,
        }
    }
}

/// By what a range is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Rank,
    Score,
    Member,
}

/// The ranks from the first limit, an argument, to the second one behind it; of a reversed range the first
/// argument is the upper limit. Ranks of a reversed range count from the end, those of the result never.
pub fn ranks(
    call: &Call<'_>,
    sorted: Option<&Sorted>,
    (by, is_reversed): (By, bool),
    first: usize,
) -> Result<(usize, usize), Refusal> {
    let (low, high) = if is_reversed { (first + 1, first) } else { (first, first + 1) };
    let (low, high) = (call.args.at(low), call.args.at(high));
    let length = sorted.map_or(0, Sorted::len);
    let (from, end) = match by {
        By::Rank => {
            let (from, end) = lists::range(call, first, length)?;
            if is_reversed { (length - end, length - from) } else { (from, end) }
        }
        By::Score => {
            let (low, high) = (ScoreLimit::of(low)?, ScoreLimit::of(high)?);
            let first = |is_behind: &dyn Fn(f64) -> bool| {
                sorted.map_or(0, |sorted| sorted.first(|score, _| is_behind(score)))
            };
            (first(&|score| low.begins(score)), first(&|score| high.ends(score)))
        }
        By::Member => {
            let (low, high) = (MemberLimit::of(low)?, MemberLimit::of(high)?);
            let first = |is_behind: &dyn Fn(&[u8]) -> bool| {
                sorted.map_or(0, |sorted| sorted.first(|_, member| is_behind(member)))
            };
            (first(&|member| low.begins(member)), first(&|member| high.ends(member)))
        }
    };
    Ok(if from >= end { (0, 0) } else { (from, end) })
}

/// A part of a range: so many behind an offset, all of them when negative.
pub fn limit((from, end): (usize, usize), is_reversed: bool, offset: i64, count: i64) -> (usize, usize) {
    let Ok(offset) = usize::try_from(offset) else { return (0, 0) };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let offset = offset.min(end - from);
    if is_reversed {
        let end = end - offset;
        (end.saturating_sub(count).max(from), end)
    } else {
        let from = from + offset;
        (from, from.saturating_add(count).min(end))
    }
}
