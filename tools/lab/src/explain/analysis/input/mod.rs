//! What is analysed: a CSV table by itself, or a TOML document that names tables and says what is known of
//! them.
//!
//! docs/audit.md describes both.

pub mod heading;
mod import;
pub mod number;
mod size;
pub mod table;
mod text;
pub mod throughput;
mod tolerances;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::files::{read_regular, read_regular_or_own};

pub use heading::{Axis, Latency, PARTS, Role, counted_parts, words_of};
pub use import::PROGRAMS;
pub use number::PrintedFigure;
pub use table::{Column, Observation, Table, TableError, figures_table};
pub use text::{NamedFigure, PrintedSum};
pub use throughput::ThroughputUnit;
pub use tolerances::{Assumption, Tolerances};

/// The version of documents. It goes up when a field changes its name, its unit or its meaning.
pub const SCHEMA: &str = "farcall.audit.v1";

/// The longest file that is read: 16 MiB.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Tables, and what is known of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// Where the figures come from, in a line.
    pub source: String,
    /// The tables.
    pub tables: Vec<Table>,
    /// Changes that were made and measured.
    pub comparisons: Vec<Comparison>,
    /// Single figures by name, for balances.
    pub figures: BTreeMap<String, f64>,
    /// Sums that should agree.
    pub balances: Vec<Balance>,
    /// Classes of operations for Little's law.
    pub classes: Vec<Class>,
    /// Searches that kept the best of many.
    pub searches: Vec<Search>,
    /// Timers of the measured system, in nanoseconds.
    pub timers_nanos: Vec<f64>,
    /// Names in balances that no figure has: to be solved for.
    pub unknowns: BTreeSet<String>,
    /// By what part the sides of each law may differ.
    pub tolerances: Tolerances,
    /// Assumptions that somebody struck: what rests on them is not said.
    pub struck: Vec<Assumption>,
}

/// A change that was made and measured: rows before it and after it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// The change, in words.
    pub change: String,
    /// The table that has both.
    pub table: String,
    /// Labels of the rows before.
    pub before: BTreeMap<String, String>,
    /// Labels of the rows after.
    pub after: BTreeMap<String, String>,
    /// Which hypothesis it tests, if any: one of `host`, `fabric`, `copy`, `schedule`, `window`.
    pub tests: Option<Cause>,
}

/// What may limit a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The path of a machine's own traffic: receive progress, its card, its bus.
    Host,
    /// Links and switches that machines share.
    Fabric,
    /// Copies on the way out.
    Copy,
    /// The order in which messages are sent.
    Schedule,
    /// How much may be in flight.
    Window,
}

/// Two sums of products of figures that should agree.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Balance {
    /// The law, in words.
    pub name: String,
    /// One side: a list of products, each a list of names of figures.
    pub left: Vec<Vec<String>>,
    /// The other side.
    pub right: Vec<Vec<String>>,
    /// By what part the sides may differ; that of all balances unless given.
    pub tolerance: Option<f64>,
}

/// Operations that a closed loop keeps in flight, by parts whose rates and mean times are known.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// The class, in words.
    pub name: String,
    /// How many operations are in flight, all parts together.
    pub in_flight: f64,
    /// The parts.
    pub parts: Vec<Part>,
}

/// A part of a class.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The part, in words.
    pub name: String,
    /// Operations per second.
    pub per_second: f64,
    /// Mean time of one, in microseconds; one part may leave it out, and Little's law then says what it must
    /// be.
    pub us: Option<f64>,
}

