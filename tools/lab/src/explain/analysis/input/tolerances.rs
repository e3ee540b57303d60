//! By what part the two sides of a law may differ, and which laws are assumed.

use core::fmt;
use core::str::FromStr;

use serde::Deserialize;

/// The tolerance of each law, as a part.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tolerances {
    /// Little's law: warm-up, the ends of a run and the time between two operations are in one figure and not
    /// in the other.
    pub little: f64,
    /// Products of printed figures, such as size and rate.
    pub product: f64,
    /// Balances that state none.
    pub balance: f64,
    /// Series that names say should differ.
    pub same: f64,
}

impl Default for Tolerances {
    fn default() -> Self {
        Self { little: 0.1, product: 0.01, balance: 0.01, same: 0.001 }
    }
}

impl Tolerances {
    /// The names of the laws, as files and the command line write them.
    pub const NAMES: [&str; 4] = ["little", "product", "balance", "same"];

    /// Sets the tolerance of a law; whether there is one of that name, and the part is above 0 and below 1.
    pub fn set(&mut self, law: &str, part: f64) -> bool {
        let tolerance = match law {
            "little" => &mut self.little,
            "product" => &mut self.product,
            "balance" => &mut self.balance,
            "same" => &mut self.same,
            _ => return false,
        };
        *tolerance = part;
        part > 0.0 && part < 1.0
    }

    /// Whether every tolerance is above 0 and below 1.
    pub fn are_parts(&self) -> bool {
        [self.little, self.product, self.balance, self.same].iter().all(|part| *part > 0.0 && *part < 1.0)
    }
}

/// A law that nobody wrote down for these figures: it is inferred from names and units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Assumption {
    /// What is in flight stays in flight: a closed loop.
    ClosedLoop,
    /// A throughput is the size of a message times the rate of messages.
    SizeTimesRate,
    /// A rate is a number of operations over the duration.
    CountOverDuration,
    /// Columns of throughput are one quantity in several units.
    OneThroughput,
    /// A series that is called a total is made of the others.
    TotalOfParts,
    /// Series and statistics of different names were measured separately.
    SeparateSeries,
    /// Figures whose units fit are bound by a product.
    FiguresFit,
}

impl Assumption {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::ClosedLoop,
        Self::SizeTimesRate,
        Self::CountOverDuration,
        Self::OneThroughput,
        Self::TotalOfParts,
        Self::SeparateSeries,
        Self::FiguresFit,
    ];

    /// The law in words.
    pub fn law(self) -> &'static str {
        match self {
            Self::ClosedLoop => "what is in flight is constant, and its mean is rate x mean time",
            Self::SizeTimesRate => "throughput is size x rate",
            Self::CountOverDuration => "the rate is the number of operations over the duration",
            Self::OneThroughput => "columns of throughput are one quantity in several units",
            Self::TotalOfParts => "a series or column that is called a total is made of the others",
            Self::SeparateSeries => "series and statistics of different names were measured separately",
            Self::FiguresFit => "figures whose units fit are bound by a product",
        }
    }
}

impl fmt::Display for Assumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::ClosedLoop => "closed_loop",
            Self::SizeTimesRate => "size_times_rate",
            Self::CountOverDuration => "count_over_duration",
            Self::OneThroughput => "one_throughput",
            Self::TotalOfParts => "total_of_parts",
            Self::SeparateSeries => "separate_series",
            Self::FiguresFit => "figures_fit",
        })
    }
}

/// What was written is no assumption.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no assumption of the audit; it makes {}", Assumption::ALL.map(|one| one.to_string()).join(", "))]
pub struct AssumptionError {
    text: String,
}

impl FromStr for Assumption {
    type Err = AssumptionError;

    fn from_str(text: &str) -> Result<Self, AssumptionError> {
        let found = Self::ALL.into_iter().find(|one| one.to_string() == text);
        found.ok_or_else(|| AssumptionError { text: text.to_owned() })
    }
}
