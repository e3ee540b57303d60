//! Figures that must not get worse, whatever a change does for others.

use core::fmt;
use core::str::FromStr;

use super::effects::{Better, Effect};

/// A figure that must not get worse by more than a part.
#[derive(Clone, Debug, PartialEq)]
pub struct Guard {
    /// The row, such as `echo1M`.
    pub row: String,
    /// The figure, such as `p50`.
    pub metric: String,
    /// By which part it may get worse.
    pub part: f64,
}

/// What a change does to a guarded figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardVerdict {
    /// It does not get worse than allowed: the whole interval says so.
    Kept,
    /// It gets worse than allowed: the whole interval says so.
    Broken,
    /// The interval lies on both sides: more blocks may tell.
    Undecided,
}

impl Guard {
    /// Judges an effect on the figure.
    pub fn judge(&self, effect: &Effect, better: Better) -> GuardVerdict {
        let Some((low, high)) = effect.interval else { return GuardVerdict::Undecided };
        // How much worse, as a ratio: the inverse of a rate's.
        let (least, most) = match better {
            Better::Less => (low, high),
            Better::More => (1.0 / high, 1.0 / low),
        };
        match 1.0 + self.part {
            limit if most <= limit => GuardVerdict::Kept,
            limit if least > limit => GuardVerdict::Broken,
            _ => GuardVerdict::Undecided,
        }
    }
}

impl FromStr for Guard {
    type Err = String;

    /// Reads `ROW:FIGURE=PERCENT%`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not ROW:FIGURE=PERCENT%, such as echo1M:p50=1%");
        let (what, percent) = text.rsplit_once('=').ok_or_else(wrong)?;
        let (row, metric) = what.rsplit_once(':').ok_or_else(wrong)?;
        let percent: f64 =
            percent.strip_suffix('%').and_then(|digits| digits.parse().ok()).ok_or_else(wrong)?;
        if row.is_empty() || metric.is_empty() || !(0.0..=1000.0).contains(&percent) {
            return Err(wrong());
        }
        Ok(Self { row: row.to_owned(), metric: metric.to_owned(), part: percent / 100.0 })
    }
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}={}%", self.row, self.metric, self.part * 100.0)
    }
}

impl fmt::Display for GuardVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Kept => "kept",
            Self::Broken => "broken",
            Self::Undecided => "undecided",
        })
    }
}