/// How often each printed figure came up in a search, the lower the better.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Search {
    /// The search, in words.
    pub name: String,
    /// Printed figures in microseconds, rising.
    pub us: Vec<f64>,
    /// How many configurations had each.
    pub configurations: Vec<u64>,
    /// The step of the printed figures, in microseconds.
    pub step_us: f64,
    /// All configurations, also those above the last figure.
    pub total: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    schema: String,
    source: String,
    #[serde(default)]
    link_gbps: Option<f64>,
    #[serde(default)]
    timers_us: Vec<f64>,
    #[serde(default)]
    figures: BTreeMap<String, f64>,
    #[serde(default)]
    table: Vec<TableText>,
    #[serde(default)]
    comparison: Vec<Comparison>,
    #[serde(default)]
    balance: Vec<Balance>,
    #[serde(default)]
    class: Vec<Class>,
    #[serde(default)]
    search: Vec<Search>,
    #[serde(default)]
    unknown: BTreeSet<String>,
    #[serde(default)]
    tolerance: Tolerances,
    #[serde(default)]
    strike: Vec<Assumption>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TableText {
    name: String,
    file: Option<PathBuf>,
    rows: Option<String>,
    #[serde(default)]
    time_units: Vec<TimeUnit>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TimeUnit {
    name: String,
    ns: f64,
}

/// Why a document cannot be read. Each says what to change.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// The file.
    #[error("cannot read {}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file that is longer than 16 MiB: leave rows out that do not matter.
    #[error("{} is longer than 16 MiB", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// Not TOML, or not with the fields of a document.
    #[error("{0}")]
    Toml(String),
    /// Another version.
    #[error("this is a document of `{0}`, and this program reads `{SCHEMA}`")]
    Version(String),
    /// A table.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A table without rows, or with both kinds.
    #[error("the table `{0}` needs either `file` or `rows`")]
    TableSource(String),
    /// A name that is not there.
    #[error("`{user}` speaks of {what} `{name}`, which the document does not have")]
    Unknown {
        /// The speaker.
        user: String,
        /// What kind of thing.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// A number that makes no sense.
    #[error("`{0}` has a number that is not above 0")]
    Number(String),
    /// A tolerance that is no part.
    #[error("a tolerance is a part above 0 and below 1, such as 0.05")]
    Tolerance,
    /// A search whose lists differ.
    #[error(
        "the search `{0}` needs a count for each figure, rising figures, and a total that is not less than the counts"
    )]
    Search(String),
}

impl Document {
    /// Reads a document and the tables that it names, beside it, or anything else as a table or as the output
    /// of a program.
    pub fn read(path: &Path) -> Result<Self, DocumentError> {
        let text = bounded(path, read_regular_or_own)?;
        let is_document = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"));
        if !is_document {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            return Self::of_text(&name, &text);
        }
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        Self::parse(&text, |file| bounded(&folder.join(file), read_regular))
    }

    /// A table, or the output of a program, by itself.
    pub fn of_text(name: &str, text: &str) -> Result<Self, DocumentError> {
        Ok(Self { tables: vec![read_table(name, text)?], ..Self::default() })
    }

    /// Reads a document; `open` gives the text of the files that it names.
    pub fn parse(
        text: &str,
        mut open: impl FnMut(&Path) -> Result<String, DocumentError>,
    ) -> Result<Self, DocumentError> {
        let text: Text = toml::from_str(text).map_err(|error| DocumentError::Toml(sentence(&error)))?;
        if text.schema != SCHEMA {
            return Err(DocumentError::Version(text.schema));
        }
        let mut tables = Vec::new();
        for table in text.table {
            let rows = match (table.file, table.rows) {
                (Some(file), None) => open(&file)?,
                (None, Some(rows)) => rows,
                _ => return Err(DocumentError::TableSource(table.name)),
            };
            let mut parsed = read_table(&table.name, &rows)?;
            parsed.time_units = table.time_units.into_iter().map(|unit| (unit.name, unit.ns)).collect();
            parsed.link_bits_per_second = text.link_gbps.map(|gbps| gbps * 1e9);
            tables.push(parsed);
        }
        let document = Self {
            source: text.source,
            tables,
            comparisons: text.comparison,
            figures: text.figures,
            balances: text.balance,
            classes: text.class,
            searches: text.search,
            timers_nanos: text.timers_us.iter().map(|us| us * 1e3).collect(),
            unknowns: text.unknown,
            tolerances: text.tolerance,
            struck: text.strike,
        };
        document.check()?;
        Ok(document)
    }

