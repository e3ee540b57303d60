//! How long messages are: a distribution, read from a file and cut into classes.
//!
//! Slowdown compares a time with the best one for the same size, so there must not be too many sizes. A class
//! stands for one percent of the messages, and has their mean length; of the longest percent, which carry a
//! large part of all bytes, a class stands for a thousandth, and of the longest of those for a
//! ten-thousandth. So the mean of all messages is that of the distribution.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use farcall_base::Random;

/// Parts into which a percent, and each of the two cuts above it, is cut.
const PARTS: u64 = 10;

/// The finest part: classes are this many of these wide.
const FINEST: u64 = 10_000;

/// Points by which the mean of a class is integrated.
const POINTS: u64 = 64;

/// The mixes that are part of the program, by name.
const EMBEDDED: [(&str, &str); 5] = [
    ("W1", include_str!("mixes/W1.cdf")),
    ("W2", include_str!("mixes/W2.cdf")),
    ("W3", include_str!("mixes/W3.cdf")),
    ("W4", include_str!("mixes/W4.cdf")),
    ("W5", include_str!("mixes/W5.cdf")),
];

/// A mix of message lengths.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeMix {
    name: String,
    classes: Vec<SizeClass>,
    mean_bytes: f64,
}

/// Messages that count as equally long.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizeClass {
    /// Their length.
    pub bytes: u32,
    /// Their share of all messages, in 1/10,000; of recorded messages how many there are.
    pub weight: u32,
    /// Which tenth of all messages, by length, they belong to: from 0.
    pub decile: u8,
}

/// Why there is no such mix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MixError {
    /// Neither an embedded name nor a file that can be read: correct the name.
    #[error("there is no workload `{name}`: as a file, {reason}; the embedded ones are W1, W2, W3, W4, W5")]
    NotFound {
        /// What was asked for.
        name: String,
        /// Why it could not be read as a file.
        reason: String,
    },
    /// A line is not one of a distribution: correct it.
    #[error("workload `{name}`, line {line}: {why}")]
    Wrong {
        /// The file.
        name: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        why: &'static str,
    },
}

impl SizeMix {
    /// The embedded mix of that name, or the one in that file.
    pub fn load(name_or_file: &str) -> Result<Self, MixError> {
        if let Some((name, text)) = EMBEDDED.iter().find(|(name, _)| *name == name_or_file) {
            return Self::parse(name, text);
        }
        let text = std::fs::read_to_string(name_or_file).map_err(|error| MixError::NotFound {
            name: name_or_file.to_owned(),
            reason: error.to_string(),
        })?;
        Self::parse(name_or_file, &text)
    }

    /// Whether a name is that of an embedded mix, so that no file is read for it.
    pub fn is_embedded(name: &str) -> bool {
        EMBEDDED.iter().any(|(embedded, _)| *embedded == name)
    }

    /// The mix in `text`, known by `name`: lines of a length in bytes and the share of messages that are at
    /// most so long, ascending to 1. Lines that are empty or begin with `#` mean nothing.
    pub fn parse(name: &str, text: &str) -> Result<Self, MixError> {
        let points = parse_points(text).map_err(|(line, why)| MixError::Wrong {
            name: name.to_owned(),
            line: line + 1,
            why,
        })?;
        let classes = classes(&points);
        let bytes = classes.iter().map(|class| u64::from(class.bytes) * u64::from(class.weight));
        let mean_bytes = bytes.sum::<u64>() as f64 / FINEST as f64;
        Ok(Self { name: name.to_owned(), classes, mean_bytes })
    }

    /// The lengths of messages that were recorded.
    pub(super) fn recorded(name: String, classes: Vec<SizeClass>, mean_bytes: f64) -> Self {
        Self { name, classes, mean_bytes }
    }

    /// The name or file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The classes, in order of length.
    pub fn classes(&self) -> &[SizeClass] {
        &self.classes
    }

    /// The mean length of a message, in bytes.
    pub fn mean_bytes(&self) -> f64 {
        self.mean_bytes
    }

