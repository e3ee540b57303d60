//! Counters: what happened how often, readable from another process without this one's help.
//!
//! A counter is declared once, with its name, unit and meaning, by
//! [`declare_counters!`](crate::declare_counters); the declaration yields the struct of handles that the code
//! counts with and the table that readers print. The values live in one anonymous memory file per process
//! ([`CounterFile`]), so that `/proc/PID/fd` leads any process of the same user to them even when the owner
//! hangs, and nothing is left behind when the owner is killed.
//!
//! Counting costs a load, an add and a store. That is enough because each counter has a single writer: the
//! thread that owns the group. `docs/counters.md` describes the file for readers in other languages.

mod file;
mod fuzz;
mod layout;
mod memory;
mod reader;

use core::sync::atomic::{AtomicU64, Ordering};

pub use file::{CounterFile, CounterGroup};
pub use fuzz::fuzz_counter_file;
pub use layout::{
    COUNTERS_PER_GROUP_MAX, DOC_BYTES_MAX, GROUPS_MAX, LABEL_BYTES_MAX, NAME_BYTES_MAX, UNIT_BYTES_MAX,
};
pub use reader::{CounterReadError, CounterReader, CounterSnapshot, GroupSnapshot, Snapshot};

/// A handle to one counter. Copies count in the same cell; all of them belong on one thread at a time.
///
/// Two threads that add at once lose counts, and nothing else. A copy must not be used after its
/// [`CounterGroup`] was dropped: the cell may count something else by then.
#[derive(Clone, Copy, Debug)]
pub struct Counter {
    cell: &'static AtomicU64,
}

impl Counter {
    pub(crate) fn new(cell: &'static AtomicU64) -> Self {
        Self { cell }
    }

    /// Adds `count`. Not atomic as a whole: there is one writer, and readers see the old value or the new.
    #[inline]
    pub fn add(self, count: u64) {
        self.cell.store(self.cell.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }

    /// Adds one.
    #[inline]
    pub fn increment(self) {
        self.add(1);
    }

    /// Replaces the value: for levels (such as a queue's length) rather than counts.
    #[inline]
    pub fn set(self, value: u64) {
        self.cell.store(value, Ordering::Relaxed);
    }

    /// The value now.
    #[inline]
    pub fn get(self) -> u64 {
        self.cell.load(Ordering::Relaxed)
    }
}

/// What a counter counts; made by [`declare_counters!`](crate::declare_counters).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterDescription {
    /// The counter's id: the name of its field.
    pub name: &'static str,
    /// What one count is, such as `packets` or `bytes`.
    pub unit: &'static str,
    /// One line for people.
    pub doc: &'static str,
}

impl CounterDescription {
    /// Checks the lengths at compile time: a description that does not fit the file is a mistake of its
    /// author.
    pub const fn new(name: &'static str, unit: &'static str, doc: &'static str) -> Self {
        assert!(name.len() <= NAME_BYTES_MAX, "the counter's name is too long for the counter file");
        assert!(unit.len() <= UNIT_BYTES_MAX, "the counter's unit is too long for the counter file");
        assert!(doc.len() <= DOC_BYTES_MAX, "the counter's doc is too long for the counter file");
        Self { name, unit, doc }
    }
}

/// Declares a struct of counters: `name: "unit" => "doc"` for each.
///
/// The struct gets `new(file, label)`, which publishes a group of zeroed counters, and `DESCRIPTIONS`.
/// Dropping it withdraws the group.
///
/// ```
/// farcall_driver::declare_counters! {
///     /// What the kettle did.
///     pub struct KettleCounters {
///         boils: "times" => "How often the water boiled",
///         water: "ml" => "Water heated",
///     }
/// }
/// let kettle = KettleCounters::new(farcall_driver::CounterFile::process(), "kettle#0");
/// kettle.boils.increment();
/// kettle.water.add(300);
/// assert_eq!((kettle.boils.get(), kettle.water.get()), (1, 300));
/// ```
#[macro_export]
macro_rules! declare_counters {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $group:ident {
            $($name:ident: $unit:literal => $doc:literal),+ $(,)?
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug)]
        $visibility struct $group {
            $(#[doc = $doc] pub $name: $crate::Counter,)+
            _group: $crate::CounterGroup,
        }

        impl $group {
            /// What each counter of this group means, in the order of the fields.
            pub const DESCRIPTIONS: &'static [$crate::CounterDescription] =
                &[$($crate::CounterDescription::new(stringify!($name), $unit, $doc)),+];

            /// Publishes a new group of counters, all zero, under `label`.
            pub fn new(file: &$crate::CounterFile, label: &str) -> Self {
                let group = file.open_group(label, Self::DESCRIPTIONS);
                let mut counters = group.counters();
                Self {
                    $($name: counters.next().expect("a group has a counter for each description"),)+
                    _group: group,
                }
            }
        }
    };
}

#[cfg(test)]
mod tests;