    /// The table of that name.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }

    fn check(&self) -> Result<(), DocumentError> {
        let unknown = |user: &str, what, name: &str| DocumentError::Unknown {
            user: user.to_owned(),
            what,
            name: name.to_owned(),
        };
        for comparison in &self.comparisons {
            let table = self.table(&comparison.table);
            let table = table.ok_or_else(|| unknown(&comparison.change, "the table", &comparison.table))?;
            for (label, text) in comparison.before.iter().chain(&comparison.after) {
                if !table.rows.iter().any(|row| row.labels.get(label) == Some(text)) {
                    return Err(unknown(&comparison.change, "rows of", &format!("{label} = {text}")));
                }
            }
        }
        for balance in &self.balances {
            for name in balance.left.iter().chain(&balance.right).flatten() {
                if !self.figures.contains_key(name) && !self.unknowns.contains(name) {
                    return Err(unknown(&balance.name, "the figure", name));
                }
            }
        }
        self.searches.iter().try_for_each(check_search)?;
        for class in &self.classes {
            let numbers = class.parts.iter().flat_map(|part| [Some(part.per_second), part.us]);
            check_positive(&class.name, numbers.flatten().chain([class.in_flight]))?;
        }
        let units = self.tables.iter().flat_map(|table| &table.time_units);
        units.clone().try_for_each(|(name, nanos)| check_positive(name, [*nanos]))?;
        if !self.tolerances.are_parts() {
            return Err(DocumentError::Tolerance);
        }
        check_positive("timers_us", self.timers_nanos.iter().copied())?;
        let links = self.tables.iter().filter_map(|table| table.link_bits_per_second);
        check_positive("link_gbps", links)
    }
}

fn check_positive(name: &str, numbers: impl IntoIterator<Item = f64>) -> Result<(), DocumentError> {
    let fine = numbers.into_iter().all(|number| number.is_finite() && number > 0.0);
    if fine { Ok(()) } else { Err(DocumentError::Number(name.to_owned())) }
}

/// The table in a program's output, or in separated text.
fn read_table(name: &str, text: &str) -> Result<Table, TableError> {
    match import::read(text.strip_prefix('\u{feff}').unwrap_or(text)) {
        Some(Ok(imported)) => table::typed(name, imported),
        Some(Err(excess)) => Err(TableError::of_excess(name, excess)),
        None => table::parse(name, text),
    }
}

fn check_search(search: &Search) -> Result<(), DocumentError> {
    check_positive(&search.name, search.us.iter().copied().chain([search.step_us]))?;
    let sum = search.configurations.iter().try_fold(0_u64, |sum, count| sum.checked_add(*count));
    let fine = search.us.len() == search.configurations.len()
        && search.us.len() > 1
        && search.configurations.iter().all(|count| *count > 0)
        && search.us.windows(2).all(|pair| pair[0] < pair[1])
        && sum.is_some_and(|sum| sum <= search.total && sum * 2 > search.total);
    if fine { Ok(()) } else { Err(DocumentError::Search(search.name.clone())) }
}

/// Reads a file by one of the functions that bound it.
fn bounded(path: &Path, read: fn(&Path, u64) -> io::Result<Option<String>>) -> Result<String, DocumentError> {
    let failed = |error| DocumentError::File { path: path.to_owned(), error };
    let text = read(path, FILE_BYTES_MAX).map_err(failed)?;
    text.ok_or_else(|| DocumentError::TooLong { path: path.to_owned() })
}

/// A TOML error without the picture of the line.
fn sentence(error: &toml::de::Error) -> String {
    error.message().split_whitespace().collect::<Vec<_>>().join(" ")
}