    /// The longest message.
    pub fn bytes_max(&self) -> u32 {
        self.classes.iter().map(|class| class.bytes).max().unwrap_or(0)
    }
}

impl FromStr for SizeMix {
    type Err = MixError;

    fn from_str(name_or_file: &str) -> Result<Self, MixError> {
        Self::load(name_or_file)
    }
}

impl fmt::Display for SizeMix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Draws classes as often as their weights say.
#[derive(Clone, Debug)]
pub(super) struct Draw {
    /// For each class, the weights up to its end.
    ends: Vec<u32>,
}

impl Draw {
    pub(super) fn new(classes: &[SizeClass]) -> Self {
        let ends = classes.iter().scan(0, |end, class| {
            *end += class.weight;
            Some(*end)
        });
        Self { ends: ends.collect() }
    }

    /// The number of a class.
    pub(super) fn class(&self, random: &mut Random) -> usize {
        let all = self.ends.last().copied().unwrap_or(0);
        let at = random.below(u64::from(all)) as u32;
        self.ends.partition_point(|&end| end <= at)
    }
}

/// A length and the share of messages that are at most so long.
type Point = (f64, f64);

fn parse_points(text: &str) -> Result<Vec<Point>, (usize, &'static str)> {
    let mut points: Vec<Point> = Vec::new();
    for (line, words) in text.lines().map(str::trim).enumerate() {
        if words.is_empty() || words.starts_with('#') {
            continue;
        }
        let (bytes, share) =
            words.split_once(char::is_whitespace).ok_or((line, "it is not a length and a share"))?;
        let bytes: u32 = bytes.parse().map_err(|_| (line, "the length is not a whole number of bytes"))?;
        let share: f64 = share.trim().parse().map_err(|_| (line, "the share is not a number"))?;
        let (least_bytes, least_share) = points.last().copied().unwrap_or((1.0, 0.0));
        if f64::from(bytes) < least_bytes {
            return Err((line, "lengths must be at least 1 and must not become shorter"));
        }
        if !(least_share..=1.0).contains(&share) {
            return Err((line, "shares must be from 0 to 1 and must not become smaller"));
        }
        points.push((f64::from(bytes), share));
    }
    match points.last() {
        Some((_, 1.0)) => Ok(points),
        _ => Err((text.lines().count().saturating_sub(1), "the share of the last length must be 1")),
    }
}

/// Cuts a distribution.
fn classes(points: &[Point]) -> Vec<SizeClass> {
    let percent = FINEST / 100;
    let thousandth = percent / PARTS;
    let percents = (0..FINEST - percent).step_by(percent as usize).map(|from| (from, percent));
    let thousandths =
        (FINEST - percent..FINEST - thousandth).step_by(thousandth as usize).map(|from| (from, thousandth));
    let finest = (FINEST - thousandth..FINEST).map(|from| (from, 1));
    let mut classes: Vec<SizeClass> = Vec::new();
    for (from, width) in percents.chain(thousandths).chain(finest) {
        let decile = (from * 10 / FINEST) as u8;
        let (bytes, weight) = (mean_bytes(points, from, width), width as u32);
        match classes.last_mut() {
            Some(last) if last.bytes == bytes && last.decile == decile => last.weight += weight,
            _ => classes.push(SizeClass { bytes, weight, decile }),
        }
    }
    classes
}

/// The mean length of messages from one share of them to another, both in ten-thousandths.
fn mean_bytes(points: &[Point], from: u64, width: u64) -> u32 {
    let share =
        |point: u64| (from as f64 + width as f64 * (point as f64 + 0.5) / POINTS as f64) / FINEST as f64;
    let sum: f64 = (0..POINTS).map(|point| bytes_at(points, share(point))).sum();
    (sum / POINTS as f64).round() as u32
}

/// The length that this share of the messages do not exceed, in whole bytes.
fn bytes_at(points: &[Point], share: f64) -> f64 {
    let above = points.partition_point(|point| point.1 < share).min(points.len() - 1);
    let (bytes, at) = points[above];
    let Some((bytes_below, below)) = above.checked_sub(1).map(|below| points[below]) else { return bytes };
    let part = (share - below) / (at - below);
    (bytes_below * (bytes / bytes_below).powf(part)).ceil()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mix(text: &str) -> SizeMix {
        SizeMix::parse("test", text).expect("the text is right")
    }

    #[test]
    fn embedded_mixes_have_the_means_that_were_published() {
        // Published means count what lies between two breakpoints as the longer one, a little too much.
        let published =
            [("W1", 188.0), ("W2", 441.0), ("W3", 2_927.0), ("W4", 127_797.0), ("W5", 2_564_709.0)];
        for (name, mean) in published {
            let found = SizeMix::load(name).expect("it is embedded").mean_bytes();
            assert!((found / mean - 1.0).abs() < 0.06, "{name}: {found} instead of {mean}");
        }
    }

    #[test]
    fn classes_cover_all_messages_in_order() {
        for (name, _) in EMBEDDED {
            let mix = SizeMix::load(name).expect("it is embedded");
            assert_eq!(mix.classes().iter().map(|class| u64::from(class.weight)).sum::<u64>(), FINEST);
            assert!(mix.classes().is_sorted_by_key(|class| (class.decile, class.bytes)));
            let decile = |wanted| mix.classes().iter().filter(move |class| class.decile == wanted);
            assert!((0..10).all(|wanted| decile(wanted).map(|class| class.weight).sum::<u32>() == 1000));
        }
    }

    #[test]
    fn steps_and_slopes_are_followed() {
        assert_eq!(
            mix("7 1").classes(),
            (0..10).map(|decile| SizeClass { bytes: 7, weight: 1000, decile }).collect::<Vec<_>>()
        );
        let two = mix("# half and half\n\n10 0.5\n10 0.5\n1000 0.5\n1000 1\n");
        assert!((two.mean_bytes() - 505.0).abs() < 1e-9, "{}", two.mean_bytes());
        let slope = mix("100 0\n10000 1");
        let middle = slope.classes().iter().find(|class| class.decile == 5).expect("there is a sixth decile");
        assert!((1000..1060).contains(&middle.bytes), "half of the messages are below the geometric mean");
    }

    #[test]
    fn draws_are_as_frequent_as_weights() {
        let mix = mix("10 0.25\n10 0.25\n1000 0.25\n1000 1\n");
        let (draw, mut random) = (Draw::new(mix.classes()), Random::new(3));
        let short = (0..20_000).filter(|_| mix.classes()[draw.class(&mut random)].bytes == 10).count();
        assert!((4_700..5_300).contains(&short), "{short}");
    }

    #[test]
    fn a_wrong_file_is_refused_with_its_line() {
        let cases = [
            (
                "10 0.5\n9 1",
                "workload `test`, line 2: lengths must be at least 1 and must not become shorter",
            ),
            ("0 1", "workload `test`, line 1: lengths must be at least 1 and must not become shorter"),
            (
                "10 0.5\n11 0.4",
                "workload `test`, line 2: shares must be from 0 to 1 and must not become smaller",
            ),
            ("10 0.5", "workload `test`, line 1: the share of the last length must be 1"),
            ("", "workload `test`, line 1: the share of the last length must be 1"),
            ("ten 1", "workload `test`, line 1: the length is not a whole number of bytes"),
            ("#\n10", "workload `test`, line 2: it is not a length and a share"),
            ("10 all", "workload `test`, line 1: the share is not a number"),
            ("10 nan", "workload `test`, line 1: shares must be from 0 to 1 and must not become smaller"),
        ];
        for (text, expected) in cases {
            assert_eq!(SizeMix::parse("test", text).expect_err(text).to_string(), expected);
        }
        let found = SizeMix::load("W9").expect_err("there is none").to_string();
        assert!(found.starts_with("there is no workload `W9`: as a file, "), "{found}");
    }
}
